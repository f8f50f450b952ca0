"""Multi-step removal plans, exact under the model: remove o_1, …, o_m, then grasp the target X.

A plan is valid in a graph when every blocker of each o_t is among o_1 … o_{t-1}, and every blocker of X
among o_1 … o_m. With R the removed objects and U = C \\ R \\ X:

    P(plan valid) = prod_t N_{o_t}(C \\ {o_1 .. o_{t-1}}) * N_X(U) * A(U) / Z

What nobody segmented is never among o_1 … o_m: where it may obstruct, the plan is less likely to be valid,
and asking is worth more.
"""

from dataclasses import dataclass

import numpy as np

from cpor.decision import COST_ASK, Action, Decision, Defer, Grasp, Remove
from cpor.errors import InvalidSettingError, TooLargeError
from cpor.inference.allowance import Allowance
from cpor.inference.decide import decide
from cpor.inference.exact import solve_exact
from cpor.inference.graphs import log_acyclic_mass, restrict
from cpor.inference.local import LocalGraph, cut_local, reachable
from cpor.inference.subset import log_acyclic_table
from cpor.planning._kernels import best_orders, best_set
from cpor.relations import Label, ObstructionPosterior

LARGEST_PLAN = 18
"""Objects that matter to the target up to which a plan is computed: 3^18 steps, a few seconds."""


@dataclass(frozen=True)
class PlanStep:
    """One removal.

    Attributes:
        obj: What to remove.
        p_valid: Probability that everything that obstructs it was removed before.
        p_valid_so_far: Probability that this step and all before it are valid.
        p_needed: Probability that it lies on the target's chain, so that it has to go at all.
    """

    obj: Label
    p_valid: float
    p_valid_so_far: float
    p_needed: float


@dataclass(frozen=True)
class Plan:
    """The removal sequence of best value, then the grasp of the target.

    Attributes:
        target: The object to grasp in the end.
        steps: Removals in order; none where grasping at once is best.
        p_valid: Probability that the whole plan, the grasp included, is valid.
        value: -cost_removal * number of removals - cost_wrong * (1 - p_valid).
        value_of_asking: -cost_ask.
        decision: What `decide` says of the same scene.
    """

    target: Label
    steps: tuple[PlanStep, ...]
    p_valid: float
    value: float
    value_of_asking: float
    decision: Decision

    @property
    def ask(self) -> bool:
        """Whether asking is worth at least as much as carrying the plan out."""
        return self.value_of_asking >= self.value

    @property
    def first_action(self) -> Action:
        """What to do now if the plan is followed."""
        if self.ask:
            return self.decision.action if isinstance(self.decision.action, Defer) else Defer("weak_evidence")
        return Remove(self.steps[0].obj) if self.steps else Grasp(self.target)

    @property
    def note(self) -> str | None:
        """Why the plan begins differently from the single-step decision; None where it does not."""
        now, single = self.first_action, self.decision.action
        if now == single or (isinstance(now, Defer) and isinstance(single, Defer)):
            return None
        if isinstance(now, Defer):
            return (
                f"decide says {_say(single)}: that step alone is likely enough to be right, but the whole "
                f"way to the target holds with {self.p_valid:.0%} only, so the plan asks first"
            )
        if isinstance(single, Defer):
            return (
                f"decide defers ({single.reason}): no single step is likelier right than "
                f"{self.decision.tau:.0%}; at the given costs, trying is still worth more than asking"
            )
        return (
            f"decide says {_say(single)}, the step most likely to be right by itself; the plan begins with "
            f"{_say(now)}, since it weighs each further removal against the risk that it takes away"
        )


def _say(action: Action) -> str:
    if isinstance(action, Grasp):
        return f"grasp {action.obj}"
    return f"remove {action.obj}" if isinstance(action, Remove) else "ask"


def plan(
    posterior: ObstructionPosterior,
    max_steps: int | None = None,
    cost_removal: float = 0.05,
    cost_wrong: float = 1.0,
    cost_ask: float = COST_ASK,
    *,
    tau: float = 0.5,
    prior: float | None = None,
) -> Plan:
    """The removal sequence of best value, by a dynamic programme over sets of removed objects.

    Args:
        posterior: The scene.
        max_steps: Most removals before the grasp. None: as many as there are objects.
        cost_removal: Cost of each removal.
        cost_wrong: Cost of a plan that turns out invalid.
        cost_ask: Cost of asking instead.
        tau: Threshold of the single-step decision it is compared with.
        prior: Probability to assume where there was no answer.
    """
    _check_costs(max_steps, cost_removal, cost_wrong, cost_ask)
    posterior = posterior.with_prior(prior)
    if posterior.has_unanswered:
        raise InvalidSettingError(
            "some relations have no answer, so no plan can be promised; answer them or give prior="
        )
    p = posterior.p_obstructs
    graph = cut_local(p, reachable(p, posterior.target_index))
    if len(graph) > LARGEST_PLAN:
        raise TooLargeError(
            f"{len(graph)} objects matter to the target; plans are exact and go up to {LARGEST_PLAN}. "
            "Use decide, and look again after each removal"
        )
    log_acyclic, log_absent = log_acyclic_table(graph), np.log(graph.absent)
    if posterior.unseen is not None:  # nobody can remove it: no order that does is valid
        log_absent[graph.members == posterior.index(posterior.unseen), 0] = -np.inf
    n_sets = 1 << (len(graph) - 1)
    best, last = np.empty(n_sets), np.empty(n_sets, np.int64)
    best_orders(log_absent, best, last)
    limit = len(graph) if max_steps is None else max_steps
    removed, p_valid = best_set(log_absent, log_acyclic, best, limit, cost_removal, cost_wrong)
    order = []
    while removed:
        order.append(int(last[removed]))
        removed ^= 1 << (order[-1] - 1)
    order.reverse()
    steps = _describe(posterior, graph, order, log_acyclic)
    return Plan(
        posterior.target,
        steps,
        float(p_valid),
        -cost_removal * len(steps) - cost_wrong * (1.0 - float(p_valid)),
        -cost_ask,
        decide(posterior, tau),
    )


def _check_costs(max_steps: int | None, *costs: float) -> None:
    if max_steps is not None and max_steps < 0:
        raise InvalidSettingError(f"max_steps is {max_steps}; it must be 0 or more")
    for name, cost in zip(("cost_removal", "cost_wrong", "cost_ask"), costs, strict=True):
        if not 0.0 <= cost < float("inf"):
            raise InvalidSettingError(f"{name} is {cost}; it must be finite and 0 or more")


def _describe(
    posterior: ObstructionPosterior, graph: LocalGraph, order: list[int], log_acyclic: np.ndarray
) -> tuple[PlanStep, ...]:
    exact = solve_exact(posterior.p_obstructs, posterior.target_index, want_reach=True)
    assert exact is not None and exact.reach is not None, "an unlimited allowance suffices"
    full = (1 << len(graph)) - 1
    log_so_far, removed = 0.0, 0
    steps = []
    for o in order:
        ahead = [v for v in range(len(graph)) if not (removed >> v) & 1 and v != o]
        log_free = float(np.log(graph.absent[o, ahead]).sum())
        present, absent = graph.present.copy(), graph.absent.copy()
        present[o, ahead], absent[o, ahead] = 0.0, 1.0
        cleared = LocalGraph(graph.members, present, absent, graph.out_mask, graph.in_mask)
        log_cleared = log_acyclic_mass(restrict(cleared, np.arange(len(graph))), Allowance())
        log_so_far += log_free
        removed |= 1 << o
        steps.append(
            PlanStep(
                posterior.objects[graph.members[o]],
                min(float(np.exp(log_free + log_cleared - exact.log_z)), 1.0),
                min(float(np.exp(log_so_far + log_acyclic[full ^ removed] - log_acyclic[full])), 1.0),
                float(exact.reach[graph.members[o]]),
            )
        )
    return tuple(steps)
