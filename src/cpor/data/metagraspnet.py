"""MetaGraspNetV2 scene folders as released: `N_rgb.png`, `N.npz`, `N_order.csv` for each view N.

The npz file holds `instances_objects` (ids from 1, 0 = background), `occlusion_objects` (one mask an
object, hidden part or whole) and `depth` in centimetres; photographs may lack the last two. In the order
matrix, -1 at (i, j) says that object i + 1 is occluded by object j + 1.
"""

import csv
import re
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int32

from cpor.data.unobench import DAMAGED, BenchmarkFileError, depth_in_metres
from cpor.errors import InvalidSceneError, SceneFileError, list_labels
from cpor.files.images import decode_photograph
from cpor.files.whole_files import read_bytes
from cpor.scene import BlockedBy, Camera, DetectedObject, MaskCrop, Observation, Scene, TrueRelations

OCCLUDED_BY = -1
"""Entry (i, j) of the order matrix where i is occluded by j; (j, i) then holds 1, other pairs 0."""

DEPTH_STEP_M = 0.0001
"""Step in which depth is kept once written as a scene folder: a hundredth of the file's centimetre. [m]"""

_VIEW = re.compile(r"(\d+)_rgb\.png")


def list_views(folder: str | Path) -> tuple[int, ...]:
    """The views N of a scene folder that have a photograph `N_rgb.png`.

    Raises:
        BenchmarkFileError: There is no such folder, or no view in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BenchmarkFileError(f"there is no folder {folder}; give a scene folder of MetaGraspNetV2")
    views = sorted(int(found[1]) for path in folder.iterdir() if (found := _VIEW.fullmatch(path.name)))
    if not views:
        raise BenchmarkFileError(f"{folder} has no N_rgb.png; give a scene folder of MetaGraspNetV2")
    return tuple(views)


def read_metagraspnet(folder: str | Path, view: int) -> Scene:
    """Read one view: photograph, depth, visible and amodal masks, true occlusions.

    Raises:
        BenchmarkFileError: A file is missing, damaged, or contradicts another; the message names it.
    """
    folder = Path(folder)
    views = list_views(folder)
    if view not in views:
        raise BenchmarkFileError(f"{folder} has no view {view}; it has: {list_labels(views)}")
    try:
        path = folder / f"{view}_rgb.png"
        rgb = decode_photograph(read_bytes(path), path, (f"{view}.npz",)).pixels
    except SceneFileError as problem:
        raise BenchmarkFileError(str(problem)) from None
    shape = rgb.shape[0], rgb.shape[1]
    ids, hidden, depth = _read_arrays(folder / f"{view}.npz", shape)
    order = folder / f"{view}_order.csv"
    truth = _read_order(order) if order.is_file() else None
    known = set(np.unique(ids[ids > 0]).tolist()) | set(hidden) | set(truth.objects if truth else ())
    objects = []
    for k in sorted(known):
        amodal = MaskCrop.from_mask(hidden[k] | (ids == k)) if k in hidden else None
        objects.append(DetectedObject(k, amodal))
    try:
        return Scene(
            Observation(rgb, depth, Camera(depth_unit_m=DEPTH_STEP_M)),
            tuple(objects),
            ids,
            true_occlusion=truth,
        )
    except InvalidSceneError as problem:
        raise BenchmarkFileError(f"{folder}, view {view}: {problem}") from None


def _read_arrays(
    path: Path, shape: tuple[int, int]
) -> tuple[Int32[np.ndarray, "h w"], dict[int, np.ndarray], Float32[np.ndarray, "h w"] | None]:
    """Visible ids, extra masks by id, and depth in metres."""
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {
                name: file[name]
                for name in ("instances_objects", "occlusion_objects", "depth")
                if name in file
            }
            there = list(file.files)
    except DAMAGED as problem:
        raise BenchmarkFileError(f"cannot read {path}: {problem}") from None
    ids = arrays.get("instances_objects")
    if ids is None:
        raise BenchmarkFileError(f"{path} has no array 'instances_objects'; it has: {list_labels(there)}")
    if ids.shape != shape:
        raise BenchmarkFileError(f"{path}: instances_objects is {ids.shape}, the photograph {shape}")
    masks = arrays.get("occlusion_objects")
    hidden: dict[int, np.ndarray] = {}
    if masks is not None:
        if masks.ndim != 3 or masks.shape[1:] != shape:
            raise BenchmarkFileError(
                f"{path}: occlusion_objects is {masks.shape}; it must hold one {shape} mask per object"
            )
        hidden = {k + 1: mask > 0 for k, mask in enumerate(masks)}
    depth = arrays.get("depth")
    if depth is not None and depth.shape != shape:
        raise BenchmarkFileError(f"{path}: depth is {depth.shape}, the photograph {shape}")
    return ids.astype(np.int32), hidden, None if depth is None else depth_in_metres(depth, path)


def _read_order(path: Path) -> TrueRelations:
    """True occlusions from an order matrix without header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise BenchmarkFileError(f"cannot read {path}: {problem}") from None
    pairs = []
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            raise BenchmarkFileError(
                f"{path}, line {i + 1}: {len(row)} numbers; the matrix of {len(rows)} objects needs as many"
            )
        for j, cell in enumerate(row):
            try:
                value = float(cell)
            except ValueError:
                value = np.nan
            if value not in (-1.0, 0.0, 1.0):
                raise BenchmarkFileError(
                    f"{path}, line {i + 1}: entry {j + 1} is {cell.strip()!r}; it must be -1, 0 or 1"
                )
            if value == OCCLUDED_BY and i == j:
                raise BenchmarkFileError(f"{path}, line {i + 1}: object {i + 1} cannot occlude itself")
            if value == OCCLUDED_BY:
                pairs.append(BlockedBy(i + 1, j + 1))
    return TrueRelations(frozenset(range(1, len(rows) + 1)), frozenset(pairs))
