"""Faults put into scenes, to see whether the gate finds them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage

from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

SHIFT_DEPTH, SHIFT_MASKS = 20 / 640, 30 / 640
"""Shares of the width: 20 and 30 px of a picture 640 px wide."""


@dataclass(frozen=True)
class Faulty:
    """A scene with a fault in it.

    Attributes:
        scene: Its masks are those of the scene before the fault, unless the fault is in them.
        previous: The frame before it.
        masks_given: Whether the fault is in the masks, so that they are looked at as they are.
    """

    scene: Scene
    previous: Observation | None = None
    masks_given: bool = False


Fault = Callable[[Scene, Scene | None, np.random.Generator], Faulty | None]
"""From a scene, another of the same size, if any, and random numbers; None where it cannot be made."""


def _with_depth(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Fault:
    def fault(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
        seen = scene.observation
        if seen.depth is None:
            return None
        return Faulty(replace(scene, observation=replace(seen, depth=change(seen.depth, rng))))

    return fault


def _with_colour(change: Callable[[np.ndarray], np.ndarray]) -> Fault:
    def fault(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
        seen = scene.observation
        return Faulty(replace(scene, observation=replace(seen, rgb=change(seen.rgb))))

    return fault


def _holes(depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the readings gone, in blobs of some 12 px."""
    noise = ndimage.gaussian_filter(rng.standard_normal(depth.shape).astype(np.float32), 6.0)
    return np.where(noise > np.median(noise[np.isfinite(depth)]), depth, np.float32(np.nan))


def _moved(image: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.roll(image, _offset(image.shape, share, rng), (0, 1))


def _offset(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> tuple[int, int]:
    angle = rng.uniform(0.0, 2.0 * np.pi)
    return round(share * shape[1] * np.sin(angle)), round(share * shape[1] * np.cos(angle))


def _other_depth(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
    seen = scene.observation
    if seen.depth is None or other is None or other.observation.depth is None:
        return None
    return Faulty(replace(scene, observation=replace(seen, depth=other.observation.depth)))


def _same_again(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty:
    seen = scene.observation
    depth = None if seen.depth is None else seen.depth.copy()
    return Faulty(scene, Observation(seen.rgb.copy(), depth, seen.camera))


def _shifted_masks(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
    """Visible and whole masks together."""
    if scene.visible_ids is None:
        return None
    move = _offset(scene.visible_ids.shape, SHIFT_MASKS, rng)
    objects = []
    for o in scene.objects:
        amodal = o.amodal
        if amodal is not None:
            whole = np.roll(amodal.to_mask(scene.observation.shape), move, (0, 1))
            amodal = MaskCrop.from_mask(whole)
        objects.append(replace(o, amodal=amodal))
    ids = np.roll(scene.visible_ids, move, (0, 1))
    return Faulty(replace(scene, visible_ids=ids, objects=tuple(objects)), masks_given=True)


def _shifted_visible(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
    """Visible masks against whole ones."""
    if scene.visible_ids is None or all(o.amodal is None for o in scene.objects):
        return None
    ids = _moved(scene.visible_ids, SHIFT_MASKS, rng)
    return Faulty(replace(scene, visible_ids=ids), masks_given=True)


def _other_masks(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
    if other is None or other.visible_ids is None:
        return None
    return Faulty(Scene(scene.observation, other.objects, other.visible_ids), masks_given=True)


def _merged(scene: Scene, other: Scene | None, rng: np.random.Generator) -> Faulty | None:
    """The two objects with the longest common edge become one."""
    ids = scene.visible_ids
    if ids is None:
        return None
    sides = [(ids[:, 1:], ids[:, :-1]), (ids[1:], ids[:-1])]
    pairs = [
        np.stack([np.minimum(a, b), np.maximum(a, b)])[:, (a != b) & (a > 0) & (b > 0)] for a, b in sides
    ]
    found, counts = np.unique(np.concatenate(pairs, axis=1), axis=1, return_counts=True)
    if not counts.size:
        return None
    keep, gone = (int(k) for k in found[:, counts.argmax()])
    by_id = {o.id: o for o in scene.objects}
    whole = [o.amodal.to_mask(ids.shape) for o in (by_id[keep], by_id[gone]) if o.amodal is not None]
    amodal = MaskCrop.from_mask(np.logical_or.reduce(whole)) if whole else None
    objects = [o for o in scene.objects if o.id not in (keep, gone)]
    visible = np.where(ids == gone, np.int32(keep), ids)
    points = {k: point for k, point in scene.points.items() if k != gone}
    one = DetectedObject(keep, amodal)
    return Faulty(
        Scene(
            scene.observation, (*objects, one), visible, points=points, true_occlusion=scene.true_occlusion
        ),
        masks_given=True,
    )


FAULTS: Mapping[str, Fault] = {
    "zero depth": _with_depth(lambda depth, rng: np.zeros_like(depth)),
    "constant depth": _with_depth(lambda depth, rng: np.full_like(depth, np.nanmedian(depth))),
    "unit x10": _with_depth(lambda depth, rng: depth * np.float32(10.0)),
    "unit x0.1": _with_depth(lambda depth, rng: depth * np.float32(0.1)),
    "unit x1000": _with_depth(lambda depth, rng: depth * np.float32(1000.0)),
    "depth shifted 20 px": _with_depth(lambda depth, rng: _moved(depth, SHIFT_DEPTH, rng)),
    "depth of another frame": _other_depth,
    "50 % holes": _with_depth(_holes),
    "BGR": _with_colour(lambda rgb: rgb[:, :, ::-1].copy()),
    "black": _with_colour(lambda rgb: (rgb * 0.03).astype(np.uint8)),
    "over-exposed": _with_colour(lambda rgb: np.minimum(rgb * 4.0, 255.0).astype(np.uint8)),
    "previous frame again": _same_again,
    "masks shifted 30 px": _shifted_masks,
    "ids shifted 30 px": _shifted_visible,
    "masks of another frame": _other_masks,
    "masks merged": _merged,
}
