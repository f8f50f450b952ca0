"""Recorded runs of the loop as a LeRobot data set (layout v2.1): one episode a run, one frame a decision.

Pictures are kept in the Parquet files. `action` is what was decided: kind (0 grasp, 1 remove, 2 defer) and
the place of the object in the picture; `observation.state` is the place of the target and the best score.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cpor.decision import Defer, Grasp
from cpor.errors import InvalidSettingError
from cpor.files.images import encode_png
from cpor.files.whole_files import write_text
from cpor.perception.network_file import MissingExtraError
from cpor.robot.cycle import Cycle
from cpor.robot.run_folder import RecordedRun
from cpor.scene import Scene

VERSION = "v2.1"
FPS = 1
"""A decision has no frame rate; players show one a second."""

_CAMERA = "observation.images.camera"
_STATE = ["target_x", "target_y", "best_score"]
_ACTION = ["kind", "x", "y"]
_COUNTERS = ("frame_index", "episode_index", "index", "task_index")


def write_lerobot(runs: Sequence[RecordedRun], folder: str | Path) -> int:
    """Write runs as one data set; the number of frames in it.

    Args:
        runs: As `cpor.robot.run_folder.read_run` reads them; cycles without a decision are left out.
        folder: To write; it must not exist.

    Raises:
        MissingExtraError: pyarrow is not installed.
        InvalidSettingError: The folder is there already, or there is no decision in the runs.
    """
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError(
            "a LeRobot data set needs pyarrow; get it with: pip install 'cpor-grasp[viz]'"
        ) from None
    folder = Path(folder)
    episodes = [[cycle for cycle in run.cycles if cycle.action is not None] for run in runs]
    shapes = {cycle.scene.observation.shape for episode in episodes for cycle in episode}
    if folder.exists():
        raise InvalidSettingError(f"{folder} is there already; choose another folder")
    if len(shapes) != 1:
        raise InvalidSettingError(f"the runs have {len(shapes)} sizes of pictures; a data set has one")
    (folder / "data" / "chunk-000").mkdir(parents=True)
    tasks: dict[str, int] = {}
    lines: list[dict[str, Any]] = []
    stats: list[dict[str, Any]] = []
    total = 0
    for k, (run, episode) in enumerate(zip(runs, episodes, strict=True)):
        task = str(run.head.about.get("request") or "fetch the target")
        number = tasks.setdefault(task, len(tasks))
        table = _columns(episode, k, total, number)
        kinds = {_CAMERA: arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])}
        kinds |= dict.fromkeys(("observation.state", "action"), arrow.list_(arrow.float32(), 3))
        kinds |= {"timestamp": arrow.float32()} | dict.fromkeys(_COUNTERS, arrow.int64())
        schema = arrow.schema(list(kinds.items()))
        parquet.write_table(
            arrow.table(table, schema=schema), folder / "data" / "chunk-000" / f"episode_{k:06d}.parquet"
        )
        lines.append({"episode_index": k, "tasks": [task], "length": len(episode)})
        stats.append({"episode_index": k, "stats": _statistics(episode, table)})
        total += len(episode)
    _write_meta(folder / "meta", shapes.pop(), lines, stats, tasks, total)
    return total


def _columns(episode: list[Cycle], number: int, before: int, task: int) -> dict[str, list[Any]]:
    count = len(episode)
    return {
        _CAMERA: [
            {"bytes": encode_png(c.scene.observation.rgb), "path": f"{c.index:06d}.png"} for c in episode
        ],
        "observation.state": [_state(cycle) for cycle in episode],
        "action": [_action(cycle) for cycle in episode],
        "timestamp": [k / FPS for k in range(count)],
        "frame_index": list(range(count)),
        "episode_index": [number] * count,
        "index": list(range(before, before + count)),
        "task_index": [task] * count,
    }


def _state(cycle: Cycle) -> list[float]:
    best = max(cycle.decision.scores.values(), default=0.0) if cycle.decision is not None else 0.0
    return [*_place(cycle.scene, cycle.target), float(best)]


def _action(cycle: Cycle) -> list[float]:
    action = cycle.action
    if action is None or isinstance(action, Defer):
        return [2.0, 0.0, 0.0]
    return [0.0 if isinstance(action, Grasp) else 1.0, *_place(cycle.scene, int(action.obj))]  # type: ignore[call-overload]


def _place(scene: Scene, obj: int | None) -> list[float]:
    """Middle of what shows of an object, in shares of the picture; 0, 0 where nothing does."""
    if scene.visible_ids is None or obj is None or not (scene.visible_ids == obj).any():
        return [0.0, 0.0]
    rows, cols = np.nonzero(scene.visible_ids == obj)
    height, width = scene.observation.shape
    return [float(cols.mean() / width), float(rows.mean() / height)]


def _statistics(episode: list[Cycle], table: dict[str, list[Any]]) -> dict[str, Any]:
    found = {}
    for name, values in table.items():
        if name == _CAMERA:
            pixels = np.stack([cycle.scene.observation.rgb for cycle in episode]).reshape(-1, 3) / 255.0
            each = [side.reshape(3, 1, 1).tolist() for side in _spread(pixels)]
        else:
            column = np.array(values, np.float64)
            each = [side.tolist() for side in _spread(column.reshape(len(values), -1))]
        found[name] = dict(zip(("min", "max", "mean", "std"), each, strict=True)) | {"count": [len(values)]}
    return found


def _spread(values: np.ndarray) -> list[np.ndarray]:
    return [values.min(axis=0), values.max(axis=0), values.mean(axis=0), values.std(axis=0)]


def _write_meta(
    folder: Path,
    shape: tuple[int, int],
    episodes: list[dict[str, Any]],
    stats: list[dict[str, Any]],
    tasks: dict[str, int],
    total: int,
) -> None:
    folder.mkdir()
    picture = {"dtype": "image", "shape": [*shape, 3], "names": ["height", "width", "channels"]}
    features: dict[str, Any] = {_CAMERA: picture}
    for name, parts in (("observation.state", _STATE), ("action", _ACTION)):
        features[name] = {"dtype": "float32", "shape": [3], "names": parts}
    features["timestamp"] = {"dtype": "float32", "shape": [1], "names": None}
    features |= {name: {"dtype": "int64", "shape": [1], "names": None} for name in _COUNTERS}
    info = {
        "codebase_version": VERSION,
        "robot_type": "cpor",
        "total_episodes": len(episodes),
        "total_frames": total,
        "total_tasks": len(tasks),
        "total_videos": 0,
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(episodes)}"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": None,
        "features": features,
    }
    write_text(folder / "info.json", json.dumps(info, indent=2) + "\n")
    listed = [{"task_index": k, "task": task} for task, k in tasks.items()]
    for name, rows in (("episodes", episodes), ("episodes_stats", stats), ("tasks", listed)):
        write_text(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
