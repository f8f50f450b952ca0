"""Which colour words fit an object's pixels, judged in a perceptual space after taking out the light.

The space is Oklab (Ottosson 2020): distances are what people see. The light is taken out in two steps that
both hold back: its tint is estimated from the whole frame and removed by half, and lightness is stretched so
that the brightest surfaces come out light.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt8

COLOURS: Mapping[str, tuple[str, ...]] = {
    "red": ("c01f25", "8f1a1c", "e23b35"),
    "orange": ("f07f1e", "d9661a", "b6581c"),
    "yellow": ("f2cf2c", "d8b525", "fff07a", "c9a548", "a8893e"),
    "green": ("2f8f3e", "1d5a2b", "7cc35a", "7d8a2e"),
    "cyan": ("35b9c2", "1b8a8f", "7fdbe0"),
    "blue": ("2457b5", "173372", "4f93dd"),
    "purple": ("6f3a94", "472064", "a57bc9"),
    "pink": ("e57fa3", "f4b6c8", "d94f92"),
    "brown": ("6d4424", "4a2e1b", "8a5c38", "b98f5e"),
    "beige": ("d9c6a3", "c2a878"),
    "black": ("1c1c1e", "2b2a2a", "3c3c3d"),
    "grey": ("7d7f80", "5a5c5e", "9b9d9e"),
    "white": ("f4f4f2", "dfe0e0", "c6c8ca"),
}
"""Typical pixels of each word, dark to light, as a plain camera sees painted and plastic things."""

_LIGHTNESS_WEIGHT = 0.45
"""Lightness counts less than hue: a shadow darkens a mug and does not repaint it."""

_SOFTNESS = 0.045
"""Distance over which one word passes into the next, in Oklab."""

_MOST_PIXELS = 600
"""Most pixels of an object that are judged."""

_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear_rgb(rgb: UInt8[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3"]:
    """Light from sRGB values, each in [0, 1]."""
    value = np.arange(256) / 255.0
    table = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.asarray(table[rgb])


def oklab(linear: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3"]:
    """Oklab from light: lightness in [0, 1], green to red, blue to yellow."""
    return np.asarray(np.cbrt(linear @ _TO_CONES.T) @ _TO_LAB.T)


def estimate_gains(rgb: UInt8[np.ndarray, "h w 3"]) -> Float[np.ndarray, "3"]:
    """What to multiply each channel of light with to take out half the tint and the exposure. Shape (3,).

    Tint by shades of grey (Finlayson and Trezzi 2004, norm 6): bright surfaces weigh most. Only half of it
    is removed, since a scene full of red things is not lit red.
    """
    step = max(1, int(np.sqrt(rgb.shape[0] * rgb.shape[1] / 40_000)))
    light = linear_rgb(rgb[::step, ::step].reshape(-1, 3))
    brightest = np.maximum.reduce(light.T)
    used = light[(brightest < 0.98) & (brightest > 0.002)]  # clipped pixels have lost their tint
    if len(used) < 50:
        return np.ones(3)
    norm = np.maximum(np.mean((used * used * used) ** 2, axis=0) ** (1.0 / 6.0), 1e-6)
    tint = np.clip(norm / np.exp(np.log(norm).mean()), 0.6, 1.6)
    bright = max(float(np.quantile(brightest, 0.97)), 1e-4)
    exposure = float(np.clip(0.8 / bright, 0.8, 12.0))
    return np.asarray(exposure / np.sqrt(tint))


def colour_shares(
    rgb: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"], gains: Float[np.ndarray, "3"]
) -> dict[str, float]:
    """Share of an object's pixels that each colour word fits; the shares add up to 1.

    Args:
        rgb: The photograph, or the part of it around the object.
        mask: Where the object shows.
        gains: As `estimate_gains` found them for the whole photograph.
    """
    pixels = rgb[mask]
    if len(pixels) == 0:
        return dict.fromkeys(COLOURS, 0.0)
    pixels = pixels[:: max(1, len(pixels) // _MOST_PIXELS)]
    lab = _weighted(pixels, gains)
    names, prototypes = _prototypes()
    starts = np.searchsorted(names, np.arange(len(COLOURS)))
    nearest = np.minimum.reduceat(np.linalg.norm(lab[:, None] - prototypes, axis=-1), starts, axis=1)
    best = np.exp(-((nearest / _SOFTNESS) ** 1.5)) + 1e-9
    # A pixel far from every word still goes to the nearest ones: each pixel has some colour.
    far = best.max(axis=1) < 1e-3
    best[far] = np.exp(-(nearest[far] - nearest[far].min(axis=1, keepdims=True)) / (0.3 * _SOFTNESS))
    shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(COLOURS, shares.tolist(), strict=True))


def said_chances(shares: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Probability that a person says each colour word of an object, and how often it is said of any object.

    Args:
        shares: As `colour_shares` gives them.
    """
    weights, usual = _said_of()
    x = np.sqrt([shares[key] for key in COLOURS])
    p = 1.0 / (1.0 + np.exp(-(x @ weights[:-1] + weights[-1])))
    return {key: (float(each), float(often)) for key, each, often in zip(COLOURS, p, usual, strict=True)}


@cache
def _said_of() -> tuple[np.ndarray, np.ndarray]:
    """Weights of roots of shares and intercepts, shape (14, 13), and how often each is said, shape (13,)."""
    data = json.loads(Path(__file__).with_name("colour_words.json").read_text())
    return np.array(data["weights"]), np.array(data["usual"])


def nearest_colours(
    pixels: UInt8[np.ndarray, "n 3"], gains: Float[np.ndarray, "3"]
) -> Int64[np.ndarray, " n"]:
    """Index in `COLOURS` of the word that fits each pixel best. Shape (n,)."""
    names, prototypes = _prototypes()
    lab = _weighted(pixels, gains)
    return np.asarray(names[np.linalg.norm(lab[:, None] - prototypes[None], axis=-1).argmin(axis=1)])


def _weighted(pixels: UInt8[np.ndarray, "n 3"], gains: Float[np.ndarray, "3"]) -> Float[np.ndarray, "n 3"]:
    """Pixels in weighted Oklab, the light taken out. Shape (n, 3)."""
    return oklab(np.clip(linear_rgb(pixels) * gains, 0.0, 1.0)) * (_LIGHTNESS_WEIGHT, 1.0, 1.0)


@cache
def _prototypes() -> tuple[np.ndarray, np.ndarray]:
    """Word number of each prototype, shape (n,), and its place in weighted Oklab, shape (n, 3)."""
    names = [k for k, each in enumerate(COLOURS.values()) for _ in each]
    values = [bytes.fromhex(code) for each in COLOURS.values() for code in each]
    rgb = np.frombuffer(b"".join(values), np.uint8).reshape(-1, 3)
    return np.array(names), oklab(linear_rgb(rgb)) * (_LIGHTNESS_WEIGHT, 1.0, 1.0)
