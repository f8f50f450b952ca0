"""What we believe about pairs of objects: e[i, j] = 1 means that object j obstructs object i."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSceneError, say_known

Label: TypeAlias = Hashable
"""What a caller calls an object: any hashable value."""


class Relation(NamedTuple):
    """One candidate relation: `blocker` obstructs `blocked` with probability `p`.

    `p` is None where the pair was asked about, or needed, and no answer came.
    """

    blocked: Label
    blocker: Label
    p: float | None


@dataclass(frozen=True, eq=False)
class ObstructionPosterior:
    """Objects of a scene, the one asked for, and the probability that one obstructs another.

    Three states are kept apart. A pair with a number was judged; a pair with no answer (None in a
    mapping, NaN in an array) was asked about in vain; a pair that is absent, or 0, is known not to
    obstruct and is no candidate.

    Attributes:
        objects: The labels, in the order the caller gave; any hashable values.
        target: The label of the object asked for.
        p_obstructs: `p_obstructs[i, j]` is the probability that object j obstructs object i.
            NaN: no answer. Shape (n, n), read-only. The constructor also takes a mapping
            `(blocked, blocker) -> probability or None`.
        unseen: The label that stands for what has no mask; None: everything has one. It may obstruct,
            nothing obstructs it, and it is never acted on.
    """

    objects: tuple[Label, ...]
    target: Label
    p_obstructs: Float[np.ndarray, "n n"]
    unseen: Label | None
    target_index: int = field(init=False, repr=False)
    has_unanswered: bool = field(init=False, repr=False)

    def __init__(
        self,
        objects: Iterable[Label],
        target: Label,
        p_obstructs: Mapping[tuple[Label, Label], float | None] | Float[np.ndarray, "n n"],
        unseen: Label | None = None,
    ) -> None:
        labels, index = _index_labels(objects)
        target_index = index.get(target) if _is_hashable(target) else None
        if target_index is None:
            raise InvalidSceneError(
                f"the target {target!r} is not among the objects; {say_known(target, labels)}"
            )
        if isinstance(p_obstructs, Mapping):
            p, unanswered = _read_mapping(p_obstructs, labels, index)
        else:
            p, unanswered = _read_array(p_obstructs, labels)
        if unseen is not None:
            _check_unseen(unseen, target_index, p, index)
        p.flags.writeable = False
        put = object.__setattr__
        put(self, "objects", labels)
        put(self, "target", labels[target_index])  # as the objects spell it: 1.0 asks for 1
        put(self, "p_obstructs", p)
        put(self, "unseen", unseen)
        put(self, "target_index", target_index)
        put(self, "has_unanswered", unanswered)

    @classmethod
    def from_relations(
        cls,
        objects: Iterable[Label],
        target: Label,
        relations: Iterable[tuple[Label, Label, float | None]],
        unseen: Label | None = None,
    ) -> "ObstructionPosterior":
        """Build from `(blocked, blocker, p)` triples; a pair given twice must agree with itself."""
        seen: dict[tuple[Label, Label], float | None] = {}
        for blocked, blocker, p in relations:
            pair = (blocked, blocker)
            if not (_is_hashable(blocked) and _is_hashable(blocker)):
                raise InvalidSceneError(f"relation {pair!r} names something that cannot be a label")
            if pair in seen and seen[pair] != p:
                raise InvalidSceneError(
                    f"that {blocker!r} obstructs {blocked!r} is given twice with different probabilities, "
                    f"{seen[pair]} and {p}; keep one"
                )
            seen[pair] = p
        return cls(objects, target, seen, unseen)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return ObstructionPosterior, (self.objects, self.target, self.p_obstructs, self.unseen)

    def __len__(self) -> int:
        return len(self.objects)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObstructionPosterior):
            return NotImplemented
        return (
            self.objects == other.objects
            and self.target == other.target
            and self.unseen == other.unseen
            and np.array_equal(self.p_obstructs, other.p_obstructs, equal_nan=True)
        )

    def __hash__(self) -> int:
        return hash((self.objects, self.target, self.unseen, self.p_obstructs.tobytes()))

    def index(self, label: Label) -> int:
        """Position of an object; an unknown label is an error that lists the known ones."""
        try:
            return self.objects.index(label)
        except ValueError:
            raise InvalidSceneError(f"unknown object {label!r}; {say_known(label, self.objects)}") from None

    def relations(self) -> tuple[Relation, ...]:
        """Every candidate relation, row by row; `p` is None where there was no answer."""
        blocked, blocker = np.nonzero(self.p_obstructs)
        p, labels = self.p_obstructs[blocked, blocker].tolist(), self.objects
        return tuple(
            Relation(labels[i], labels[j], None if math.isnan(q) else q)
            for i, j, q in zip(blocked, blocker, p, strict=True)
        )

    def replace_p(self, p_obstructs: Float[np.ndarray, "n n"]) -> "ObstructionPosterior":
        """The same objects and target with other probabilities."""
        return ObstructionPosterior(self.objects, self.target, p_obstructs, self.unseen)

    def with_answers(
        self, answers: Iterable[tuple[tuple[Label, Label], float | None]]
    ) -> "ObstructionPosterior":
        """The same scene with other probabilities for some `(blocked, blocker)`; None is no answer."""
        if not (answers := tuple(answers)):
            return self
        p = self.p_obstructs.copy()
        for (blocked, blocker), value in answers:
            if blocked == blocker or (value is not None and not 0.0 <= value <= 1.0):
                raise InvalidSceneError(
                    f"relation ({blocked}, {blocker}) = {value}: name two objects and give a probability, "
                    "or null"
                )
            p[self.index(blocked), self.index(blocker)] = np.nan if value is None else value
        return self.replace_p(p)

    def with_prior(self, prior: float | None) -> "ObstructionPosterior":
        """The same scene with `prior` where there was no answer; unchanged where `prior` is None."""
        if prior is None or not self.has_unanswered:
            return self
        return self.replace_p(np.where(np.isnan(self.p_obstructs), prior, self.p_obstructs))


def _is_hashable(label: object) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _check_unseen(
    unseen: Label, target_index: int, p: Float[np.ndarray, "n n"], index: Mapping[Label, int]
) -> None:
    at = index.get(unseen) if _is_hashable(unseen) else None
    if at is None or at == target_index or p[at].any():
        raise InvalidSceneError(
            f"unseen is {unseen!r}; it must be one of the objects, not the target, and unobstructed"
        )


def _index_labels(objects: Iterable[Label]) -> tuple[tuple[Label, ...], dict[Label, int]]:
    """The labels and their positions; they must be there, hashable and all different."""
    if isinstance(objects, str | bytes):
        raise InvalidSceneError(
            f"objects must be a list of labels, got the single string {objects!r}; put it into a list"
        )
    try:
        labels = tuple(objects)
    except TypeError:
        raise InvalidSceneError(f"objects must be a list of labels, got {objects!r}") from None
    if not labels:
        raise InvalidSceneError("the scene is empty: give at least the target among the objects")
    try:
        index = {label: k for k, label in enumerate(labels)}
    except TypeError:
        culprit = next(label for label in labels if not _is_hashable(label))
        raise InvalidSceneError(
            f"object label {culprit!r} is not hashable; use strings, numbers or tuples"
        ) from None
    if len(index) < len(labels):
        culprit = next(label for k, label in enumerate(labels) if index[label] != k)
        raise InvalidSceneError(f"the object {culprit!r} is listed twice; labels must be unique")
    return labels, index


def _read_mapping(
    pairs: Mapping[tuple[Label, Label], float | None], labels: Sequence[Label], index: Mapping[Label, int]
) -> tuple[Float[np.ndarray, "n n"], bool]:
    p = np.zeros((len(labels), len(labels)))
    unanswered = False
    for pair, value in pairs.items():
        try:
            blocked, blocker = pair
            i, j = index[blocked], index[blocker]
        except (KeyError, TypeError, ValueError):
            raise _explain_pair(pair, labels, index) from None
        if not isinstance(pair, tuple):
            raise _explain_pair(pair, labels, index)
        if i == j:
            raise InvalidSceneError(f"{blocked!r} cannot obstruct itself; drop the relation {pair!r}")
        if value is None:
            p[i, j] = math.nan
            unanswered = True
        else:
            number = _to_float(value)
            if not 0.0 <= number <= 1.0:
                raise InvalidSceneError(
                    f"the probability that {blocker!r} obstructs {blocked!r} is {value!r}; it must be a "
                    "number in [0, 1], or None where there was no answer"
                )
            p[i, j] = number + 0.0
    return p, unanswered


def _to_float(value: object) -> float:
    """A number of whatever type; NaN, which no range admits, for what is none."""
    if isinstance(value, str | bytes | bool | complex):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _explain_pair(pair: object, labels: Sequence[Label], index: Mapping[Label, int]) -> InvalidSceneError:
    """Say what is wrong with a mapping key that names no two objects of the scene."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        return InvalidSceneError(f"relation keys are pairs (blocked, blocker), got {pair!r}")
    stranger = next(label for label in pair if not _is_hashable(label) or label not in index)
    return InvalidSceneError(
        f"unknown object {stranger!r} in the relation {pair!r}; {say_known(stranger, labels)}"
    )


def _read_array(values: object, labels: Sequence[Label]) -> tuple[Float[np.ndarray, "n n"], bool]:
    n = len(labels)
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise TypeError
        p = given.astype(np.float64) + 0.0  # -0.0 becomes 0.0: equal scenes have equal hashes
    except (TypeError, ValueError):
        raise InvalidSceneError(
            f"p_obstructs must be a mapping or a ({n}, {n}) array of numbers, got {type(values).__name__}"
        ) from None
    if p.shape != (n, n):
        raise InvalidSceneError(f"p_obstructs has shape {p.shape}; {n} objects need ({n}, {n})")
    nan = np.isnan(p)
    bad = ~nan & ~((p >= 0.0) & (p <= 1.0))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise InvalidSceneError(
            f"p_obstructs[{i}, {j}], the probability that {labels[j]!r} obstructs {labels[i]!r}, is "
            f"{p[i, j]}; it must lie in [0, 1], or be NaN where there was no answer"
        )
    if np.diagonal(p).any():
        i = int(np.flatnonzero(np.diagonal(p))[0])
        raise InvalidSceneError(f"{labels[i]!r} cannot obstruct itself; set p_obstructs[{i}, {i}] to 0")
    return p, bool(nan.any())
