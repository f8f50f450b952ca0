"""What the candidate graph says about a pair: where it lies as seen from the target, and its rivals.

The candidate digraph has an edge blocked -> blocker for every candidate pair, whatever its score, and for
pairs without an answer too. An object is on the target's chain when it can be reached from the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cpor.errors import FittingError
from cpor.learn.pairs import check_scores, clipped_logit
from cpor.relations import Label

CONDITIONS = (
    "log_candidates",
    "blocked_is_target",
    "blocked_on_chain",
    "blocked_distance",
    "blocker_is_target",
    "blocker_on_chain",
    "has_reciprocal",
    "logit_reciprocal",
    "rank",
    "n_rivals",
)
"""The columns of `condition_matrix`."""


@dataclass(frozen=True, eq=False)
class GraphFeatures:
    """The candidate pairs of one scene, asked about for one target. Arrays have shape (n,), read-only.

    Attributes:
        target: The object asked for.
        blocked: The object each pair is about.
        blocker: The object that may obstruct it.
        score: Raw score of the pair; NaN = no answer.
        score_reciprocal: Raw score of the opposite pair; NaN where that has no answer or is no candidate.
        has_reciprocal: Whether the opposite pair is a candidate.
        blocked_distance: Candidate edges from the target to the blocked object; 0 for the target
            itself, inf where it cannot be reached.
        blocker_distance: The same for the blocker.
        rank: Rivals (other candidate blockers of the same blocked object) with a higher score, ties
            counting one half. NaN where the pair has no answer.
        n_rivals: Number of rivals.
    """

    target: Label
    blocked: tuple[Label, ...]
    blocker: tuple[Label, ...]
    score: Float[np.ndarray, " n"]
    score_reciprocal: Float[np.ndarray, " n"]
    has_reciprocal: Bool[np.ndarray, " n"]
    blocked_distance: Float[np.ndarray, " n"]
    blocker_distance: Float[np.ndarray, " n"]
    rank: Float[np.ndarray, " n"]
    n_rivals: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __len__(self) -> int:
        return len(self.blocked)

    @property
    def blocked_on_chain(self) -> Bool[np.ndarray, " n"]:
        """Whether the blocked object can be reached from the target. Shape (n,)."""
        return np.asarray(np.isfinite(self.blocked_distance))


def graph_features(
    blocked: Sequence[Label], blocker: Sequence[Label], target: Label, score: Shaped[np.ndarray, " n"]
) -> GraphFeatures:
    """Look at the candidate pairs of one scene from one target.

    Args:
        blocked: The object each pair is about. n labels.
        blocker: The object that may obstruct it. n labels.
        target: The object asked for; it need not occur in a pair.
        score: Raw scores in [0, 1], NaN = no answer. Shape (n,).

    Raises:
        FittingError: Lengths that differ, an object that obstructs itself, a pair given twice.
    """
    values = check_scores(np.array(score, dtype=np.float64))
    pairs = list(zip(blocked, blocker, strict=False))
    if not len(blocked) == len(blocker) == values.size:
        raise FittingError(
            f"{len(blocked)} blocked objects, {len(blocker)} blockers and {values.size} scores make no pairs"
        )
    row_of = {pair: row for row, pair in enumerate(pairs)}
    if len(row_of) < len(pairs):
        twice = next(pair for row, pair in enumerate(pairs) if row_of[pair] != row)
        raise FittingError(f"the pair (blocked, blocker) = {twice!r} is given twice; keep one score")
    for pair in pairs:
        if pair[0] == pair[1]:
            raise FittingError(f"{pair[0]!r} cannot obstruct itself; drop the pair {pair!r}")

    rows_of: dict[Label, list[int]] = {}
    for row, label in enumerate(blocked):
        rows_of.setdefault(label, []).append(row)
    distance = _distances(target, rows_of, blocker)
    opposite = [row_of.get((pair[1], pair[0]), -1) for pair in pairs]
    rank = np.empty(values.size)
    n_rivals = np.empty(values.size)
    for rows in rows_of.values():
        own = values[rows]
        n_rivals[rows] = own.size - 1
        # A rival without an answer compares false both ways, so it is neither above nor level.
        above = (own[None, :] > own[:, None]).sum(axis=1)
        level = (own[None, :] == own[:, None]).sum(axis=1) - 1
        rank[rows] = np.where(np.isnan(own), np.nan, above + 0.5 * level)
    return GraphFeatures(
        target=target,
        blocked=tuple(blocked),
        blocker=tuple(blocker),
        score=values,
        score_reciprocal=np.array(
            [values[row] if row >= 0 else np.nan for row in opposite], dtype=np.float64
        ),
        has_reciprocal=np.array([row >= 0 for row in opposite], dtype=bool),
        blocked_distance=np.array([distance.get(label, np.inf) for label in blocked], dtype=np.float64),
        blocker_distance=np.array([distance.get(label, np.inf) for label in blocker], dtype=np.float64),
        rank=rank,
        n_rivals=n_rivals,
    )


def condition_matrix(features: GraphFeatures) -> Float[np.ndarray, "n k"]:
    """The features as columns `CONDITIONS`; NaN where something is not known. Shape (n, k).

    A number that does not exist (the distance of an unreachable object, the reciprocal score of a pair
    that is no candidate) is 0 beside an indicator that says so. The opposite pair being asked about in
    vain is different: both its columns are unknown.
    """
    unanswered = features.has_reciprocal & np.isnan(features.score_reciprocal)
    has_reciprocal = np.where(unanswered, np.nan, features.has_reciprocal)
    logit_reciprocal = np.where(features.has_reciprocal, clipped_logit(features.score_reciprocal), 0.0)
    on_chain = features.blocked_on_chain
    return np.column_stack(
        [
            np.full(len(features), np.log1p(len(features))),
            features.blocked_distance == 0.0,
            on_chain,
            np.where(on_chain, features.blocked_distance, 0.0),
            features.blocker_distance == 0.0,
            np.isfinite(features.blocker_distance),
            has_reciprocal,
            logit_reciprocal,
            features.rank,
            features.n_rivals,
        ]
    )


def _distances(target: Label, rows_of: dict[Label, list[int]], blocker: Sequence[Label]) -> dict[Label, int]:
    """Candidate edges from the target to each object it reaches, breadth first."""
    distance = {target: 0}
    frontier = [target]
    while frontier:
        following = []
        for label in frontier:
            for row in rows_of.get(label, ()):
                if blocker[row] not in distance:
                    distance[blocker[row]] = distance[label] + 1
                    following.append(blocker[row])
        frontier = following
    return distance
