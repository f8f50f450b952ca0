"""Pictures as people have them, read as scenes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from cpor.data.frame_files import make_observation, read_input
from cpor.errors import InvalidSettingError
from cpor.scene import Camera, Observation, PixelPoint, Scene

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
