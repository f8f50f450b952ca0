"""A frame as its checks see it: depth edges on the photograph, holes, distances, brightness."""

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image, ImageDraw
from scipy import ndimage

from cpor.gate.edges import depth_edges
from cpor.gate.frame import BRIGHT_LEVEL, DARK_LEVEL
from cpor.io.depth import USUAL_M
from cpor.scene import Scene
from cpor.viz.overlay_marks import DARK, ORANGE, SKY, WHITE, YELLOW, Rgb, font

_PANEL = (640, 480)
"""Width and height of one of the four. [px]"""

_HEAD = 34
_HOLE: Rgb = (204, 0, 153)
_PAPER: Rgb = (250, 250, 250)


def draw_frame(scene: Scene) -> Image.Image:
    """Four panels, each with a title."""
    seen = scene.observation
    panels = [("Photograph. Yellow: edges of depth. White: masks.", _edges(scene))]
    if seen.depth is not None:
        panels.append(("Depth: near is bright. Magenta: no reading.", _holes(seen.depth)))
        panels.append(("Distances in metres. Pale: usual for a table.", _distances(seen.depth)))
    panels.append(("Brightness. Left of the pale part: black. Right: clipped.", _brightness(seen.rgb)))
    wide, high = _PANEL[0], _PANEL[1] + _HEAD
    page = Image.new("RGB", (2 * wide, -(-len(panels) // 2) * high), DARK)
    draw = ImageDraw.Draw(page)
    for k, (title, panel) in enumerate(panels):
        x, y = k % 2 * wide, k // 2 * high
        draw.text((x + 10, y + _HEAD / 2), title, fill=WHITE, font=font(18), anchor="lm")
        page.paste(panel, (x + (wide - panel.width) // 2, y + _HEAD))
    return page


def _edges(scene: Scene) -> Image.Image:
    seen = scene.observation
    picture = _fit(Image.fromarray(np.asarray(seen.rgb)))
    pixels = np.array(picture)
    if scene.visible_ids is not None:
        ids = _nearest(scene.visible_ids, pixels.shape[:2])
        pixels[_outline(ids)] = WHITE
    if seen.depth is not None:
        found = depth_edges(seen.depth)
        edges = _nearest(found.across | found.down, pixels.shape[:2])
        # The rim of each small square: what lies below stays to be seen.
        pixels[edges & ~ndimage.binary_erosion(edges)] = YELLOW
    return Image.fromarray(pixels)


def _holes(depth: np.ndarray) -> Image.Image:
    known = depth[np.isfinite(depth)]
    low, high = np.percentile(known, (2.0, 98.0)) if known.size else (0.0, 1.0)
    shade = 230.0 - 200.0 * np.clip((depth - low) / max(high - low, 1e-6), 0.0, 1.0)
    grey = np.nan_to_num(shade).astype(np.uint8)
    pixels = np.repeat(grey[..., None], 3, axis=2)
    pixels[~np.isfinite(depth)] = _HOLE
    return _fit(Image.fromarray(pixels), Image.Resampling.NEAREST)


def _distances(depth: np.ndarray) -> Image.Image:
    """On a scale of powers: a unit ten times too large lies as far right as one too small lies left."""
    known = depth[np.isfinite(depth)]
    ticks = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
    edges = np.geomspace(ticks[0], ticks[-1], 121)
    counts = np.histogram(known, edges)[0]
    middle = float(np.median(known)) if known.size else None
    marks = [(tick, f"{tick:g}") for tick in ticks]
    words = "no reading" if middle is None else f"median {middle:.2f} m"
    return _histogram(
        np.log(edges),
        counts,
        [(np.log(t), w) for t, w in marks],
        np.log(USUAL_M),
        middle and np.log(middle),
        words,
    )


def _brightness(rgb: UInt8[np.ndarray, "h w 3"]) -> Image.Image:
    counts = np.bincount(rgb.max(axis=2).reshape(-1), minlength=256)
    black = counts[:DARK_LEVEL].sum() / counts.sum()
    clipped = counts[BRIGHT_LEVEL:].sum() / counts.sum()
    marks = [(float(level), str(level)) for level in (0, 64, 128, 192, 255)]
    words = f"{black:.0%} black, {clipped:.0%} clipped"
    return _histogram(np.arange(257.0), counts, marks, (float(DARK_LEVEL), float(BRIGHT_LEVEL)), None, words)


def _histogram(
    edges: np.ndarray,
    counts: np.ndarray,
    marks: list[tuple[float, str]],
    band: "tuple[float, float] | np.ndarray",
    line: float | None,
    words: str,
) -> Image.Image:
    """Bars; a pale band behind them, a line at one value."""
    picture = Image.new("RGB", _PANEL, _PAPER)
    draw = ImageDraw.Draw(picture)
    left, right, top, bottom = 24, _PANEL[0] - 24, 40, _PANEL[1] - 40
    span = edges[-1] - edges[0]

    def place(value: float) -> float:
        return left + (right - left) * float(np.clip((value - edges[0]) / span, 0.0, 1.0))

    draw.rectangle((place(band[0]), top, place(band[1]), bottom), fill=(218, 236, 248))
    most = max(int(counts.max(initial=0)), 1)
    for k, count in enumerate(counts.tolist()):
        if count:
            height = max(2.0, (bottom - top) * count / most)
            x0, x1 = place(edges[k]), max(place(edges[k + 1]) - 1, place(edges[k]) + 1)
            draw.rectangle((x0, bottom - height, x1, bottom), fill=SKY)
    if line is not None:
        draw.line((place(line), top, place(line), bottom), fill=ORANGE, width=3)
    for value, word in marks:
        draw.text((place(value), bottom + 14), word, fill=DARK, font=font(15), anchor="mm")
    draw.text((_PANEL[0] / 2, top / 2), words, fill=DARK, font=font(18), anchor="mm")
    return picture


def _fit(picture: Image.Image, how: Image.Resampling = Image.Resampling.BILINEAR) -> Image.Image:
    scale = min(_PANEL[0] / picture.width, _PANEL[1] / picture.height)
    return picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))), how)


def _nearest(values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    rows = np.arange(shape[0]) * values.shape[0] // shape[0]
    cols = np.arange(shape[1]) * values.shape[1] // shape[1]
    found: np.ndarray = values[rows][:, cols]
    return found


def _outline(ids: np.ndarray) -> Bool[np.ndarray, "h w"]:
    edge = np.zeros(ids.shape, np.bool_)
    edge[1:] |= ids[1:] != ids[:-1]
    edge[:, 1:] |= ids[:, 1:] != ids[:, :-1]
    return edge
