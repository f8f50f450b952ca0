"""A recording for the Rerun viewer as a file; nothing is sent anywhere, and no viewer is started.

Rerun comes with the extra `viz`. It is imported only where a recording is asked for.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from cpor.errors import InputFileError, InvalidSettingError, MissingExtraError

TIMELINE = "cycle"
"""Counts the turns of the loop; a single scene is at 0."""

SUFFIX = ".rrd"


def check_recording(path: Path) -> None:
    """Say what is wrong with a recording that is to be made before any work is done for it.

    Raises:
        MissingExtraError: Rerun is not installed.
        InvalidSettingError: The file cannot be there.
    """
    if find_spec("rerun") is None:
        raise MissingExtraError(
            "a recording needs Rerun, which is not installed; get it with: pip install 'cpor-grasp[viz]'"
        )
    if path.suffix != SUFFIX:
        raise InvalidSettingError(f"--rerun is {path}; give a file name that ends with {SUFFIX}")
    if path.is_dir():
        raise InvalidSettingError(f"--rerun is {path}, which is a folder; give a file")
    if not path.parent.is_dir():
        raise InvalidSettingError(f"there is no folder {path.parent}; make it, or choose another --rerun")


class RerunFile:
    """A recording that is being written; use it in a `with` statement.

    The file is there under its name once the statement ends, with an error or without: what was recorded up
    to an error helps to understand it.

    Args:
        path: The file, like run.rrd.
        name: What it shows, for the viewer's list.
    """

    def __init__(self, path: Path, name: str) -> None:
        check_recording(path)
        import rerun

        self.rerun: Any = rerun
        self._path = path
        self._scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._stream: Any = rerun.RecordingStream("cpor-grasp")
        try:
            self._stream.save(self._scratch, default_blueprint=_layout(rerun))
        except RuntimeError as error:
            raise InputFileError(f"cannot write {path}: {error}; choose another --rerun") from None
        self._stream.send_recording_name(name)

    def __enter__(self) -> "RerunFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()
        self._stream.disconnect()
        try:
            self._scratch.replace(self._path)
        except OSError as problem:
            raise InputFileError(f"cannot write {self._path}: {problem.strerror}") from None

    def at_cycle(self, index: int) -> None:
        """What is logged from now on belongs to a turn of the loop."""
        self._stream.set_time(TIMELINE, sequence=index)

    def log(self, path: str, *what: object, static: bool = False) -> None:
        """Log archetypes of Rerun's at a place; static: at all times."""
        self._stream.log(path, *what, static=static)

    def clear(self, path: str) -> None:
        """From now on nothing is at a place any more."""
        self._stream.log(path, self.rerun.Clear(recursive=True))


def _layout(rerun: Any) -> Any:
    """Initial layout of the viewer."""
    views = rerun.blueprint
    return views.Blueprint(
        views.Horizontal(
            views.Vertical(
                views.Spatial2DView(origin="world/camera", name="What was seen"),
                views.Spatial3DView(origin="world", name="In space"),
            ),
            views.Vertical(
                views.TextDocumentView(origin="decision/words", name="Decision"),
                views.BarChartView(origin="decision/scores", name="How likely each action is right"),
                views.GraphView(origin="decision/graph", name="What lies in the way of what"),
                views.TextLogView(origin="log", name="Log"),
            ),
        ),
        collapse_panels=True,
    )
