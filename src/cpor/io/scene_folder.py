"""A scene on disk: one folder of images, masks and JSON.

    rgb.png         the photograph
    depth.png       16-bit steps of depth_unit_m; 0 and 65535 (saturated) are no reading
    camera.json     fx, fy, cx, cy, width, height, depth_unit_m, T_world_camera, workspace; needed with depth.
                    `depth_camera`: fx, fy, cx, cy, T_colour_depth, where depth is not registered
    instances.png   id of the object each pixel shows, 0 for background
    amodal.npz      ids (n,), masks (n, h, w) bool: visible and hidden part together
    objects.json    {"objects": [{"id", "name", "score", "occluded", "called"}]}: what is known of them
    relations.json  true occlusions; relations_sweep.json and relations_lift.json likewise
    request.txt     what was asked for
    points.json     id -> [x, y], a point that marks an object
    scores.json     semantic scores; a score of null is no answer
    sources.json    segmenter and scorer, and digests of the data that they were made for

All but rgb.png may be absent. The objects of a scene are those that any of instances, amodal, objects and
points list; one that `instances.png` does not show has no mask. The truth may name others, which stay unseen.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int32

from cpor.errors import InvalidSceneError, SceneFileError, list_labels
from cpor.io import folder_files as files
from cpor.io import images
from cpor.io.depth import SATURATED, DepthCamera, align_depth, to_metres
from cpor.io.whole_files import read_bytes, read_text
from cpor.scene import (
    BlockedBy,
    Camera,
    DetectedObject,
    Intrinsics,
    Observation,
    PixelPoint,
    Scene,
    SemanticScores,
    Sources,
    TrueRelations,
)

_TRUTH_FILES = {
    "true_occlusion": "relations.json",
    "true_sweep": "relations_sweep.json",
    "true_lift": "relations_lift.json",
}
_LIKE_RGB = frozenset(("depth.png", "camera.json", "instances.png", "amodal.npz", "points.json"))
_ALL_FILES = frozenset(_TRUTH_FILES.values()) | {
    *("rgb.png", "depth.png", "camera.json", "instances.png", "amodal.npz", "objects.json"),
    *("request.txt", "points.json", "scores.json", "sources.json"),
}


Progress = Callable[[str, int, int], None]
"""Told `(what, done, total)`."""


def read_scene_folder(folder: str | Path, depth_unit_m: float | None = None) -> Scene:
    """Read a scene folder.

    Args:
        folder: The folder; the head of this module says what it holds.
        depth_unit_m: Metres that one step of depth means, in place of what camera.json says. [m]

    Raises:
        SceneFileError: A file is missing, damaged, or contradicts another; the message names it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise SceneFileError(f"there is no folder {folder}; give the folder that holds rgb.png")
    there = {path.name: path for path in folder.iterdir() if path.name in _ALL_FILES}
    if "rgb.png" not in there:
        raise SceneFileError(f"{folder} has no rgb.png; a scene folder holds at least the photograph")
    companions = sorted(name for name in there if name in _LIKE_RGB)
    picture = there["rgb.png"]
    rgb, shape, _ = images.decode_photograph(read_bytes(picture), picture, companions)

    named: dict[int, files.ObjectEntry] = {}
    if path := there.get("objects.json"):
        named = {o.id: o for o in files.read_json(path, files.ObjectsFile).objects}
    visible_ids = _read_instances(path, shape) if (path := there.get("instances.png")) else None
    amodal = files.read_masks(path, shape) if (path := there.get("amodal.npz")) else {}
    points = _read_points(path, shape) if (path := there.get("points.json")) else {}
    truths = {key: _read_truth(there[name]) for key, name in _TRUTH_FILES.items() if name in there}
    ids = {*named, *amodal, *points}  # the truth may name objects that were not seen; a decision must not
    if visible_ids is not None:
        ids.update((np.flatnonzero(np.bincount(visible_ids.reshape(-1))[1:]) + 1).tolist())
    objects = []
    for k in sorted(ids):
        entry = named.get(k, files.ObjectEntry(id=k))
        objects.append(
            DetectedObject(k, amodal.get(k), entry.name, entry.score, entry.occluded, entry.called)
        )
    return Scene(
        _read_observation(there, rgb, depth_unit_m),
        tuple(objects),
        visible_ids,
        request=_read_request(path) if (path := there.get("request.txt")) else None,
        points=points,
        semantic_scores=make_scores(files.read_json(path, files.ScoresFile), path, ids)
        if (path := there.get("scores.json"))
        else None,
        sources=Sources(**files.read_json(path, files.SourcesFile).model_dump())
        if (path := there.get("sources.json"))
        else None,
        **truths,
    )


def write_scene_folder(scene: Scene, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a scene folder, whole or not at all; the same scene gives the same bytes.

    Args:
        scene: The scene. Depth is rounded to steps of its camera's `depth_unit_m`.
        folder: Where to; made, with its parents, if absent.
        overwrite: Whether a folder that is there already, and holds nothing but scene files, is replaced.

    Raises:
        SceneFileError: The folder is there already, or cannot be written.
    """
    folder = Path(folder)
    contents = encode_scene(scene)
    if folder.exists():
        strangers = (
            sorted(p.name for p in folder.iterdir() if p.name not in _ALL_FILES) if folder.is_dir() else []
        )
        if not overwrite or not folder.is_dir() or strangers:
            why = f", and holds other files ({list_labels(strangers)})" if strangers else ""
            raise SceneFileError(f"{folder} already exists{why}; choose another folder, or allow overwriting")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the goal, because only a rename within one file system is atomic.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".scene-") as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            for name, content in contents.items():
                (new / name).write_bytes(content)
            _swap(new, folder, old)
    except OSError as error:
        raise SceneFileError(f"{folder} cannot be written: {error.strerror}") from error


def _swap(new: Path, folder: Path, old: Path) -> None:
    """Put `new` in the place of `folder`, which goes to `old`, or leave everything as it was."""
    if not folder.exists():
        os.rename(new, folder)
        return
    os.rename(folder, old)
    try:
        os.rename(new, folder)
    except OSError:
        os.rename(old, folder)
        raise


def _read_observation(there: dict[str, Path], rgb: np.ndarray, depth_unit_m: float | None) -> Observation:
    file = files.CameraFile()
    if camera_path := there.get("camera.json"):
        file = files.read_json(camera_path, files.CameraFile)
        size = (file.height or rgb.shape[0], file.width or rgb.shape[1])
        _check_size(camera_path, size, rgb.shape[:2])
    if depth_unit_m is not None:
        file = file.model_copy(update={"depth_unit_m": depth_unit_m, "p_unit": None})
    camera = make_camera(file, camera_path or "camera.json")
    depth = None
    if depth_path := there.get("depth.png"):
        if file.depth_unit_m is None:
            raise SceneFileError(
                f"{depth_path} has no unit; give depth_unit_m in camera.json (0.001 where a step is 1 mm)"
            )
        depth = to_metres(
            images.decode_grey(read_bytes(depth_path), depth_path, images.DEPTH), file.depth_unit_m
        )
        if sensor := make_depth_camera(file, camera_path or "camera.json"):
            depth = align_depth(depth, sensor, camera.intrinsics, rgb.shape[:2])
        _check_size(depth_path, depth.shape, rgb.shape[:2])
    return Observation(rgb, depth, camera, file.time_s, file.number)


def make_camera(file: files.CameraFile, path: Path | str) -> Camera:
    """The camera that a `camera.json` describes, which errors call `path`."""
    values = [v for v in (file.fx, file.fy, file.cx, file.cy) if v is not None]
    if len(values) not in (0, 4):
        raise SceneFileError(f"{path} has only some of fx, fy, cx, cy; give all or none")
    pose = None if file.T_world_camera is None else np.array(file.T_world_camera)
    try:
        corners = None if file.workspace is None else tuple(PixelPoint(x, y) for x, y in file.workspace)
        return Camera(
            Intrinsics(*values) if values else None,
            pose,
            file.depth_unit_m or 0.001,
            corners,
            1.0 if file.p_unit is None else file.p_unit,
        )
    except InvalidSceneError as error:
        raise SceneFileError(f"{path}: {error}") from error


def make_depth_camera(file: files.CameraFile, path: Path | str) -> DepthCamera | None:
    """The depth camera that a `camera.json` describes; None where depth is registered to the photograph."""
    known = file.depth_camera
    if known is None:
        return None
    pose = None if known.T_colour_depth is None else np.array(known.T_colour_depth)
    try:
        return DepthCamera(Intrinsics(known.fx, known.fy, known.cx, known.cy), pose)
    except InvalidSceneError as error:
        raise SceneFileError(f"{path}: depth_camera: {error}") from error


def _read_instances(path: Path, shape: tuple[int, int]) -> Int32[np.ndarray, "h w"]:
    image = images.decode_grey(read_bytes(path), path, images.IDS)
    _check_size(path, image.shape, shape)
    return image.astype(np.int32)


def _read_points(path: Path, shape: tuple[int, int]) -> dict[int, PixelPoint]:
    points = {k: PixelPoint(*xy) for k, xy in files.read_json(path, files.PointsFile).root.items()}
    for k, (x, y) in points.items():
        if not (0.0 <= x < shape[1] and 0.0 <= y < shape[0]):
            raise SceneFileError(
                f"{path}: object {k} is at x {x}, y {y}, outside of the {shape[1]} x {shape[0]} image"
            )
    return points


def _read_request(path: Path) -> str | None:
    text = read_text(path).removesuffix("\n").removesuffix("\r")
    return text if text.strip() else None


def _read_truth(path: Path) -> TrueRelations:
    file = files.read_json(path, files.RelationsFile)
    for r in file.relations:
        _check_pair(path, r, set(file.objects))
    return TrueRelations(
        frozenset(file.objects), frozenset(BlockedBy(r.blocked, r.blocker) for r in file.relations)
    )


def make_scores(file: files.ScoresFile, path: Path | str, ids: set[int]) -> SemanticScores:
    """The scores that a `scores.json` holds, which errors call `path`; `ids` are those of the scene."""
    scores: dict[BlockedBy, float | None] = {}
    for r in file.relations:
        _check_pair(path, r, ids)
        pair = BlockedBy(r.blocked, r.blocker)
        if pair in scores and scores[pair] != r.score:
            raise SceneFileError(f"{path}: {pair} has two scores, {scores[pair]} and {r.score}; keep one")
        scores[pair] = r.score
    return SemanticScores(scores, file.scorer)


def _check_pair(path: Path | str, entry: files.RelationEntry, known: set[int]) -> None:
    for k in (entry.blocked, entry.blocker):
        if k not in known:
            raise SceneFileError(f"{path}: unknown object {k}; known here: {list_labels(sorted(known))}")
    if entry.blocked == entry.blocker:
        raise SceneFileError(f"{path}: object {entry.blocked} cannot obstruct itself; drop that relation")


def _check_size(path: Path, size: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if size != shape:
        raise SceneFileError(
            f"{path} is {size[1]} x {size[0]} pixels, rgb.png {shape[1]} x {shape[0]}; bring them to one size"
        )


def _encode_frame(seen: Observation) -> dict[str, bytes]:
    """Photograph, camera and depth."""
    camera = seen.camera
    height, width = seen.shape
    k = camera.intrinsics._asdict() if camera.intrinsics else {}
    pose = None if camera.T_world_camera is None else camera.T_world_camera.tolist()
    out = {"rgb.png": images.encode_png(seen.rgb)}
    out["camera.json"] = files.encode_json(
        files.CameraFile(
            **k,
            width=width,
            height=height,
            depth_unit_m=camera.depth_unit_m,
            p_unit=camera.p_unit if camera.p_unit < 1.0 else None,
            T_world_camera=pose,
            workspace=None if camera.workspace is None else [list(each) for each in camera.workspace],
            time_s=seen.time_s,
            number=seen.number,
        )
    )
    if seen.depth is not None:
        steps = np.rint(np.nan_to_num(seen.depth.astype(np.float64)) / camera.depth_unit_m)
        if steps.max() >= SATURATED:
            raise SceneFileError(
                f"a depth of {np.nanmax(seen.depth)} m does not fit 16 bits of {camera.depth_unit_m} m; "
                "give the camera a coarser depth_unit_m"
            )
        out["depth.png"] = images.encode_png(steps.astype(np.uint16))
    return out


def encode_scene(scene: Scene) -> dict[str, bytes]:
    """Bytes of every file of the scene, by name."""
    out = _encode_frame(scene.observation)
    listed = set(scene.points)
    if scene.visible_ids is not None:
        ids = scene.visible_ids
        out["instances.png"] = images.encode_png(ids.astype(np.uint8 if ids.max() < 256 else np.uint16))
        listed.update(np.unique(ids[ids > 0]).tolist())
    amodal = {o.id: o.amodal for o in scene.objects if o.amodal is not None}
    if amodal:
        out["amodal.npz"] = files.encode_masks(amodal, scene.observation.shape)
        listed.update(amodal)
    for key, name in _TRUTH_FILES.items():
        if truth := getattr(scene, key):
            relations = [files.RelationEntry(**p._asdict()) for p in sorted(truth.pairs)]
            out[name] = files.encode_json(
                files.RelationsFile(objects=sorted(truth.objects), relations=relations)
            )
    entries = [
        files.ObjectEntry(id=o.id, name=o.name, score=o.score, occluded=o.occluded, called=o.called)
        for o in scene.objects
    ]
    if listed != set(scene.ids) or entries != [files.ObjectEntry(id=k) for k in scene.ids]:
        out["objects.json"] = files.encode_json(files.ObjectsFile(objects=entries))
    if scene.request is not None:
        out["request.txt"] = f"{scene.request}\n".encode()
    if scene.points:
        out["points.json"] = files.encode_json(files.PointsFile(dict(sorted(scene.points.items()))))
    if scene.semantic_scores is not None:
        scores = sorted(scene.semantic_scores.scores.items(), key=lambda item: item[0])
        scored = [files.ScoreEntry(**p._asdict(), score=s) for p, s in scores]
        out["scores.json"] = files.encode_json(
            files.ScoresFile(scorer=scene.semantic_scores.scorer, relations=scored)
        )
    if scene.sources is not None:
        out["sources.json"] = files.encode_json(files.SourcesFile.of(scene.sources))
    return out


def list_scene_folders(folder: Path) -> list[Path]:
    """The scene folders right below a folder, by name."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise SceneFileError(f"{folder} {what}; give a folder that holds scene folders")
    found = sorted(path for path in folder.iterdir() if (path / "rgb.png").is_file())
    if not found:
        raise SceneFileError(f"{folder} holds no scene folders; each has at least an rgb.png")
    return found


def read_scenes(folder: Path, progress: Progress) -> Iterator[tuple[str, Scene]]:
    """Names and scenes of a folder, one by one."""
    paths = list_scene_folders(folder)
    for k, path in enumerate(paths):
        yield path.name, read_scene_folder(path)
        progress("reading", k + 1, len(paths))
