"""Grasp the target, remove a blocker, or defer: probabilities in, decision with certificate out."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias, Unpack

import numpy as np
from jaxtyping import Float

from cpor.decision import Decision
from cpor.errors import InvalidSceneError, TooLargeError
from cpor.infer.certificate import Inference, exact_inference, judge, narrow, topk_inference, unseen_index
from cpor.infer.exact import SMALL, WORK_LIMIT, fill_ends, solve_exact, solve_small, solve_view
from cpor.infer.local import Allowance, reachable
from cpor.infer.policy import LISTING, MethodChoice, Policy, PolicySettings
from cpor.infer.subset import ExactScores
from cpor.infer.topk import WORK_LIMIT as SEARCH_LIMIT
from cpor.infer.topk import GraphSearch, run_algorithm1
from cpor.infer.unanswered import decide_unanswered
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
    filled = [scene.with_prior(policy.prior) for scene in scenes]
    ready = [_is_ready(scene, policy) for scene in filled]
    together = [scene for scene, is_ready in zip(filled, ready, strict=True) if is_ready]
    inferred = iter(infer_many([s.p_obstructs for s in together], [s.target_index for s in together], policy))
    by_paper = policy.method in LISTING
    decisions = []
    for scene, is_ready in zip(filled, ready, strict=True):
        if not scene.has_unanswered:
            decisions.append(judge(scene, next(inferred), policy, by_paper))
        elif is_ready:
            ends = [next(inferred), next(inferred)]
            decisions.append(decide_unanswered(scene, policy, lambda *_, ends=ends: ends))
        else:
            decisions.append(_decide_cases(scene, policy))
    return decisions


def _is_ready(scene: ObstructionPosterior, policy: Policy) -> bool:
    """Whether a scene is solved with others: nothing is unknown, or it is large and only the unseen is."""
    if not scene.has_unanswered:
        return True
    if policy.deadline_ms is not None or policy.method in LISTING or len(scene) <= SMALL:
        return False
    unknown = np.isnan(scene.p_obstructs)
    if len(reachable(np.where(unknown, 1.0, scene.p_obstructs), scene.target_index)) <= SMALL:
        return False
    unknown[:, unseen_index(scene)] = False
    return not unknown.any()


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
    """Scores of scenes by the policy's method, several targets of a large one together.

    Where what the unseen obstructs is unknown (NaN, in its column alone), there are two for the scene: all of
    it at 0, then at 1.
    """
    ends = [(k, end) for k, p in enumerate(matrices) for end in fill_ends(p)]
    if not ends or policy.method in LISTING:
        return [infer_one(end, targets[k], policy) for k, end in ends]
    batch = solve_small([end for _, end in ends], [targets[k] for k, _ in ends], policy.zeta)
    scores, inferred, at = batch.scores.tolist(), [], 0
    large = {k for (k, _), solved in zip(ends, batch.solved.tolist(), strict=True) if not solved}
    together = _solve_views(matrices, targets, sorted(large), policy, shared)
    sums = zip(batch.log_z.tolist(), batch.log_z_all.tolist(), strict=True)
    for (k, end), (log_z, log_z_all) in zip(ends, sums, strict=True):
        if k in together:
            exact = next(together[k])
            inferred.append(exact_inference(exact.scores.tolist(), exact.log_z, exact.log_z_all))
        elif k in large:
            inferred.append(infer_one(end, targets[k], policy, shared))
        else:
            inferred.append(exact_inference(scores[at : at + len(end)], log_z, log_z_all))
        at += len(end)
    return inferred


def _solve_views(
    matrices: list[Matrix], targets: list[int], large: list[int], policy: Policy, shared: Work | None
) -> dict[int, Iterator[ExactScores]]:
    """Exact scores of the scenes of which several have the same relations, or two ends."""
    views: dict[bytes, list[int]] = {}
    for k in large if policy.deadline_ms is None else ():
        views.setdefault(matrices[k].tobytes(), []).append(k)
    found: dict[int, Iterator[ExactScores]] = {}
    for view in views.values():
        p = matrices[view[0]]
        if len(view) > 1 or np.isnan(p).any():
            allowance = Allowance() if policy.method == "exact" else (shared or Work()).exact
            solved = solve_view(p, [targets[k] for k in view], policy.zeta, allowance)
            found |= {k: iter(each) for k, each in zip(view, solved or (), strict=solved is not None)}
    return found


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


def _decide_cases(scene: ObstructionPosterior, policy: Policy) -> Decision:
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

    return decide_unanswered(scene, policy, solve)
