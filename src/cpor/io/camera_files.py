"""What the files around a frame say of its cameras: ours, and those of data sets and camera makers.

camera.json              ours; or fx, fy, cx, cy, depth_scale of others
scene_camera.json        BOP: cam_K, and depth_scale in millimetres a step
intrinsic/               ScanNet: intrinsic_color.txt, intrinsic_depth.txt, extrinsic_….txt; millimetres
cam_K.txt, camK.npy      3 x 3, as FoundationPose and GraspNet have it
camera_intrinsic.json    Open3D: intrinsic_matrix, column by column
*_metadata*.csv, .txt    RealSense: Fx, Fy, PPx, PPy, Resolution
associations.txt, …      TUM: 5000 steps a metre
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cpor.errors import InvalidSceneError, SceneFileError
from cpor.io import folder_files as files
from cpor.io.depth import DepthCamera
from cpor.io.frames import TUM_LISTS, clean_name, role_of
from cpor.io.images import decode_npy
from cpor.io.scene_folder import make_camera, make_depth_camera
from cpor.io.whole_files import parse_strict, read_bytes, read_text
from cpor.scene import Camera, Intrinsics

TUM_UNIT_M = 1.0 / 5000.0
_MATRICES = ("cam_K.txt", "camK.txt", "K.txt", "camK.npy", "cam_K.npy", "intrinsics.txt", "camera_matrix.txt")
_JSONS = ("camera_intrinsic.json", "camera_intrinsics.json", "intrinsic.json", "intrinsics.json")


@dataclass(frozen=True, eq=False)
class KnownCamera:
    """What is known of the cameras of a frame.

    Attributes:
        camera: Camera of the photograph.
        unit_m: Metres that one step of depth means; None if unknown. [m]
        sensor: The depth camera; None where depth is registered to the photograph.
        shape: Height and width that the photograph must have; None: any. [px]
        raw_shape: Height and width of depth without a header. [px]
        by: The files that said so.
    """

    camera: Camera = field(default_factory=Camera)
    unit_m: float | None = None
    sensor: DepthCamera | None = None
    shape: tuple[int, int] | None = None
    raw_shape: tuple[int, int] | None = None
    by: tuple[str, ...] = ()


Reader: TypeAlias = Callable[[Path, str], KnownCamera | None]


def known_camera(folder: Path, frame: str = "") -> KnownCamera:
    """What the files of a folder say of a frame, whose name has no word for colour in it."""
    found = (read(folder, frame) for read in READERS)
    return next((known for known in found if known is not None), KnownCamera())


def unit_of_scale(scale: float) -> float | None:
    """Metres a step from a `depth_scale`, which means three things; None where it may mean two.

    At most 0.01: metres a step (RealSense). 0.05 to 10: millimetres a step (BOP). From 100: steps a metre.
    """
    if 0.0 < scale <= 0.01:
        return scale
    if 0.05 <= scale <= 10.0:
        return 0.001 * scale
    return 1.0 / scale if 100.0 <= scale < 1e6 else None


def _of_named_json(*names: str) -> Reader:
    """Our camera.json, or one with other names for the same things."""
    return lambda folder, frame: next(
        (_of_json(folder / name) for name in names if (folder / name).is_file()), None
    )


def _of_json(path: Path) -> KnownCamera:
    said = _read_object(path)
    if matrix := next(
        (said[k] for k in ("K", "cam_K", "camera_matrix", "intrinsic_matrix") if k in said), None
    ):
        known = _of_matrix(_as_matrix(matrix, path), path)
        said |= known._asdict() if known else {}
    for ours, theirs in (("cx", "ppx"), ("cy", "ppy")):
        if ours not in said and theirs in said:
            said[ours] = said[theirs]
    fields = {key: value for key, value in said.items() if key in files.CameraFile.model_fields}
    file = files.parse_json(json.dumps(fields), files.CameraFile, path)
    scale = said.get("depth_scale")
    unit = file.depth_unit_m
    if unit is None and isinstance(scale, int | float):
        unit = unit_of_scale(float(scale))
    shape = (file.height, file.width) if file.height and file.width else None
    return KnownCamera(make_camera(file, path), unit, make_depth_camera(file, path), shape, by=(path.name,))


def _of_bop(folder: Path, frame: str) -> KnownCamera | None:
    path = folder / "scene_camera.json"
    if not path.is_file():
        return None
    cameras = {clean_name(key): value for key, value in _read_object(path).items()}
    said = cameras.get(clean_name(frame))
    if not isinstance(said, dict):
        raise SceneFileError(f"{path} says nothing of the frame {frame!r}; add its cam_K and depth_scale")
    scale = said.get("depth_scale")
    unit = 0.001 * float(scale) if isinstance(scale, int | float) and scale > 0 else None
    matrix = _as_matrix(said["cam_K"], path) if "cam_K" in said else None
    intrinsics = None if matrix is None else _of_matrix(matrix, path)
    return KnownCamera(Camera(intrinsics), unit, by=(path.name,))


def _of_scannet(folder: Path, frame: str) -> KnownCamera | None:
    """Colour and depth have intrinsics of their own, and mostly sizes of their own too."""
    folder /= "intrinsic"
    if not folder.is_dir():
        return None
    known: dict[str, Intrinsics | None] = {}
    poses: dict[str, np.ndarray] = {}
    for role in ("color", "depth"):
        path = folder / f"intrinsic_{role}.txt"
        known[role] = _of_matrix(_read_matrix(path)[:3, :3], path) if path.is_file() else None
        if (path := folder / f"extrinsic_{role}.txt").is_file():
            poses[role] = _read_matrix(path)
    sensor = None
    if (own := known["depth"]) is not None:
        # Both lead from their camera to the device.
        pose = None
        if len(poses) == 2:
            pose = np.linalg.inv(poses["color"]) @ poses["depth"]
        try:
            sensor = DepthCamera(own, pose)
        except InvalidSceneError as error:
            raise SceneFileError(f"{folder}: {error}") from None
    return KnownCamera(Camera(known["color"]), 0.001, sensor, by=(f"{folder.name}/",))


def _of_realsense(folder: Path, frame: str) -> KnownCamera | None:
    """What the viewer and `rs-convert` write beside this frame's pictures, or the first; no extrinsics."""
    found = [
        p for p in sorted(folder.iterdir()) if p.suffix in (".csv", ".txt") and "metadata" in p.name.lower()
    ]
    names, unit = [], None
    cameras: dict[str, Intrinsics] = {}
    sizes: dict[str, tuple[int, int]] = {}
    seen = set()
    for path in sorted(found, key=lambda p: clean_name(frame) not in clean_name(p.stem)):
        role, _ = role_of(re.sub("(?i)metadata", "", path.stem))
        if role is None or role in seen:
            continue
        seen.add(role)
        names.append(path.name)
        pairs = re.findall(r"(?m)^\s*([A-Za-z ]+?)\s*[,:]\s*([-+0-9.eE]+)\s*$", read_text(path))
        said = {key.casefold(): value for key, text in pairs if (value := _as_float(text)) is not None}
        if {"fx", "fy", "ppx", "ppy"} <= said.keys():
            cameras[role] = Intrinsics(said["fx"], said["fy"], said["ppx"], said["ppy"])
        if said.get("resolution x") and said.get("resolution y"):
            sizes[role] = int(said["resolution y"]), int(said["resolution x"])
        unit = unit or said.get("depth units")
    if not names:
        return None
    colour, depth = cameras.get("colour"), cameras.get("depth")
    if colour is not None and depth is not None and not np.allclose(colour, depth, rtol=1e-3):
        raise SceneFileError(
            f"{folder / names[0]}: depth was not aligned to colour, and the export does not say how the two "
            "cameras stand; export it aligned, or write camera.json with fx, fy, cx, cy and "
            '"depth_camera" (fx, fy, cx, cy, T_colour_depth)'
        )
    by = tuple(names)
    return KnownCamera(
        Camera(colour or depth), unit or None, None, sizes.get("colour"), sizes.get("depth"), by=by
    )


def _of_matrix_file(folder: Path, frame: str) -> KnownCamera | None:
    """A file with a matrix, and the unit of depth where the folder is a TUM data set."""
    unit = TUM_UNIT_M if any((folder / name).is_file() for name in TUM_LISTS) else None
    by = ("the lists of a TUM data set",) if unit else ()
    for name in _MATRICES:
        if (path := folder / name).is_file():
            return KnownCamera(Camera(_of_matrix(_read_matrix(path), path)), unit, by=(name, *by))
    return KnownCamera(unit_m=unit, by=by) if unit else None


READERS: list[Reader] = [
    _of_bop,
    _of_named_json("camera.json"),
    _of_scannet,
    _of_realsense,
    _of_named_json(*_JSONS),
    _of_matrix_file,
]
"""Functions of a folder and a frame's name, asked in this order; None: such files are not there."""


def _read_object(path: Path) -> dict[str, Any]:
    said = parse_strict(read_text(path), name=path, remedy="fix or remove it")
    if not isinstance(said, dict):
        raise SceneFileError(f"{path} must hold names and values in braces; fix or remove it")
    return said


def _read_matrix(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return _as_matrix(decode_npy(read_bytes(path), path).tolist(), path)
    numbers = [_as_float(word) for word in re.split(r"[\s,;\[\]]+", read_text(path)) if word]
    return _as_matrix(numbers, path)


def _as_matrix(values: object, path: Path) -> np.ndarray:
    try:
        found = np.array(values, np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.size not in (9, 16) or not np.isfinite(found).all():
        raise SceneFileError(f"{path} must hold a matrix of 3 x 3 or 4 x 4 numbers; fix or remove it")
    side = 3 if found.size == 9 else 4
    matrix = found.reshape(side, side)
    # Column by column, as Open3D has it: the last column then ends like the last row should.
    return matrix.T if side == 3 and matrix[2, 0] > 1.0 and matrix[0, 2] == 0.0 else matrix


def _of_matrix(matrix: np.ndarray, path: Path) -> Intrinsics:
    k = matrix
    known = Intrinsics(float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2]))
    try:
        Camera(known)
    except InvalidSceneError as error:
        raise SceneFileError(f"{path}: {error}") from None
    return known


def _as_float(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
