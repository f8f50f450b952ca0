"""Scenes drawn in layers, whose order is known: ground for choosing coefficients and for tests."""

from functools import cache

import numpy as np
from scipy import ndimage

from cpor.scene import BlockedBy, Camera, DetectedObject, MaskCrop, Observation, Scene, TrueRelations

METRES_PER_PIXEL = 0.0017  # a camera of 480 px focal length, 0.8 m above the table
TABLE_DEPTH = 0.8
HIDES = 0.05  # "occludes" means: shows on more than this fraction of the other's amodal mask


def _smooth_noise(rng, shape, scale):
    """Noise of unit variance that varies over about `scale` pixels."""
    small = rng.standard_normal([int(np.ceil(s / scale)) + 2 for s in shape])
    rows, cols = (_blend(n, scale, s) for n, s in zip(small.shape, shape, strict=True))
    noise = rows @ small @ cols.T
    return noise / noise.std()


@cache
def _blend(n, scale, size):
    """Weights that blow `n` values up by `scale`, linearly between neighbours; the first `size` of them."""
    at = np.arange(size) * ((n - 1) / (n * scale - 1))
    low = np.minimum(at.astype(int), n - 2)
    weights = np.zeros((size, n))
    weights[np.arange(size), low] = 1.0 - (at - low)
    weights[np.arange(size), low + 1] = at - low
    return weights


def _footprint(rng, shape):
    """A box or an ellipse, sometimes with a bite taken out; also the distance from its centre, 0 to 1."""
    rows, cols = np.indices(shape, dtype=np.float64)
    r, c = rng.normal(0.5, 0.17, 2) * shape
    angle = rng.uniform(0, np.pi)
    long, short = np.sort(rng.uniform(20, 80, 2))[::-1]
    u = ((rows - r) * np.cos(angle) + (cols - c) * np.sin(angle)) / long
    v = ((cols - c) * np.cos(angle) - (rows - r) * np.sin(angle)) / short
    from_centre = np.maximum(abs(u), abs(v)) if rng.random() < 0.5 else np.hypot(u, v)
    mask = from_centre <= 1.0
    if rng.random() < 0.3:
        mask &= ~((u > 0) & (v > rng.uniform(-0.3, 0.3)))
    return mask, np.minimum(from_centre, 1.0)


def _disturb_masks(rng, amodal, visible, strength):
    """Masks as a segmenter gives them: edges wander, and the hidden part is a guess.

    Of the hidden part it finds all, or only what lies within some distance of the visible part; or it
    guesses on, past the true edge, under the neighbours.
    """
    shape = visible.shape
    shift = strength * np.stack([_smooth_noise(rng, shape, 12) for _ in range(2)])
    at = np.clip(np.rint(np.indices(shape) + shift), 0, np.reshape(shape, (2, 1, 1)) - 1).astype(int)
    seen = visible[at[0], at[1]]
    guessed = np.zeros_like(amodal)
    for k, mask in enumerate(amodal):
        for tight in ndimage.find_objects(mask.view(np.int8)):
            box = tuple(slice(max(0, s.start - 20), s.stop + 20) for s in tight)
            shows = seen[box] == k + 1
            inward = ndimage.distance_transform_edt(mask[box]) - ndimage.distance_transform_edt(~mask[box])
            finds_within, guesses_past = rng.choice(
                [(999, 0), (rng.uniform(0, 30), 0), (999, rng.uniform(0, 20))]
            )
            guess = inward + 2.0 * strength * _smooth_noise(rng, shows.shape, 20) > -guesses_past
            if finds_within < 999:
                guess &= ndimage.distance_transform_edt(~shows) <= finds_within
            guessed[k][box] = shows | (guess & (seen[box] > 0))
    return guessed, seen


def draw_layered_scene(rng, shape=(360, 480), n_objects=None, strength=None):
    """Objects dropped one after the other on a table seen at a slant, with true occlusions.

    Each rests on a high quantile of what is below it (things lean and settle), has a flat or a domed top
    and some tilt; a pixel shows the highest. `strength` is the error of mask edges in pixels, 0 for none.
    """
    n = n_objects or int(rng.integers(4, 16))
    strength = rng.uniform(0.0, 2.5) if strength is None else strength
    height = np.zeros(shape)
    visible = np.zeros(shape, dtype=np.int32)
    amodal = np.zeros((n, *shape), dtype=bool)
    rows, cols = np.indices(shape) * METRES_PER_PIXEL
    for k in range(n):
        mask, from_centre = _footprint(rng, shape)
        thickness = rng.uniform(0.01, 0.10)
        dome = np.sqrt(1.0 - from_centre**2) if rng.random() < 0.5 else 1.0
        tilt = rng.normal(0, 0.15, 2)
        top = thickness * dome + tilt[0] * (rows - rows.mean()) + tilt[1] * (cols - cols.mean())
        if mask.any():
            top += np.quantile(height[mask], rng.uniform(0.6, 1.0)) - 0.5 * top[mask].min()
        wins = mask & (top > height)
        height[wins] = top[wins]
        visible[wins] = k + 1
        amodal[k] = mask
    area = np.maximum(amodal.sum(axis=(1, 2)), 1)
    hides = np.array([np.bincount(visible[m], minlength=n + 1)[1:] for m in amodal]) / area[:, None] > HIDES
    pairs = {BlockedBy(int(i) + 1, int(j) + 1) for i, j in np.argwhere(hides) if i != j}

    slant = rng.uniform(0.0, 0.8)
    depth = TABLE_DEPTH - height - slant * (rows - rows.mean()) + rng.normal(0, 0.002, shape)
    lost = _smooth_noise(rng, shape, 16) > rng.choice([9.0, 1.5, 0.7, 0.2])
    depth[lost] = np.nan
    guessed, seen = _disturb_masks(rng, amodal, visible, strength) if strength else (amodal, visible)
    return Scene(
        Observation(np.zeros((*shape, 3), np.uint8), depth.astype(np.float32), Camera()),
        tuple(DetectedObject(k + 1, MaskCrop.from_mask(m)) for k, m in enumerate(guessed)),
        seen,
        true_occlusion=TrueRelations(frozenset(range(1, n + 1)), frozenset(pairs)),
    )
