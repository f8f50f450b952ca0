"""One frame and one target, asked through every surface of the product; each says the same in one form."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import cpor
from cpor.bridges.agent import AgentTools
from cpor.cli.app import app
from cpor.io.frame_files import read_frame
from cpor.io.scene_folder import read_scene_folder
from cpor.paper.runs.folder import read_run_folder
from cpor.records import record_action
from cpor.robot.cycle import Cycle, LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.robot.run_folder import read_run
from cpor.scene import Observation
from cpor.serve.client import Client
from cpor.words.grounding_answers import Request


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
        if self.checks != other.checks and self.checks and other.checks:
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
    """A robot whose camera sees one frame, and that moves nothing.

    Args:
        frame: The frame, or the folder of a scene.
        dry_run: Nothing moves either way.
    """

    def __init__(self, frame: Observation | str, dry_run: bool = True) -> None:
        self._frame = frame if isinstance(frame, Observation) else read_scene_folder(frame).observation
        self._number = 0
        self.address = None

    def observe(self) -> Observation:
        self._number += 1
        return replace(self._frame, number=self._number)

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
        return RobotStatus("ready", "it only looks", False, True)


def ask_in_words_and_points(
    frame: Path, asked: Request, segmenter: str | None, scorer: str | None, scratch: Path
) -> Iterator[tuple[str, Said]]:
    """Name of the surface, and what it says to a request, with the same parts everywhere.

    Args:
        frame: Scene folder with rgb.png, depth.png and camera.json, and no masks.
        asked: The request.
        segmenter: Name of the segmenter; None: ours.
        scorer: Name or file of the scorer; None: ours.
        scratch: Folder for what the commands write.
    """
    words: list[object] = ["--target", asked.id] if asked.id is not None else ["--request", asked.words]
    words = ["--point", f"{asked.point.x:g},{asked.point.y:g}"] if asked.point is not None else words
    parts: list[object] = ["--segmenter", segmenter] if segmenter else []
    parts += ["--scorer", scorer] if scorer else []
    yield "CLI, decide", Said.of(cpor_json("decide", frame, *words, *parts))
    seen = read_scene_folder(frame).observation
    system = cpor.System(segmenter, scorer)
    yield "Python, decide", Said.of(system.decide(system.look(frame), asked).to_json())
    yield "Python, follow", Said.of(next(system.follow([frame], asked)).to_json())
    settings = LoopSettings(max_deferrals=1, budget=1)
    yield "Python, loop", _of_cycle(cpor.retrieve(StillRobot(seen), system, asked, settings).cycles[0])
    config = scratch / "still.toml"
    config.write_text(f'[robot]\nframe = "{frame}"\n[loop]\nframes_may_repeat = true\n')
    robot = ("--robot", "support.surfaces:StillRobot", "--config", config, "--record", scratch / "run")
    cpor_json("retrieve", *robot, *words, *parts)
    yield "CLI, retrieve", _of_cycle(read_run(scratch / "run").cycles[0])
    tools = AgentTools(cpor.System(segmenter, scorer), root=frame.parent)
    view = tools.look(scene=frame.name).content["view"]
    point = None if asked.point is None else tuple(asked.point)
    said = tools.decide(view, asked.id, point, asked.words).content
    yield "MCP", replace(Said.of(said), checks=())  # it tells failed and doubtful checks only


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
    result = retrieve(StillRobot(frame), None, target, LoopSettings(max_deferrals=1))
    return result.cycles[0]


def _of_cycle(cycle: Cycle) -> Said:
    assert cycle.decision is not None, cycle.notes
    return Said(
        record_action(cycle.decision.action).model_dump(mode="json"),
        {str(label): score for label, score in cycle.decision.scores.items()},
        None if cycle.promise is None else tuple(cycle.promise),
        tuple((c.name, c.state, c.says) for c in cycle.checks),
    )
