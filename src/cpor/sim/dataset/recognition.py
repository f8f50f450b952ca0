"""What a segmenter found, matched with what is truly there; and what the truth says of an action.

MuJoCo is not needed. A found object is the true object that owns most of its visible pixels, or none where
that is background. True objects that nothing found is get ids of their own above those found: the truth has
them, no mask does.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32

from cpor.decision import Action, Defer, Grasp
from cpor.scene import BlockedBy, TrueRelations
from cpor.truth import chain_of, is_wrong


@dataclass(frozen=True)
class Recognition:
    """Which true object each found one is.

    Attributes:
        owner: The true object that each found one is; None: background.
        unseen: Id given to each true object that nothing found is.
        largest: The piece of each true object that shows most of it.
    """

    owner: Mapping[int, int | None]
    unseen: Mapping[int, int]
    largest: Mapping[int, int]

    @classmethod
    def match(
        cls,
        found_ids: tuple[int, ...],
        found: Int32[np.ndarray, "h w"],
        true_ids: Iterable[int],
        true: Int32[np.ndarray, "h w"],
    ) -> "Recognition":
        """Match two images of ids.

        Args:
            found_ids: Objects that were found, whether they show or not.
            found: Which of them each pixel shows, 0 for none. Shape (h, w).
            true_ids: Objects that are there, whether they show or not.
            true: Which of them each pixel shows, 0 for none. Shape (h, w).
        """
        width = int(true.max()) + 1
        shared = np.bincount((found.astype(np.int64) * width + true).reshape(-1))
        shared = np.pad(shared, (0, -len(shared) % width)).reshape(-1, width)
        owner: dict[int, int | None] = {}
        most: dict[int, tuple[int, int]] = {}
        for k in found_ids:
            row = shared[k] if k < len(shared) else np.zeros(1, np.int64)
            best = int(row.argmax()) if row.any() else 0
            owner[k] = best or None
            if best and int(row[best]) > most.get(best, (0, 0))[0]:
                most[best] = int(row[best]), k
        first = max(found_ids, default=0) + 1
        lost = sorted(set(true_ids) - set(most))
        largest = {t: k for t, (_, k) in most.items()}
        return cls(owner, {t: first + rank for rank, t in enumerate(lost)}, largest)

    def find(self, obj: int) -> int:
        """The found object that shows most of a true one; an id without a mask where none is it."""
        return self.largest.get(obj, self.unseen.get(obj, 0))

    def pieces(self, obj: int) -> tuple[int, ...]:
        """All found objects that are this true one; the id without a mask where none is."""
        return tuple(k for k, true in self.owner.items() if true == obj) or (self.unseen[obj],)

    def translate(self, truth: TrueRelations) -> TrueRelations:
        """The true relations among found objects, and with those that were not found.

        Every piece of an object stands for the whole of it. Background obstructs nothing.
        """
        pairs = frozenset(
            BlockedBy(i, j)
            for blocked, blocker in truth.pairs
            for i in self.pieces(blocked)
            for j in self.pieces(blocker)
        )
        known = {k for obj in truth.objects for k in self.pieces(obj)}
        return TrueRelations(frozenset({*self.owner, *known}), pairs)


@dataclass(frozen=True)
class Verdict:
    """What the truth says of an action: whether it is wrong, and why, in words."""

    is_wrong: bool
    because: str = ""


def judge(action: Action, target: int, truth: Set[BlockedBy], name: Callable[[int], str]) -> Verdict:
    """Judge an action by the true relations at its time; `name` gives the name of an object."""
    if isinstance(action, Defer) or not is_wrong(action, target, truth):
        return Verdict(False)
    obj = int(action.obj)  # type: ignore[call-overload]
    above = sorted(blocker for blocked, blocker in truth if blocked == obj)
    if above:
        verb = "lies" if len(above) == 1 else "lie"
        return Verdict(True, f"{_join([name(k) for k in above])} still {verb} in its way")
    if not isinstance(action, Grasp) and obj not in chain_of(target, truth):
        return Verdict(True, f"it is not in the way of {name(target)}")
    return Verdict(True, "it is not what was asked for")


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
