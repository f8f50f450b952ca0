"""From masks, depth and scores to a decision: the stages in order, each replaceable, each result kept.

measure    masks and depth            -> geometric evidence          (eq. mask-support, geometry-score)
score      the photograph             -> semantic scores             (with the scene, or by a scorer before)
sources    the scene                  -> scores of further sources   (ours); the paper has none
calibrate  scores of each source      -> probabilities               (eq. calibration)
fuse       all sources                -> one probability a pair      (eq. fusion)
guard      fused and each source      -> what geometry saw stays     (ours); no answer where they contradict
condition  the target's candidates    -> p_on_chain, this target     (ours); and a node for what has no mask
decide     relation probabilities     -> action with certificate     (eq. graph-posterior … policy)
rate       the action's score         -> how often it succeeds       (ours)
"""

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import get_args

import numpy as np
from jaxtyping import Float

from cpor.decision import MOST_MU, Decision, Defer, Grasp, settle
from cpor.errors import InvalidSceneError, list_labels, say_known
from cpor.evidence import GeometricEvidence, GeometrySettings, geometric_evidence
from cpor.evidence.learnt import GeometryKind, LearntGeometry
from cpor.evidence.source import GEOMETRY, SEMANTIC, PairScores, Source, score_with, semantic_pair_scores
from cpor.infer.decide import decide
from cpor.infer.policy import MethodChoice
from cpor.learn.action import ActionCalibrator
from cpor.learn.coverage import CandidateCoverage
from cpor.learn.gated import AnyFusion, Guard, NaiveFusion
from cpor.learn.graph_features import GraphFeatures, graph_features
from cpor.learn.logistic import Calibrator, LogisticCalibrator
from cpor.learn.unseen import UnseenCalibrator
from cpor.records import PairBelief, SourceBelief, StateName
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.words.grounding_answers import Found

LEAST_RELIABILITY = 0.1
"""Share of either object's visible pixels with a depth reading below which geometry has no answer by itself.

The gate of eq. fusion would leave next to nothing of it, and the base rate would pass for an answer.
"""

UNSEEN = 0
"""Label of anything without a mask: the id of the background. It may obstruct, and is never acted on."""

STATE_NAMES: tuple[StateName, ...] = get_args(StateName)
"""By `PairState`."""


@dataclass(frozen=True, eq=False)
class PairBeliefs:
    """What each stage says of every ordered pair; row i is the blocked object, column j the blocker.

    NaN is no answer throughout.

    Attributes:
        ids: The objects.
        geometry: Cues and state of each pair.
        scores: Raw scores of each source, by its name: `geometry`, `semantic`, and those of one's own.
        p: The same, calibrated where a calibrator is given. Shape (n, n) each.
        p_fused: One probability a pair; 0 where it is known not to obstruct. Shape (n, n).
        p_unseen: Probability that something without a mask obstructs each object; 0 where all that is
            hidden of it is accounted for. Shape (n,).
        scorer: Name of the relation scorer, where known.
        p_look: What this look alone says, where `p_fused` includes earlier looks; None: it does not.
            Shape (n, n).
    """

    ids: tuple[int, ...]
    geometry: GeometricEvidence
    scores: Mapping[str, PairScores]
    p: Mapping[str, Float[np.ndarray, "n n"]]
    p_fused: Float[np.ndarray, "n n"]
    p_unseen: Float[np.ndarray, " n"]
    scorer: str | None = None
    p_look: Float[np.ndarray, "n n"] | None = None

    def list_pairs(
        self, p: Float[np.ndarray, "n n"] | None = None, carried: Set[BlockedBy] = frozenset()
    ) -> list[PairBelief]:
        """What each stage says of every pair that may obstruct or was asked about, row by row.

        Args:
            p: What is decided from for one target; None: `p_fused`. Shape (n, n).
            carried: Pairs whose semantic score is kept from an earlier look.
        """
        p, g = self.p_fused if p is None else p, self.geometry
        said = (p != 0.0) | (self.p_fused != 0.0) | self.scores[SEMANTIC].asked  # NaN is not 0
        return [
            PairBelief(
                blocked=self.ids[i],
                blocker=self.ids[j],
                p=_number(p[i, j]),
                p_fused=_number(self.p_fused[i, j]),
                sources={
                    name: SourceBelief(score=_number(each.score[i, j]), p=_number(self.p[name][i, j]))
                    for name, each in self.scores.items()
                },
                state=STATE_NAMES[g.state[i, j]],
                hidden_overlap=_number(g.hidden_overlap[i, j]),
                clearance=_number(g.clearance[i, j]),
                depth_order=_number(g.depth_order[i, j]),
                reliability=_number(g.reliability[i, j]),
                carried=(self.ids[i], self.ids[j]) in carried,
            )
            for i, j in zip(*np.nonzero(said), strict=True)
        ]


@dataclass(frozen=True)
class Pipeline:
    """The stages; each field can be replaced, `None` leaves the stage out.

    Attributes:
        measure: Geometric evidence of a scene.
        sources: Further sources of belief, beside geometry and semantic scores.
        calibrate: A calibrator for each source by its name; scores of others count as probabilities.
        calibrate_unseen: For what has no mask; without it, such evidence is no answer.
        least_reliability: Geometry has no answer where less than this share of either object's visible pixels
            has a depth reading.
        fuse: All sources into one probability.
        coverage: Adds candidates by nearness, and charges what may lack; `measure` has to tell nearness then.
        guard: Keeps what geometry saw against the other sources. None: the fusion alone, as in the paper.
        condition: For what lies on this target's chain.
        rate: From an action's score to how often such actions succeeded; told, not decided by.
        tau: Act only above this score.
        method: Method of inference.
        prior: Probability to assume where no source has an answer.
        most_mu: Defer where more belief than this had to be discarded as contradictory.
    """

    measure: Callable[[Scene], GeometricEvidence] = geometric_evidence
    sources: tuple[Source, ...] = ()
    calibrate: Mapping[str, Calibrator] = field(default_factory=dict)
    calibrate_unseen: UnseenCalibrator | None = None
    least_reliability: float = LEAST_RELIABILITY
    fuse: AnyFusion = field(default_factory=NaiveFusion)
    guard: Guard | None = field(default_factory=Guard)
    coverage: CandidateCoverage | None = None
    condition: LogisticCalibrator | None = None
    rate: ActionCalibrator | None = None
    tau: float = 0.5
    method: MethodChoice = "auto"
    prior: float | None = None
    most_mu: float = MOST_MU

    def run(self, scene: Scene, target: int) -> Decision:
        """Decide for one target of a scene, by its id."""
        return self.decide(self.posterior(self.believe(scene), target))

    def believe(self, scene: Scene) -> PairBeliefs:
        """Measure, calibrate and fuse: what holds for every target of the scene, with the scores it has."""
        return self.combine(self.measure(scene), scene.semantic_scores, self.score_sources(scene))

    def score_sources(self, scene: Scene) -> dict[str, PairScores]:
        """What each further source says of a scene, by its name."""
        return {each.name: score_with(each, scene) for each in self.sources}

    def combine(
        self,
        geometry: GeometricEvidence,
        semantic: SemanticScores | None,
        others: Mapping[str, PairScores] | None = None,
    ) -> PairBeliefs:
        """Calibrate and fuse the results of `measure`, a scorer (None: no scores) and `score_sources`."""
        others = others or {}
        if others.keys() != {each.name for each in self.sources}:
            wanted = list_labels([each.name for each in self.sources]) or "none"
            raise ValueError(f"scores of the sources {list_labels(list(others)) or 'none'}; give {wanted}")
        scores = {
            SEMANTIC: semantic_pair_scores(geometry.ids, semantic),
            GEOMETRY: geometry.pair_scores(self.least_reliability),
            **others,
        }
        p = {name: _calibrate(self.calibrate.get(name), each) for name, each in scores.items()}
        flat = {name: each.ravel() for name, each in p.items()}
        fused = self.fuse.apply(flat, {name: each.reliability.ravel() for name, each in scores.items()})
        if self.guard is not None:
            fused = self.guard.apply(fused, flat)
        fused = fused.reshape(geometry.state.shape)
        # Where no source has a number, an answer is missing, unless no source needs one.
        needed = np.any([each.asked for each in scores.values()], axis=0)
        fused = np.where(np.isnan(fused) & ~needed, 0.0, fused)
        np.fill_diagonal(fused, 0.0)
        cues = geometry.unseen
        p_unseen = cues.strict_p() if self.calibrate_unseen is None else self.calibrate_unseen.apply(cues)
        if self.coverage is not None:
            assert geometry.nearness is not None, "a pipeline with coverage measures nearness"
            fused, p_unseen = self.coverage.apply(fused, p_unseen, geometry.nearness)
        scorer = semantic.scorer if semantic else None
        return PairBeliefs(geometry.ids, geometry, scores, p, fused, p_unseen, scorer)

    def posterior(self, beliefs: PairBeliefs, target: int) -> ObstructionPosterior:
        """What to decide from for one target; conditioned on its chain where the stage is there.

        Where something unsegmented may obstruct, `UNSEEN` is the last of the objects.
        """
        if target not in beliefs.ids:
            raise InvalidSceneError(f"unknown object {target}; {say_known(target, beliefs.ids)}")
        if self.condition is None:
            known = ObstructionPosterior(beliefs.ids, target, beliefs.p_fused)
        else:
            features = pair_features(beliefs, target)
            known = self.condition.on_chain(features).posterior(beliefs.ids)
        return add_unseen(known, beliefs.p_unseen)

    def decide(
        self,
        posterior: ObstructionPosterior,
        deadline_ms: float | None = None,
        require_certificate: bool = False,
    ) -> Decision:
        """The decision."""
        decision = decide(
            posterior,
            self.tau,
            self.method,
            deadline_ms=deadline_ms,
            require_certificate=require_certificate,
            prior=self.prior,
        )
        return self.settle(decision)

    def over_readings(
        self,
        decision: Decision,
        beliefs: PairBeliefs,
        meant: Found,
        answers: Mapping[tuple[int, int], float | None],
    ) -> tuple[float | None, float | None]:
        """Score of an action over all objects that may be meant, and how often such an action succeeds.

        The score is None where it is certain which object is meant, and where nothing is acted on.

        Args:
            decision: For the object that is likeliest meant.
            beliefs: See `posterior`.
            meant: Which one that is, and how likely others are meant.
            answers: Probabilities that a person gave, by `(blocked, blocker)`.
        """
        rate = self.success_rate(decision)
        if meant.p is None or isinstance(decision.action, Defer):
            return None, rate
        obj, right = decision.action.obj, 0.0
        for target, chance in meant.others.items():
            posterior = self.posterior(beliefs, target).with_answers(answers.items())
            right += chance * self.decide(posterior).scores.get(obj, 0.0)
        return meant.p * decision.scores[obj] + right, None if rate is None else meant.p * rate + right

    def settle(self, decision: Decision) -> Decision:
        """A decision that defers where too much contradicts itself."""
        return settle(decision, self.most_mu)

    def success_rate(self, decision: Decision) -> float | None:
        """How often an action with the least score of the one decided on succeeds; None where not known."""
        action = decision.action
        if self.rate is None or isinstance(action, Defer):
            return None
        score = np.array([decision.interval(action.obj)[0]])
        return float(self.rate.apply(score, is_target=np.array([isinstance(action, Grasp)]))[0])


@lru_cache(maxsize=8)
def measure_with(
    settings: GeometrySettings, kind: GeometryKind = "paper"
) -> Callable[[Scene], GeometricEvidence]:
    """The geometric stage with these settings: the paper's formula, our network, or both joined.

    One for all pipelines alike: opening the network takes longer than deciding.
    """
    if kind == "paper":
        return partial(geometric_evidence, settings=settings)
    return LearntGeometry(joined=kind == "both", settings=settings)


def add_unseen(known: ObstructionPosterior, p_unseen: Float[np.ndarray, " n"]) -> ObstructionPosterior:
    """The same scene with `UNSEEN` as one more object that may obstruct and that nothing obstructs.

    Unchanged where everything hidden is accounted for. Since no cycle runs through it, each score becomes
    score_i (1 - p_unseen_i), and nothing else changes.
    """
    if not p_unseen.any():
        return known
    p = np.zeros((len(known) + 1, len(known) + 1))
    p[:-1, :-1] = known.p_obstructs
    p[:-1, -1] = p_unseen
    return ObstructionPosterior((*known.objects, UNSEEN), known.target, p, UNSEEN)


def pair_features(beliefs: PairBeliefs, target: int) -> GraphFeatures:
    """What the candidate graph says of each candidate pair, as seen from one target."""
    rows, columns = np.nonzero(beliefs.p_fused)
    ids = beliefs.ids
    return graph_features(
        [ids[i] for i in rows], [ids[j] for j in columns], target, beliefs.p_fused[rows, columns]
    )


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _calibrate(calibrator: Calibrator | None, scores: PairScores) -> Float[np.ndarray, "n n"]:
    """Calibrate the scores of one source; the scene's size is the number of pairs it was asked about."""
    if calibrator is None or not scores.asked.any():
        return scores.score
    p = np.full(scores.score.shape, np.nan)
    count = int(scores.asked.sum())
    p[scores.asked] = calibrator.apply(scores.score[scores.asked], n_candidates=np.full(count, float(count)))
    return p


class Stopwatch:
    """Time of each stage.

    Args:
        before: Times of stages that are over already.
        per_s: Units of time in a second: 1000 counts milliseconds.
    """

    def __init__(self, before: Mapping[str, float] | None = None, per_s: float = 1e3) -> None:
        self.times, self._per_s = dict(before or {}), per_s
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Note the time since the last stage ended."""
        now = time.perf_counter()
        self.times[stage] = self._per_s * (now - self._last)
        self._last = now
