"""Every published figure that a score log and the truth determine, computed anew."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cpor.data.predictions import write_unograsp
from cpor.data.unobench import Case, FusedScores, read_fused_scores, read_truth
from cpor.decoding.expected import decode_expected
from cpor.decoding.paper import SHIFT, assemble_paper, map_graph, object_ids
from cpor.decoding.prediction import Prediction
from cpor.errors import InvalidSettingError, one_of
from cpor.experiments.cases import ScoredCase, image_of, score_cases
from cpor.experiments.evaluate import TIERS, Evaluation, Missing, evaluate, fill_missing
from cpor.experiments.paired import forced_action, is_right, map_scores, product_scores
from cpor.experiments.structure import (
    FIXED_K,
    ExactAnswers,
    TopKFigures,
    measure_adaptive,
    measure_fixed_k,
    mu_by_tier,
    solve_all,
)
from cpor.metrics import PairedComparison, ReliabilitySummary, compare_paired, summarise_reliability
from cpor.relations import ObstructionPosterior

DecoderName: TypeAlias = Literal["paper", "expected"]

SEED = 0
"""Of the bootstrap, so that the same files give the same intervals."""


@dataclass(frozen=True, eq=False)
class Structure:
    """Figures of Tables mu and topk; `scenes` are those with a candidate relation."""

    scenes: int
    mean_dags: float
    mu_positive: Mapping[str, int]
    mu_mean: Mapping[str, float]
    topk: Mapping[str, TopKFigures]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Everything `cpor reproduce` says.

    Attributes:
        cases: The truth.
        shift: Edge prior that was taken out of every probability.
        missing: What cases without any candidate relation count as.
        n_missing: How many those are.
        decoders: Evaluation of each decoder's predictions.
        predictions: What each decoder predicts, by case index; cases without candidate are absent.
        relations: Reliability of the log's rows as they stand.
        objects: Reliability of the marginals over every object in a candidate relation and the target.
        actions: Reliability of the chosen actions alone, which no certain zeros pad.
        structure: Conflict, graphs, Top-K.
        paired: Next actions of exact inference against No-DAG and Single-MAP.
    """

    cases: tuple[Case, ...]
    shift: float
    missing: Missing
    n_missing: int
    decoders: Mapping[DecoderName, Evaluation]
    predictions: Mapping[DecoderName, Mapping[int, Prediction]]
    relations: ReliabilitySummary
    objects: ReliabilitySummary
    actions: ReliabilitySummary
    structure: Structure
    paired: Mapping[str, PairedComparison]

    def to_json(self) -> dict[str, Any]:
        """The keys that the command line promises; rates are fractions, null where there is none."""
        return {
            "shift": self.shift,
            "missing": {"counted_as": self.missing, "count": self.n_missing},
            **self.decoders["paper"].to_json(),
            "relations": asdict(self.relations),
            "objects": asdict(self.objects),
            "actions": asdict(self.actions),
            "structure": {
                **{k: getattr(self.structure, k) for k in ("scenes", "mean_dags", "mu_positive", "mu_mean")},
                "topk": {k: asdict(found) for k, found in self.structure.topk.items()},
            },
            "paired": {name: asdict(found) for name, found in self.paired.items()},
            "decoders": {name: found.to_json() for name, found in self.decoders.items()},
        }


def parse_decoder(name: str) -> DecoderName:
    """A decoder by its name; an unknown one is an error that lists the known ones."""
    known: tuple[DecoderName, ...] = get_args(DecoderName)
    return one_of("decoder", name, known)


def reproduce(
    scores_file: str | Path, truth_file: str | Path, shift: float = SHIFT, missing: Missing = "wrong"
) -> Reproduction:
    """Read a log of fused scores and the truth, and compute every figure they determine.

    Args:
        scores_file: CSV with sample_id, edge, edge_confidence, label.
        truth_file: Ground truth, JSON lines or a JSON list.
        shift: Edge prior to take out; the paper's 0.09 was chosen on the test split.
        missing: What cases without candidate relation count as; the paper's tables: `unobstructed`.
    """
    cases = read_truth(truth_file)
    return reproduce_from(cases, read_fused_scores(scores_file, len(cases)), shift, missing)


def reproduce_from(
    cases: Sequence[Case], scores: FusedScores, shift: float = SHIFT, missing: Missing = "wrong"
) -> Reproduction:
    """As `reproduce`, from what the files hold. A case with an unanswered relation counts as missing."""
    scored = score_cases(cases, scores, shift)
    known = [(c, c.posterior) for c in scored if c.posterior is not None and not c.posterior.has_unanswered]
    if not known:
        raise InvalidSettingError(
            "the scores hold no candidate relation of any case; there is nothing to decode"
        )
    scenes = [posterior for _, posterior in known]
    exact = solve_all(scenes)
    paper: dict[int, Prediction] = {}
    expected: dict[int, Prediction] = {}
    for (c, posterior), q in zip(known, exact.scores, strict=True):
        marginals = dict(zip(object_ids(posterior), q.tolist(), strict=True))
        paper[c.case.index] = assemble_paper(marginals, map_graph(posterior), c.case.target)
        expected[c.case.index] = decode_expected(posterior).prediction
    label = np.array([o in c.case.top_objects for c, posterior in known for o in object_ids(posterior)])
    right = np.array(
        [is_right(a, c.case.top_objects) for a, (c, _) in zip(exact.actions, known, strict=True)]
    )
    return Reproduction(
        tuple(cases),
        shift,
        missing,
        len(cases) - len(known),
        {"paper": evaluate(cases, paper, missing), "expected": evaluate(cases, expected, missing)},
        {"paper": paper, "expected": expected},
        summarise_reliability(scores.p, scores.label),
        summarise_reliability(np.concatenate(exact.scores), label),
        summarise_reliability(np.array([q.max() for q in exact.scores]), right),
        _measure_structure(scored, known, scenes, exact),
        _compare_actions(cases, known, exact, right),
    )


def export(found: Reproduction, decoder: DecoderName, path: str | Path) -> None:
    """Write a decoder's predictions for UNOGrasp's evaluator.

    Cases without candidate are written as unobstructed where they count as such, else left out.
    """
    filled = {
        case.index: prediction
        for case in found.cases
        if (prediction := fill_missing(case, found.predictions[decoder].get(case.index), found.missing))
        and prediction.paths
    }
    write_unograsp(path, found.cases, filled)


def _measure_structure(
    scored: Sequence[ScoredCase],
    known: Sequence[tuple[ScoredCase, ObstructionPosterior]],
    scenes: Sequence[ObstructionPosterior],
    exact: ExactAnswers,
) -> Structure:
    mu = dict(zip((c.case.index for c, _ in known), exact.mu.tolist(), strict=True))
    positive, mean = mu_by_tier(scored, mu, TIERS["difficulty"])
    topk = {str(k): measure_fixed_k(scenes, exact, k) for k in FIXED_K}
    topk["adaptive"] = measure_adaptive(scenes, exact)
    return Structure(len(scenes), float(exact.n_graphs.mean()), positive, mean, topk)


def _compare_actions(
    cases: Sequence[Case],
    known: Sequence[tuple[ScoredCase, ObstructionPosterior]],
    exact: ExactAnswers,
    right: np.ndarray,
) -> dict[str, PairedComparison]:
    """Over all cases: where there is no candidate, every method grasps the target alike."""
    after = np.array([case.target in case.top_objects for case in cases])
    no_dag, single = after.copy(), after.copy()
    for k, (c, posterior) in enumerate(known):
        i, tops = c.case.index, c.case.top_objects
        after[i] = right[k]
        single[i] = is_right(forced_action(posterior, map_scores(posterior)), tops)
        # Where no cycle is possible, conditioning on acyclicity changes nothing.
        conflict = exact.mu[k] > 0.0
        no_dag[i] = (
            is_right(forced_action(posterior, product_scores(posterior)), tops) if conflict else right[k]
        )
    images = image_of(cases)
    return {
        name: compare_paired(before, after, images, np.random.default_rng(SEED))
        for name, before in (("no_dag", no_dag), ("map", single))
    }
