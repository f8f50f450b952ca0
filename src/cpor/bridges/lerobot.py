"""Recorded runs of the loop as a LeRobot data set (layout v3.0): one episode a run, one frame a decision.

Pictures are kept in the Parquet files, depth as 16-bit millimetres (0: none). `action` is what was decided:
kind (0 grasp, 1 remove, 2 defer) and the place of the object in the picture; `observation.state` is the place
of the target and the best score.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt16

from cpor.decision import Defer, Grasp
from cpor.errors import InvalidSettingError, needing
from cpor.io.images import encode_png
from cpor.io.whole_files import write_text
from cpor.robot.cycle import Cycle
from cpor.robot.run_folder import RecordedRun
from cpor.scene import Observation, Scene

VERSION = "v3.0"
FPS = 1
"""A decision has no frame rate; players show one a second."""

FILE_MB, FILES_A_CHUNK = 100, 1000
"""LeRobot's own limits: after so much a new file begins, after so many a new folder. [MB]"""

_CAMERA, _DEPTH = "observation.images.camera", "observation.images.depth"
_STATE = ["target_x", "target_y", "best_score"]
_ACTION = ["kind", "x", "y"]
_COUNTERS = ("frame_index", "episode_index", "index", "task_index")
_SPREAD = ("min", "max", "mean", "std")
_PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


def write_lerobot(runs: Sequence[RecordedRun], folder: str | Path) -> int:
    """Write runs as one data set; the number of frames in it.

    Args:
        runs: As `cpor.robot.run_folder.read_run` reads them; cycles without a decision are left out, and so
            is all depth where a frame has none.
        folder: To write; it must not exist.
    """
    with needing("viz", "a LeRobot data set needs pyarrow"):
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    folder = Path(folder)
    if folder.exists():
        raise InvalidSettingError(f"{folder} is there already; choose another folder")
    decided = [(run, [cycle for cycle in run.cycles if cycle.action is not None]) for run in runs]
    decided = [(run, episode) for run, episode in decided if episode]
    shape, pictures = _kind_of_pictures([each.scene.observation for _, one in decided for each in one])
    schema = _schema(arrow, pictures)
    tasks: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    each_stats: list[dict[str, dict[str, Any]]] = []
    file, size, total, writer = 0, 0, 0, None
    for k, (run, episode) in enumerate(decided):
        task = str(run.head.about.get("request") or "fetch the target")
        table = _columns(episode, k, total, tasks.setdefault(task, len(tasks)), pictures)
        if writer is not None and size > FILE_MB * 2**20:
            writer.close()
            file, size, writer = file + 1, 0, None
        at = {"chunk_index": file // FILES_A_CHUNK, "file_index": file % FILES_A_CHUNK}
        if writer is None:
            writer = parquet.ParquetWriter(_made(folder / "data" / _PLACE.format(**at)), schema)
        writer.write_table(arrow.table(table, schema=schema))
        size += sum(len(each["bytes"]) for name in pictures for each in table[name])
        stats = _statistics(table, [cycle.scene.observation for cycle in episode])
        each_stats.append(stats)
        rows.append(
            {"episode_index": k, "tasks": [task], "length": len(episode)}
            | {f"data/{name}": value for name, value in at.items()}
            | {"dataset_from_index": total, "dataset_to_index": total + len(episode)}
            | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
            | {f"stats/{name}/{stat}": value for name, all_ in stats.items() for stat, value in all_.items()}
        )
        total += len(episode)
    assert writer is not None
    writer.close()
    meta = folder / "meta"
    place = meta / "episodes" / _PLACE.format(chunk_index=0, file_index=0)
    parquet.write_table(arrow.Table.from_pylist(rows), _made(place))
    parquet.write_table(_task_table(arrow, tasks), meta / "tasks.parquet")
    _write_info(meta, shape, pictures, len(rows), total, len(tasks))
    together = {name: _together([stats[name] for stats in each_stats]) for name in schema.names}
    write_text(meta / "stats.json", json.dumps(together, indent=2) + "\n")
    return total


def _kind_of_pictures(seen: list[Observation]) -> tuple[tuple[int, int], list[str]]:
    """Size of the pictures, and the names of their columns."""
    shapes = {each.shape for each in seen}
    if len(shapes) != 1:
        raise InvalidSettingError(f"the runs have {len(shapes)} sizes of pictures; a data set has one")
    return shapes.pop(), [_CAMERA] if any(each.depth is None for each in seen) else [_CAMERA, _DEPTH]


def _schema(arrow: Any, pictures: list[str]) -> Any:
    """Types of the columns of a data file."""
    kinds = dict.fromkeys(pictures, arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())]))
    kinds |= dict.fromkeys(("observation.state", "action"), arrow.list_(arrow.float32(), 3))
    kinds |= {"timestamp": arrow.float32()} | dict.fromkeys(_COUNTERS, arrow.int64())
    return arrow.schema(list(kinds.items()))


def _task_table(arrow: Any, tasks: dict[str, int]) -> Any:
    """The tasks by number; LeRobot reads the file with pandas, and finds a task by the label of its row."""
    listed = arrow.table({"task_index": list(tasks.values()), "task": list(tasks)})
    columns = (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    described = [dict(zip(keys, (name, name, *types, None), strict=True)) for name, *types in columns]
    pandas = json.dumps({"index_columns": ["task"], "column_indexes": [], "columns": described})
    return listed.replace_schema_metadata({"pandas": pandas})


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _columns(
    episode: list[Cycle], number: int, before: int, task: int, pictures: list[str]
) -> dict[str, list[Any]]:
    count = len(episode)
    seen = [cycle.scene.observation for cycle in episode]
    shown = {_CAMERA: [each.rgb for each in seen], _DEPTH: map(_millimetres, seen)}
    paths = [f"{cycle.index:06d}.png" for cycle in episode]
    columns: dict[str, list[Any]] = {}
    for name in pictures:
        files = zip(map(encode_png, shown[name]), paths, strict=True)
        columns[name] = [{"bytes": content, "path": path} for content, path in files]
    return columns | {
        "observation.state": [_state(cycle) for cycle in episode],
        "action": [_action(cycle) for cycle in episode],
        "timestamp": [k / FPS for k in range(count)],
        "frame_index": list(range(count)),
        "episode_index": [number] * count,
        "index": list(range(before, before + count)),
        "task_index": [task] * count,
    }


def _millimetres(observation: Observation) -> UInt16[np.ndarray, "h w"]:
    """Depth as LeRobot keeps it; 0: none, also beyond 65 m."""
    assert observation.depth is not None
    steps = np.nan_to_num(np.rint(observation.depth * 1000.0), nan=0.0)
    return np.where(steps < 2**16, steps, 0).astype(np.uint16)


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


def _statistics(table: dict[str, list[Any]], seen: list[Observation]) -> dict[str, dict[str, Any]]:
    """Spread of every column; of pixels by colour, from 0 to 1, and of depth in millimetres."""
    found = {}
    for name, values in table.items():
        if name in (_CAMERA, _DEPTH):
            pixels = np.stack([each.rgb / 255.0 if name == _CAMERA else _millimetres(each) for each in seen])
            column = pixels.reshape(-1, 3 if name == _CAMERA else 1).astype(np.float64)
            shape: tuple[int, ...] = (-1, 1, 1)
        else:
            column, shape = np.array(values, np.float64).reshape(len(values), -1), (-1,)
        spread = column.min(axis=0), column.max(axis=0), column.mean(axis=0), column.std(axis=0)
        each = [side.reshape(shape).tolist() for side in spread]
        found[name] = dict(zip(_SPREAD, each, strict=True)) | {"count": [len(values)]}
    return found


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The spread of all episodes from that of each."""
    low, high, mean, std = (np.array([each[stat] for each in parts]) for stat in _SPREAD)
    count = np.array([each["count"][0] for each in parts])
    middle = np.average(mean, axis=0, weights=count)
    spread = np.sqrt(np.average(std**2 + (mean - middle) ** 2, axis=0, weights=count))
    sides = [side.tolist() for side in (low.min(axis=0), high.max(axis=0), middle, spread)]
    return dict(zip(_SPREAD, sides, strict=True)) | {"count": [int(count.sum())]}


def _write_info(
    folder: Path, shape: tuple[int, int], pictures: list[str], episodes: int, total: int, tasks: int
) -> None:
    names = ["height", "width", "channels"]
    features: dict[str, Any] = {
        name: {"dtype": "image", "shape": [*shape, 3 if name == _CAMERA else 1], "names": names}
        for name in pictures
    }
    if _DEPTH in features:
        features[_DEPTH]["info"] = {"is_depth_map": True, "depth_unit": "mm"}
    for name, parts in (("observation.state", _STATE), ("action", _ACTION)):
        features[name] = {"dtype": "float32", "shape": [3], "names": parts}
    features["timestamp"] = {"dtype": "float32", "shape": [1], "names": None}
    features |= {name: {"dtype": "int64", "shape": [1], "names": None} for name in _COUNTERS}
    info = {
        "codebase_version": VERSION,
        "robot_type": "cpor",
        "total_episodes": episodes,
        "total_frames": total,
        "total_tasks": tasks,
        "chunks_size": FILES_A_CHUNK,
        "data_files_size_in_mb": FILE_MB,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{episodes}"},
        "data_path": f"data/{_PLACE}",
        "video_path": None,
        "features": features,
    }
    write_text(folder / "info.json", json.dumps(info, indent=2) + "\n")
