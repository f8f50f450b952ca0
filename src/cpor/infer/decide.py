"""Grasp the target, remove a blocker, or defer: probabilities in, decision with certificate out."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, Unpack

import numpy as np
from jaxtyping import Float

from cpor.decision import Decision
from cpor.errors import InvalidSceneError, TooLargeError
from cpor.infer.certificate import Inference, exact_inference, judge, narrow, topk_inference
from cpor.infer.exact import WORK_LIMIT, solve_exact, solve_small
from cpor.infer.local import Allowance, reachable
from cpor.infer.policy import LISTING, MethodChoice, Policy, PolicySettings
from cpor.infer.topk import WORK_LIMIT as SEARCH_LIMIT
from cpor.infer.topk import GraphSearch, run_algorithm1
from cpor.relations import ObstructionPosterior

Matrix: TypeAlias = Float[np.ndarray, "n n"]


def decide(
    posterior: ObstructionPosterior,
    tau: float = 0.5,
    method: MethodChoice = "auto",
    **settings: Unpack[PolicySettings],
) -> Decision:
    """Decide one scene.

    Args:
        posterior: The objects, the target, and which object obstructs which with what probability.
        tau: Act only if the action is right with more than this probability; see `Policy`.
        method: `auto`, `exact`, `topk` or `milp`; see `Policy`.
        settings: Further fields of `Policy`: `deadline_ms`, `require_certificate`, `costs`, `prior`, `topk`
            and `zeta`.

    Returns:
        The action with scores, blocker set and certificate.
    """
    return decide_by((posterior,), Policy(tau, method, **settings))[0]


def decide_many(
    posteriors: Iterable[ObstructionPosterior],
    tau: float = 0.5,
    method: MethodChoice = "auto",
    **settings: Unpack[PolicySettings],
) -> list[Decision]:
    """Decide many scenes, small ones in one compiled call; arguments as for `decide`."""
    return decide_by(posteriors, Policy(tau, method, **settings))


def decide_by(posteriors: Iterable[ObstructionPosterior], policy: Policy) -> list[Decision]:
    """Decide many scenes by one policy, small ones in one compiled call."""
    scenes = list(posteriors)
    strangers = {type(scene) for scene in scenes} - {ObstructionPosterior}
    if strangers:
        raise InvalidSceneError(
            f"a scene must be an ObstructionPosterior, got {strangers.pop().__name__}; build one from the "
            "objects, the target and the probabilities"
        )
    whole = [scene.with_prior(policy.prior) for scene in scenes]
    whole = [scene for scene in whole if not scene.has_unanswered]
    inferred = iter(
        infer_many([scene.p_obstructs for scene in whole], [scene.target_index for scene in whole], policy)
    )
    by_paper = policy.method in LISTING
    return [
        _decide_unanswered(scene, policy)
        if scene.has_unanswered and policy.prior is None
        else judge(scene, next(inferred), policy, by_paper)
        for scene in scenes
    ]


@dataclass
class Work:
    """Work left for scenes that share it, which every one of them has to itself otherwise.

    Attributes:
        exact: Steps of exact inference.
        search: Steps of the search for graphs.
    """

    exact: Allowance = field(default_factory=lambda: Allowance(WORK_LIMIT))
    search: Allowance = field(default_factory=lambda: Allowance(SEARCH_LIMIT))


def infer_many(
    matrices: list[Matrix], targets: list[int], policy: Policy, shared: Work | None = None
) -> list[Inference]:
    """Scores of scenes without missing answers, by the policy's method."""
    if not matrices:
        return []
    if policy.method in LISTING:
        return [infer_one(p, target, policy) for p, target in zip(matrices, targets, strict=True)]
    batch = solve_small(matrices, targets, policy.zeta)
    scores, inferred, at = batch.scores.tolist(), [], 0
    sums = zip(batch.solved.tolist(), batch.log_z.tolist(), batch.log_z_all.tolist(), strict=True)
    for p, target, (solved, log_z, log_z_all) in zip(matrices, targets, sums, strict=True):
        if solved:
            inferred.append(exact_inference(scores[at : at + len(p)], log_z, log_z_all))
        else:
            inferred.append(infer_one(p, target, policy, shared))
        at += len(p)
    return inferred


def infer_one(p: Matrix, target: int, policy: Policy, shared: Work | None = None) -> Inference:
    """Scores of one scene that may be large, by the policy's method and within its deadline."""
    if policy.method == "milp":
        from cpor.infer.milp import run_milp

        found = run_milp(p, target, policy.threshold, policy.topk, policy.zeta)
        return topk_inference(found, "milp")
    start, work = time.perf_counter(), shared or Work()
    seconds = None if policy.deadline_ms is None else policy.deadline_ms / 1e3
    if policy.method != "topk":
        # Half of the time for the exact answer, most of the rest for a certified one.
        allowance = work.exact if policy.method == "auto" else Allowance()
        allowance.until = None if seconds is None else start + 0.5 * seconds
        exact = solve_exact(p, target, policy.zeta, allowance)
        if exact is not None:
            return exact_inference(exact.scores.tolist(), exact.log_z, exact.log_z_all)
        allowance.steps = 0  # scenes that share it would only try in vain
        if policy.method == "exact" and seconds is None:
            raise TooLargeError(
                f"exact inference over {len(reachable(p, target))} objects that matter to the target is too "
                "much; use method='auto' for bounds, or give fewer candidate relations"
            )
    work.search.until = None if seconds is None else start + 0.85 * seconds
    if policy.method == "topk":
        return topk_inference(
            run_algorithm1(p, target, policy.threshold, policy.topk, policy.zeta, work.search)
        )
    return infer_bounds(p, target, policy, work.search)


def infer_bounds(p: Matrix, target: int, policy: Policy, allowance: Allowance) -> Inference:
    """Intervals of the scores: Algorithm 1 on what matters to the target, block bound and local bounds."""
    from cpor.infer.bounds import local_score_bounds, log_block_bound

    members = reachable(p, target)
    local = np.ascontiguousarray(p[np.ix_(members, members)])
    # Where there is a deadline, half of what is left of it goes into the bound.
    until = None if allowance.until is None else 0.5 * (time.perf_counter() + allowance.until)
    log_bound = log_block_bound(local, policy.zeta, Allowance(until=until))
    result = GraphSearch(local, policy.zeta).run(0, policy.threshold, policy.topk, allowance, log_bound)
    inference = narrow(
        topk_inference(result), 0, policy.threshold, *local_score_bounds(local, 0, policy.zeta)
    )
    table = np.zeros((3, len(p)))
    table[:, members] = inference.scores, inference.low, inference.high
    scores, low, high = table.tolist()
    return inference._replace(scores=scores, low=low, high=high, mu=None)


def _decide_unanswered(scene: ObstructionPosterior, policy: Policy) -> Decision:
    until = None if policy.deadline_ms is None else time.perf_counter() + policy.deadline_ms / 1e3
    shared = Work()  # a scene with missing answers gets no more work than one without

    def solve(matrices: list[Matrix], left: int) -> list[Inference] | None:
        """Scores of these corners, the deadline shared with those that are left; None where it has passed."""
        share = policy
        if until is not None:
            seconds = until - time.perf_counter()
            if seconds <= 0.0:
                return None
            share = replace(policy, deadline_ms=1e3 * seconds / left)
        return infer_many(matrices, [scene.target_index] * len(matrices), share, shared)

    from cpor.infer.unanswered import decide_unanswered

    return decide_unanswered(scene, policy, solve)
