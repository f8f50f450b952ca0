"""The ablation chain end to end: raw scores, calibrated, fused, summed, acyclic; each step with intervals.

raw         scores of one source as they come; a relation holds above 0.5, the likeliest blocker is followed
calibrated  the same with calibrated probabilities
fused       the same with both sources in one probability
summed      marginals over all graphs, cyclic ones too
acyclic     marginals over all acyclic graphs: CPOR

Figures are by what objects truly are: two pieces of one object are one, what was not found is missed, and a
target that was not found is wrong throughout. Where too many objects matter to sum cyclic graphs, `summed` is
`fused`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from cpor.decision import Defer
from cpor.errors import InvalidSettingError, TooLargeError
from cpor.evidence.source import GEOMETRY, SEMANTIC
from cpor.infer.decide import decide
from cpor.learn.reliability import summarise_reliability
from cpor.model import FittedModel
from cpor.paper.decoding import THRESHOLD, map_graph, threshold_objects
from cpor.paper.means import Mean, means_by_tier, means_to_json
from cpor.paper.methods import argmax_scores
from cpor.paper.pair_log import LoggedCase
from cpor.paper.paired import product_scores
from cpor.paper.paths import Prediction, set_score
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy
from cpor.truth import chain_of, on_chain, right_actions

ChainStep: TypeAlias = Literal["raw", "calibrated", "fused", "summed", "acyclic"]
STEPS: tuple[ChainStep, ...] = get_args(ChainStep)
FIGURES = ("relation_f1", "object_f1", "right_action", "right_action_occlusion")


class ChainRow(NamedTuple):
    """One step.

    Attributes:
        figures: By name and tier, `all` over all; relation_f1 only over cases with true relations.
        relations: Reliability of its probabilities over the pairs that were looked at; None for steps that
            change no probability.
    """

    figures: Mapping[str, Mapping[str, Mean]]
    relations: Mapping[str, float] | None


class ChainTable(NamedTuple):
    """The chain on one log.

    Attributes:
        rows: By step.
        n: Cases.
        n_lost: Cases whose target was not found; they count as wrong.
        scorer: Source of the scores; None: geometry alone.
    """

    rows: Mapping[ChainStep, ChainRow]
    n: int
    n_lost: int
    scorer: str | None

    def to_json(self) -> dict[str, Any]:
        """For files and programs."""
        rows = {
            step: {"figures": means_to_json(row.figures), "relations": row.relations}
            for step, row in self.rows.items()
        }
        return self._asdict() | {"rows": rows}


def measure_chain(
    cases: Sequence[LoggedCase],
    model: FittedModel,
    rng: np.random.Generator,
    progress: Callable[[], None] = lambda: None,
) -> ChainTable:
    """Decode every case at every step.

    Args:
        cases: Cases of a log, of other scenes than the model was fitted to.
        model: Fitted to such masks and, where it has a scorer, such scores; without a scorer the log's scores
            are left out.
        rng: Random numbers of the bootstrap.
        progress: Called after each case.
    """
    if model.condition is not None:
        raise InvalidSettingError("the chain is for models without conditioning; fit one with --no-condition")
    values: dict[ChainStep, dict[str, list[tuple[str, str, float]]]] = {
        s: {f: [] for f in FIGURES} for s in STEPS
    }
    judged: dict[ChainStep, list[np.ndarray]] = {step: [] for step in STEPS[:3]}
    labels: list[np.ndarray] = []
    for case in cases:
        p = _probabilities(case, model)
        looked = [k for k, row in enumerate(case.rows) if row.asked]
        labels.append(np.array([case.rows[k].label for k in looked], np.bool_))
        for step in STEPS[:3]:
            judged[step].append(p[step][looked])
        for step in STEPS:
            source = step if step in p else "fused"
            for name, value in _judge(case, step, p[source]).items():
                values[step][name].append((case.image, case.tier, value))
        progress()
    label = np.concatenate(labels)
    rows = {}
    for step in STEPS:
        relations = None
        if step in judged:
            told = summarise_reliability(np.concatenate(judged[step]), label)
            relations = {name: float(value) for name, value in asdict(told).items()}
        rows[step] = ChainRow(
            {name: means_by_tier(found, rng) for name, found in values[step].items()}, relations
        )
    return ChainTable(rows, len(cases), sum(case.target is None for case in cases), model.scorer)


def _probabilities(case: LoggedCase, model: FittedModel) -> dict[ChainStep, Float[np.ndarray, " rows"]]:
    """Probability of every row at every step; 0 unmeasured, the learnt rate without an answer."""
    rows = case.rows
    gate = np.array([0.0 if np.isnan(row.reliability) else row.reliability for row in rows])
    asked = np.array([row.asked for row in rows], np.bool_)
    geometry = raw_geometry = np.array([row.p_geometry for row in rows], np.float64)
    if GEOMETRY in model.calibration:
        geometry = _apply(model.calibration[GEOMETRY], raw_geometry, np.ones(len(rows)))
    if SEMANTIC not in model.calibration:
        raw, calibrated = raw_geometry, geometry
        semantic = np.full(len(rows), np.nan)
    else:
        raw = np.array([row.prob_edge for row in rows], np.float64)
        counts = np.array([row.N_cand for row in rows], np.float64)
        semantic = calibrated = _apply(model.calibration[SEMANTIC], raw, counts)
    p = {SEMANTIC: semantic, GEOMETRY: geometry}
    fused = model.fusion.apply(p, {GEOMETRY: gate}) if len(rows) else raw
    prior = 0.5 if model.p_unanswered is None else model.p_unanswered
    steps: dict[ChainStep, np.ndarray] = {"raw": raw, "calibrated": calibrated, "fused": fused}
    return {step: np.where(asked, np.where(np.isnan(p), prior, p), 0.0) for step, p in steps.items()}


def _apply(calibrator: Any, score: np.ndarray, counts: np.ndarray) -> np.ndarray:
    p, known = np.full(len(score), np.nan), ~np.isnan(score)
    if known.any():
        p[known] = calibrator.apply(score[known], n_candidates=counts[known])
    return p


def _judge(case: LoggedCase, step: ChainStep, p: Float[np.ndarray, " rows"]) -> dict[str, float]:
    """What a step is worth on one case; a case whose target was not found is worth nothing."""
    if case.target is None:
        return dict.fromkeys(FIGURES, 0.0)
    ids, true_of = case.objects, case.identity()
    place = {label: k for k, label in enumerate(ids)}
    matrix = np.zeros((len(ids), len(ids)))
    for row, value in zip(case.rows, p.tolist(), strict=True):
        if row.asked:
            matrix[place[row.blocked], place[row.blocker]] = value
    posterior = ObstructionPosterior(ids, case.target, matrix)
    found, chosen = _decode(posterior, case.target, step)
    target, true = true_of[case.target], case.truth(occlusion_only=False)
    right = right_actions(target, true)
    said = {BlockedBy(true_of[i], true_of[j]) for i, j in found.relations if true_of[i] != true_of[j]}
    judged = {
        "object_f1": set_score({true_of[o] for o in found.objects}, right).f1,
        "right_action": float(chosen is not None and true_of[chosen] in right),
        "right_action_occlusion": float(
            chosen is not None and true_of[chosen] in right_actions(target, case.truth(occlusion_only=True))
        ),
    }
    if chain := on_chain(target, true):
        judged["relation_f1"] = set_score(said, chain).f1
    return judged


def _decode(posterior: ObstructionPosterior, target: int, step: ChainStep) -> tuple[Prediction, int | None]:
    """Next objects and relations as this step tells them, and the forced action's object."""
    ids = [int(label) for label in posterior.objects]  # type: ignore[call-overload]
    if step == "acyclic":
        decision = decide(posterior, tau=0.0)
        scores = {int(o): q for o, q in decision.scores.items()}  # type: ignore[call-overload]
        action = decision.action
        chosen = None if isinstance(action, Defer) else int(action.obj)  # type: ignore[call-overload]
        edges = map_graph(posterior)
    else:
        likely = np.argwhere(posterior.p_obstructs > THRESHOLD)
        edges = frozenset(BlockedBy(ids[i], ids[j]) for i, j in likely)
        q, walked = _free_in(ids, target, edges), argmax_scores(posterior)
        if step == "summed":
            with suppress(TooLargeError):
                q = walked = product_scores(posterior)
        scores = dict(zip(ids, q.tolist(), strict=True))
        chosen = ids[int(np.argmax(walked))]
    chain = on_chain(target, edges)
    return Prediction(threshold_objects(scores), chain, ()), chosen


def _free_in(ids: Sequence[int], target: int, edges: frozenset[BlockedBy]) -> Float[np.ndarray, " n"]:
    """1 for objects that one graph, cyclic or not, has free and on the target's chain. Shape (n,)."""
    free = chain_of(target, edges) - {blocked for blocked, _ in edges}
    return np.array([float(o in free) for o in ids])
