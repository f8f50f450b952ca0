"""Folders of scene folders, one after the other."""

from collections.abc import Callable, Iterator
from pathlib import Path

from cpor.errors import SceneFileError
from cpor.io.scene_folder import read_scene_folder
from cpor.scene import Scene

Progress = Callable[[str, int, int], None]
"""Told `(what, done, total)`."""


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
