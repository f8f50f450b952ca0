"""Grasp the target, remove a blocker, or defer: probabilities in, decision with certificate out."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from cpor.decision import Costs, Decision
from cpor.errors import InvalidSceneError, InvalidSettingError, TooLargeError, one_of
from cpor.infer.allowance import Allowance
from cpor.infer.certificate import Inference, exact_inference, judge, narrow, topk_inference
from cpor.infer.exact import WORK_LIMIT, solve_exact, solve_small
from cpor.infer.local import ZETA, reachable
from cpor.infer.topk import WORK_LIMIT as SEARCH_LIMIT
from cpor.infer.topk import GraphSearch, TopKSettings, run_algorithm1, run_algorithm1_many
from cpor.relations import ObstructionPosterior

MethodChoice: TypeAlias = Literal["auto", "exact", "topk", "milp"]
METHODS: tuple[MethodChoice, ...] = get_args(MethodChoice)
LISTING = ("topk", "milp")
"""The paper's methods, which act on scores however far they may be off: for comparison only."""

Matrix: TypeAlias = Float[np.ndarray, "n n"]


@dataclass(frozen=True)
class Policy:
    """Settings of a decision, checked; see `decide` for what they mean."""

    tau: float = 0.5
    method: MethodChoice = "auto"
    deadline_ms: float | None = None
    require_certificate: bool = False
    costs: Costs | None = None
    prior: float | None = None
    topk: TopKSettings = field(default_factory=TopKSettings)
    zeta: float = ZETA

    def __post_init__(self) -> None:
        for name in ("tau", "deadline_ms", "prior", "zeta"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise InvalidSettingError(f"{name} is {value!r}; it must be a number")
        if not 0.0 <= self.tau <= 1.0:
            raise InvalidSettingError(f"tau is {self.tau}; it must lie in [0, 1]")
        parse_method(self.method)
        if self.deadline_ms is not None and not self.deadline_ms > 0.0:
            raise InvalidSettingError(f"deadline_ms is {self.deadline_ms}; it must be above 0")
        if self.prior is not None and not 0.0 <= self.prior <= 1.0:
            raise InvalidSettingError(f"prior is {self.prior}; it must lie in [0, 1]")
        if not 0.0 < self.zeta < 0.5:
            raise InvalidSettingError(f"zeta is {self.zeta}; it must lie between 0 and 0.5")

    @property
    def threshold(self) -> float:
        """An action is taken when its score is proven to exceed this."""
        return self.tau if self.costs is None else self.costs.tau

    @property
    def blocker_threshold(self) -> float:
        """An object belongs to the blocker set when its score is proven to exceed this."""
        return self.tau if self.costs is None else self.costs.blocker_threshold


def parse_method(name: str) -> MethodChoice:
    """A method by its name; an unknown one is an error that lists the known ones."""
    return one_of("method", name, METHODS)


def decide(
    posterior: ObstructionPosterior,
    tau: float = 0.5,
    method: MethodChoice = "auto",
    deadline_ms: float | None = None,
    require_certificate: bool = False,
    *,
    costs: Costs | None = None,
    prior: float | None = None,
    topk: TopKSettings | None = None,
    zeta: float = ZETA,
) -> Decision:
    """Decide one scene.

    Args:
        posterior: The objects, the target, and which object obstructs which with what probability.
        tau: Act only if the action is right with more than this probability, by the lower end of the
            interval in which that is proven to lie.
        method: `exact`; `auto`, exact where the counted work is within a limit, else bounds from
            Algorithm 1 on what the target can reach, acting only where they prove the action likely
            enough to be right; or `topk`, the paper's Algorithm 1 to the letter, for comparison only: it
            acts on scores however far they may be off, so neither arms nor the service use its rule; or
            `milp`, the same with the appendix's program in HiGHS (extra `peers`). The same input gives the
            same answer on any machine.
        deadline_ms: Answer by then, with what is known then, by whatever method. [ms]
        require_certificate: Defer where the answer is not proven to be that of exact inference.
        costs: Costs instead of tau: tau = 1 - cost of deferring, and the blocker set's own threshold.
        prior: Probability to assume where there was no answer. Without it, a missing answer that could
            change the action makes the decision `Defer("no_evidence")`.
        topk: Settings of Algorithm 1.
        zeta: Probabilities of candidate relations are clipped to [zeta, 1 - zeta].

    Returns:
        The action with scores, blocker set and certificate.
    """
    return decide_many(
        (posterior,),
        tau,
        method,
        deadline_ms,
        require_certificate,
        costs=costs,
        prior=prior,
        topk=topk,
        zeta=zeta,
    )[0]


def decide_many(
    posteriors: Iterable[ObstructionPosterior],
    tau: float = 0.5,
    method: MethodChoice = "auto",
    deadline_ms: float | None = None,
    require_certificate: bool = False,
    *,
    costs: Costs | None = None,
    prior: float | None = None,
    topk: TopKSettings | None = None,
    zeta: float = ZETA,
) -> list[Decision]:
    """Decide many scenes, small ones in one compiled call; arguments as for `decide`.

    A deadline holds for each scene by itself.
    """
    if costs is not None and tau != 0.5:
        raise InvalidSettingError("give either tau or costs, not both: tau is 1 - the cost of deferring")
    policy = Policy(tau, method, deadline_ms, require_certificate, costs, prior, topk or TopKSettings(), zeta)
    scenes = list(posteriors)
    strangers = {type(scene) for scene in scenes} - {ObstructionPosterior}
    if strangers:
        raise InvalidSceneError(
            f"a scene must be an ObstructionPosterior, got {strangers.pop().__name__}; build one from the "
            "objects, the target and the probabilities"
        )
    whole = [k for k, scene in enumerate(scenes) if not scene.has_unanswered or prior is not None]
    matrices = [scenes[k].with_prior(prior).p_obstructs for k in whole]
    inferred = infer_many(matrices, [scenes[k].target_index for k in whole], policy)
    decisions: list[Decision | None] = [None] * len(scenes)
    threshold, blocker_threshold = policy.threshold, policy.blocker_threshold
    for k, inference in zip(whole, inferred, strict=True):
        decisions[k] = judge(
            scenes[k], inference, threshold, blocker_threshold, require_certificate, method in LISTING
        )
    for k, scene in enumerate(scenes):
        if decisions[k] is None:
            decisions[k] = _decide_unanswered(scene, policy)
    return [decision for decision in decisions if decision is not None]


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
    if policy.method == "milp":
        return [infer_one(p, target, policy) for p, target in zip(matrices, targets, strict=True)]
    if policy.method == "topk":
        if policy.deadline_ms is not None:
            return [infer_one(p, target, policy) for p, target in zip(matrices, targets, strict=True)]
        results = run_algorithm1_many(matrices, targets, policy.threshold, policy.topk, policy.zeta)
        return [topk_inference(result) for result in results]
    batch = solve_small(matrices, targets, policy.zeta)
    scores = batch.scores.tolist()
    inferred = []
    at = 0
    for p, target, solved, mu, mu_target in zip(
        matrices, targets, batch.solved.tolist(), batch.mu.tolist(), batch.mu_target.tolist(), strict=True
    ):
        if solved:
            known_mu = mu if mu == mu else None
            inferred.append(exact_inference(scores[at : at + len(p)], known_mu, mu_target))
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
            return exact_inference(exact.scores.tolist(), exact.mu, exact.mu_target)
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

    return decide_unanswered(
        scene, policy.threshold, policy.blocker_threshold, policy.require_certificate, solve
    )
