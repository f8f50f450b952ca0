"""The outside world for tests of the loop: coloured boxes on a table, photographed from above, and a robot.

It stands for hardware. Things go wrong in it when a test says so.
"""

import threading
from dataclasses import dataclass, field, replace

import numpy as np

from cpor.errors import CameraError
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.scene import Camera, DetectedObject, Intrinsics, MaskCrop, Observation, Scene

SHAPE = (96, 128)
TABLE_M = 0.8


@dataclass(frozen=True)
class Box:
    """Rows and columns it covers, height of its top [m], colour."""

    rows: tuple[int, int]
    cols: tuple[int, int]
    top: float
    colour: tuple[int, int, int]
    name: str | None = None

    def mask(self) -> np.ndarray:
        mask = np.zeros(SHAPE, np.bool_)
        rows, cols = ([max(at, 0) for at in side] for side in (self.rows, self.cols))
        mask[slice(*rows), slice(*cols)] = True
        return mask

    def moved(self, rows: int, cols: int) -> "Box":
        return replace(
            self,
            rows=(self.rows[0] + rows, self.rows[1] + rows),
            cols=(self.cols[0] + cols, self.cols[1] + cols),
        )


def stack() -> dict[int, Box]:
    """Target 1 under 2, 2 under 3, and 4 apart from them."""
    return {
        1: Box((20, 60), (20, 60), 0.04, (200, 30, 30)),
        2: Box((30, 70), (40, 80), 0.09, (30, 200, 30)),
        3: Box((40, 80), (70, 110), 0.14, (30, 30, 200)),
        4: Box((5, 18), (100, 120), 0.04, (200, 200, 30)),
    }


@dataclass
class BoxTable:
    """A robot over a table of boxes."""

    boxes: dict[int, Box] = field(default_factory=stack)
    lost_frames: int = 0
    misses: dict[int, int] = field(default_factory=dict)
    lies: set[int] = field(default_factory=set)
    rolls_away: dict[int, int] = field(default_factory=dict)
    faults_on: set[int] = field(default_factory=set)
    interrupts_on: set[int] = field(default_factory=set)
    breaks_on: set[int] = field(default_factory=set)
    waits_for_stop: bool = False
    recovers_after_polls: int | None = None
    state: str = "ready"
    log: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    moving: threading.Event = field(default_factory=threading.Event)
    frames: int = 0
    beats: int = 0
    address: str | None = None

    def observe(self) -> Observation:
        if self.lost_frames > 0:
            self.lost_frames -= 1
            raise CameraError("no frame within 5 s; check the cable")
        self.frames += 1
        noise = np.random.default_rng(self.frames)
        rgb = noise.integers(88, 93, (*SHAPE, 3)).astype(np.uint8)
        rgb[2:4, 2:-2] = rgb[-4:-2, 2:-2] = 30  # the edge of a mat
        depth = np.full(SHAPE, TABLE_M, np.float32)
        for box in sorted(self.boxes.values(), key=lambda box: box.top):
            rgb[box.mask()] = box.colour
            depth[box.mask()] = TABLE_M - box.top
        depth += noise.uniform(-1e-4, 1e-4, SHAPE).astype(np.float32)
        pose = np.diag([1.0, -1.0, -1.0, 1.0])
        pose[2, 3] = TABLE_M
        camera = Camera(Intrinsics(200.0, 200.0, 64.0, 48.0), pose)
        return Observation(rgb, depth, camera, self.frames / 30.0, self.frames)

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        return self._take(scene, obj, "grasp")

    def remove(self, scene: Scene, obj: int) -> Outcome:
        return self._take(scene, obj, "remove")

    def _take(self, scene: Scene, obj: int, verb: str) -> Outcome:
        assert scene.visible_ids is not None
        # Whatever the scene calls it: what lies where the mask is, is what the fingers meet.
        colour = tuple(scene.observation.rgb[scene.visible_ids == obj][0].tolist())
        here = next(k for k, box in self.boxes.items() if box.colour == colour)
        self.log.append(f"{verb} {here}")
        if self.stopped.is_set():
            return Outcome("stopped", "the robot was stopped before")
        if here in self.interrupts_on:
            raise KeyboardInterrupt
        if here in self.breaks_on:
            raise ZeroDivisionError("a bug in somebody's driver")
        if here in self.faults_on:
            self.faults_on.remove(here)
            self.state = "protective_stop"
            return Outcome("fault", "protective stop: joint 2 met something")
        if self.waits_for_stop:
            self.moving.set()
            assert self.stopped.wait(60.0)
            return Outcome("stopped", "stopped on the way")
        if rolling := self.rolls_away.pop(here, None):
            del self.boxes[rolling]
        if self.misses.get(here, 0) > 0:
            self.misses[here] -= 1
            return Outcome("missed", "the fingers closed on nothing", 3.0)
        if here not in self.lies:
            del self.boxes[here]
        return Outcome("done", "it is where it should be", 5.0)

    def home(self) -> Outcome:
        self.log.append("home")
        self.stopped.clear()
        return Outcome("done", "at home") if self.state == "ready" else Outcome("fault", "cannot move")

    def stop(self) -> None:
        self.log.append("stop")
        self.stopped.set()

    def heartbeat(self) -> None:
        self.beats += 1

    def status(self) -> RobotStatus:
        if self.state == "protective_stop" and self.recovers_after_polls is not None:
            self.recovers_after_polls -= 1
            if self.recovers_after_polls < 0:
                self.state = "ready"
        if self.stopped.is_set() and self.state == "ready":
            return RobotStatus("stopped", "stopped on request", False)
        return RobotStatus(self.state, "as the pendant shows", False)


@dataclass
class TableMasks:
    """Masks of the boxes; with `rng` it numbers them anew in every frame."""

    table: BoxTable
    rng: np.random.Generator | None = None

    def segment(self, observation: Observation) -> Scene:
        boxes = self.table.boxes
        numbers = dict(zip(boxes, boxes, strict=True))
        if self.rng is not None:
            drawn = self.rng.choice(np.arange(10, 200), len(boxes), replace=False).tolist()
            numbers = dict(zip(boxes, drawn, strict=True))
        visible = np.zeros(SHAPE, np.int32)
        objects = []
        for k, box in boxes.items():
            visible[(observation.rgb == np.array(box.colour, np.uint8)).all(axis=2)] = numbers[k]
            objects.append(DetectedObject(numbers[k], MaskCrop.from_mask(box.mask()), box.name))
        return Scene(observation, tuple(objects), visible)

    def find(self, colour: tuple[int, int, int]):
        """A target finder by colour."""

        def find(scene: Scene) -> int | None:
            assert scene.visible_ids is not None
            here = scene.visible_ids[(scene.observation.rgb == np.array(colour, np.uint8)).all(axis=2)]
            return int(here[0]) if here.size else None

        return find


class OverTheTable:
    """A camera over a table, or over boxes on one, where the arm can reach them."""

    def __init__(self, boxes: BoxTable | dict[int, Box]) -> None:
        self.table = boxes if isinstance(boxes, BoxTable) else BoxTable(dict(boxes))

    def frame(self) -> Observation:
        frame = self.table.observe()
        pose = np.array(frame.camera.T_world_camera)
        pose[0, 3] = 0.35
        return replace(frame, camera=replace(frame.camera, T_world_camera=pose))

    def now(self) -> float | None:
        return None
