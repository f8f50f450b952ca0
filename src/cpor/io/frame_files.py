"""A frame as cameras and other programs write it: two files, a folder of them, or arrays."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Shaped, UInt8

from cpor.errors import InvalidSceneError, InvalidSettingError, SceneFileError
from cpor.io import frames
from cpor.io.camera_files import KnownCamera, known_camera
from cpor.io.depth import (
    SURE,
    DepthCamera,
    align_depth,
    drop_strays,
    guess_depth_unit,
    resize_depth,
    same_aspect,
    to_metres,
)
from cpor.io.frames import choose_frame, find_frames
from cpor.io.images import ZIP, decode_npz
from cpor.io.scene_folder import read_scene_folder
from cpor.io.whole_files import read_bytes
from cpor.scene import Camera, Observation, PixelPoint, Scene


def make_observation(
    rgb: UInt8[np.ndarray, "h w 3"],
    depth: Shaped[np.ndarray, "rows cols"] | None,
    camera: Camera | None = None,
    depth_unit_m: float | None = None,
    sensor: DepthCamera | None = None,
) -> tuple[Observation, tuple[str, ...]]:
    """A frame from arrays, and what to know of the unit of its depth, in sentences.

    Args:
        rgb: The photograph. Shape (h, w, 3).
        depth: Steps of a unit, of any type of number; None for none. Shape (rows, cols).
        camera: What is known of the camera.
        depth_unit_m: Metres that one step means; None: it is guessed. [m]
        sensor: The depth camera; None: depth is registered to the photograph.
    """
    camera = camera or Camera()
    if depth is None:
        return Observation(rgb, None, camera), ()
    if sensor is None and not (depth.ndim == 2 and same_aspect(depth.shape, rgb.shape[:2])):
        raise InvalidSceneError(
            f"depth is {_size(depth)} pixels, the photograph {_size(rgb)}; register depth to the photograph, "
            'or write both cameras into camera.json: fx, fy, cx, cy and "depth_camera": {fx, fy, '
            "cx, cy, T_colour_depth}"
        )
    notes: tuple[str, ...] = ()
    p_unit = camera.p_unit
    if depth_unit_m is None:
        depth_unit_m, p_unit, note = _guess_unit(depth)
        notes = (note,)
    if not (np.isfinite(depth_unit_m) and depth_unit_m > 0.0):
        raise InvalidSettingError(f"the depth unit is {depth_unit_m}; give the metres per step")
    metres, strays = drop_strays(to_metres(depth, depth_unit_m))
    if strays:
        notes += (f"Depth has {strays} stray readings, far off all around them; they count as missing.",)
    if sensor is not None:
        metres = align_depth(metres, sensor, camera.intrinsics, rgb.shape[:2])
        notes += ("Depth was brought into the pixels of the photograph, as the two cameras' data say.",)
    elif depth.shape != rgb.shape[:2]:
        metres = resize_depth(metres, rgb.shape[:2])
        sizes = f"Depth is {_size(depth)} pixels, the photograph {_size(rgb)}"
        notes += (f"{sizes}; each pixel takes the nearest reading.",)
    # A scene folder counts in steps of this: fractions are kept to a tenth of a millimetre.
    step = depth_unit_m if depth.dtype.kind in "iu" else 1e-4
    return Observation(rgb, metres, replace(camera, depth_unit_m=step, p_unit=p_unit)), notes


def read_input(
    picture: Path,
    depth: Path | None = None,
    camera: Camera | None = None,
    depth_unit_m: float | None = None,
    frame: int | None = None,
) -> tuple[Scene, tuple[str, ...]]:
    """Read whatever a user names: a scene folder, a folder of frames, a photograph with or without depth.

    Args:
        picture: The folder, or the photograph. An npz file may hold both pictures.
        depth: Its depth.
        camera: What is known of the camera; None: what the files beside the photograph say.
        depth_unit_m: Metres that one step of depth means; None: as the files say, else it is guessed. [m]
        frame: Which frame of a folder, counted from 0; None: the first.

    Raises:
        SceneFileError: A file is missing, damaged, or contradicts another; the message names it.
    """
    for path in (picture, depth):
        if path is not None and not path.exists():
            raise SceneFileError(f"there is no file or folder {path}; check the path")
    if not picture.is_dir():
        if frame is not None:
            raise InvalidSettingError(f"{picture} is one frame; --frame is for a folder of frames")
        # In folders named after what they hold, the camera is spoken of one above.
        home = picture.parent if frames.role_of(picture.parent.name)[1] else picture.parent.parent
        name = frames.role_of(picture.stem)[1]
        known = known_camera(home, name) if camera is None else KnownCamera(camera)
        seen, notes = read_frame(picture, depth, known, depth_unit_m)
        return Scene(seen), notes
    if depth is not None or camera is not None:
        raise InvalidSettingError(
            f"{picture} is a folder, whose depth and camera are found in it; drop yours"
        )
    if (picture / "rgb.png").is_file():
        if frame:
            raise InvalidSettingError(f"{picture} is one scene; --frame is for a folder of frames")
        return _read_scene(picture, depth_unit_m)
    found = find_frames(picture)
    if not found:
        raise SceneFileError(f"{picture} holds no photograph{_say_inside(picture)}")
    chosen = choose_frame(found, frame, picture)
    seen, notes = read_frame(chosen.rgb, chosen.depth, known_camera(chosen.folder, chosen.name), depth_unit_m)
    if len(found) > 1:
        number = found.index(chosen)
        other = "" if frame is not None else f"; --frame 0 to {len(found) - 1} takes another"
        notes = (
            f"{picture.name} has {len(found)} frames; this is {number}, {chosen.rgb.name}{other}.",
            *notes,
        )
    return Scene(seen), notes


def read_frame(
    rgb: Path,
    depth: Path | None,
    known: KnownCamera | None = None,
    depth_unit_m: float | None = None,
) -> tuple[Observation, tuple[str, ...]]:
    """Read a photograph and, where given, its depth, in files of any kind; see `make_observation`.

    Args:
        rgb: The photograph, or an npz file with both.
        depth: Its depth; None for none.
        known: What is known of the cameras.
        depth_unit_m: Metres that one step of depth means; None: as `known` says, else it is guessed. [m]

    Raises:
        SceneFileError: A file is missing, damaged, or of another size; the message names it.
    """
    known = known or KnownCamera()
    data = read_bytes(rgb)
    steps = None
    if depth is not None:
        pixels = frames.decode_any_photograph(data, rgb, (str(depth),))
        raw_shape = known.raw_shape or pixels.shape[:2]
        steps = frames.decode_any_depth(read_bytes(depth), depth, raw_shape)
    else:
        pixels = frames.decode_any_photograph(data, rgb)
        if data.startswith(ZIP) and (found := frames.pick_array(decode_npz(data, rgb), "depth")) is not None:
            steps = frames.as_depth(found, rgb) if found.ndim != 3 or 1 in found.shape else None
    if known.shape is not None and known.shape != pixels.shape[:2]:
        raise SceneFileError(
            f"{known.by[0]} is about pictures of {known.shape[1]} x {known.shape[0]} pixels, {rgb} has "
            f"{_size(pixels)}; give the camera of this picture, or remove {known.by[0]}"
        )
    notes: tuple[str, ...] = ()
    unit_m = depth_unit_m
    if steps is not None and unit_m is None and known.unit_m is not None:
        unit_m = known.unit_m
        notes = (f"One step of depth is {unit_m:g} m, by {', '.join(known.by)}.",)
    try:
        camera = known.camera if depth_unit_m is None else replace(known.camera, p_unit=1.0)
        seen, more = make_observation(pixels, steps, camera, unit_m, known.sensor)
    except InvalidSceneError as error:
        raise SceneFileError(f"{depth or rgb}: {error}") from None
    return seen, (*notes, *more)


def read_steps(picture: Path, depth: Path | None = None, frame: int | None = None) -> np.ndarray | None:
    """Depth of an input as its file has it, in steps of a unit; None where there is none, or it is raw."""
    path = depth
    if path is None and picture.is_dir():
        path = picture / "depth.png"
        if not path.is_file():
            found = find_frames(picture)
            path = choose_frame(found, frame, picture).depth if found else None
    elif path is None and picture.suffix.casefold() == ".npz":
        path = picture
    if path is None or path.suffix.casefold() == ".raw":
        return None
    return frames.decode_any_depth(read_bytes(path), path)


def name_inputs(folder: Path) -> dict[str, tuple[Path, int | None]]:
    """What `list_inputs` finds, each by a name that a folder can have: where it lies, and its number."""
    found = {}
    for path, number in list_inputs(folder):
        inside = "-".join(path.relative_to(folder).parts)
        counted = "" if number is None and inside else f"{number or 0:04d}"
        found["_".join(filter(None, (inside, counted)))] = path, number
    return found


def list_inputs(folder: Path) -> list[tuple[Path, int | None]]:
    """What a folder holds that can be looked at: itself, frames by number, or folders of one frame each.

    Folders come in the order of the numbers in their names: `cycle_11` before `cycle_100`.
    """
    if not folder.exists():
        raise SceneFileError(f"there is no file or folder {folder}; check the path")
    if not folder.is_dir() or (folder / "rgb.png").is_file():
        return [(folder, None)]
    found = find_frames(folder)
    if found:
        return [(folder, k) for k in range(len(found))] if len(found) > 1 else [(folder, None)]
    inside = [path for path in folder.iterdir() if path.is_dir() and _holds_frames(path)]
    if not inside:
        raise SceneFileError(f"{folder} holds no photograph{_say_inside(folder)}")
    return [each for path in sorted(inside, key=_in_order) for each in list_inputs(path)]


def _in_order(folder: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", folder.name)]


def _read_scene(folder: Path, depth_unit_m: float | None) -> tuple[Scene, tuple[str, ...]]:
    """A scene folder; its depth may be another file than depth.png, in a unit to be guessed."""
    path = folder / "depth.png"
    if not path.is_file():
        scene = read_scene_folder(folder, depth_unit_m=depth_unit_m)
        other = next((each for each in find_frames(folder) if each.rgb == folder / "rgb.png"), None)
        if other is None or other.depth is None:
            return scene, ()
        seen, notes = read_frame(other.rgb, other.depth, known_camera(folder), depth_unit_m)
        before = scene.observation
        seen = replace(seen, time_s=before.time_s, number=before.number)
        return replace(scene, observation=seen), notes
    p_unit, notes = 1.0, tuple[str, ...]()
    if depth_unit_m is None:
        known = known_camera(folder)
        depth_unit_m, p_unit = known.unit_m, known.camera.p_unit
        if depth_unit_m is None:
            depth_unit_m, p_unit, note = _guess_unit(frames.decode_any_depth(read_bytes(path), path))
            notes = (note,)
    scene = read_scene_folder(folder, depth_unit_m=depth_unit_m)
    camera = replace(scene.observation.camera, p_unit=p_unit)
    return replace(scene, observation=replace(scene.observation, camera=camera)), notes


def _guess_unit(depth: np.ndarray) -> tuple[float, float, str]:
    """The likeliest unit, how likely it is, and both in words."""
    unit_m, probability = guess_depth_unit(depth)
    # Where no unit makes sense, the checks of the frame say what is wrong with it.
    unit_m = unit_m or 0.001
    sure = "" if probability >= SURE else ", which is not certain"
    unit = "it is in metres" if unit_m == 1.0 else f"one step is {unit_m:g} m"
    return unit_m, probability, f"The unit of depth was not given. Judging by its values, {unit}{sure}."


def _say_inside(folder: Path) -> str:
    """What to do about a folder without pictures."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    frames_inside = [path for path in inside if (path / "rgb.png").is_file() or _holds_frames(path)]
    if frames_inside:
        return f", but {len(frames_inside)} folders that do; give one of them, such as {frames_inside[0]}"
    return f"; a photograph ends in {', '.join(sorted(frames.PHOTOGRAPHS))}"


def _holds_frames(folder: Path) -> bool:
    """Whether a folder holds frames, as far as their names tell."""
    try:
        return bool(find_frames(folder))
    except SceneFileError:
        return True


def _size(image: np.ndarray) -> str:
    return f"{image.shape[1]} x {image.shape[0]}"


Picture: TypeAlias = np.ndarray | Observation | Scene | str | Path
"""An array, a frame, a scene with masks, an image file, or a folder of a scene or of frames."""


def read_picture(
    picture: Picture,
    depth: np.ndarray | str | Path | None,
    camera: Camera | None,
    unit_m: float | None,
    frame: int | None,
) -> tuple[Scene, tuple[str, ...]]:
    """What was given, as a scene, and what to know of it."""
    if isinstance(picture, Scene | Observation):
        if depth is not None or camera is not None or unit_m is not None:
            raise InvalidSettingError("a frame has its own depth and camera; give it alone")
        return (picture if isinstance(picture, Scene) else Scene(picture)), ()
    if isinstance(picture, np.ndarray) and not isinstance(depth, str | Path):
        seen, notes = make_observation(picture, depth, camera, unit_m)
        return Scene(seen), notes
    if isinstance(picture, np.ndarray) or isinstance(depth, np.ndarray):
        raise InvalidSettingError("give photograph and depth both as arrays, or both as files")
    return read_input(Path(picture), None if depth is None else Path(depth), camera, unit_m, frame)


def limit_to(scene: Scene, workspace: Sequence[tuple[float, float]]) -> Scene:
    """The scene with another workspace."""
    camera = replace(scene.observation.camera, workspace=tuple(PixelPoint(x, y) for x, y in workspace))
    return replace(scene, observation=replace(scene.observation, camera=camera))
