"""A frame from two image files, as cameras and other programs write them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt8

from cpor.data.scene_folder import DEPTH_RANGE_M, to_metres
from cpor.errors import InvalidSceneError, InvalidSettingError, SceneFileError
from cpor.files import images
from cpor.gate.depth_unit import guess_depth_unit
from cpor.scene import Camera, Observation


def make_observation(
    rgb: UInt8[np.ndarray, "h w 3"],
    depth: Shaped[np.ndarray, "h w"] | None,
    camera: Camera | None = None,
    depth_unit_m: float | None = None,
) -> tuple[Observation, tuple[str, ...]]:
    """A frame from arrays, and what to know of the unit of its depth, in sentences.

    Args:
        rgb: The photograph. Shape (h, w, 3).
        depth: Steps of a unit, of any type of number; None for none. Shape (h, w).
        camera: What is known of the camera.
        depth_unit_m: Metres that one step means; None: it is guessed. [m]
    """
    camera = camera or Camera()
    if depth is None:
        return Observation(rgb, None, camera), ()
    if depth.shape != rgb.shape[:2]:
        raise InvalidSceneError(
            f"depth is {_size(depth)} pixels, the photograph {_size(rgb)}; register depth to the photograph"
        )
    notes: tuple[str, ...] = ()
    if depth_unit_m is None:
        guess = guess_depth_unit(depth)
        # Where no unit makes sense, the checks of the frame say what is wrong with it.
        depth_unit_m = guess.unit_m or 0.001
        sure = "" if guess.sure else ", which is not certain"
        notes = (
            f"The unit of depth was not given. Judging by its values, one step is {depth_unit_m:g} m{sure}.",
        )
    if not (np.isfinite(depth_unit_m) and depth_unit_m > 0.0):
        raise InvalidSettingError(f"the depth unit is {depth_unit_m}; give the metres per step")
    if depth.dtype == np.uint16:
        metres = to_metres(depth, depth_unit_m)
    else:
        metres = (depth.astype(np.float64) * depth_unit_m).astype(np.float32)
        low, high = DEPTH_RANGE_M
        metres[~((metres >= low) & (metres <= high))] = np.nan
    # A scene folder counts in steps of this: fractions are kept to a tenth of a millimetre.
    step = depth_unit_m if depth.dtype.kind in "iu" else 1e-4
    return Observation(rgb, metres, replace(camera, depth_unit_m=step)), notes


def read_frame(
    rgb: Path, depth: Path | None, camera: Camera | None = None, depth_unit_m: float | None = None
) -> tuple[Observation, tuple[str, ...]]:
    """Read a photograph (PNG, JPEG or WebP) and, where given, its depth (16-bit PNG); see `make_observation`.

    Args:
        rgb: The photograph.
        depth: Registered to it; None for none.
        camera: What is known of the camera.
        depth_unit_m: Metres that one step of depth means; None: it is guessed. [m]

    Raises:
        SceneFileError: A file is missing, damaged, or of another size; the message names it.
    """
    companions = () if depth is None else (str(depth),)
    pixels = images.decode_photograph(images.read_bytes(rgb), rgb, companions).pixels
    if depth is None:
        return make_observation(pixels, None, camera)
    steps = images.decode_grey(images.read_bytes(depth), depth, images.DEPTH)
    try:
        return make_observation(pixels, steps, camera, depth_unit_m)
    except InvalidSceneError as error:
        raise SceneFileError(f"{depth}: {error}") from None


def _size(image: np.ndarray) -> str:
    return f"{image.shape[1]} x {image.shape[0]}"
