"""A scene as a picture with what was found and decided on it: outlines, badges, names, arrows, the action.

Colours are of the set of Okabe and Ito, which colour-blind people tell apart, and nothing is said by colour
alone: the target has a star, the action its words, an arrow its thickness. An outline has the colour of its
badge; the hidden part of what counts is hatched in it.
"""

import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from jaxtyping import Bool, Int32, UInt8
from PIL import Image, ImageDraw
from scipy import ndimage

from cpor.decision import Action, Defer, Grasp
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, MaskCrop, Scene
from cpor.truth import chain_of
from cpor.viz.overlay_marks import (
    BLUE,
    DARK,
    THINGS,
    WHITE,
    Boxes,
    draw_arrow,
    draw_badge,
    draw_hatching,
    draw_hatching_sign,
    draw_star,
    draw_tag,
    font,
    thing_colour,
)

if TYPE_CHECKING:
    from cpor.answer import Answer
    from cpor.robot.cycle import Cycle

WIDTH = 960
"""Pictures are brought to this width, so that the words on them can be read. [px]"""

LEAST_P = 0.3
"""Arrows of less likely obstructions are left out: they would hide the picture."""

LEAST_HIDDEN = 0.02
"""The legend speaks of hidden parts from this share of an object on."""

Window: TypeAlias = tuple[int, int, int, int]
"""Part of a photograph: left, top, right, bottom. [px]"""


@dataclass(frozen=True)
class Marks:
    """What to draw on a scene.

    Attributes:
        target: Id of the object asked for.
        action: What was decided; None before it was.
        p_obstructs: Probability that `blocker` obstructs `blocked`; None where there is no answer.
        names: Whether the objects' names stand beside their badges.
        all_hidden: Whether the hidden part of every object is hatched, not only of those that count.
    """

    target: int | None = None
    action: Action | None = None
    p_obstructs: Mapping[BlockedBy, float | None] = field(default_factory=dict)
    names: bool = True
    all_hidden: bool = False


def relations_to_draw(posterior: ObstructionPosterior) -> dict[BlockedBy, float | None]:
    """The candidate relations of a posterior over ids."""
    return {
        BlockedBy(int(r.blocked), int(r.blocker)): r.p  # type: ignore[call-overload]
        for r in posterior.relations()
    }


def marks_of(cycle: "Cycle") -> Marks:
    """What to draw on the picture of a cycle."""
    p_obstructs = {BlockedBy(b.blocked, b.blocker): b.p for b in cycle.beliefs}
    return Marks(cycle.target, cycle.action, p_obstructs)


def marks_for(answer: "Answer | None") -> Marks:
    """What to draw on the picture of an answer; nothing where it is not about one object."""
    if answer is None or answer.posterior is None or not isinstance(answer.target, int):
        return Marks()
    return Marks(answer.target, answer.action, relations_to_draw(answer.posterior))


def window_around(scene: Scene, margin: float = 0.08) -> Window | None:
    """The part of the photograph that holds all objects, of the same shape; None where none is seen."""
    if scene.visible_ids is None or not scene.visible_ids.any():
        return None
    height, width = scene.observation.shape
    box = MaskCrop.from_mask(scene.visible_ids > 0)
    rows, columns = box.pixels.shape
    share = min(1.0, max(rows / height, columns / width) + 2.0 * margin)
    high, wide = round(share * height), round(share * width)
    top = min(max(0, box.top + (rows - high) // 2), height - high)
    left = min(max(0, box.left + (columns - wide) // 2), width - wide)
    return left, top, left + wide, top + high


def draw_scene(scene: Scene, marks: Marks, width: int = WIDTH, window: Window | None = None) -> Image.Image:
    """The picture, scaled to a width in pixels; of a window of the photograph, where one is given."""
    height, whole = scene.observation.shape
    left, top, right, bottom = window or (0, 0, whole, height)
    seen = np.asarray(scene.observation.rgb[top:bottom, left:right])
    scale = width / (right - left)
    size = (round((right - left) * scale), round((bottom - top) * scale))
    picture = Image.fromarray(seen).resize(size, Image.Resampling.LANCZOS)
    places: dict[int, tuple[float, float]] = {}
    if scene.visible_ids is not None:
        ids = scene.visible_ids[top:bottom, left:right]
        rows = (np.arange(size[1]) / scale).astype(int).clip(max=ids.shape[0] - 1)
        columns = (np.arange(size[0]) / scale).astype(int).clip(max=ids.shape[1] - 1)
        pixels, shown = np.array(picture), ids[rows][:, columns]
        for obj, both in _whole_masks(scene, marks):
            hidden = both[top:bottom, left:right][rows][:, columns] & (shown != obj)
            draw_hatching(pixels, hidden, thing_colour(obj), obj)
        picture = Image.fromarray(_outline(pixels, shown, marks))
        places = {k: _middle(ids == k, scale) for k in scene.ids if (ids == k).any()}
    _write_marks(picture, scene, marks, places)
    return _with_legend(picture, scene, marks)


def encode_picture(picture: Image.Image, quality: int = 85, kind: str = "WEBP") -> bytes:
    """Bytes of a picture: WebP, which every browser shows, JPEG or PNG."""
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, format=kind, quality=quality, method=4)
    return buffer.getvalue()


def acted_on(action: Action | None) -> int | None:
    """Id of the object an action is about."""
    return None if action is None or isinstance(action, Defer) else int(action.obj)  # type: ignore[call-overload]


def _involved(marks: Marks) -> set[int | None]:
    """Ids with a part in the decision: the target, what is acted on, and both ends of every arrow."""
    ends = {obj for pair in _shown_relations(marks) for obj in pair}
    return {acted_on(marks.action), marks.target, *ends}


def _whole_masks(scene: Scene, marks: Marks) -> Iterator[tuple[int, Bool[np.ndarray, "h w"]]]:
    """Each object whose hidden part is drawn, with its visible and hidden pixels."""
    involved = _involved(marks)
    for o in scene.objects:
        if o.amodal is not None and (marks.all_hidden or o.id in involved):
            whole = np.zeros(scene.observation.shape, dtype=bool)
            rows, columns = o.amodal.pixels.shape
            whole[o.amodal.top : o.amodal.top + rows, o.amodal.left : o.amodal.left + columns] = (
                o.amodal.pixels
            )
            yield o.id, whole


def _outline(pixels: UInt8[np.ndarray, "h w 3"], ids: Int32[np.ndarray, "h w"], marks: Marks) -> np.ndarray:
    """Thin outlines in the colours of the badges, and thick ones around the target and what is acted on."""
    edge = np.zeros(ids.shape, dtype=bool)
    for axis in (0, 1):
        changes = np.diff(ids, axis=axis) != 0
        ahead = [(0, 0), (0, 0)]
        ahead[axis] = (0, 1)
        behind = [(0, 0), (0, 0)]
        behind[axis] = (1, 0)
        edge |= np.pad(changes, ahead) | np.pad(changes, behind)
    edge &= ids > 0
    pixels[ndimage.binary_dilation(edge) & (ids == 0)] = DARK
    pixels[edge] = np.array(THINGS, np.uint8)[ids[edge] % len(THINGS)]
    for obj in {marks.target, acted_on(marks.action)}:
        if obj is None:
            continue
        mask = ids == obj
        for reach, ink in ((3, DARK), (2, thing_colour(obj))):
            outer = ndimage.binary_dilation(mask, iterations=reach)
            pixels[outer & ~ndimage.binary_erosion(mask, iterations=reach)] = ink
    return pixels


def _middle(mask: Bool[np.ndarray, "h w"], scale: float) -> tuple[float, float]:
    """The point of a mask farthest from its border, (x, y) in the picture."""
    crop = MaskCrop.from_mask(mask)
    depth = ndimage.distance_transform_edt(np.pad(crop.pixels, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return (crop.left + float(x) + 0.5) * scale, (crop.top + float(y) + 0.5) * scale


def _write_marks(
    picture: Image.Image, scene: Scene, marks: Marks, places: Mapping[int, tuple[float, float]]
) -> None:
    draw = ImageDraw.Draw(picture, "RGBA")
    taken = Boxes(picture.size)
    shown = _shown_relations(marks)
    for (blocked, blocker), p in sorted(shown.items(), key=lambda item: (item[1] or 0.0, item[0])):
        if blocked in places and blocker in places:
            for box in draw_arrow(draw, places[blocker], places[blocked], p):
                taken.add(box)
    chosen = acted_on(marks.action)
    for obj, (x, y) in places.items():
        taken.add(draw_badge(draw, x, y, str(obj), thing_colour(obj)))
        if obj == marks.target:
            draw_star(draw, x, y - 30, 15.0)
            taken.add((x - 16, y - 46, x + 16, y - 14))
    named = {o.id: name for o in scene.objects if (name := o.title)}
    # Objects without a part in it get small words, where there is room.
    involved = _involved(marks)
    for obj in sorted(places, key=lambda k: (k != chosen, k != marks.target, k not in involved, k)):
        words = named.get(obj, "") if marks.names else ""
        if obj == chosen:
            verb = "GRASP" if isinstance(marks.action, Grasp) else "REMOVE"
            draw_tag(draw, taken, places[obj], f"{verb} {words}".strip(), BLUE, WHITE, 21)
        elif words:
            draw_tag(draw, taken, places[obj], words, None, WHITE, 17 if obj in involved else 13)


def _shown_relations(marks: Marks) -> dict[BlockedBy, float | None]:
    """The relations that are likely enough, and lie on the target's chain where there is a target.

    A missing answer is shown where it is about an object of the chain, but does not lengthen the chain: in a
    dense heap everything might obstruct everything, and the picture would be unreadable.
    """
    shown = {pair: p for pair, p in marks.p_obstructs.items() if p is None or p >= LEAST_P}
    if marks.target is None:
        return shown
    chain = chain_of(marks.target, {pair for pair, p in shown.items() if p is not None})
    return {pair: p for pair, p in shown.items() if pair.blocked in chain}


def _with_legend(picture: Image.Image, scene: Scene, marks: Marks) -> Image.Image:
    """The picture above lines that say what the signs mean, where there are any."""
    rows: list[list[tuple[float, str, float | None, str]]] = []
    x = math.inf
    for sign, p, words in _legend(scene, marks):
        wide = _SIGNS[sign] + font(16).getlength(words) + 24
        if x + wide > picture.width:
            rows.append([])
            x = 20.0
        rows[-1].append((x, sign, p, words))
        x += wide
    height = 30 * len(rows)
    page = Image.new("RGB", (picture.width, picture.height + height), DARK)
    page.paste(picture, (0, 0))
    draw = ImageDraw.Draw(page, "RGBA")
    for k, row in enumerate(rows):
        y = picture.height + 30 * k + 15.0
        for x, sign, p, words in row:
            if sign == "star":
                draw_star(draw, x, y, 10.0)
            elif sign == "hatching":
                draw_hatching_sign(draw, x, y)
            elif sign == "arrow":
                draw_arrow(draw, (x + 4, y), (x + 54, y), p, gap=0.0)
            draw.text((x + _SIGNS[sign], y), words, fill=WHITE, font=font(16), anchor="lm")
    return page


_SIGNS = {"star": 16.0, "arrow": 64.0, "hatching": 38.0, "": 0.0}
"""Room for each sign of the legend. [px]"""


def _legend(scene: Scene, marks: Marks) -> Iterator[tuple[str, float | None, str]]:
    """Signs that are drawn, with the probability of an arrow, and what they mean."""
    if marks.target is not None:
        names = {o.id: o.title for o in scene.objects}
        yield "star", None, f"asked for: {names.get(marks.target) or f'object {marks.target}'}"
    shown = _shown_relations(marks)
    if shown:
        yield "arrow", 0.9, "lies in the way of (thicker: likelier)"
        if None in shown.values():
            yield "arrow", None, "no answer"
    hidden = (
        (whole[scene.visible_ids != obj].sum(), whole.sum()) for obj, whole in _whole_masks(scene, marks)
    )
    if any(part > LEAST_HIDDEN * both for part, both in hidden):
        yield "hatching", None, "hidden part"
    if isinstance(marks.action, Defer):
        yield "", None, "decided: not to act"
