"""Thin and clear covers drawn onto frames: what the depth camera misses and no mask shows."""

import numpy as np
from jaxtyping import Float, Int32, UInt8
from PIL import Image, ImageDraw
from scipy import ndimage

KINDS = ("rod", "film", "sheet")

_RODS = ((25, 25, 30), (235, 235, 225), (150, 150, 155), (170, 40, 40), (40, 70, 150))
_FINE = 4
"""Drawn this many times larger, then made smaller: edges are smooth."""


def draw_cover(
    rgb: UInt8[np.ndarray, "h w 3"],
    ids: Int32[np.ndarray, "h w"],
    label: int,
    kind: str,
    rng: np.random.Generator,
) -> UInt8[np.ndarray, "h w 3"]:
    """The picture with a rod of 4 to 8 px across an object, or a film or a sheet over about half of it.

    A film is haze of 6 to 20 %, narrow glare and a thin bright or dark rim; a sheet haze of 3 to 10 %, wide
    glare and a wider rim. Depth stays as it is.

    Args:
        rgb: The picture.
        ids: Which object each pixel shows.
        label: The object that is covered.
        kind: One of KINDS.
        rng: Draws place, size and look.
    """
    rows, cols = np.nonzero(ids == label)
    pixel, turn = rng.integers(rows.size), rng.uniform(0.0, np.pi)
    middle = np.array([cols.mean(), rows.mean()])
    along = np.array([np.cos(turn), np.sin(turn)])
    aside = np.array([-along[1], along[0]])
    across = float(max(np.ptp(cols), np.ptp(rows), np.sqrt(rows.size)))
    picture = rgb.astype(np.float32)
    if kind == "rod":
        centre = 0.5 * (middle + np.array([cols[pixel], rows[pixel]]))
        reach, half = rng.uniform(0.8, 1.3) * across, rng.uniform(2.0, 4.0)
        cover = _band(ids.shape, centre, along, reach, half, 0.7)
        y, x = np.indices(ids.shape)
        offset = ((x - centre[0]) * aside[0] + (y - centre[1]) * aside[1]) / half
        shade = 1.0 - 0.3 * np.clip(offset, -1.0, 1.0) ** 2
        picture = _blend(picture, cover, np.array(_RODS[rng.integers(len(_RODS))]) * shade[..., None])
    else:
        picture = _under_clear(picture, middle, along, aside, across, kind == "film", rng)
    changed = np.abs(picture - rgb).max(axis=2) > 0.5
    noisy = np.clip(picture + rng.normal(0.0, 1.0, picture.shape), 0, 255).astype(np.uint8)
    return np.where(changed[..., None], noisy, rgb)


def _under_clear(
    picture: Float[np.ndarray, "h w 3"],
    middle: Float[np.ndarray, "2"],
    along: Float[np.ndarray, "2"],
    aside: Float[np.ndarray, "2"],
    across: float,
    is_film: bool,
    rng: np.random.Generator,
) -> Float[np.ndarray, "h w 3"]:
    shape = picture.shape[:2]
    size, skew = rng.uniform(1.2, 2.0) * across, rng.uniform(-0.15, 0.15)
    edge = middle + rng.uniform(-0.1, 0.1) * across * aside
    far = edge + 1.1 * size * aside + skew * size * along
    corners = [edge - size * along, edge + size * along, far + size * along, far - size * along]
    cover = _polygon(shape, corners, 0.7)
    haze = rng.uniform(0.06, 0.2) if is_film else rng.uniform(0.03, 0.1)
    picture = _blend(picture, haze * cover, np.array([235, 238, 240] if is_film else [205, 232, 220]))
    for _ in range(rng.integers(2, 6)):
        place = edge + aside * rng.uniform(0.1, 1.0) * size + along * rng.uniform(-0.8, 0.8) * size
        turn = rng.uniform(0.0, np.pi)
        half, reach = (
            (rng.uniform(1, 4), rng.uniform(8, 40)) if is_film else (rng.uniform(4, 14), rng.uniform(20, 60))
        )
        direction = np.array([np.cos(turn), np.sin(turn)])
        glare = _band(shape, place, direction, reach, half, 1.5 if is_film else 3.0)
        picture = _blend(picture, cover * glare * rng.uniform(0.1, 0.6), np.full(3, 255.0))
    width, strength = (
        (rng.uniform(0.6, 1.5), rng.uniform(0.1, 0.4))
        if is_film
        else (rng.uniform(1, 2.5), rng.uniform(0.15, 0.5))
    )
    rim = ndimage.gaussian_filter((np.abs(cover - 0.5) < 0.35).astype(np.float32), 0.6 * width)
    dark = [90, 90, 90] if is_film else [60, 110, 90]
    colour = np.array([250, 250, 250] if rng.random() < 0.7 else dark)
    return _blend(picture, strength * rim / max(float(rim.max()), 1e-6), colour)


def _blend(
    picture: Float[np.ndarray, "h w 3"], share: Float[np.ndarray, "h w"], colour: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "h w 3"]:
    return np.asarray(picture + share[..., None] * (colour - picture))


def _band(
    shape: tuple[int, int],
    centre: Float[np.ndarray, "2"],
    along: Float[np.ndarray, "2"],
    reach: float,
    half: float,
    soft: float,
) -> Float[np.ndarray, "h w"]:
    """A rectangle around a line."""
    aside = half * np.array([-along[1], along[0]])
    a, b = centre - reach * along, centre + reach * along
    return _polygon(shape, [a - aside, b - aside, b + aside, a + aside], soft)


def _polygon(
    shape: tuple[int, int], corners: list[Float[np.ndarray, "2"]], soft: float
) -> Float[np.ndarray, "h w"]:
    """Share of each pixel inside, blurred."""
    large = Image.new("L", (shape[1] * _FINE, shape[0] * _FINE))
    ImageDraw.Draw(large).polygon([(float(x) * _FINE, float(y) * _FINE) for x, y in corners], fill=255)
    small = np.asarray(large.resize(shape[::-1], Image.Resampling.BOX), np.float32) / 255.0
    return np.asarray(ndimage.gaussian_filter(small, soft))
