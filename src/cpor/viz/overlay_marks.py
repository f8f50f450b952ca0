"""The signs drawn on a picture: badge, star, arrow, words that do not cover each other."""

import math
from functools import cache
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import ImageDraw, ImageFont
from scipy import ndimage

Rgb: TypeAlias = tuple[int, int, int]
PixelBox: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom. [px]"""

# Of the colour set of Okabe and Ito (2008).
ORANGE: Rgb = (230, 159, 0)
SKY: Rgb = (86, 180, 233)
BLUE: Rgb = (0, 90, 150)
YELLOW: Rgb = (240, 228, 66)
WHITE: Rgb = (255, 255, 255)
DARK: Rgb = (24, 28, 36)

THINGS: tuple[Rgb, ...] = (
    (255, 255, 255), (235, 225, 120), (125, 195, 240), (244, 166, 192), (120, 214, 160), (245, 180, 70),
    (190, 174, 255), (200, 200, 190), (255, 140, 105), (150, 230, 235), (205, 235, 110), (213, 160, 110),
)  # fmt: skip
"""Colours of things, light enough for dark figures; an id has the same one in every picture and list."""

BADGE = 16.0
"""Radius of a badge. [px]"""


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with Pillow, so that no machine lacks it."""
    found = ImageFont.load_default(size)
    assert isinstance(found, ImageFont.FreeTypeFont)
    return found


class Boxes:
    """Where something stands already."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._taken: list[PixelBox] = []

    def add(self, box: PixelBox) -> None:
        """Something stands here now."""
        self._taken.append(box)

    def cost(self, box: PixelBox) -> float:
        """Area that a box would cover or lose outside of the picture, in square pixels."""
        whole = (box[2] - box[0]) * (box[3] - box[1])
        outside = whole - _shared(box, (0.0, 0.0, float(self._size[0]), float(self._size[1])))
        return 3.0 * outside + sum(_shared(box, other) for other in self._taken)


def thing_colour(obj: int) -> Rgb:
    """The colour of a thing, by its id."""
    return THINGS[obj % len(THINGS)]


def draw_badge(draw: ImageDraw.ImageDraw, x: float, y: float, words: str, fill: Rgb) -> PixelBox:
    """A round badge with a number."""
    box = (x - BADGE, y - BADGE, x + BADGE, y + BADGE)
    draw.ellipse(box, fill=fill, outline=DARK, width=2)
    draw.text((x, y), words, fill=DARK, font=font(20 if len(words) < 3 else 14), anchor="mm")
    return box


def draw_star(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float) -> None:
    """A star with five points."""
    points = []
    for k in range(10):
        r = radius if k % 2 == 0 else 0.42 * radius
        angle = math.pi * (k / 5 - 0.5)
        points.append((x + r * math.cos(angle), y + r * math.sin(angle)))
    draw.polygon(points, fill=YELLOW, outline=DARK, width=2)


def draw_arrow(
    draw: ImageDraw.ImageDraw,
    start: tuple[float, float],
    end: tuple[float, float],
    p: float | None,
    gap: float = BADGE + 3,
) -> list[PixelBox]:
    """An arrow as thick as its probability; dashed, with a question mark, where there is no answer.

    Args:
        draw: Where to draw.
        start: Middle of the blocker. [px]
        end: Middle of the blocked object. [px]
        p: Probability of the obstruction; None is no answer.
        gap: Room left at both ends, for the badges. [px]

    Returns:
        What should not be covered: its head, and small boxes along its shaft.
    """
    length = math.dist(start, end)
    if length <= 2 * gap + 4:
        return []
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    # A little to the side, so that two arrows of a pair that blocks each other both show.
    ox, oy = (-uy * 5, ux * 5) if gap else (0.0, 0.0)
    x0, y0 = start[0] + ux * gap + ox, start[1] + uy * gap + oy
    x1, y1 = end[0] - ux * gap + ox, end[1] - uy * gap + oy
    width = 3.0 if p is None else 1.5 + 6.5 * p
    head = 8.0 + 1.2 * width
    xb, yb = x1 - ux * head * 0.8, y1 - uy * head * 0.8
    if p is None:
        _dashes(draw, (x0, y0), (xb, yb))
    for colour, extra in ((DARK, 3.0), (YELLOW, 0.0)):
        if p is not None:
            draw.line((x0, y0, xb, yb), fill=colour, width=round(width + extra))
        half = head * 0.55 + extra / 2
        tip = (x1 + ux * extra / 2, y1 + uy * extra / 2)
        back = (x1 - ux * (head + extra / 2), y1 - uy * (head + extra / 2))
        wings = [(back[0] - uy * half, back[1] + ux * half), (back[0] + uy * half, back[1] - ux * half)]
        draw.polygon([tip, *wings], fill=colour)
    if p is None:
        middle = ((x0 + xb) / 2, (y0 + yb) / 2)
        draw.text(middle, "?", fill=YELLOW, font=font(20), anchor="mm", stroke_width=3, stroke_fill=DARK)
    shaft = [(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t, 4.0) for t in (0.3, 0.5, 0.7)]
    return [(x - r, y - r, x + r, y + r) for x, y, r in [*shaft, (xb, yb, head)]]


HATCH = 9
"""Distance of the lines of a hatching, across and down. [px]"""


def draw_hatching(
    pixels: UInt8[np.ndarray, "h w 3"], hidden: Bool[np.ndarray, "h w"], colour: Rgb, obj: int
) -> None:
    """Slanted lines over a hidden part, and a dashed line around it; neighbouring ids slant differently."""
    box = ndimage.find_objects(hidden.astype(np.uint8))
    if not box:
        return
    inside, part = hidden[box[0]], pixels[box[0]]
    rows, columns = np.indices(inside.shape)
    slant = columns + (rows if obj % 2 else -rows)
    lines = inside & (slant % HATCH < 2)
    border = inside & ~ndimage.binary_erosion(inside, iterations=2) & (slant % 12 < 8)
    part[lines | border] = colour


def draw_hatching_sign(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    """The hatching of the legend, 30 px wide."""
    draw.rectangle((x, y - 8, x + 30, y + 8), outline=WHITE)
    for k in range(0, 30, HATCH):
        draw.line((x + k, y + 8, min(x + k + 16, x + 30), max(y - 8, y + 8 - (30 - k))), fill=WHITE, width=2)


def draw_tag(
    draw: ImageDraw.ImageDraw,
    taken: Boxes,
    place: tuple[float, float],
    words: str,
    fill: Rgb | None,
    ink: Rgb,
    size: int,
) -> None:
    """Words beside a badge, on the side where they cover least."""
    x, y = place
    width, height = draw.textlength(words, font=font(size)) + 10, size + 9.0
    near, side = BADGE + 3, BADGE + height / 2 + 1
    options = [(x + near, y - height / 2), (x - near - width, y - height / 2)]
    for dx in (-width / 2, -width * 0.15, -width * 0.85):
        options += [(x + dx, y + side - height / 2 + 1), (x + dx, y - side - height / 2 - 1)]
    boxes = [(left, top, left + width, top + height) for left, top in options]
    box = min(boxes, key=taken.cost)
    taken.add(box)
    draw.rounded_rectangle(box, radius=5, fill=fill or (*DARK, 170))
    draw.text(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), words, fill=ink, font=font(size), anchor="mm")


def _dashes(draw: ImageDraw.ImageDraw, start: tuple[float, float], end: tuple[float, float]) -> None:
    length = math.dist(start, end)
    for k in range(max(1, int(length / 14))):
        a, b = k * 14 / length, min(1.0, (k * 14 + 8) / length)
        ends = tuple(s + (e - s) * t for t in (a, b) for s, e in zip(start, end, strict=True))
        draw.line(ends, fill=DARK, width=6)
        draw.line(ends, fill=YELLOW, width=3)


def _shared(a: PixelBox, b: PixelBox) -> float:
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, wide) * max(0.0, high)
