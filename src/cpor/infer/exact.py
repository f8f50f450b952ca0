"""Exact inference over all acyclic graphs (eq. graph-posterior, marginals), without listing them.

Two ways to the same numbers, chosen by counted work: the subset recursion in one batch for small scenes,
elimination of one object after another for larger ones, and the recursion for large ones that are dense.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.errors import TooLargeError
from cpor.infer._kernels.batch import LOG_FLOOR, solve_batch
from cpor.infer._kernels.elimination import eliminate
from cpor.infer._kernels.subset import BELOW_ONE, log_z_floor
from cpor.infer._kernels.tables import log_z_of_tree
from cpor.infer._kernels.tree import Tree, count_entries, elimination_order, fill_links, grow_tree
from cpor.infer._kernels.weak_orders import MARKED, Orders, weak_orders
from cpor.infer.local import STEPS_PER_STATE, ZETA, Allowance, LocalGraph, cut_local, cyclic_parts, reachable
from cpor.infer.subset import LARGEST_TABLE, ExactScores, log_acyclic_table, solve_subset

SMALL = 12
"""Objects up to which the subset recursion is cheap (3^12 steps, a millisecond): nothing is weighed."""

WORK_LIMIT = 250_000_000
"""Steps that `auto` allows exact inference: half a second or so. Dense scenes of 17 objects fit in."""

_MU_STEPS = 50_000_000
"""Steps spent on mu outside the target's reach, which no action depends on …"""
_CHEAP_STEPS = 2_000_000
"""… and where many scenes wait or a deadline is near."""


class BatchScores(NamedTuple):
    """What exact inference says about many scenes; `solved` is False where a scene was too large.

    Attributes:
        scores: Every scene's scores, one after another.
        log_z: log A(C). Shape (k,).
        log_z_all: log Z over all candidate relations; NaN where unknown. Shape (k,).
        solved: Shape (k,).
    """

    scores: Float[np.ndarray, " total"]
    log_z: Float[np.ndarray, " k"]
    log_z_all: Float[np.ndarray, " k"]
    solved: Bool[np.ndarray, " k"]


def solve_small(
    matrices: Sequence[Float[np.ndarray, "_ _"]], targets: Sequence[int], zeta: float = ZETA
) -> BatchScores:
    """Exact scores of many scenes in one call, those apart whose reachable part exceeds SMALL."""
    k = len(matrices)
    flat, first, size, first_score = pack(matrices)
    found = BatchScores(np.zeros(int(size.sum())), np.zeros(k), np.zeros(k), np.zeros(k, np.bool_))
    solve_batch(
        flat,
        first,
        size,
        np.asarray(targets, np.int64),
        zeta,
        SMALL,
        found.scores,
        first_score,
        found.log_z,
        found.log_z_all,
        found.solved,
    )
    for s in np.flatnonzero(np.isnan(found.log_z_all)).tolist():
        found.log_z_all[s] = _log_z_all(matrices[s], targets[s], found.log_z[s], zeta, _CHEAP_STEPS)
    return found


def pack(
    matrices: Sequence[Float[np.ndarray, "_ _"]],
) -> tuple[Float[np.ndarray, " total"], Int[np.ndarray, " k"], Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """Matrices one after another, where each starts, how large it is, where its scores start."""
    size = np.array([len(p) for p in matrices], np.int64)
    if len(matrices) == 1:
        return matrices[0].flatten(), np.zeros(1, np.int64), size, np.zeros(1, np.int64)
    first, first_score = np.zeros_like(size), np.zeros_like(size)
    np.cumsum(size[:-1] ** 2, out=first[1:])
    np.cumsum(size[:-1], out=first_score[1:])
    flat = np.concatenate([p.reshape(-1) for p in matrices]) if len(matrices) else np.zeros(0)
    return flat, first, size, first_score


def solve_exact(
    p: Float[np.ndarray, "n n"],
    target: int,
    zeta: float = ZETA,
    allowance: Allowance | None = None,
    want_reach: bool = False,
) -> ExactScores | None:
    """Exact scores of one scene of any size; None where the allowance does not suffice.

    Args:
        p: Probabilities, no NaN. Shape (n, n).
        target: X.
        zeta: Clipping of probabilities.
        allowance: Steps (and time) allowed; unlimited where None.
        want_reach: Whether to also compute P(the target reaches o).
    """
    allowance = allowance or Allowance()
    if not want_reach:
        small = solve_small([p], [target], zeta)
        if small.solved[0]:
            return ExactScores(small.scores, float(small.log_z[0]), float(small.log_z_all[0]))
    graph = cut_local(p, reachable(p, target), zeta)
    solved = None
    if len(graph) > SMALL or log_z_floor(graph.absent) < LOG_FLOOR:
        as_subset = _SUBSET_STEPS * 3 ** (len(graph) - 1)
        attempt = Allowance(min(allowance.steps, as_subset), allowance.until)
        solved = solve_elimination(graph, attempt, want_reach)
        allowance.spend(min(allowance.steps, as_subset) - attempt.steps)
    solved = solved or solve_subset(graph, allowance)
    if solved is None:
        return None
    scores, reach = np.zeros(len(p)), np.zeros(len(p))
    scores[graph.members] = solved.scores
    if solved.reach is not None:
        reach[graph.members] = solved.reach
    steps = _MU_STEPS if allowance.until is None else _CHEAP_STEPS
    log_z_all = _log_z_all(p, target, solved.log_z, zeta, steps)
    return ExactScores(scores, solved.log_z, log_z_all, reach if want_reach else None)


def solve_view(
    p: Float[np.ndarray, "n n"], targets: Sequence[int], zeta: float, allowance: Allowance
) -> list[list[ExactScores]] | None:
    """Exact scores of several targets of a large scene, by one elimination; None where that is too much work.

    Args:
        p: Probabilities. NaN, only in the column of something that nothing obstructs: unknown. Shape (n, n).
        targets: The targets.
        zeta: Clipping of probabilities.
        allowance: Steps allowed for one target.

    Returns:
        For each target the scores; where something is unknown, those with all of it at 0, then all at 1.
    """
    ends = fill_ends(p)
    base, unseen = p, np.flatnonzero(np.isnan(p).any(axis=0))
    gaps = np.ones((0, len(p)))
    if len(ends) > 1:
        base = ends[0].copy()
        base[:, unseen] = 0.0
        gaps = np.array([1.0 - _clip(end[:, unseen[0]], zeta) for end in ends])
    reached = [reachable(base, target) for target in targets]
    members = np.unique(np.concatenate(reached))
    graph = cut_local(base, members, zeta)
    as_subset = _SUBSET_STEPS * sum(3 ** max(len(near) - 1, SMALL) for near in reached)
    attempt = Allowance(min(allowance.steps, as_subset), allowance.until)
    found = _eliminate(graph, np.searchsorted(members, targets), gaps[:, members], len(gaps), attempt)
    if found is None:
        return None
    allowance.spend(min(allowance.steps, as_subset) - attempt.steps)
    total, shares = found
    masses: dict[bytes, tuple[float, float]] = {}
    views = []
    for target, near, share in zip(targets, map(np.sort, reached), shares, strict=True):
        if near.tobytes() not in masses:
            whole = len(near) == len(members)
            log_z = total if whole else log_acyclic_mass(cut_local(base, near, zeta))
            masses[near.tobytes()] = log_z, _log_z_all(base, target, log_z, zeta, _MU_STEPS)
        each = []
        for k in range(len(ends)):
            scores = np.zeros(len(p))
            scores[near] = share[np.searchsorted(members, near)]
            if len(ends) > 1:
                scores *= gaps[k]
                scores[unseen] = share[len(members) + k]
            each.append(ExactScores(scores, *masses[near.tobytes()]))
        views.append(each)
    return views


def fill_ends(p: Float[np.ndarray, "n n"]) -> list[Float[np.ndarray, "n n"]]:
    """The probabilities with all that is unknown at 0 and at 1; as they are where nothing is."""
    unknown = np.isnan(p)
    return [np.where(unknown, end, p) for end in (0.0, 1.0)] if unknown.any() else [p]


def _clip(p: Float[np.ndarray, " n"], zeta: float) -> Float[np.ndarray, " n"]:
    return np.where(p > 0.0, np.clip(p, zeta, 1.0 - zeta), 0.0)


def _log_z_all(p: Float[np.ndarray, "n n"], target: int, log_z: float, zeta: float, steps: int) -> float:
    """log Z over all candidate relations; what lies outside C is independent of C. NaN: too much work."""
    outside = np.ones(len(p), np.bool_)
    outside[reachable(p, target)] = False
    rest = cut_local(p, np.flatnonzero(outside), zeta)
    try:
        return log_z + log_acyclic_mass(rest, Allowance(steps))
    except TooLargeError:
        return np.nan


def log_acyclic_mass(graph: LocalGraph, allowance: Allowance | None = None) -> float:
    """log P(acyclic) of a graph, one strongly connected component at a time.

    Args:
        graph: Certain relations, p = 1, may close a cycle: -inf.
        allowance: WORK_LIMIT steps by default.

    Raises:
        TooLargeError: The allowance does not suffice.
    """
    allowance = allowance or Allowance(WORK_LIMIT)
    log_z = 0.0
    for part in graph.strong_parts():
        log_part = _log_mass_of_part(part, allowance)
        if log_part is None:
            raise TooLargeError(
                f"{len(part)} objects obstruct each other in cycles; that many cannot be summed exactly"
            )
        log_z += log_part
    return log_z


def _log_mass_of_part(part: LocalGraph, allowance: Allowance) -> float | None:
    """log P(acyclic) of one strongly connected component, by whichever way takes fewer steps."""
    as_subset = 3 ** len(part)
    if len(part) > _NO_TREE:
        linked = part.present > 0.0
        tree, order = _plan(linked | linked.T)
        steps = _STEPS_PER_ENTRY * count_entries(tree, 0)
        if 0 <= steps < min(as_subset, STEPS_PER_STATE * allowance.sweep_states()):
            allowance.spend(steps)
            present, absent = (_between(each, order, order) for each in (part.present, part.absent))
            return min(float(log_z_of_tree(tree, present, absent, _orders(tree))), _LEAST_CONFLICT)
    if len(part) > LARGEST_TABLE or as_subset > allowance.steps:
        return None
    table = log_acyclic_table(part, allowance)
    return None if table is None else float(table[-1])


_STARTS = 4
"""Starts of the search for a chordal graph. More find none that is cheaper in bins and on tables."""

_SUBSET_STEPS = 4
"""Steps of the subset recursion, as a multiple of the subsets of what the target reaches."""

_STEPS_PER_ENTRY = 2
"""An entry of a table of weak orders takes as long as this many terms of the subset recursion."""

_MOST_MARKED = 1 << 23
"""Table entries of all targets that are summed at once; two such tables of doubles take 128 MB."""

_LEAST_CONFLICT = float(np.log(BELOW_ONE))
"""log Z is at most this where a cycle is possible, however unlikely."""

_NO_TREE = 8
"""Objects up to which the subset recursion is done before a tree of eliminations is found."""


def solve_elimination(graph: LocalGraph, allowance: Allowance, want_reach: bool) -> ExactScores | None:
    """All scores of the target by eliminating objects; None where the allowance does not suffice."""
    c = len(graph)
    # Something that surely obstructs one object is reached with it.
    own = 1.0 - np.eye(c)[: c * want_reach]
    found = _eliminate(graph, np.zeros(1, np.int64), own, 0, allowance)
    if found is None:
        return None
    log_z, shares = found
    scores, reach = shares[0, :c], None
    if want_reach:
        reach = np.where(graph.present.any(axis=1), shares[0, c:], scores)
        reach[0] = 1.0
    return ExactScores(scores, log_z, log_z, reach)


def _eliminate(
    graph: LocalGraph,
    targets: Int[np.ndarray, " t"],
    gaps: Float[np.ndarray, "s c"],
    n_together: int,
    allowance: Allowance,
) -> tuple[float, Float[np.ndarray, "t size"]] | None:
    """Scores of some targets, then the probability that each reaches something that obstructs as `gaps` say.

    Objects that nothing can obstruct lie on no cycle: they enter as factors of the others' scores, and their
    own is the probability that the target reaches them.

    Args:
        graph: All that the targets reach.
        targets: Shape (t,).
        gaps: For each further thing that nothing obstructs, the probability that it does not obstruct each
            object. Shape (s, c).
        n_together: How many of these are best summed together, as they obstruct the same objects: the last.
        allowance: Steps for one target.

    Returns:
        log P(acyclic) of what is linked to some target, and the scores; None: too much work.
    """
    linked = graph.present > 0.0
    is_inner = linked.any(axis=1) | np.isin(np.arange(len(graph)), targets)
    sinks = np.flatnonzero(~is_inner)
    sink_gap = np.concatenate([graph.absent.T[sinks], gaps])
    columns = np.concatenate([sinks, len(graph) + np.arange(len(gaps))])
    label = cyclic_parts(np.where(is_inner[:, None] & is_inner, linked | linked.T, False).astype(np.float64))
    planned = []
    for part in np.unique(label[targets]):
        inner = np.flatnonzero(label == part)
        inner = inner[np.argsort(~np.isin(inner, targets), kind="stable")]  # a target at the root
        tree, order = _plan(_between(linked | linked.T, inner, inner))
        planned.append((tree, inner[order]))
    entries = [int(count_entries(tree, 1)) for tree, _ in planned]
    steps = _STEPS_PER_ENTRY * sum(entries)
    if min(entries) < 0 or steps > STEPS_PER_STATE * allowance.sweep_states():
        return None
    allowance.spend(steps)
    total, found = 0.0, np.zeros((len(targets), len(graph) + len(gaps)))
    for tree, inner in planned:
        present, absent = (_between(each, inner, inner) for each in (graph.present, graph.absent))
        own = np.ascontiguousarray(sink_gap[:, inner])
        free = absent.prod(axis=1) * own[: len(sinks)].prod(axis=0)
        here = np.flatnonzero(np.isin(targets, inner))
        n_chunks = 1 + len(here) * int(MARKED[tree.n_neighbours].sum()) // _MOST_MARKED
        for some in np.array_split(here, n_chunks):
            is_target = np.isin(inner, targets[some])
            log_z, shares = eliminate(tree, present, absent, own, n_together, is_target, _orders(tree))
            if log_z == -np.inf:
                return None
            for t in some:
                share = shares[inner == targets[t]][0]
                found[t, inner] = share[: len(inner)] * free
                found[t, columns] = share[len(inner) :]
        total += log_z
    if any(graph.strong_parts()):
        total = min(total, _LEAST_CONFLICT)
    return total, np.clip(found, 0.0, 1.0)


def _plan(links: Bool[np.ndarray, "n n"]) -> tuple[Tree, Int[np.ndarray, " n"]]:
    """The tree of eliminations with object 0 at its root, and the order of the objects in it."""
    chordal = fill_links(links, _STARTS)
    np.fill_diagonal(chordal, False)
    order = elimination_order(chordal, 0)
    return grow_tree(_between(chordal, order, order)), order


def _orders(tree: Tree) -> Orders:
    return weak_orders(int(tree.n_neighbours.max()) + 1)


def _between(
    table: Shaped[np.ndarray, "n m"], rows: Int[np.ndarray, " r"], columns: Int[np.ndarray, " c"]
) -> Shaped[np.ndarray, "r c"]:
    return np.ascontiguousarray(table[np.ix_(rows, columns)])
