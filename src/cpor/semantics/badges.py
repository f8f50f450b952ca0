"""Numbered badges on the photograph, so that a model can say which object it means (set-of-mark).

A badge sits on its object where that hides little of it, else beside it with a line to it. No two badges
overlap, and badges keep off small objects: hiding a share s of any object's visible pixels costs as much.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int32, UInt8
from scipy import ndimage

from cpor.scene import Scene
from cpor.semantics.matching import NumberedMarks, number_objects
from cpor.semantics.provider import EncodedPicture

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

SHORTEST_SIDE_PX = 360
"""Smaller pictures are enlarged, or badges would hide them. [px]"""

LONGEST_SIDE_PX = 1568
"""Larger pictures are reduced: providers do so anyway. [px]"""

_GRID = 160  # places along the shorter side among which a badge may sit
_HIDING = 6.0  # cost of hiding the whole of an object, in badge radii of distance
_GAP = 1.15  # badges keep this many diameters apart


@dataclass(frozen=True)
class Badge:
    """Where a badge is, in pixels of the picture it is drawn on.

    Attributes:
        number: What it says.
        x, y: Its centre. [px]
        anchor_x, anchor_y: A pixel of the object, to which a line leads. [px]
        radius: Radius of the disc. [px]
        beside: Whether it lies beside its object.
    """

    number: int
    x: float
    y: float
    anchor_x: float
    anchor_y: float
    radius: float
    beside: bool


def draw_marks(scene: Scene, points: str = "pixels") -> tuple[EncodedPicture, NumberedMarks]:
    """The photograph with badges, at a size models can read, and what the badges mean."""
    from PIL import Image

    height, width = scene.observation.shape
    short, long = min(height, width), max(height, width)
    scale = min(max(1.0, SHORTEST_SIDE_PX / short), max(LONGEST_SIDE_PX / long, 1e-3))
    size = (max(round(width * scale), 1), max(round(height * scale), 1))
    photograph = Image.fromarray(scene.observation.rgb)
    if scale != 1.0:
        photograph = photograph.resize(size, Image.Resampling.LANCZOS)
    number = number_objects(scene)
    badges = place_badges(scene, number, scale)
    return EncodedPicture(_draw(np.asarray(photograph), badges)), NumberedMarks(scene, number, scale, points)


def place_badges(scene: Scene, number: Mapping[int, int], scale: float = 1.0) -> dict[int, Badge]:
    """Where badges of these numbers go, by object id; objects that show nowhere have none."""
    height, width = scene.observation.shape
    # In pixels of the picture: a number of two digits stays readable after a model's own resizing.
    radius = max(10.0, 0.022 * min(height, width) * scale) / scale
    visible_ids = _points_as_masks(scene) if scene.visible_ids is None else scene.visible_ids
    step = max(1, min(height, width) // _GRID)
    ids = visible_ids[::step, ::step]
    area = np.bincount(visible_ids.ravel(), minlength=max(scene.ids, default=0) + 1)
    share = np.zeros(len(area))
    np.divide(1.0, area, out=share, where=area > 0)
    share[0] = 0.0
    disc = _disc(radius / step)
    hides = _HIDING * ndimage.convolve(share[ids] * step * step, disc, mode="constant")
    rows, cols = np.indices(ids.shape) * float(step)
    edge = radius + 1.0
    outside = (rows < edge) | (rows > height - 1 - edge) | (cols < edge) | (cols > width - 1 - edge)
    taken: Bool[np.ndarray, "rows cols"] = np.zeros(ids.shape, np.bool_)
    badges: dict[int, Badge] = {}
    # Small objects choose first: large ones have room elsewhere.
    for label in sorted((k for k in scene.ids if area[k]), key=lambda k: (int(area[k]), k)):
        mask = ids == label
        anchor_y, anchor_x = _anchor(visible_ids, label, mask, step)
        cost = hides + _distance_cost(mask, anchor_y, anchor_x, rows, cols, radius, step)
        cost[outside] = np.inf
        cost[taken] += 1e6  # only where there is no room at all
        at = np.unravel_index(int(np.argmin(cost)), cost.shape)
        y, x = float(rows[at]), float(cols[at])
        taken |= np.hypot(rows - y, cols - x) < 2.0 * radius * _GAP
        badges[label] = Badge(
            number[label],
            x * scale,
            y * scale,
            anchor_x * scale,
            anchor_y * scale,
            radius * scale,
            not bool(mask[at]),
        )
    return dict(sorted(badges.items()))


def _points_as_masks(scene: Scene) -> Int32[np.ndarray, "h w"]:
    """A pixel for each object of which only a point is known; its badge goes beside it."""
    height, width = scene.observation.shape
    visible_ids = np.zeros((height, width), np.int32)
    for label, (x, y) in scene.points.items():
        visible_ids[min(max(round(y), 0), height - 1), min(max(round(x), 0), width - 1)] = label
    return visible_ids


def _disc(radius: float) -> Float[np.ndarray, "k k"]:
    reach = max(int(np.ceil(radius)), 1)
    r, c = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return np.asarray(np.hypot(r, c) <= max(radius, 0.5), np.float64)


def _anchor(
    visible_ids: np.ndarray, label: int, mask: Bool[np.ndarray, "rows cols"], step: int
) -> tuple[float, float]:
    """The pixel deepest inside an object, (row, column)."""
    if mask.any():
        depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
        return float(row * step), float(column * step)
    rows, cols = np.nonzero(visible_ids == label)  # too thin for the grid
    return float(rows[len(rows) // 2]), float(cols[len(cols) // 2])


def _distance_cost(
    mask: Bool[np.ndarray, "rows cols"],
    anchor_y: float,
    anchor_x: float,
    rows: Float[np.ndarray, "rows cols"],
    cols: Float[np.ndarray, "rows cols"],
    radius: float,
    step: int,
) -> Float[np.ndarray, "rows cols"]:
    """Deep inside the object is best, outside costs its distance, in radii."""
    if not mask.any():
        return np.asarray(np.hypot(rows - anchor_y, cols - anchor_x) / radius + 1.0)
    inward = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1] * step
    outward = ndimage.distance_transform_edt(~mask) * step
    centred = 0.02 * np.hypot(rows - anchor_y, cols - anchor_x) / radius
    return np.asarray(np.where(mask, -np.minimum(inward / radius, 1.0), 0.6 + outward / radius) + centred)


def _draw(rgb: UInt8[np.ndarray, "h w 3"], badges: Mapping[int, Badge]) -> UInt8[np.ndarray, "h w 3"]:
    from PIL import Image, ImageDraw, ImageFont

    # Drawn at twice the size and reduced: smooth discs and lines.
    image = Image.fromarray(rgb)
    layer = Image.new("RGBA", (2 * image.width, 2 * image.height), (0, 0, 0, 0))
    pen = ImageDraw.Draw(layer)
    for badge in badges.values():
        if badge.beside:
            line = [(2 * badge.x, 2 * badge.y), (2 * badge.anchor_x, 2 * badge.anchor_y)]
            pen.line(line, fill=(0, 0, 0, 255), width=7)
            pen.line(line, fill=(255, 255, 255, 255), width=3)
            _disc_at(pen, 2 * badge.anchor_x, 2 * badge.anchor_y, 5.0)
    for badge in badges.values():
        radius = 2 * badge.radius
        _disc_at(pen, 2 * badge.x, 2 * badge.y, radius)
        text = str(badge.number)
        font = ImageFont.load_default(size=radius * {1: 1.35, 2: 1.15}.get(len(text), 0.85))
        pen.text((2 * badge.x, 2 * badge.y), text, fill=(255, 255, 255, 255), font=font, anchor="mm")
    layer = layer.resize(image.size, Image.Resampling.BOX)
    return np.asarray(Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB"))


def _disc_at(pen: "ImageDraw", x: float, y: float, radius: float) -> None:
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(255, 255, 255, 255))
    inner = radius - max(2.0, 0.12 * radius)
    pen.ellipse((x - inner, y - inner, x + inner, y + inner), fill=(0, 0, 0, 255))
