"""Corrections as data: small records, a history that can be undone, redone, kept and replayed, and labels.

A labelled scene has a person's masks, and the relations that were accepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cpor.corrections import mask_edits
from cpor.corrections.mask_edits import CorrectionError
from cpor.parts import GIVEN
from cpor.pipeline import PairBeliefs
from cpor.promise import remask
from cpor.scene import MAX_OBJECT_ID, BlockedBy, PixelPoint, Scene, TrueRelations
from cpor.sources import describe_sources
from cpor.view import View

MOST_CORRECTIONS = 500
"""Most corrections of one scene: each undo plays the others again."""

MOST_POINTS = 500
LONGEST_NAME = 100

_PLACES = ("point", "a", "b", "points", "corners")
"""Fields of corrections that hold points."""

BY_HAND = "a person"
"""Maker of masks that a person corrected, or accepted as they were; nothing that was tested has this name."""

HOLDS = 0.5
"""A relation that no person spoke of is accepted as true from this probability."""

_Id: TypeAlias = Annotated[int, Field(ge=1, le=MAX_OBJECT_ID, strict=True)]
_PixelCoordinate: TypeAlias = Annotated[float, Field(ge=0.0, le=1e5, allow_inf_nan=False)]
_Point: TypeAlias = tuple[_PixelCoordinate, _PixelCoordinate]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None


class _Correction(BaseModel):
    """One correction; points are x and y in pixels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def scaled(self, factor: float) -> Self:
        """The same in a picture whose sides are longer by a factor."""
        changed = {name: _scale(getattr(self, name, None), factor) for name in _PLACES}
        if isinstance(self, Brush):
            changed["radius"] = max(0.5, factor * self.radius)
        return self.model_copy(update={name: value for name, value in changed.items() if value is not None})


class Add(_Correction):
    """There is an object at `point`."""

    tool: Literal["add"] = "add"
    point: _Point
    name: _Name = None


class Delete(_Correction):
    """There is no such object."""

    tool: Literal["delete"] = "delete"
    object: _Id


class Split(_Correction):
    """These are two: `a` lies on the one, `b` on the other; with `along_line` both lie on the cut."""

    tool: Literal["split"] = "split"
    object: _Id
    a: _Point
    b: _Point
    along_line: bool = False


class Merge(_Correction):
    """These are one; the first keeps its number."""

    tool: Literal["merge"] = "merge"
    objects: Annotated[list[_Id], Field(min_length=2, max_length=200)]


class Brush(_Correction):
    """A stroke that belongs to the object, or with `erase` does not."""

    tool: Literal["brush"] = "brush"
    object: _Id
    points: Annotated[list[_Point], Field(min_length=1, max_length=MOST_POINTS)]
    radius: Annotated[float, Field(ge=0.5, le=500.0, allow_inf_nan=False)]
    erase: bool = False


class Rename(_Correction):
    """What an object is called; null: unknown."""

    tool: Literal["rename"] = "rename"
    object: _Id
    name: _Name


class Workspace(_Correction):
    """Where objects may be asked for; null: anywhere."""

    tool: Literal["workspace"] = "workspace"
    corners: Annotated[list[_Point], Field(min_length=3, max_length=MOST_POINTS)] | None


class Relate(_Correction):
    """`blocker` obstructs `blocked` with probability `p`; null is no answer. `decide(relations=)` gets it."""

    tool: Literal["relate"] = "relate"
    blocked: _Id
    blocker: _Id
    p: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)] | None


Correction: TypeAlias = Annotated[
    Add | Delete | Split | Merge | Brush | Rename | Workspace | Relate, Field(discriminator="tool")
]

_HISTORY: TypeAdapter[list[Correction]] = TypeAdapter(list[Correction])


@dataclass(frozen=True, eq=False)
class Corrections:
    """A scene as it was seen, and what a person changed of it, in order.

    Attributes:
        first: The scene before any correction.
        scene: The scene now.
        done: Corrections in force, the oldest first.
        undone: Those taken back, the last one first to be redone.
    """

    first: Scene
    scene: Scene
    done: tuple[Correction, ...] = ()
    undone: tuple[Correction, ...] = ()

    @classmethod
    def of(cls, scene: Scene) -> "Corrections":
        """None yet."""
        return cls(scene, scene)

    @classmethod
    def replay(cls, scene: Scene, history: Sequence[Correction] | str) -> "Corrections":
        """A history on a scene; a text is JSON as `to_json` gives it."""
        if isinstance(history, str):
            try:
                history = _HISTORY.validate_json(history)
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(str(step) for step in first["loc"])
                raise CorrectionError(f"this is no history of corrections: {place}: {first['msg']}") from None
        found = cls.of(scene)
        for each in history:
            found = found.make(each)
        return found

    def make(self, correction: Correction) -> "Corrections":
        """One more; what was undone is forgotten."""
        if len(self.done) >= MOST_CORRECTIONS:
            raise CorrectionError(f"{MOST_CORRECTIONS} corrections of one scene are the most; save it")
        return replace(self, scene=_apply(correction, self.scene), done=(*self.done, correction), undone=())

    def undo(self) -> "Corrections":
        """The last one taken back."""
        if not self.done:
            raise CorrectionError("nothing was corrected that could be undone")
        before = Corrections.replay(self.first, self.done[:-1])
        return replace(before, undone=(self.done[-1], *self.undone))

    def redo(self) -> "Corrections":
        """The last one undone made again."""
        if not self.undone:
            raise CorrectionError("nothing was undone that could be redone")
        return replace(self.make(self.undone[0]), undone=self.undone[1:])

    @property
    def changes_masks(self) -> bool:
        """Whether the masks are a person's now; names, workspace and relations leave them as they were."""
        return any(not isinstance(each, Rename | Workspace | Relate) for each in self.done)

    @property
    def relations(self) -> dict[tuple[int, int], float | None]:
        """Relations that a person gave, as `System.decide` takes them; of objects that were there then."""
        said: dict[tuple[int, int], float | None] = {}
        for each in self.done:
            if isinstance(each, Relate):
                said[each.blocked, each.blocker] = each.p
            elif isinstance(each, Delete | Split | Merge):
                changed = {*each.objects} if isinstance(each, Merge) else {each.object}
                said = {pair: p for pair, p in said.items() if changed.isdisjoint(pair)}
        there = {*self.scene.ids}
        return {pair: p for pair, p in said.items() if there.issuperset(pair)}

    def to_json(self) -> str:
        """The corrections in force, to be replayed on the same scene."""
        return _HISTORY.dump_json(list(self.done)).decode()


def _scale(place: Any, factor: float) -> Any:
    """A point, a list of points, or None, in a larger picture."""
    if isinstance(place, list):
        return [_scale(each, factor) for each in place]
    return place and (place[0] * factor, place[1] * factor)


def _apply(made: Correction, scene: Scene) -> Scene:
    """The corrected scene."""
    match made:
        case Add():
            return mask_edits.add_object(scene, PixelPoint(*made.point), made.name)
        case Delete():
            return mask_edits.delete_object(scene, made.object)
        case Split():
            ends = PixelPoint(*made.a), PixelPoint(*made.b)
            return mask_edits.split_object(scene, made.object, *ends, along_line=made.along_line)
        case Merge():
            return mask_edits.merge_objects(scene, made.objects)
        case Brush():
            points = [PixelPoint(*each) for each in made.points]
            return mask_edits.brush(scene, made.object, points, made.radius, erase=made.erase)
        case Rename():
            return mask_edits.rename_object(scene, made.object, made.name)
        case Workspace():
            corners = None if made.corners is None else [PixelPoint(*each) for each in made.corners]
            return mask_edits.set_workspace(scene, corners)
        case Relate():
            if made.blocked == made.blocker or not {made.blocked, made.blocker} <= {*scene.ids}:
                raise CorrectionError("a relation is between two objects of the scene; name both")
            return scene


def correct_view(seen: View, corrections: Corrections) -> View:
    """What was seen, with all that a person corrected of it.

    New masks are checked anew and count as a person's; the next decision scores their pairs. What was said of
    which object lies on which is decided from in place of beliefs.
    """
    scene, relations = corrections.scene, corrections.relations
    if not corrections.changes_masks:
        return replace(seen, seen=scene, relations=relations)
    return remask(replace(seen, relations=relations, told=None), scene, GIVEN, BY_HAND)


def label_scene(
    scene: Scene, beliefs: PairBeliefs, relations: Mapping[tuple[int, int], float | None] | None = None
) -> Scene:
    """The scene with relations as truth: what was said of them, else what is believed and was accepted.

    Raises:
        CorrectionError: Nothing is known of a pair: then it must not pass for one that does not obstruct.
    """
    said = dict(relations or {})
    pairs, unknown = [], []
    for i, j in np.argwhere(np.isnan(beliefs.p_fused) | (beliefs.p_fused > 0.0)).tolist():
        pair = BlockedBy(beliefs.ids[i], beliefs.ids[j])
        p = said.pop(pair, float(beliefs.p_fused[i, j]))
        if p is None or np.isnan(p):
            unknown.append(pair)
        elif p >= HOLDS:
            pairs.append(pair)
    for (blocked, blocker), p in said.items():
        if p is None:
            unknown.append(BlockedBy(blocked, blocker))
        elif p >= HOLDS:
            pairs.append(BlockedBy(blocked, blocker))
    if unknown:
        blocked, blocker = unknown[0]
        raise CorrectionError(
            f"nobody said whether object {blocker} obstructs object {blocked} ({len(unknown)} such pairs); "
            "say so first"
        )
    labelled = replace(
        scene,
        true_occlusion=TrueRelations(frozenset(scene.ids), frozenset(pairs)),
        true_sweep=None,
        true_lift=None,
        semantic_scores=None,
    )
    return replace(labelled, sources=describe_sources(labelled, BY_HAND, None))
