"""One frame and one target, asked through every surface of the product; each says the same in one form."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import cpor
from cpor.cli.app import app
from cpor.data.frame_files import read_frame
from cpor.experiments.runs.folder import read_run_folder
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.records.decision import record_action
from cpor.robot.cycle import Cycle, LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.scene import Observation
from cpor.serve.client import Client


@dataclass(frozen=True)
class Said:
    """What a surface says of one target."""

    action: dict[str, Any]
    scores: dict[str, float]
    promise: tuple[float, float] | None
    checks: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Said":
        """From the one JSON form."""
        promise = answer["promise"]
        return cls(
            dict(answer["action"]),
            dict(answer["scores"]),
            None if promise is None else (promise["alpha"], promise["confidence"]),
            tuple((c["name"], c["state"], c["says"]) for c in answer["checks"]),
        )

    def why_not(self, other: "Said", within: float = 1e-9) -> str | None:
        """How it differs from another, in words; None where both say the same."""
        for name in ("action", "promise"):
            if getattr(self, name) != getattr(other, name):
                return f"{name}: {getattr(self, name)} against {getattr(other, name)}"
        if self.checks != other.checks:
            return f"checks: {sorted(set(self.checks) ^ set(other.checks))}"
        if self.scores.keys() != other.scores.keys():
            return f"objects: {sorted(self.scores)} against {sorted(other.scores)}"
        apart = max((abs(self.scores[k] - other.scores[k]) for k in self.scores), default=0.0)
        return None if apart <= within else f"scores are {apart:.2g} apart"


def bare_frame(source: Path, goal: Path) -> Path:
    """A scene folder with what two files hold: the photograph, its depth and the unit of that."""
    goal.mkdir(parents=True)
    for name in ("rgb.png", "depth.png"):
        shutil.copy(source / name, goal / name)
    unit = json.loads((source / "camera.json").read_text())["depth_unit_m"]
    (goal / "camera.json").write_text(json.dumps({"depth_unit_m": unit}))
    return goal


def cpor_json(*words: object) -> dict[str, Any]:
    """What the command line prints with --json."""
    ran = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert ran.exit_code in (0, 1), ran.output or ran.exception
    return json.loads(ran.output)  # type: ignore[no-any-return]


class StillRobot:
    """A robot whose camera sees one frame, and that moves nothing."""

    def __init__(self, frame: Observation) -> None:
        self._frame = frame

    def observe(self) -> Observation:
        return self._frame

    def grasp(self, scene: object, obj: int) -> Outcome:
        return Outcome("stopped", "this robot only looks")

    remove = grasp

    def home(self) -> Outcome:
        return Outcome("done", "it is there")

    def stop(self) -> None:
        pass

    def heartbeat(self) -> None:
        pass

    def status(self) -> RobotStatus:
        return RobotStatus("ready", "it only looks", False)


def ask_everywhere(
    frame: Path, targets: tuple[int, ...], client: Client, scratch: Path
) -> Iterator[tuple[str, int, Said]]:
    """Name of the surface, target, and what it says.

    Args:
        frame: Scene folder with rgb.png, depth.png and camera.json, and no masks.
        targets: Ids of objects as our segmenter finds them.
        client: Of a running service.
        scratch: Folder for what the commands write.
    """
    rgb, depth = frame / "rgb.png", frame / "depth.png"
    unit = json.loads((frame / "camera.json").read_text())["depth_unit_m"]
    seen, scored = scratch / "seen", scratch / "scored"
    cpor_json("perceive", frame, "--out", seen)
    cpor_json("perceive", frame, "--out", scored)
    for extra in ("overlay.png", "perception.json"):
        (seen / extra).unlink()
    cpor_json("score", scored, "--scorer", "embedded")
    system = cpor.System()
    view = system.look(frame)
    arrays = read_frame(rgb, depth, None, unit)[0]
    by_arrays = system.look(arrays.rgb, np.nan_to_num(arrays.depth), depth_unit_m=1.0)
    kept = client.look(rgb.read_bytes(), depth.read_bytes(), depth_unit_m=unit)
    data = scratch / "data"
    data.mkdir()
    seen.rename(data / "seen")
    cpor_json("run", data, "--out", scratch / "run", "--all-targets")
    cases = {case.target: case for case in read_run_folder(scratch / "run")[1]}
    for target in targets:
        asked = ("--target", target)
        yield "CLI, folder", target, Said.of(cpor_json("decide", frame, *asked))
        yield (
            "CLI, two files",
            target,
            Said.of(cpor_json("decide", rgb, depth, "--depth-unit-m", unit, *asked)),
        )
        yield "CLI, perceive then decide", target, Said.of(cpor_json("decide", data / "seen", *asked))
        yield "CLI, score then decide", target, Said.of(cpor_json("decide", scored, *asked))
        yield "Python, folder", target, Said.of(system.decide(view, target).to_json())
        yield "Python, arrays", target, Said.of(system.decide(by_arrays, target).to_json())
        reply = client.decide_rgbd(
            rgb.read_bytes(), depth=depth.read_bytes(), depth_unit_m=unit, target=target
        )
        yield "REST, one call", target, Said.of(reply.model_dump(mode="json"))
        on_kept = client.decide_scene(kept.id, target=target)
        yield "REST, kept scene (the page)", target, Said.of(on_kept.model_dump(mode="json"))
        yield "cpor run", target, _of_case(cases[target].model_dump(mode="json"))
        yield "one cycle of the loop", target, _of_cycle(_first_cycle(view.scene.observation, target))


def _of_case(case: dict[str, Any]) -> Said:
    return Said.of(case["decision"] | {"promise": case["promise"], "checks": case["checks"]})


def _first_cycle(frame: Observation, target: int) -> Cycle:
    result = retrieve(StillRobot(frame), OnnxSegmenter(), target, settings=LoopSettings(max_deferrals=1))
    return result.cycles[0]


def _of_cycle(cycle: Cycle) -> Said:
    assert cycle.decision is not None, cycle.notes
    return Said(
        record_action(cycle.decision.action).model_dump(mode="json"),
        {str(label): score for label, score in cycle.decision.scores.items()},
        None if cycle.promise is None else tuple(cycle.promise),
        tuple((c.name, c.state, c.says) for c in cycle.checks),
    )
