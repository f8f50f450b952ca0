"""What a person changes about the objects of a scene: pure functions from a scene to a scene.

Truth and scores that came with the scene are about other masks, so they go. Hidden parts follow what shows:
what is taken from an object is no hidden part of it, and what is unknown stays unknown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int32
from PIL import Image, ImageDraw

from cpor.corrections.growing import EdgeMap, grow_object, share_between
from cpor.errors import InvalidSceneError, list_labels
from cpor.perception.depth_segmenter import convex_hull
from cpor.scene import MAX_OBJECT_ID, DetectedObject, MaskCrop, PixelPoint, Scene

LEAST_PX = 12
"""An object shows at least so many pixels: fewer are a slip of the hand. [px]"""

SAME_IOU = 0.9
"""What is grown from a click and overlaps an object more than this is that object."""


class CorrectionError(InvalidSceneError):
    """A correction that cannot be made on this scene."""


def add_object(scene: Scene, point: PixelPoint, name: str | None = None) -> Scene:
    """Add the object at a point; what it takes from the object clicked on, that one loses."""
    ids = _ids(scene)
    _check_inside(scene, point)
    clicked = int(ids[int(point.y), int(point.x)])
    region = grow_object(scene.observation, point, (ids > 0) & (ids != clicked))
    if clicked:
        mine = ids == clicked
        region &= mine
        if region.sum() >= SAME_IOU * mine.sum():
            raise CorrectionError(
                f"object {clicked} is there already; split it if it is two, or erase a part of it first"
            )
    if region.sum() < LEAST_PX:
        raise CorrectionError("nothing stands out at this point; click the middle of the object, or brush it")
    label = _free_id(scene)
    return _changed(scene, {label: region}, [DetectedObject(label, name=name)])


def delete_object(scene: Scene, label: int) -> Scene:
    """Make an object background."""
    ids = np.where(_ids(scene) == _known(scene, label), 0, _ids(scene)).astype(np.int32)
    return _repaint(scene, ids, [o for o in scene.objects if o.id != label])


def split_object(
    scene: Scene, label: int, a: PixelPoint, b: PixelPoint, *, along_line: bool = False
) -> Scene:
    """Cut an object in two; the part of `a` keeps the id.

    The cut runs along edges between the points, or with `along_line` along the line through both.
    """
    mine = _ids(scene) == _known(scene, label)
    for point in (a, b):
        _check_inside(scene, point)
        if not along_line and not mine[int(point.y), int(point.x)]:
            raise CorrectionError(f"a point does not lie on object {label}; click both parts of it")
    if along_line:
        rows, cols = np.ogrid[: mine.shape[0], : mine.shape[1]]
        first = mine & ((b.x - a.x) * (rows + 0.5 - a.y) - (b.y - a.y) * (cols + 0.5 - a.x) < 0.0)
    else:
        first = share_between(EdgeMap.of(scene.observation), mine, a, b)
    second = mine & ~first
    if min(first.sum(), second.sum()) < LEAST_PX:
        raise CorrectionError(f"that leaves nothing of one part of object {label}; choose other points")
    return _changed(scene, {(other := _free_id(scene)): second}, [DetectedObject(other)])


def merge_objects(scene: Scene, labels: Sequence[int]) -> Scene:
    """Make objects one; the first keeps its id and name."""
    parts = [_known(scene, label) for label in dict.fromkeys(labels)]
    if len(parts) < 2:
        raise CorrectionError("one object cannot be merged; name two or more")
    by_id = {o.id: o for o in scene.objects}
    ids = np.where(np.isin(_ids(scene), parts), parts[0], _ids(scene)).astype(np.int32)
    known = [crop.to_mask(ids.shape) for label in parts if (crop := _whole(by_id[label])) is not None]
    amodal = MaskCrop.from_mask(np.any(known, axis=0)) if len(known) == len(parts) else None
    whole = replace(by_id[parts[0]], amodal=amodal, score=None, occluded=None)
    return _repaint(scene, ids, [whole, *(o for o in scene.objects if o.id not in parts)])


def brush(
    scene: Scene, label: int, points: Sequence[PixelPoint], radius: float, *, erase: bool = False
) -> Scene:
    """Paint a stroke onto an object, or erase it there; `radius` is half of its width. [px]."""
    ids, label = _ids(scene), _known(scene, label)
    stroke = _stroke(points, radius, ids.shape)
    if not erase:
        return _changed(scene, {label: stroke}, [])
    gone = stroke & (ids == label)
    if (ids == label).sum() - gone.sum() < LEAST_PX:
        raise CorrectionError(f"that erases all of object {label}; delete it instead")
    painted = np.where(gone, 0, ids).astype(np.int32)
    objects = [_without(o, stroke) if o.id == label else o for o in scene.objects]
    return _repaint(scene, painted, objects)


def rename_object(scene: Scene, label: int, name: str | None) -> Scene:
    """Call an object something; None: it has no name."""
    _known(scene, label)
    return replace(scene, objects=tuple(replace(o, name=name) if o.id == label else o for o in scene.objects))


def set_workspace(scene: Scene, corners: Sequence[PixelPoint] | None) -> Scene:
    """Say in which polygon objects may be asked for; in pixels. None: anywhere."""
    frame = scene.observation
    camera = replace(frame.camera, workspace=None if corners is None else tuple(corners))
    return replace(scene, observation=replace(frame, camera=camera))


def _ids(scene: Scene) -> Int32[np.ndarray, "h w"]:
    return np.zeros(scene.observation.shape, np.int32) if scene.visible_ids is None else scene.visible_ids


def _known(scene: Scene, label: int) -> int:
    if label not in scene.ids:
        raise CorrectionError(f"unknown object {label}; the scene has: {list_labels(scene.ids)}")
    return label


def _free_id(scene: Scene) -> int:
    label = max(scene.ids, default=0) + 1
    if label <= MAX_OBJECT_ID:
        return label
    return next(k for k in range(1, MAX_OBJECT_ID + 1) if k not in scene.ids)


def _check_inside(scene: Scene, point: PixelPoint) -> None:
    rows, cols = scene.observation.shape
    if not (0.0 <= point.x < cols and 0.0 <= point.y < rows):
        raise CorrectionError(
            f"the point ({point.x:.0f}, {point.y:.0f}) lies outside of the {cols} x {rows} picture"
        )


def _whole(o: DetectedObject) -> MaskCrop | None:
    """The amodal mask of an object; None where it is empty or not known."""
    return o.amodal if o.amodal is not None and o.amodal.pixels.any() else None


def _without(o: DetectedObject, pixels: Bool[np.ndarray, "h w"]) -> DetectedObject:
    """The object without these pixels in its hidden part either."""
    if (whole := _whole(o)) is None:
        return o
    return replace(o, amodal=MaskCrop.from_mask(whole.to_mask(pixels.shape) & ~pixels))


def _changed(
    scene: Scene, painted: dict[int, Bool[np.ndarray, "h w"]], new: Iterable[DetectedObject]
) -> Scene:
    """The scene with masks painted over it; what is hidden of a new object is guessed."""
    ids = _ids(scene).copy()
    objects = {o.id: o for o in scene.objects} | {o.id: o for o in new}
    for label, mask in painted.items():
        for other in np.unique(ids[mask]).tolist():
            if other not in (0, label):
                objects[other] = _without(objects[other], mask & (ids == other))
        ids[mask] = label
        if label not in scene.ids:
            objects[label] = replace(objects[label], amodal=_guess_whole(scene, ids, label))
        elif (whole := _whole(objects[label])) is not None:
            mask = whole.to_mask(ids.shape) | (ids == label)
            objects[label] = replace(objects[label], amodal=MaskCrop.from_mask(mask))
    return _repaint(scene, ids, objects.values())


def _guess_whole(scene: Scene, ids: Int32[np.ndarray, "h w"], label: int) -> MaskCrop | None:
    """What shows, and what of its convex hull nearer objects hide; None without depth: it is unknown."""
    depth, mine = scene.observation.depth, ids == label
    if depth is None or not np.isfinite(depth[mine]).any():
        return None
    hidden = convex_hull(mine) & (ids > 0) & ~mine
    nearer = np.zeros(ids.shape, np.bool_)
    for other in np.unique(ids[hidden]).tolist():
        theirs = depth[ids == other]
        if np.isfinite(theirs).any() and np.nanmedian(theirs) < np.nanmedian(depth[mine]):
            nearer |= ids == other
    return MaskCrop.from_mask(mine | hidden & nearer)


def _repaint(scene: Scene, ids: Int32[np.ndarray, "h w"], objects: Iterable[DetectedObject]) -> Scene:
    """The scene with other masks; what shows too little any more is gone."""
    size = np.bincount(ids.reshape(-1), minlength=MAX_OBJECT_ID + 1)
    before = np.bincount(_ids(scene).reshape(-1), minlength=MAX_OBJECT_ID + 1)
    kept = [o for o in objects if size[o.id] >= LEAST_PX or size[o.id] >= before[o.id]]
    lost = np.isin(ids, [o.id for o in kept], invert=True)
    ids = np.where(lost, 0, ids).astype(np.int32)
    labels = {o.id for o in kept}
    return replace(
        scene,
        objects=tuple(kept),
        visible_ids=ids,
        true_occlusion=None,
        true_sweep=None,
        true_lift=None,
        points={k: point for k, point in scene.points.items() if k in labels},
        semantic_scores=None,
        sources=None,
    )


def _stroke(points: Sequence[PixelPoint], radius: float, shape: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """Discs along a line."""
    image = Image.new("1", shape[::-1])
    draw = ImageDraw.Draw(image)
    corners = [(float(p.x), float(p.y)) for p in points]
    if len(corners) > 1:
        draw.line(corners, fill=1, width=max(1, round(2 * radius)), joint="curve")
    for x, y in corners:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=1)
    return np.array(image, dtype=bool)
