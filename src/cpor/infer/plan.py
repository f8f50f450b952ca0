"""Multi-step removal plans: remove o_1, …, o_m, then grasp the target X.

A plan is valid in a graph when every blocker of each o_t is among o_1 … o_{t-1}, and every blocker of X among
o_1 … o_m: when certain relations are absent. For any set of relations that have to be absent,

    P(absent | acyclic) = prod of their 1 - p * A(the graph without them) / Z

which is exact wherever both masses are. Beyond that, validity is an event like others: with K graphs
retained, |P - P_K| <= eps_K, and by Harris' inequality P is never below the product alone. Missing answers
give the range over the cases of `cpor.infer.unanswered`.

What has no mask is never among o_1 … o_m: where it may obstruct, the plan is less likely to be valid,
and asking is worth more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import COST_ASK, Action, Decision, Defer, Grasp, Remove
from cpor.errors import InvalidSettingError, TooLargeError
from cpor.infer._kernels.plan import best_orders, best_set
from cpor.infer.bounds import log_block_bound
from cpor.infer.certificate import unseen_index
from cpor.infer.decide import decide
from cpor.infer.exact import WORK_LIMIT, log_acyclic_mass, solve_exact
from cpor.infer.local import Allowance, cut_local, reachable
from cpor.infer.subset import log_acyclic_table
from cpor.infer.topk import WORK_LIMIT as SEARCH_LIMIT
from cpor.infer.topk import WeightedGraph, iterate_graphs
from cpor.infer.unanswered import list_cases
from cpor.relations import Label, ObstructionPosterior

LARGEST_PLAN = 18
"""Objects that matter to the target up to which the best of all plans is found: 3^18 steps, a few seconds."""

_GRAPHS = 64
"""Likeliest graphs whose mass bounds what is not summed; each gives one order of removal to compare …"""

_ORDERS = 12
"""… up to this many different ones."""

_ASSUMED, _ASSUMED_UNSEEN = 0.5, 0.15
"""What stands for a missing answer about a pair, and about the unseen, where validity is an expectation.

In the labelled scenes of the bundled models something without a mask obstructs 15 % of the objects.
"""

Matrix = Float[np.ndarray, "n n"]
Pairs = Bool[np.ndarray, "n n"]
Range = tuple[float, float]


@dataclass(frozen=True)
class PlanStep:
    """One removal.

    Attributes:
        obj: What to remove.
        p_valid: Probability that everything that obstructs it was removed before.
        p_valid_so_far: Probability that this step and all before it are valid.
        p_needed: Probability that it lies on the target's chain, so that it has to go at all; in the share of
            the likeliest graphs where that is too much to sum.

    Validity is an expectation as that of the plan, and the least it may be where sums are out of reach.
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
        p_valid: Probability that the whole plan, the grasp included, is valid. Where answers are missing, the
            expectation with what stands for them; where sums are out of reach, the least of the range.
        p_valid_range: What it is proven to lie in, whatever the missing answers are; both ends alike where
            it is exact.
        best_of_all: Whether all plans were compared; else one order for each of the likeliest graphs.
        then: What would be decided next if the first step works; None where there is none.
        value: -cost_removal * number of removals - cost_wrong * (1 - the least of the range): no answer is
            taken for granted where a plan is weighed against asking.
        value_of_asking: -cost_ask.
        decision: What `decide` says of the same scene.
    """

    target: Label
    steps: tuple[PlanStep, ...]
    p_valid: float
    p_valid_range: Range
    best_of_all: bool
    value: float
    value_of_asking: float
    decision: Decision
    then: Action | None

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

    Where more than LARGEST_PLAN objects matter, the best of up to 12 orders: no removal, and one order for
    each of the likeliest graphs.

    Args:
        posterior: The scene.
        max_steps: Most removals before the grasp. None: as many as there are objects.
        cost_removal: Cost of each removal.
        cost_wrong: Cost of a plan that turns out invalid.
        cost_ask: Cost of asking instead.
        tau: Threshold of the single-step decision it is compared with.
        prior: Probability to assume where there was no answer. None: it may be anything, and `p_valid` is an
            expectation: 0.5 for a pair, 0.15 for something unseen before an object.
    """
    _check_costs(max_steps, cost_removal, cost_wrong, cost_ask)
    posterior = posterior.with_prior(prior)
    assumed = np.full(posterior.p_obstructs.shape, _ASSUMED)
    assumed[:, unseen_index(posterior)] = _ASSUMED_UNSEEN
    missing = np.isnan(posterior.p_obstructs)
    likely = posterior.replace_p(np.where(missing, assumed, posterior.p_obstructs))
    members = reachable(likely.p_obstructs, posterior.target_index)
    most = len(members) if max_steps is None else max_steps
    best_of_all = len(members) <= LARGEST_PLAN
    if best_of_all:
        orders = [_best_order(likely, most, cost_removal, cost_wrong)]
    else:
        orders = list(islice(_orders_of_graphs(likely, most), _ORDERS))
    events = _Events(posterior, likely)

    def value(order: list[int]) -> float:
        return -cost_removal * len(order) - cost_wrong * (1.0 - events.range(_forbidden(posterior, order))[0])

    order = orders[0] if len(orders) == 1 else max(orders, key=lambda order: (value(order), -len(order)))
    found = events.range(_forbidden(posterior, order))
    then = None
    if order:
        kept = [k for k in range(len(posterior)) if k != order[0]]
        labels = [posterior.objects[k] for k in kept]
        p = posterior.p_obstructs[np.ix_(kept, kept)]
        then = decide(ObstructionPosterior(labels, posterior.target, p, posterior.unseen), tau).action
    return Plan(
        posterior.target,
        _describe(posterior, likely, order, events),
        events.expect(_forbidden(posterior, order)),
        found,
        best_of_all,
        -cost_removal * len(order) - cost_wrong * (1.0 - found[0]),
        -cost_ask,
        decide(posterior, tau),
        then,
    )


def _check_costs(max_steps: int | None, *costs: float) -> None:
    if max_steps is not None and max_steps < 0:
        raise InvalidSettingError(f"max_steps is {max_steps}; it must be 0 or more")
    for name, cost in zip(("cost_removal", "cost_wrong", "cost_ask"), costs, strict=True):
        if not 0.0 <= cost < float("inf"):
            raise InvalidSettingError(f"{name} is {cost}; it must be finite and 0 or more")


def _best_order(likely: ObstructionPosterior, most: int, cost_removal: float, cost_wrong: float) -> list[int]:
    """The order of best value among all, as indices of the scene."""
    graph = cut_local(likely.p_obstructs, reachable(likely.p_obstructs, likely.target_index))
    log_acyclic, log_absent = log_acyclic_table(graph), np.log(graph.absent)
    for unseen in unseen_index(likely):  # it cannot be removed: no order that does is valid
        log_absent[graph.members == unseen, 0] = -np.inf
    n_sets = 1 << (len(graph) - 1)
    best, last = np.empty(n_sets), np.empty(n_sets, np.int64)
    best_orders(log_absent, best, last)
    removed, _ = best_set(log_absent, log_acyclic, best, most, cost_removal, cost_wrong)
    order = []
    while removed:
        order.append(int(last[removed]))
        removed ^= 1 << (order[-1] - 1)
    return [int(graph.members[o]) for o in reversed(order)]


def _orders_of_graphs(likely: ObstructionPosterior, most: int) -> Iterator[list[int]]:
    """No removal at all, and for each of the likeliest graphs the target's chain from the top."""
    yield []
    seen: set[tuple[int, ...]] = {()}
    for graph in _likeliest(likely.p_obstructs, likely.target_index):
        order = _chain(graph, likely.target_index)
        is_new = tuple(order) not in seen and len(order) <= most
        if is_new and not set(order) & set(unseen_index(likely)):
            seen.add(tuple(order))
            yield order


def _likeliest(p: Matrix, target: int) -> list[WeightedGraph]:
    """The likeliest graphs among the relations that matter to the target."""
    members = reachable(p, target)
    local = np.zeros_like(p)
    local[np.ix_(members, members)] = p[np.ix_(members, members)]
    return list(islice(iterate_graphs(local, allowance=Allowance(SEARCH_LIMIT)), _GRAPHS))


def _chain(graph: WeightedGraph, target: int) -> list[int]:
    """What lies above the target in a graph, each object after all that obstruct it."""
    order: list[int] = []
    todo = [target]
    while todo:
        above = [j for i, j in graph.edges.tolist() if i == todo[-1] and j not in order]
        if above:
            todo.append(above[0])
        else:
            order.append(todo.pop())
    return order[:-1]


def _reach_in_graphs(likely: ObstructionPosterior) -> Float[np.ndarray, " n"]:
    """Share of the likeliest graphs in which the target's chain holds each object. Shape (n,)."""
    graphs = _likeliest(likely.p_obstructs, likely.target_index)
    log_weights = np.array([graph.log_weight for graph in graphs])
    reach = np.zeros(len(likely))
    for graph, weight in zip(graphs, np.exp(log_weights - np.logaddexp.reduce(log_weights)), strict=True):
        reach[_chain(graph, likely.target_index)] += weight
    return reach


def _forbidden(posterior: ObstructionPosterior, order: list[int]) -> Pairs:
    """The relations that must be absent for a plan to be valid."""
    forbidden = np.zeros(posterior.p_obstructs.shape, np.bool_)
    ahead = np.ones(len(posterior), np.bool_)
    for obj in [*order, posterior.target_index]:
        forbidden[obj] = ahead
        ahead[obj] = False
    return forbidden


class _Events:
    """Probabilities that given relations of one scene are absent, each with the range proven for it."""

    def __init__(self, posterior: ObstructionPosterior, likely: ObstructionPosterior) -> None:
        p = posterior.p_obstructs
        members = reachable(np.where(np.isnan(p), 1.0, p), posterior.target_index)
        self._outside = np.ones(len(p), np.bool_)
        self._outside[members] = False
        self._most = np.where(np.isnan(p), 1.0, p)
        cases = list_cases(posterior)
        self._masses = None if cases is None else [(case, self._mass(case)) for case in cases]
        self._likely = likely.p_obstructs, self._mass(likely.p_obstructs)
        self._target = posterior.target_index
        self._retained: dict[bytes, tuple[list[WeightedGraph], float]] = {}

    def expect(self, forbidden: Pairs) -> float:
        """P(all of these are absent | acyclic) with what stands for missing answers."""
        low, high = self.range(forbidden)
        return min(max(self._solve(*self._likely, forbidden)[0], low), high)

    def range(self, forbidden: Pairs) -> Range:
        """The least and the most that P(all of these are absent | acyclic) may be."""
        least = float(np.prod(1.0 - self._most[forbidden]))
        if self._masses is None:
            return least, 1.0
        ends = [self._solve(case, mass, forbidden) for case, mass in self._masses]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        return max(low, min(least, high)), high

    def _solve(self, p: Matrix, log_z: float | None, forbidden: Pairs) -> Range:
        log_without = None if log_z is None else self._mass(np.where(forbidden, 0.0, p))
        if log_z is not None and log_without is not None:
            log_gaps = float(np.log1p(-np.clip(p[forbidden], 0.0, 1.0 - 1e-9)).sum())
            exact = min(float(np.exp(log_gaps + log_without - log_z)), 1.0)
            return exact, exact
        graphs, log_bound = self._retain(p)
        log_weights = np.array([graph.log_weight for graph in graphs])
        valid = [not forbidden[tuple(graph.edges.T)].any() for graph in graphs]
        kept = float(np.exp(np.logaddexp.reduce(log_weights) - log_bound))
        share = float(np.exp(log_weights - np.logaddexp.reduce(log_weights)) @ valid)
        return min(kept, 1.0) * share, min(kept, 1.0) * share + max(1.0 - kept, 0.0)

    def _retain(self, p: Matrix) -> tuple[list[WeightedGraph], float]:
        """The likeliest graphs of a case, and an upper bound on log Z; listed once for all events."""
        key = p.tobytes()
        if key not in self._retained:
            local = np.where(self._outside[:, None] | self._outside[None, :], 0.0, p)
            self._retained[key] = _likeliest(local, self._target), log_block_bound(local)
        return self._retained[key]

    def _mass(self, p: Matrix) -> float | None:
        """Log P(acyclic) among what matters; None where it is out of reach."""
        graph = cut_local(p, np.flatnonzero(~self._outside))
        try:
            mass = log_acyclic_mass(graph, Allowance(WORK_LIMIT))
        except TooLargeError:
            return None
        return mass if np.isfinite(mass) else None


def _describe(
    posterior: ObstructionPosterior, likely: ObstructionPosterior, order: list[int], events: _Events
) -> tuple[PlanStep, ...]:
    if not order:
        return ()
    exact = solve_exact(
        likely.p_obstructs, likely.target_index, allowance=Allowance(WORK_LIMIT), want_reach=True
    )
    reach = None if exact is None else exact.reach
    if reach is None:
        reach = _reach_in_graphs(likely)
    so_far = np.zeros(posterior.p_obstructs.shape, np.bool_)
    ahead = np.ones(len(posterior), np.bool_)
    steps = []
    for obj in order:
        alone = np.zeros_like(so_far)
        alone[obj] = ahead
        so_far[obj] = ahead
        ahead[obj] = False
        steps.append(
            PlanStep(
                posterior.objects[obj],
                events.expect(alone),
                events.expect(so_far),
                float(reach[obj]),
            )
        )
    return tuple(steps)
