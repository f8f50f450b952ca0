"""One answer for one case, in the terms the benchmark scores."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cpor.paper.paths import Path, relations_on
from cpor.relations import Label
from cpor.scene import BlockedBy


@dataclass(frozen=True)
class Prediction:
    """What is predicted for one target.

    Attributes:
        objects: Objects to act on next; the target alone where it is free. Empty: no object was named.
        relations: The relations said to hold on the target's chain.
        paths: Obstruction paths, top first; `((target,),)` where the target is free.
    """

    objects: frozenset[int]
    relations: frozenset[BlockedBy]
    paths: tuple[Path, ...]

    @classmethod
    def from_paths(cls, objects: Iterable[int], paths: Iterable[Path]) -> "Prediction":
        """A prediction whose relations are those on its paths."""
        paths = tuple(paths)
        return cls(frozenset(objects), relations_on(paths), paths)

    def without(self, label: Label | None) -> "Prediction":
        """The same less whatever names this label; the top of a path that leads to it is not known.

        Args:
            label: Label of what has no mask; None: unchanged.
        """
        return Prediction(
            self.objects - {label},
            frozenset(pair for pair in self.relations if label not in pair),
            tuple(path for path in self.paths if label not in path),
        )

    @classmethod
    def unobstructed(cls, target: int) -> "Prediction":
        """The target is free."""
        return cls(frozenset({target}), frozenset(), ((target,),))


NOTHING = Prediction(frozenset(), frozenset(), ())
"""No answer, counted as wrong: every metric takes its worst value."""


def maximal_paths(target: int, blockers: Mapping[int, Iterable[int]]) -> tuple[Path, ...]:
    """All paths from the target outward that end where nothing obstructs, each turned top first.

    Args:
        target: X.
        blockers: What obstructs each object, in an acyclic graph.
    """
    found: list[Path] = []
    todo: list[Path] = [(target,)]
    while todo:
        path = todo.pop()
        above = sorted(blockers.get(path[0], ()), reverse=True)
        if above:
            todo.extend((blocker, *path) for blocker in above)
        else:
            found.append(path)
    return tuple(found)
