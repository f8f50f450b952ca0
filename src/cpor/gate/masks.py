"""Checks of masks against the picture, its depth, and each other.

The thresholds were chosen on, and "untouched" and "data" below mean: the true masks, where known, and those
of our segmenter for 49 photographs, 4 raw camera frames, 5 MetaGraspNet views and 69 simulated frames, less
two photographs whose labels belong to other frames. docs/gate.md has the rates, on others too. Visible
masks are one image of ids, so they cannot overlap.
"""

import numpy as np
from jaxtyping import Int32, Int64
from scipy import ndimage

from cpor.errors import list_labels
from cpor.gate.check import Check, graded
from cpor.gate.edges import (
    Edges,
    colour_strength,
    compare_edges,
    depth_edges,
    edge_strength,
    mask_edges,
    shrink_ids,
    work_factor,
)
from cpor.scene import Scene

COVERS = (0.6, 0.85)
"""Share of the picture under one mask for doubt and for failure. Highest: 0.48, a bin taken for an object."""

INSIDE = (0.98, 0.8)
"""Share of the visible pixels inside the amodal masks for doubt and for failure. All data: 1."""

PIECES = 24
"""A mask in more pieces, at work size, is doubted. Most: 16, an object behind wires."""

PIECE_PX = 10
"""Masks smaller than this at work size are not looked at. [work px]"""

SIZE_M = ((0.012, 0.006), (0.4, 0.8))
"""Median size of the objects for doubt and failure, small and large. Data: 0.028 to 0.168. [m]"""

FOCAL = 0.85
"""Focal length over the width where intrinsics are not known: Kinect 0.82, RealSense 0.72 to 0.96."""

LEAST_EDGES = 100
"""Edges, in work pixels, below which nothing is compared."""

NOTHING_NEAR = 0.4
"""Strength that no shift reaches: hardly an edge around the masks, as with equal boxes packed flush."""

ON_COLOUR = (1.3, 1.1)
"""Strength of colour under mask edges for doubt and failure. Untouched: at least 1.35; masks of another
frame: at most 1.4, median 0.9."""

ON_DEPTH = (1.1, 0.9)
"""The same for depth. Untouched: at least 1.19; masks of another frame: at most 2.3, median 0.5."""

LOW_STEP = 0.015
"""Depth step, as a share of the distance, at the edge of objects that lie flat: 1 cm at 70 cm."""

ON_LOW_DEPTH = (1.5, 1.5)
"""Strength of such edges under mask edges that shows that masks and depth belong together: at least 1.7 in
five heaps on a board. Of 1,545 mirrored, shifted or exchanged masks it let none pass that failed before."""

ELSEWHERE = (1.02, 0.85)
"""Fit here over the best fit elsewhere for doubt and failure. Untouched: at least 1.1; masks shifted by 30 px
of 640: at most 1.0, median 0.4."""


MASK_CHECKS = (
    "masks_there", "mask_coverage", "visible_inside_amodal", "mask_pieces", "object_sizes",
    "masks_fit_picture", "masks_fit_depth",
)  # fmt: skip
"""Names of what `check_masks` may find."""


def check_masks(scene: Scene) -> tuple[Check, ...]:
    """What can be said of the masks of a segmented scene, whatever its target."""
    ids = scene.visible_ids
    assert ids is not None
    pixels = np.bincount(ids.reshape(-1), minlength=max(scene.ids, default=0) + 1)
    checks = [_shown(scene, pixels)]
    if pixels[1:].any():
        checks += [_coverage(ids, pixels), _inside_amodal(scene, ids, pixels), _pieces(ids)]
        checks += [*_sizes(scene, ids), *_on_edges(scene, ids)]
    return tuple(checks)


def _shown(scene: Scene, pixels: Int64[np.ndarray, " ids"]) -> Check:
    """An object may be hidden; one without any mask cannot be decided on."""
    lost = [
        o.id for o in scene.objects if not pixels[o.id] and (o.amodal is None or not o.amodal.pixels.any())
    ]
    if lost:
        remedy = "Give them masks, or leave them out."
        return Check("masks_there", "doubt", f"Objects without a mask: {list_labels(lost)}.", remedy)
    return Check("masks_there", "pass", f"{len(scene.objects)} objects, each with a mask.")


def _coverage(ids: Int32[np.ndarray, "h w"], pixels: Int64[np.ndarray, " ids"]) -> Check:
    largest = int(pixels[1:].argmax()) + 1
    share = pixels[largest] / ids.size
    return graded(
        "mask_coverage",
        float(-share),
        (-COVERS[0], -COVERS[1]),
        f"The largest mask, of object {largest}, covers {share:.0%} of the picture.",
        "Check that background is 0 in the picture of ids.",
    )


def _inside_amodal(scene: Scene, ids: Int32[np.ndarray, "h w"], pixels: Int64[np.ndarray, " ids"]) -> Check:
    """Visible pixels that the amodal mask of their object holds too."""
    inside = shown = 0
    for o in scene.objects:
        if o.amodal is not None and o.amodal.pixels.any():
            rows, cols = o.amodal.pixels.shape
            box = ids[o.amodal.top : o.amodal.top + rows, o.amodal.left : o.amodal.left + cols]
            inside += int(((box == o.id) & o.amodal.pixels).sum())
            shown += int(pixels[o.id])
    share = inside / shown if shown else 1.0
    return graded(
        "visible_inside_amodal",
        share,
        INSIDE,
        f"{share:.0%} of what shows of the objects lies inside their whole masks.",
        "Check that visible and amodal masks come from the same frame and have the same ids.",
    )


def _pieces(ids: Int32[np.ndarray, "h w"]) -> Check:
    small = shrink_ids(ids)
    worst, most = 0, 0
    for k, box in enumerate(ndimage.find_objects(small), start=1):
        if box is not None and (mask := small[box] == k).sum() >= PIECE_PX:
            count = int(ndimage.label(mask)[1])
            if count > most:
                worst, most = k, count
    if most <= PIECES:
        return Check("mask_pieces", "pass", f"No mask has more than {most} pieces.")
    remedy = "Check the masks for noise."
    return Check("mask_pieces", "doubt", f"The mask of object {worst} is in {most} pieces.", remedy)


def _sizes(scene: Scene, ids: Int32[np.ndarray, "h w"]) -> list[Check]:
    """The usual size of the objects in metres, which tells a wrong depth unit."""
    depth = scene.observation.depth
    if depth is None:
        return []
    factor = work_factor(ids.shape)
    small = shrink_ids(ids).reshape(-1)
    rows, cols = (size // factor * factor for size in depth.shape)
    distance = depth[factor // 2 : rows : factor, factor // 2 : cols : factor].reshape(-1)
    known = (small > 0) & np.isfinite(distance)
    if not known.any():
        return []
    read = np.bincount(small[known])
    metres = np.bincount(small[known], distance[known]) / np.maximum(read, 1)
    area = np.bincount(small, minlength=read.size)[: read.size]
    k = scene.observation.camera.intrinsics
    focal = k.fx if k else FOCAL * depth.shape[1]
    size = float(np.median((np.sqrt(area) * factor * metres / focal)[read > 0]))
    says = f"The objects are about {100.0 * size:.1f} cm wide."
    remedy = "Check the depth unit and the intrinsics."
    (few, fewest), (many, most) = SIZE_M
    if size < few:
        return [graded("object_sizes", size, (few, fewest), says, remedy)]
    return [graded("object_sizes", -size, (-many, -most), says, remedy)]


def _on_edges(scene: Scene, ids: Int32[np.ndarray, "h w"]) -> list[Check]:
    """Whether masks end where colour and depth change."""
    edges = mask_edges(ids)
    factor = work_factor(ids.shape)
    colour = colour_strength(scene.observation.rgb)
    found = [_fit("masks_fit_picture", "colour", factor, edges, colour, ON_COLOUR)]
    if (depth := scene.observation.depth) is not None:
        name = "masks_fit_depth"
        check = _fit(name, "depth", factor, edges, edge_strength(depth_edges(depth)), ON_DEPTH)
        if check.state != "pass":  # objects that lie flat make smaller jumps of depth than others
            flat = edge_strength(depth_edges(depth, LOW_STEP))
            low = _fit(name, "depth", factor, edges, flat, ON_LOW_DEPTH)
            check = low if low.state == "pass" else check
        found.append(check)
    return found


def _fit(
    name: str, what: str, factor: int, edges: Edges, strength: Edges, limits: tuple[float, float]
) -> Check:
    remedy = "Check that the masks were made for this frame and have its size."
    fit = compare_edges(edges, strength, factor)
    if fit is None or fit.count < LEAST_EDGES or max(fit.here, fit.elsewhere) < NOTHING_NEAR:
        return Check(name, "pass", f"Too few edges of masks or {what} to compare them.")
    if fit.elsewhere >= limits[0] and fit.here < ELSEWHERE[0] * fit.elsewhere:
        says = f"The masks fit {what} better when they are shifted by {fit.shift} px."
        return graded(name, fit.here / fit.elsewhere, ELSEWHERE, says, remedy)
    says = f"Edges of {what} are {fit.here:.1f} times as strong at the edges of the masks."
    return graded(name, fit.here, limits, says, remedy)
