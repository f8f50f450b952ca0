"""Faults to put into a scene, alone or together: parts dropped, moved, merged, swapped, stale or missing.

Each fault is a name, an amount in [0, 1] and a seed, so that what numpy or hypothesis drew can be made again.
A fault that cannot be made of a scene leaves it as it is. `FAULTS` are drawn at random by evidence_fuzz.py,
`GATE_FAULTS` are put into every frame by evidence_gate.py.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage

from cpor.fitting.labelled import drop_objects
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene, SemanticScores

FARTHEST = 60 / 640
"""Share of the width by which masks or depth are moved at most; at least a tenth of it."""

TOO_DEEP_M = 0.03
"""How much too deep a glossy thing is read. [m]"""


@dataclass(frozen=True)
class Fault:
    """What is wrong, how much of it in [0, 1], and the seed of what is drawn."""

    kind: str
    amount: float = 0.5
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Broken:
    """A scene with faults in it.

    Attributes:
        scene: As the system gets it.
        target: The object asked for; None where a fault needs none.
        truth: The true relations of the scene as it was.
        moved: Whether masks may show other objects than before, or the frame another moment.
        previous: The frame before.
        scored: Whether the scene's own scores are to be used, and not asked for anew.
    """

    scene: Scene
    target: int | None
    truth: Set[BlockedBy]
    moved: bool = False
    previous: Observation | None = None
    scored: bool = False


Change = Callable[[Broken, Scene, float, np.random.Generator], Broken]
"""From what there is, another scene, the amount and random numbers."""


def break_scene(
    scene: Scene, target: int, truth: Set[BlockedBy], other: Scene, faults: list[Fault]
) -> Broken:
    """The scene with all of these faults, one after another."""
    broken = Broken(scene, target, truth)
    for fault in faults:
        broken = FAULTS[fault.kind](broken, other, fault.amount, np.random.default_rng(fault.seed))
    return broken


def shows(broken: Broken, before: Scene) -> Mapping[int, int | None]:
    """Which object of the scene as it was each mask shows; None: no single one of them."""
    ids, was = broken.scene.visible_ids, before.visible_ids
    if not broken.moved or ids is None or was is None:
        return {label: label for label in broken.scene.ids}
    if broken.previous is not None or was.shape != ids.shape:
        return dict.fromkeys(broken.scene.ids)
    found: dict[int, int | None] = {}
    for label in broken.scene.ids:
        counts = np.bincount(was[ids == label], minlength=1)
        best = int(counts.argmax())
        found[label] = best if best and 2 * counts[best] >= counts.sum() else None
    return found


def _with_masks(
    broken: Broken, move: Callable[[np.ndarray], np.ndarray], visible: bool, whole: bool
) -> Broken:
    scene = broken.scene
    assert scene.visible_ids is not None
    if not whole and all(o.amodal is None for o in scene.objects):
        return broken
    objects = []
    for o in scene.objects:
        amodal = o.amodal
        if whole and amodal is not None:
            amodal = MaskCrop.from_mask(move(amodal.to_mask(scene.observation.shape)))
        objects.append(replace(o, amodal=amodal))
    ids = move(scene.visible_ids) if visible else scene.visible_ids
    changed = replace(scene, visible_ids=np.ascontiguousarray(ids), objects=tuple(objects), points={})
    return replace(broken, scene=changed, moved=True)


def _shifting(amount: float, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    angle, far = rng.uniform(0.0, 2.0 * np.pi), FARTHEST * max(amount, 0.1)

    def move(image: np.ndarray) -> np.ndarray:
        by = far * image.shape[1]
        return np.roll(image, (round(by * np.sin(angle)), round(by * np.cos(angle))), (0, 1))

    return move


def _drop(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    gone = [label for label in broken.scene.ids if label != broken.target and rng.random() < amount]
    return replace(broken, scene=drop_objects(broken.scene, gone))


def _drop_blockers(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    blockers = [pair.blocker for pair in broken.truth if pair.blocked == broken.target]
    return replace(broken, scene=drop_objects(broken.scene, [b for b in blockers if b in broken.scene.ids]))


def _neighbours(scene: Scene, label: int | None) -> list[int]:
    """The objects whose masks touch that of one, the longest edge first."""
    assert scene.visible_ids is not None
    around = ndimage.binary_dilation(scene.visible_ids == label, iterations=2)
    counts = np.bincount(scene.visible_ids[around], minlength=1)
    counts[0] = 0
    return [int(k) for k in np.argsort(-counts) if counts[k] and k != label]


def _merge(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    return merge_target(broken)


def merge_target(broken: Broken, only_blockers: bool = False) -> Broken:
    """The target and a neighbour that obstructs it under one mask; else any neighbour, unless told not to."""
    blockers = {pair.blocker for pair in broken.truth if pair.blocked == broken.target}
    beside = _neighbours(broken.scene, broken.target)
    beside.sort(key=lambda label: label not in blockers)
    if not beside or (only_blockers and beside[0] not in blockers):
        return broken
    return _join(broken, broken.target, beside[0])


def _merge_others(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    keep = int(rng.choice(broken.scene.ids))
    beside = [label for label in _neighbours(broken.scene, keep) if label != broken.target]
    return _join(broken, keep, beside[0]) if keep != broken.target and beside else broken


def _merge_longest(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    """The two objects with the longest common edge become one."""
    ids = broken.scene.visible_ids
    assert ids is not None
    sides = [(ids[:, 1:], ids[:, :-1]), (ids[1:], ids[:-1])]
    pairs = [
        np.stack([np.minimum(a, b), np.maximum(a, b)])[:, (a != b) & (a > 0) & (b > 0)] for a, b in sides
    ]
    found, counts = np.unique(np.concatenate(pairs, axis=1), axis=1, return_counts=True)
    if not counts.size:
        return broken
    keep, gone = (int(k) for k in found[:, counts.argmax()])
    return _join(broken, keep, gone)


def _join(broken: Broken, keep: int, gone: int) -> Broken:
    scene = broken.scene
    by_id = {o.id: o for o in scene.objects}
    whole = [o.amodal.to_mask(scene.observation.shape) for o in (by_id[keep], by_id[gone]) if o.amodal]
    one = DetectedObject(keep, MaskCrop.from_mask(np.logical_or.reduce(whole)) if whole else None)
    ids = np.where(scene.visible_ids == gone, np.int32(keep), scene.visible_ids)
    kept = drop_objects(scene, [gone])
    objects = tuple(one if o.id == keep else o for o in kept.objects)
    return replace(broken, scene=replace(kept, objects=objects, visible_ids=ids))


def _swap(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    """Visible masks change their numbers, whole ones do not; with an amount over a half both do."""
    scene = broken.scene
    others = [label for label in scene.ids if label != broken.target]
    if not others or scene.visible_ids is None:
        return broken
    a, b = broken.target, int(rng.choice(others))
    to = {a: b, b: a}
    ids = np.where(scene.visible_ids == a, b, np.where(scene.visible_ids == b, a, scene.visible_ids))
    objects = scene.objects
    if amount > 0.5:
        objects = tuple(replace(o, id=to.get(o.id, o.id)) for o in objects)
    changed = replace(
        scene, objects=objects, visible_ids=ids.astype(np.int32), points={}, semantic_scores=None
    )
    return replace(broken, scene=changed, moved=True, scored=False)


def _other_masks(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    lost = broken.target is not None and broken.target not in other.ids
    if lost or other.visible_ids is None or other.observation.shape != broken.scene.observation.shape:
        return broken
    return replace(
        broken, scene=Scene(broken.scene.observation, other.objects, other.visible_ids), moved=True
    )


def _same_frame(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    seen = broken.scene.observation
    again = Observation(seen.rgb.copy(), None if seen.depth is None else seen.depth.copy(), seen.camera)
    return replace(broken, previous=again, moved=True)


def _with_depth(
    change: Callable[[np.ndarray, Broken, Scene, float, np.random.Generator], np.ndarray],
) -> Change:
    def fault(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
        seen = broken.scene.observation
        if seen.depth is None:
            return broken
        depth = change(seen.depth, broken, other, amount, rng).astype(np.float32)
        return replace(broken, scene=replace(broken.scene, observation=replace(seen, depth=depth)))

    return fault


def _blockers(broken: Broken) -> np.ndarray:
    """Where the objects that obstruct the target show."""
    return np.isin(broken.scene.visible_ids, [j for i, j in broken.truth if i == broken.target])


def _read_too_deep(
    depth: np.ndarray, broken: Broken, other: Scene, amount: float, rng: np.random.Generator
) -> np.ndarray:
    """As glossy things are read, which mirror what is around them."""
    return depth + TOO_DEEP_M * _blockers(broken)


def _seen_through(
    depth: np.ndarray, broken: Broken, other: Scene, amount: float, rng: np.random.Generator
) -> np.ndarray:
    """As clear things are read: with the depth that is next to them."""
    clear = _blockers(broken)
    if clear.all():
        return depth
    rows, cols = ndimage.distance_transform_edt(clear, return_distances=False, return_indices=True)
    return depth[rows, cols]


def _unread(labels: Callable[[Broken], list[int]]) -> Change:
    def change(
        depth: np.ndarray, broken: Broken, other: Scene, amount: float, rng: np.random.Generator
    ) -> np.ndarray:
        return np.where(np.isin(broken.scene.visible_ids, labels(broken)), np.nan, depth)

    return _with_depth(change)


def _holes(
    depth: np.ndarray, broken: Broken, other: Scene, amount: float, rng: np.random.Generator
) -> np.ndarray:
    noise = ndimage.gaussian_filter(rng.standard_normal(depth.shape).astype(np.float32), 6.0)
    read = np.isfinite(depth)
    return np.where(noise > np.quantile(noise[read], amount), depth, np.nan) if read.any() else depth


def _other_depth(
    depth: np.ndarray, broken: Broken, other: Scene, amount: float, rng: np.random.Generator
) -> np.ndarray:
    there = other.observation.depth
    return depth if there is None or there.shape != depth.shape else there


def _with_scores(
    change: Callable[[dict[BlockedBy, float | None], float, np.random.Generator], None],
) -> Change:
    def fault(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
        given = broken.scene.semantic_scores
        if given is None:
            return broken
        scores = dict(given.scores)
        change(scores, amount, rng)
        changed = replace(broken.scene, semantic_scores=SemanticScores(scores, given.scorer))
        return replace(broken, scene=changed, scored=True)

    return fault


def _no_answer(scores: dict[BlockedBy, float | None], amount: float, rng: np.random.Generator) -> None:
    scores |= {pair: None for pair in sorted(scores) if rng.random() < amount}


def _shuffle(scores: dict[BlockedBy, float | None], amount: float, rng: np.random.Generator) -> None:
    """As those of another picture are: about the same numbers, of other pairs."""
    pairs = sorted(scores)
    scores |= dict(zip(pairs, [scores[pairs[k]] for k in rng.permutation(len(pairs))], strict=True))


def _no_whole(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    objects = tuple(replace(o, amodal=None) for o in broken.scene.objects)
    return replace(broken, scene=replace(broken.scene, objects=objects))


def _hide(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    """The target is listed and shows no pixel."""
    visible = np.where(broken.scene.visible_ids == broken.target, 0, broken.scene.visible_ids)
    return replace(broken, scene=replace(broken.scene, visible_ids=visible.astype(np.int32)))


def _cut(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
    """The image ends in the middle of the target."""
    scene = broken.scene
    columns = np.flatnonzero((scene.visible_ids == broken.target).any(axis=0))
    if columns.size < 4:
        return broken

    def right_part(image: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(image[:, int(columns[columns.size // 2]) :])

    seen = scene.observation
    frame = Observation(right_part(seen.rgb), None if seen.depth is None else right_part(seen.depth))
    crops = (o.amodal and MaskCrop.from_mask(right_part(o.amodal.to_mask(seen.shape))) for o in scene.objects)
    objects = tuple(replace(o, amodal=crop) for o, crop in zip(scene.objects, crops, strict=True))
    visible = right_part(scene.visible_ids)
    changed = replace(scene, observation=frame, objects=objects, visible_ids=visible, points={})
    return replace(broken, scene=changed)


def _with_colour(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    def fault(broken: Broken, other: Scene, amount: float, rng: np.random.Generator) -> Broken:
        seen = broken.scene.observation
        return replace(broken, scene=replace(broken.scene, observation=replace(seen, rgb=change(seen.rgb))))

    return fault


def _scaled(factor: float) -> Change:
    return _with_depth(lambda depth, *_: depth * np.float32(factor))


FAULTS: Mapping[str, Change] = {
    "masks dropped": _drop,
    "blockers dropped": _drop_blockers,
    "target merged": _merge,
    "others merged": _merge_others,
    "ids swapped": _swap,
    "masks shifted": lambda b, other, a, rng: _with_masks(b, _shifting(a, rng), True, True),
    "ids shifted": lambda b, other, a, rng: _with_masks(b, _shifting(a, rng), True, False),
    "masks of another frame": _other_masks,
    "previous frame again": _same_frame,
    "no depth on blockers": _unread(lambda b: [j for i, j in b.truth if i == b.target]),
    "blockers read too deep": _with_depth(_read_too_deep),
    "blockers seen through": _with_depth(_seen_through),
    "no depth on target": _unread(lambda b: [b.target]),
    "depth holes": _with_depth(_holes),
    "depth shifted": _with_depth(lambda depth, b, other, a, rng: _shifting(a, rng)(depth)),
    "depth of another frame": _with_depth(_other_depth),
    "scores of another picture": _with_scores(_shuffle),
    "scores all zero": _with_scores(lambda scores, a, rng: scores.update(dict.fromkeys(scores, 0.0))),
    "scores missing": _with_scores(_no_answer),
    "scores empty": _with_scores(lambda scores, a, rng: scores.clear()),
    "no amodal masks": _no_whole,
    "target cut by border": _cut,
    "target without pixels": _hide,
}

GATE_FAULTS: Mapping[str, tuple[Change, float]] = {
    "zero depth": (_with_depth(lambda depth, *_: np.zeros_like(depth)), 0.0),
    "constant depth": (_with_depth(lambda depth, *_: np.full_like(depth, np.nanmedian(depth))), 0.0),
    "unit x10": (_scaled(10.0), 0.0),
    "unit x0.1": (_scaled(0.1), 0.0),
    "unit x1000": (_scaled(1000.0), 0.0),
    "depth shifted 20 px": (FAULTS["depth shifted"], 20 / 60),
    "depth of another frame": (FAULTS["depth of another frame"], 0.0),
    "50 % holes": (FAULTS["depth holes"], 0.5),
    "BGR": (_with_colour(lambda rgb: rgb[:, :, ::-1].copy()), 0.0),
    "black": (_with_colour(lambda rgb: (rgb * 0.03).astype(np.uint8)), 0.0),
    "over-exposed": (_with_colour(lambda rgb: np.minimum(rgb * 4.0, 255.0).astype(np.uint8)), 0.0),
    "previous frame again": (FAULTS["previous frame again"], 0.0),
    "masks shifted 30 px": (FAULTS["masks shifted"], 0.5),
    "ids shifted 30 px": (FAULTS["ids shifted"], 0.5),
    "masks of another frame": (FAULTS["masks of another frame"], 0.0),
    "masks merged": (_merge_longest, 0.0),
}
"""What is wrong, and how much of it. Pixels are those of a picture 640 wide."""

IN_MASKS = tuple(name for name in GATE_FAULTS if "masks" in name or "ids" in name)
"""Those of `GATE_FAULTS` that are in the masks, so that these are looked at as they are."""
