"""A frame from two image files, as cameras and other programs write them."""

from pathlib import Path

import numpy as np
from PIL import Image

from cpor.data.folder_files import MAX_PIXELS
from cpor.data.scene_folder import DEPTH_RANGE_M, read_depth
from cpor.errors import InvalidSettingError, SceneFileError
from cpor.scene import Camera, Observation


def read_frame(rgb: Path, depth: Path | None, depth_unit_m: float = 0.001) -> Observation:
    """Read a photograph (PNG or JPEG) and, where given, its depth (16-bit PNG).

    Args:
        rgb: The photograph.
        depth: Registered to it; None for none.
        depth_unit_m: Metres that one step of depth means. [m]

    Raises:
        SceneFileError: A file is missing, damaged, or of another size; the message names it.
    """
    if not (np.isfinite(depth_unit_m) and depth_unit_m > 0.0):
        raise InvalidSettingError(f"the depth unit is {depth_unit_m}; give the metres one step means")
    try:
        with Image.open(rgb, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise SceneFileError(f"{rgb} has more than {MAX_PIXELS:,} pixels; make it smaller")
            if image.mode not in ("RGB", "RGBA", "L", "LA", "P"):
                raise SceneFileError(f"{rgb} holds {image.mode} pixels; save it with 8 bits a channel")
            pixels = np.array(image.convert("RGB"))
    except SceneFileError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise SceneFileError(f"{rgb} cannot be read as a PNG or JPEG image ({error})") from error
    if depth is None:
        return Observation(pixels)
    metres = read_depth(depth, depth_unit_m, DEPTH_RANGE_M)
    if metres.shape != pixels.shape[:2]:
        raise SceneFileError(
            f"{depth} is {metres.shape[1]} x {metres.shape[0]} pixels, {rgb} {pixels.shape[1]} x "
            f"{pixels.shape[0]}; register depth to the photograph"
        )
    return Observation(pixels, metres, Camera(depth_unit_m=depth_unit_m))
