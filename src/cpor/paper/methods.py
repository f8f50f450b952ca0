"""The rows of the robot table: systems that decide from the same view.

geometry_argmax   raw geometric scores; follow the likeliest blocker while one is likelier than not
scorer_argmax     raw semantic scores; followed likewise
raw_argmax        raw semantic and geometric scores, log-odds added; followed likewise
no_acyclicity     the fitted probabilities, cyclic graphs not excluded
single_map        the fitted probabilities, the likeliest acyclic graph alone
topk              the fitted probabilities, summed over the graphs that Algorithm 1 keeps
cpor              the fitted probabilities, summed over all acyclic graphs
paper             the paper's pipeline: its geometry, calibration and fusion, and Algorithm 1
oracle            the true relations of the moment
"""

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from cpor.answer import Answer, DecideSettings
from cpor.decision import Certificate, Decision, Defer
from cpor.errors import InvalidSettingError, TooLargeError
from cpor.evidence.geometry import GeometricEvidence, PairState
from cpor.infer.certificate import choose, reason_to_defer
from cpor.infer.decide import decide
from cpor.model import FittedModel
from cpor.paper.paired import map_scores, product_scores
from cpor.paper_model import PAPER, nothing_unseen
from cpor.parts import GIVEN, NONE, Parts
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.robot.steps import why_obstructed
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.semantics.scorer import RelationScorer
from cpor.system import System
from cpor.truth import chain_of, right_actions
from cpor.view import View
from cpor.words.grounding_answers import RequestLike

MethodName: TypeAlias = Literal[
    "geometry_argmax",
    "scorer_argmax",
    "raw_argmax",
    "no_acyclicity",
    "single_map",
    "topk",
    "cpor",
    "paper",
    "oracle",
]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
NEED_SCORES: tuple[MethodName, ...] = ("scorer_argmax", "raw_argmax")
"""Rows that say nothing of their own without a scorer."""

Truth: TypeAlias = Callable[[Scene], Set[BlockedBy]]
"""The true relations of the moment, by the ids of a scene that was just seen."""

_NOTHING_PROVEN = Certificate("tolerance", 1.0, None, exact=False, blockers_certified=False)
"""An ablation's scores may be anywhere, as far as exact inference goes."""

_LIKELIER_THAN_NOT = 0.5


class MethodSystem(System):
    """A row of the table.

    Args:
        method: Which.
        model: The fitted model; None: scores count as probabilities.
        segmenter: Finds the objects; by default the masks that a scene came with.
        scorer: Scores relations. None: the scores of a scene, else our scorer. `none`: geometry alone.
        truth: The true relations of the moment; only the oracle needs it.
        tau: Act only above this score; rows of raw scores and the oracle always act.
        prior: Probability to assume where no source has an answer; None: such a pair may be anything.
        forced: Whether to act however much belief contradicts itself.

    Attributes:
        beside: Rows that are asked about the same views, each with what it decided so far. A row that decides
            otherwise is dropped, so that what is left would have had the same run.
    """

    def __init__(
        self,
        method: MethodName,
        model: FittedModel | None,
        segmenter: Segmenter | str = GIVEN,
        scorer: RelationScorer | str | None = None,
        truth: Truth | None = None,
        tau: float = 0.0,
        prior: float | None = None,
        forced: bool = False,
    ) -> None:
        if method == "scorer_argmax" and scorer == NONE:
            raise InvalidSettingError("the row scorer_argmax needs a scorer; leave it out of the methods")
        self.method, self._truth, self._forced = method, truth, forced
        parts = (
            segmenter,
            NONE if method == "geometry_argmax" else scorer,
            PAPER if method == "paper" else model or NONE,
        )
        decides = DecideSettings(prior=prior, ignore_checks=True)
        tau = 0.0 if method in _ONE_LOOK else tau
        super().__init__(*parts, second_look=False, tau=tau, settings=decides)
        if method in _ONE_LOOK:
            self.parts = (_ScoresAlone if method == "scorer_argmax" else _RawParts)(*parts)
        self.beside: dict[MethodSystem, list[Decision]] = {}

    def decide(self, view: View, request: RequestLike = None, **given: Any) -> Answer:
        """The answer of the row; the rows beside it are asked as well."""
        before = replace(view)
        answer = super().decide(view, request, **given)
        for other, decisions in tuple(self.beside.items()):
            theirs = other.decide(replace(before), request, **given)
            if theirs.decision is not None and _act_alike(theirs, answer):
                decisions.append(theirs.decision)
            else:
                del self.beside[other]
        return answer

    def believe(self, view: View, *given: Any) -> View:
        """The view with its beliefs; rows of raw scores and the oracle count no earlier look.

        What is carried over looks are fitted probabilities.
        """
        if self.method not in _ONE_LOOK or view.beliefs is not None:
            return super().believe(view, *given)
        memory, view.memory = view.memory, None
        found = super().believe(view, *given)
        assert found.beliefs is not None
        if self._truth is not None and self.method == "oracle":
            ids, pairs = found.beliefs.ids, self._truth(view.seen)
            p = np.array([[float(BlockedBy(i, j) in pairs) for j in ids] for i in ids])
            found.beliefs = replace(found.beliefs, p_fused=p, p_unseen=np.zeros(len(ids)))
        view.memory = None if memory is None else memory.learn(found.beliefs)
        return found

    def infer(
        self, pipeline: Pipeline, posterior: ObstructionPosterior, settings: DecideSettings
    ) -> Decision:
        """The decision by the rule of the row."""
        if self._forced:
            pipeline = replace(pipeline, most_mu=1.0)
        rule = _RULES.get(self.method)
        if rule is None:
            return super().infer(pipeline, posterior, settings)
        filled = posterior.with_prior(pipeline.prior)
        if filled.has_unanswered:  # no guess is allowed here: the full method says what is sure
            return super().infer(pipeline, posterior, settings)
        try:
            return pipeline.settle(_decision(filled, rule(filled), pipeline.tau))
        except TooLargeError:  # beyond what this row can sum: it does not act
            exact = super().infer(pipeline, posterior, settings)
            return replace(exact, action=Defer("not_proven"))


class _RawParts(Parts):
    """Without calibration and fusion of the model; its geometry stays."""

    def pipeline_for(self, semantic: SemanticScores | None) -> Pipeline:
        return Pipeline(measure=super().pipeline_for(semantic).measure)


class _ScoresAlone(_RawParts):
    """The same without geometry."""

    def pipeline_for(self, semantic: SemanticScores | None) -> Pipeline:
        raw = super().pipeline_for(semantic)
        return replace(raw, measure=lambda scene: _unmeasured(raw.measure(scene)))


def _unmeasured(found: GeometricEvidence) -> GeometricEvidence:
    nothing = np.full_like(found.state, PairState.NO_CONTACT)
    return replace(found, state=nothing, unseen=nothing_unseen(len(found.ids)))


def _act_alike(one: Answer, other: Answer) -> bool:
    """Whether a loop would do the same: the action, and whether its object is believed to be obstructed."""
    return _in_the_way(one) == _in_the_way(other) and one.action == other.action


def _in_the_way(answer: Answer) -> bool:
    assert answer.posterior is not None and answer.action is not None
    return why_obstructed(answer.posterior, answer.action) is not None


def argmax_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """1 for the object that is reached by following the likeliest blocker while one is likelier than not.

    A walk that comes back to an object it has passed stops before it. Shape (n,).
    """
    p = posterior.p_obstructs
    here, passed = posterior.target_index, {posterior.target_index}
    while True:
        blocker = int(np.argmax(p[here]))
        if p[here, blocker] <= _LIKELIER_THAN_NOT or blocker in passed:
            break
        here = blocker
        passed.add(here)
    scores = np.zeros(len(posterior))
    scores[here] = 1.0
    return scores


def true_scores(objects: tuple[int, ...], target: int, truth: Set[BlockedBy]) -> Float[np.ndarray, " n"]:
    """1 for every right next action.

    Where the truth of the target's chain is cyclic, nothing is right; then the objects of the chain with
    the fewest blockers of their own stand in. Shape (n,).
    """
    seen = frozenset(pair for pair in truth if {*pair} <= {*objects})
    right = right_actions(target, seen)
    if not right:
        chain = chain_of(target, seen)
        count = {o: sum(pair.blocked == o for pair in seen) for o in chain}
        right = frozenset(o for o in chain if count[o] == min(count.values()))
    return np.array([float(o in right) for o in objects])


def topk_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """Scores under the graphs that Algorithm 1 keeps for a forced action. Shape (n,)."""
    return np.array(list(decide(posterior, 0.0, "topk").scores.values()))


def _oracle_scores(posterior: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """Scores by relations that are known. Shape (n,)."""
    objects = posterior.objects
    pairs = {BlockedBy(objects[i], objects[j]) for i, j in np.argwhere(posterior.p_obstructs == 1.0)}
    return true_scores(objects, posterior.target, pairs)  # type: ignore[arg-type]


def _decision(posterior: ObstructionPosterior, scores: Float[np.ndarray, " n"], tau: float) -> Decision:
    named = dict(zip(posterior.objects, scores.tolist(), strict=True))
    blockers = frozenset(o for o, q in named.items() if q > _LIKELIER_THAN_NOT and o != posterior.target)
    return Decision(
        action=choose(posterior, scores.tolist(), tau)
        or Defer(reason_to_defer(posterior, scores.tolist(), 0.0)),
        scores=named,
        blockers=blockers,
        certificate=_NOTHING_PROVEN,
        method="topk",
        tau=tau,
        blocker_threshold=_LIKELIER_THAN_NOT,
        mu=None,
        mu_target=None,
        bounds={o: (q, q) for o, q in named.items()},  # an ablation acts on its own scores as they are
    )


_ONE_LOOK = ("geometry_argmax", *NEED_SCORES, "oracle")
"""Rows that do not use fitted probabilities."""

_RULES: dict[MethodName, Callable[[ObstructionPosterior], Float[np.ndarray, " n"]]] = {
    "geometry_argmax": argmax_scores,
    "scorer_argmax": argmax_scores,
    "raw_argmax": argmax_scores,
    "no_acyclicity": product_scores,
    "single_map": map_scores,
    "topk": topk_scores,
    "paper": topk_scores,
    "oracle": _oracle_scores,
}
"""Scores of a row; `cpor` decides as every system does."""
