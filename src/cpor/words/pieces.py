"""Which masks show one thing: a segmenter may cut a toy train into wagons, or a spoon under a box in two.

Two masks are held against each other. Log-odds that they show one thing grow with the likeness of their
colours, with how much the whole of one covers the other, and where both together have a clearer shape than
each alone; where they touch, also where depth goes on across the border; where they lie apart, where
something nearer lies between them. A request is read with each likely set of pieces.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from scipy import ndimage

from cpor.scene import MaskCrop, Scene
from cpor.words.appearance import Appearance, describe_scenes
from cpor.words.colours import estimate_gains, linear_rgb, oklab
from cpor.words.shapes import SHAPES

TOUCHING = (-11.2, 3.4, 3.2, 2.7, 10.2, 2.8, 2.6, 4.7, 1.4)
"""Log-odds of masks that touch: intercept; share of the border without a step in depth; likeness of colours;
larger and smaller share of either that the other's whole mask covers; smaller by larger area; then those of
`_by_shape`. `benchmarks/fit_pieces.py` learns them on simulated dev scenes; since the segmenter hardly splits
objects there any more, intercepts alone were learnt with its fourth version (`--intercepts`)."""

APART = (-9.8, 1.6, 6.2, 10.3, -66.0, 1.9, 2.8, 2.1)
"""The same of masks that lie apart: intercept; share of the way between them that is nearer than both;
likeness of colours; share of the smaller whole mask that is in both; step in depth [m]; `_by_shape`."""

LEAST = 0.1
"""Pairs below this probability are two things."""

DOUBTS = 2
"""Pairs that are read both ways, the most doubtful ones; of others the likelier way counts."""

_REACH = 3
"""Pixels this far apart on both sides of a border are compared. [px]"""

_STEP = 0.004
"""A smaller step in depth is none. [m]"""

_LEAST_BORDER = 4
"""Pixels along which masks touch."""

_LEAST_ALIKE = 0.45
"""Masks that lie apart and have colours less alike are two things."""

_FAR = 0.14
"""So are those farther apart, as a share of the image's width."""

_COARSE = 4
"""The way between two masks is looked at on every fourth pixel."""

MaskPair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class MaskReading:
    """Objects as they are where some masks show one thing.

    Attributes:
        p: Probability of it.
        scene: With one mask a thing; it has the number of its largest piece.
        looks: How the objects look.
        pieces: Masks of each thing that has several, the largest first.
    """

    p: float
    scene: Scene
    looks: Mapping[int, Appearance]
    pieces: Mapping[int, tuple[int, ...]]


def read_masks(scene: Scene, looks: Mapping[int, Appearance]) -> list[MaskReading]:
    """The likely ways to read the masks of a scene; their probabilities add up to 1.

    Args:
        scene: With visible masks.
        looks: How its objects look; those without a look are never pieces.
    """
    p_same, joined = {}, {}
    for pair, (factors, look) in compare_masks(scene, looks).items():
        s = float(np.dot(TOUCHING if len(factors) == len(TOUCHING) else APART, factors))
        if (p := 1.0 / (1.0 + np.exp(-s))) >= LEAST:
            p_same[pair], joined[frozenset(pair)] = p, look
    doubtful = sorted(p_same, key=lambda pair: abs(p_same[pair] - 0.5))[:DOUBTS]
    sure = [pair for pair, p in p_same.items() if p > 0.5 and pair not in doubtful]
    found: dict[tuple[tuple[int, ...], ...], float] = {}
    for same in itertools.product((True, False), repeat=len(doubtful)):
        chosen = dict(zip(doubtful, same, strict=True))
        p = float(np.prod([p_same[x] if one else 1.0 - p_same[x] for x, one in chosen.items()]))
        groups = tuple(sorted(_groups([*sure, *(x for x, one in chosen.items() if one)], scene)))
        found[groups] = found.get(groups, 0.0) + p
    return [_read_as(scene, looks, groups, joined, p) for groups, p in found.items()]


def _read_as(
    scene: Scene,
    looks: Mapping[int, Appearance],
    groups: tuple[tuple[int, ...], ...],
    joined: Mapping[frozenset[int], Appearance],
    p: float,
) -> MaskReading:
    """One way to read the masks: each group is one object, under the first of its ids."""
    whole = join_masks(scene, groups) if groups else scene
    gone = {k for group in groups for k in group[1:]}
    seen = {k: look for k, look in looks.items() if k not in gone}
    for group in groups:
        known = joined.get(frozenset(group))
        seen[group[0]] = known or describe_scenes([(whole, {group[0]})])[0][group[0]]
    return MaskReading(p, whole, seen, {group[0]: group for group in groups})


def join_masks(scene: Scene, groups: Iterable[tuple[int, ...]]) -> Scene:
    """The scene in which the masks of each group are one, with the number of the first; scores go."""
    assert scene.visible_ids is not None
    objects = {o.id: o for o in scene.objects}
    ids = scene.visible_ids.copy()
    for first, *others in groups:
        whole = np.isin(ids, (first, *others))
        ids[whole] = first
        hidden = [amodal for k in (first, *others) if (amodal := objects[k].amodal) is not None]
        if hidden:
            for amodal in hidden:
                whole |= amodal.to_mask(ids.shape)
            objects[first] = replace(objects[first], amodal=MaskCrop.from_mask(whole))
        for k in others:
            del objects[k]
    return Scene(scene.observation, tuple(objects.values()), ids)


def _groups(pairs: list[MaskPair], scene: Scene) -> list[tuple[int, ...]]:
    """Masks that are joined by pairs, the largest first."""
    assert scene.visible_ids is not None
    groups: list[set[int]] = []
    for pair in pairs:
        touching = [group for group in groups if not group.isdisjoint(pair)]
        groups = [group for group in groups if group not in touching] + [set(pair).union(*touching)]
    area = np.bincount(scene.visible_ids.ravel())
    return [tuple(sorted(group, key=lambda k: (-area[k], k))) for group in groups]


def compare_masks(
    scene: Scene, looks: Mapping[int, Appearance]
) -> dict[MaskPair, tuple[tuple[float, ...], Appearance]]:
    """What `TOUCHING` or `APART` weigh for each pair that may be one thing, and how both look together."""
    assert scene.visible_ids is not None
    named = {o.id for o in scene.objects if o.name}
    known = {k: look for k, look in looks.items() if look.shapes is not None}
    n = max(scene.ids, default=0) + 1
    area = np.maximum(np.bincount(scene.visible_ids.ravel(), minlength=n), 1)
    colours = np.sqrt(_histograms(scene, n) / area[:, None])
    alike, covers = colours @ colours.T, _covers(scene, area)
    borders = _borders(scene, n)
    pairs: dict[MaskPair, tuple[float, ...]] = {}
    for a, b in itertools.combinations(sorted(known), 2):
        if named.issuperset((a, b)):
            continue
        cover = sorted((float(covers[a, b]), float(covers[b, a])), reverse=True)
        like, ratio = float(alike[a, b]), float(min(area[a], area[b]) / max(area[a], area[b]))
        own: tuple[float, ...] | None
        if (a, b) in borders:
            if 2.5 * like + 4.0 * cover[0] + 3.0 * cover[1] < 1.5:
                continue  # hopeless, whatever shape they have
            own = (1.0, borders[a, b], like, *cover, ratio)
        else:
            own = _apart(scene, (a, b), like) if like > _LEAST_ALIKE else None
        if own is not None:
            pairs[a, b] = own
    if not pairs:
        return {}
    groups = [_groups([pair], scene)[0] for pair in pairs]
    looked = describe_scenes([(join_masks(scene, [group]), {group[0]}) for group in groups])
    both = {pair: look[group[0]] for pair, group, look in zip(pairs, groups, looked, strict=True)}
    return {
        (a, b): ((*own, *_by_shape(both[a, b], known[a], known[b])), both[a, b])
        for (a, b), own in pairs.items()
    }


def _by_shape(both: Appearance, one: Appearance, other: Appearance) -> tuple[float, float, float]:
    """Probability that both are a vehicle, which has wheels and cabins; how much surer the shape of both is
    than those of each; chance that each has the same shape."""  # noqa: D205, D209
    p, a, b = (np.array([(look.shapes or {})[word] for word in SHAPES]) for look in (both, one, other))
    return float(p[SHAPES.index("vehicle")]), float(p.max() - 0.5 * (a.max() + b.max())), float(a @ b)


def _borders(scene: Scene, n: int) -> dict[MaskPair, float]:
    """Share of the border of masks that touch without a step in depth; 0.5 where there is no depth."""
    ids, depth = scene.visible_ids, scene.observation.depth
    assert ids is not None
    long, smooth = np.zeros(n * n), np.zeros(n * n)
    for down, right in ((0, _REACH), (_REACH, 0)):
        one, other = ids[: ids.shape[0] - down, : ids.shape[1] - right], ids[down:, right:]
        rows, cols = np.nonzero((one != other) & (one > 0) & (other > 0))
        pair = np.sort(np.stack([one[rows, cols], other[rows, cols]]).astype(np.int64), axis=0)
        level = np.full(len(rows), 0.5)
        if depth is not None:
            step = np.abs(depth[rows, cols] - depth[rows + down, cols + right])
            level = np.where(np.isfinite(step), step < _STEP, 0.5)
        long += np.bincount(pair[0] * n + pair[1], minlength=n * n)
        smooth += np.bincount(pair[0] * n + pair[1], level, minlength=n * n)
    at = np.flatnonzero(long >= _LEAST_BORDER).tolist()
    return {(each // n, each % n): float(smooth[each] / long[each]) for each in at}


def _covers(scene: Scene, area: np.ndarray) -> Float[np.ndarray, "n n"]:
    """Share of what shows of the second object that the whole mask of the first covers."""
    ids = scene.visible_ids
    assert ids is not None
    covers = np.zeros((len(area), len(area)))
    for o in scene.objects:
        if o.amodal is not None:
            rows, cols = o.amodal.pixels.shape
            here = ids[o.amodal.top : o.amodal.top + rows, o.amodal.left : o.amodal.left + cols]
            covers[o.id] = np.bincount(here[o.amodal.pixels], minlength=len(area)) / area
    return covers


def _apart(scene: Scene, pair: MaskPair, alike: float) -> tuple[float, ...] | None:
    """What `APART` weighs but shapes; None where the masks lie too far apart or there is no depth."""
    if scene.visible_ids is None or scene.observation.depth is None:
        return None
    ids, depth = scene.visible_ids[::_COARSE, ::_COARSE], scene.observation.depth[::_COARSE, ::_COARSE]
    shown = [ids == k for k in pair]
    z = [depth[mask] for mask in shown]
    if not all(np.isfinite(each).any() for each in z):
        return None
    away, nearest = ndimage.distance_transform_edt(~shown[0], return_indices=True)
    at = np.unravel_index(np.where(shown[1], away, np.inf).argmin(), ids.shape)
    if away[at] > _FAR * ids.shape[1]:
        return None
    middle = [float(np.nanmedian(each)) for each in z]
    ends = np.array(at), nearest[:, at[0], at[1]]
    way = np.rint(np.linspace(*ends, 30)[1:-1]).astype(np.int64)
    between = depth[way[:, 0], way[:, 1]]
    nearer = (
        float(np.mean(between[np.isfinite(between)] < max(middle) - _STEP))
        if np.isfinite(between).any()
        else 0.5
    )
    wholes = [o.amodal.to_mask(scene.visible_ids.shape) for o in scene.objects if o.id in pair and o.amodal]
    both = (wholes[0] & wholes[1]).sum() / max(1, min(w.sum() for w in wholes)) if len(wholes) == 2 else 0.0
    return 1.0, nearer, alike, float(both), abs(middle[0] - middle[1])


def _histograms(scene: Scene, n: int) -> Float[np.ndarray, "n cells"]:
    """Pixels of each object in each of 4 x 10 x 10 cells of Oklab, the light taken out."""
    ids, rgb = scene.visible_ids, scene.observation.rgb
    assert ids is not None
    shown = ids > 0
    lab = oklab(np.clip(linear_rgb(rgb[shown]) * estimate_gains(rgb), 0.0, 1.0))
    cells = np.clip((lab * (4.0, 20.0, 20.0) + np.array((0.0, 5.0, 5.0))).astype(np.int64), 0, (3, 9, 9))
    at = ids[shown].astype(np.int64) * 400 + cells @ (100, 10, 1)
    return np.bincount(at, minlength=400 * n).reshape(n, 400).astype(np.float64)
