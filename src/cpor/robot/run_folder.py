"""The record of a run on disk, written as it happens; what is there is whole, whenever the run was killed.

run.json         target, settings, versions; how it ended, null while it runs or where it was killed
cycle_00/        what was seen, a scene folder with the semantic scores that were used
cycle_00.json    decision in full, beliefs, attempt, outcome, notes, times; written before the robot is sent
                 (`"attempt": "begun"`) and again after
final/           the look after the target was delivered
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

import cpor
from cpor.decision import Action, Decision
from cpor.errors import InputFileError
from cpor.gate.check import Check
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.io.whole_files import write_text
from cpor.parts import GIVEN, NONE
from cpor.pipeline import UNSEEN
from cpor.records import (
    ActionRecord,
    DecisionRecord,
    PairBelief,
    Promise,
    read_action,
    read_decision,
    record_action,
    record_decision,
)
from cpor.robot.cycle import Attempt, Cycle, Ended, LoopSettings, RunResult
from cpor.robot.protocol import Outcome, RobotState
from cpor.scene import Scene
from cpor.system import System
from cpor.tracking.memory import Memory
from cpor.tracking.pair_filter import PairFilter


class Record(BaseModel):
    """Frozen, strict about keys; numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StatusRecord(Record):
    """How the robot was left."""

    state: RobotState
    detail: str
    holding: bool | None


class RunRecord(Record):
    """`run.json`; the target's id is that of the first frame, and what the end brings is None until then.

    Where `retargeted` is not 0, other objects were asked for on the way, `ended` is about the last of them,
    and every cycle names its own target.
    """

    kind: Literal["cpor-retrieval"] = "cpor-retrieval"
    version: Literal[1] = 1
    target: int | None
    settings: dict[str, Any]
    versions: dict[str, str]
    about: dict[str, Any]
    began: str
    ended: Ended | None = None
    detail: str | None = None
    cycles: int | None = None
    actions: int | None = None
    deferrals: int | None = None
    retargeted: int = 0
    robot: StatusRecord | None = None


class CycleRecord(Record):
    """`cycle_00.json`: all of a cycle but its scene."""

    kind: Literal["cpor-cycle"] = "cpor-cycle"
    version: Literal[1] = 1
    index: int
    target: int | None
    decision: DecisionRecord | None
    action: ActionRecord | None
    p_success: float | None
    promise: tuple[float, float] | None = None
    checks: tuple[Check, ...] = ()
    attempt: Attempt
    outcome: Outcome | None
    beliefs: tuple[PairBelief, ...]
    p_same: dict[int, float]
    unchanged: tuple[int, ...]
    near: tuple[int, ...] = ()
    notes: tuple[str, ...]
    times_s: dict[str, float]
    retargeted: bool = False

    @classmethod
    def of(cls, cycle: Cycle) -> "CycleRecord":
        """A cycle as it is written."""
        same = {name: getattr(cycle, name) for name in cls.model_fields if hasattr(cycle, name)}
        own = {
            "decision": record_decision(cycle.decision) if cycle.decision else None,
            "action": record_action(cycle.action) if cycle.action else None,
            "promise": None if cycle.promise is None else astuple(cycle.promise),
            "unchanged": sorted(cycle.unchanged),
            "near": sorted(cycle.near),
        }
        return cls(**same | own)

    def cycle(self, scene: Scene) -> Cycle:
        """The cycle, with its scene."""
        same = {name: getattr(self, name) for name in type(self).model_fields}
        del same["kind"], same["version"]
        own = {
            "decision": read_decision(self.decision, (*scene.ids, UNSEEN)) if self.decision else None,
            "action": read_action(self.action) if self.action else None,
            "promise": None if self.promise is None else Promise(*self.promise),
            "unchanged": frozenset(self.unchanged),
            "near": frozenset(self.near),
        }
        return Cycle(scene=scene, **same | own)


_Model = TypeVar("_Model", RunRecord, CycleRecord)


class RunFolder:
    """A folder that takes the record of one run.

    Args:
        path: Where to; made if absent. It must not hold a run already.
        about: What else to write to run.json: seed, robot, what decides, as JSON values.

    Raises:
        InputFileError: There is something in the folder already, or `about` is no JSON.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.about = dict(about or {})
        try:
            json.dumps(self.about, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputFileError(f"`about` takes JSON values only: {error}") from None
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise InputFileError(f"{self.path} is there already and not empty; choose another folder")
        self._head: RunRecord | None = None
        self._with_scene: dict[int, Scene] = {}

    def begin(self, target: int | None, settings: LoopSettings) -> None:
        """Write run.json before anything moves."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputFileError(f"cannot make {self.path}: {error.strerror}") from None
        versions = {"cpor": cpor.__version__, "numpy": np.__version__, "python": platform.python_version()}
        self._head = RunRecord(
            target=target,
            settings=asdict(settings),
            versions=versions,
            about=self.about,
            began=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._write("run.json", self._head)

    def write_cycle(self, cycle: Cycle) -> None:
        """Write a cycle, or write it again now that more is known; its scene once, before it."""
        name = f"cycle_{cycle.index:02d}"
        if self._with_scene.get(cycle.index) is not cycle.scene:
            write_scene_folder(cycle.scene, self.path / name, overwrite=True)
            self._with_scene = {cycle.index: cycle.scene}
        self._write(f"{name}.json", CycleRecord.of(cycle))

    def finish(self, result: RunResult) -> None:
        """Write how it ended."""
        assert self._head is not None
        if result.final_scene is not None:
            write_scene_folder(result.final_scene, self.path / "final", overwrite=True)
        first = next((cycle.target for cycle in result.cycles if cycle.target is not None), None)
        known = {k: getattr(result, k) for k in ("ended", "detail", "actions", "deferrals", "retargeted")}
        known |= {"target": first} if self._head.target is None else {}
        if (left := result.robot) is not None:
            known["robot"] = StatusRecord(state=left.state, detail=left.detail, holding=left.holding)
        known["cycles"] = len(result.cycles)
        self._write("run.json", self._head.model_copy(update=known))

    def _write(self, name: str, record: RunRecord | CycleRecord) -> None:
        """Write a file, all of it or nothing, and down to the disk."""
        text = json.dumps(record.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
        write_text(self.path / name, text)


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A run as its folder has it.

    Attributes:
        head: run.json; its `ended` is None where the run was killed or still runs.
        cycles: Every cycle that is there. One whose attempt is `begun` was killed on the way.
        final_scene: The look after the target was delivered.
    """

    head: RunRecord
    cycles: tuple[Cycle, ...]
    final_scene: Scene | None

    @property
    def ended(self) -> Ended | None:
        """How it ended; None where the run was killed or still runs."""
        return self.head.ended


@dataclass(frozen=True, eq=False)
class Replayed:
    """One cycle decided again.

    Attributes:
        index: Index of the cycle.
        recorded: The action decided on in the run.
        decision: The decision now.
        largest_difference: Between a score then and now.
    """

    index: int
    recorded: Action
    decision: Decision
    largest_difference: float

    @property
    def differs(self) -> bool:
        """Whether the action is another one now."""
        return self.recorded != self.decision.action


def read_run(folder: str | Path) -> RecordedRun:
    """Read the record of a run, finished or not.

    Raises:
        InputFileError: There is none, or a file of it is damaged.
    """
    folder = Path(folder)
    if not (folder / "run.json").is_file():
        raise InputFileError(f"{folder} holds no run (no run.json); give the folder a run was recorded to")
    head = _read(folder / "run.json", RunRecord)
    cycles = []
    for path in sorted(folder.glob("cycle_*.json"), key=lambda path: (len(path.name), path.name)):
        record = _read(path, CycleRecord)
        cycles.append(record.cycle(read_scene_folder(folder / path.stem)))
    if [cycle.index for cycle in cycles] != list(range(len(cycles))):
        raise InputFileError(f"{folder} lacks a cycle; it has {len(cycles)} cycle files, not numbered from 0")
    if head.cycles is not None and head.cycles != len(cycles):
        raise InputFileError(f"{folder} has {len(cycles)} cycles, but run.json speaks of {head.cycles}")
    final = folder / "final"
    return RecordedRun(head, tuple(cycles), read_scene_folder(final) if final.is_dir() else None)


def replay(folder: str | Path, system: System | None = None) -> tuple[Replayed, ...]:
    """Decide every recorded cycle again, by the masks and semantic scores of the record; nothing moves.

    Args:
        folder: Folder of a recorded run.
        system: What decides now; by default a `System()` with the threshold of each recorded decision.

    Returns:
        One entry for each cycle in which something was decided.
    """
    decides, again = system or System(), []
    carried = PairFilter()
    for cycle in read_run(folder).cycles:
        carried = carried.predict(cycle.unchanged, cycle.near)
        if cycle.decision is None or cycle.target is None:
            continue
        then = cycle.decision
        view = replace(System(GIVEN, NONE, NONE).look(cycle.scene), memory=Memory(pairs=carried))
        now = decides.decide(view, cycle.target, tau=then.tau if system is None else None).decision
        assert now is not None and view.memory is not None
        carried = view.memory.pairs
        objects = {*then.scores, *now.scores}
        apart = max((abs(then.scores.get(k, 0.0) - now.scores.get(k, 0.0)) for k in objects), default=0.0)
        again.append(Replayed(cycle.index, then.action, now, apart))
    return tuple(again)


def _read(path: Path, model: type[_Model]) -> _Model:
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputFileError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"]) or "content"
        raise InputFileError(f"{path} is damaged: {place}: {first['msg']}") from None
