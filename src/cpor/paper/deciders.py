"""The rows of the robot table: six ways to decide from the same scene, each a call (scene, target).

geometry_argmax   raw geometric scores; follow the likeliest blocker while one is likelier than not
raw_argmax        raw semantic and geometric scores, log-odds added; followed likewise
no_acyclicity     the fitted probabilities, cyclic graphs not excluded
single_map        the fitted probabilities, the likeliest acyclic graph alone
cpor              the fitted probabilities, summed over all acyclic graphs
oracle            the true relations of the moment
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from cpor.decision import Certificate, Decision, Defer
from cpor.errors import TooLargeError
from cpor.infer.certificate import choose, reason_to_defer
from cpor.paper.paired import map_scores, product_scores
from cpor.pipeline import PairBeliefs, Pipeline, PipelineResult
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, Scene
from cpor.truth import chain_of, right_actions

MethodName: TypeAlias = Literal[
    "geometry_argmax", "raw_argmax", "no_acyclicity", "single_map", "cpor", "oracle"
]
METHODS: tuple[MethodName, ...] = get_args(MethodName)

Carry: TypeAlias = Callable[[PairBeliefs], PairBeliefs]


class Decider(Protocol):
    """A row; rows of fitted probabilities count in what earlier looks said."""

    def __call__(self, scene: Scene, target: int, carry: Carry | None = None) -> PipelineResult:
        """Decide for one target of a scene."""
        ...


_NOTHING_PROVEN = Certificate("tolerance", 1.0, None, exact=False, blockers_certified=False)
"""An ablation's scores may be anywhere, as far as exact inference goes."""

_LIKELIER_THAN_NOT = 0.5


def deciders(
    pipeline: Pipeline, truth: Callable[[Scene], Set[BlockedBy]] | None = None
) -> Mapping[MethodName, Decider]:
    """All rows; the oracle only where the truth of the moment can be asked for.

    Args:
        pipeline: The fitted stages; `tau` and `prior` hold for every row.
        truth: The true relations of the moment, by the ids of the scene.
    """
    raw = Pipeline(measure=pipeline.measure, score=pipeline.score, tau=0.0, prior=pipeline.prior)
    rows: dict[MethodName, Decider] = {
        "geometry_argmax": _one_look(_rescored(replace(raw, score=lambda scene: None), argmax_scores)),
        "raw_argmax": _one_look(_rescored(raw, argmax_scores)),
        "no_acyclicity": _rescored(pipeline, product_scores),
        "single_map": _rescored(pipeline, map_scores),
        "cpor": pipeline.run,
    }
    if truth is not None:
        rows["oracle"] = _oracle(pipeline, truth)
    return rows


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


def _rescored(pipeline: Pipeline, score: Callable[[ObstructionPosterior], np.ndarray]) -> Decider:
    def run(scene: Scene, target: int, carry: Carry | None = None) -> PipelineResult:
        result = pipeline.run(scene, target, carry)
        posterior = result.posterior.with_prior(pipeline.prior)
        if posterior.has_unanswered:  # no guess is allowed here: the full method says what is sure
            return result
        try:
            decision = pipeline.settle(_decision(posterior, score(posterior), pipeline.tau))
        except TooLargeError:  # beyond what this row can sum: it does not act
            decision = replace(result.decision, action=Defer("not_proven"))
        return replace(result, decision=decision, p_success=None)

    return run


def _one_look(row: Decider) -> Decider:
    """The row without earlier looks: what is carried are fitted probabilities."""
    return lambda scene, target, carry=None: row(scene, target)


def _oracle(pipeline: Pipeline, truth: Callable[[Scene], Set[BlockedBy]]) -> Decider:
    def run(scene: Scene, target: int, carry: Carry | None = None) -> PipelineResult:
        result = pipeline.run(scene, target)
        objects, pairs = result.beliefs.ids, truth(scene)
        scores = true_scores(objects, target, pairs)
        p = np.array([[float(BlockedBy(i, j) in pairs) for j in objects] for i in objects])
        known = ObstructionPosterior(objects, target, p)
        return replace(result, posterior=known, decision=_decision(known, scores, 0.0), p_success=None)

    return run


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
