"""Boxes on a table whose camera, tracker or gripper fails, for tests and for the matrix of faults."""

from dataclasses import dataclass, field, replace

import numpy as np

from cpor.decision import Certificate, Decision, Grasp
from cpor.robot.cycle import LoopSettings, RunResult
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene
from support.box_table import SHAPE, TABLE_M, Box, BoxTable
from support.plain_system import Deciding

FAULTS = (
    "frozen", "restamped", "delayed", "black", "black_with_depth", "grey", "noise", "covered", "shifted",
    "swapped", "lying_gripper", "wrong_object",
)  # fmt: skip

SPOILS = FAULTS[:9]
"""Those that are in the frames."""

TARGET = 1


def scattered(rng: np.random.Generator, n: int) -> dict[int, Box]:
    """Boxes apart from each other, of different colours; 1 is the target."""
    cells = [(row, col) for row in range(3) for col in range(4)]
    colours = [(r, g, b) for r in (20, 120, 220) for g in (20, 120, 220) for b in (20, 120, 220)]
    colours = [c for c in colours if max(c) - min(c) > 60]
    picked = rng.choice(len(colours), n, replace=False)
    boxes = {}
    for k, cell in enumerate(rng.choice(len(cells), n, replace=False).tolist(), start=1):
        top, left = 8 + 28 * cells[cell][0] + rng.integers(4), 4 + 31 * cells[cell][1] + rng.integers(6)
        size = rng.integers(14, 22, 2)
        rows, cols = (int(top), int(top + size[0])), (int(left), int(left + size[1]))
        boxes[k] = Box(rows, cols, float(rng.uniform(0.02, 0.09)), colours[int(picked[k - 1])])
    return boxes


@dataclass
class FaultyTable(BoxTable):
    """A table on which one thing goes wrong from the first attempt on.

    Attributes:
        fault: What.
        rng: How.
        takes: Whether the gripper takes anything, whatever it says.
        for_one_frame: Whether the fault is over after one frame.
        delivered: What was delivered in truth.
        blind: Attempts by a frame that does not show what is there.
    """

    fault: str = "none"
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    takes: bool = True
    for_one_frame: bool = False
    delivered: list[int] = field(default_factory=list)
    attempts: int = 0
    blind: int = 0
    spoilt: bool = False
    _kept: Observation | None = None
    _shown: int = 0

    def observe(self) -> Observation:
        frame = super().observe()
        frame = replace(frame, time_s=self._now)
        before, self._kept = self._kept, self._kept if self.attempts and self._kept else frame
        if self.fault == "delayed":
            self._kept = frame
        if not self.attempts or before is None or (self.for_one_frame and self._shown):
            self.spoilt = False
            return frame
        self._shown += 1
        self.spoilt = self.fault in SPOILS
        return self._spoilt(frame, before)

    def status(self) -> RobotStatus:
        status = super().status()
        return replace(status, time_s=self._now) if self.fault == "delayed" else status

    @property
    def _now(self) -> float:
        """An attempt takes five seconds. [s]."""
        return self.frames / 30.0 + 5.0 * self.attempts

    def _spoilt(self, frame: Observation, before: Observation) -> Observation:
        rgb, depth = frame.rgb.copy(), frame.depth.copy()
        if self.fault == "frozen":
            return before
        if self.fault == "restamped":
            return replace(before, number=frame.number, time_s=frame.time_s)
        if self.fault == "delayed":
            noise = self.rng.integers(0, 2, rgb.shape).astype(np.uint8)
            rgb = np.where(abs(before.rgb.astype(int) - 90) < 4, before.rgb - noise, before.rgb)
            deep = before.depth + self.rng.uniform(0, 1e-4, SHAPE).astype(np.float32)
            return replace(before, rgb=rgb, depth=deep, number=frame.number)
        if self.fault.startswith("black"):
            rgb[:] = self.rng.integers(0, 3, rgb.shape)
            depth = depth if self.fault == "black_with_depth" else np.full_like(depth, np.nan)
        elif self.fault == "grey":
            rgb[:] = self.rng.integers(88, 93, rgb.shape)
            depth[:] = TABLE_M + self.rng.uniform(-1e-3, 1e-3, SHAPE)
        elif self.fault == "noise":
            rgb[:] = self.rng.integers(0, 256, rgb.shape)
            depth[:] = self.rng.uniform(0.4, 1.0, SHAPE)
        elif self.fault == "covered":
            wide = int(self.rng.integers(70, 129))
            rgb[:, :wide], depth[:, :wide] = (140, 120, 100), 0.5
            depth += self.rng.uniform(-1e-3, 1e-3, SHAPE).astype(np.float32)
        elif self.fault == "shifted":
            rows, cols = (int(v) for v in self.rng.integers(15, 60, 2) * self.rng.choice([-1, 1], 2))
            moved, deep = np.full_like(rgb, 90), np.full_like(depth, TABLE_M)
            to = np.s_[max(rows, 0) : SHAPE[0] + min(rows, 0), max(cols, 0) : SHAPE[1] + min(cols, 0)]
            of = np.s_[max(-rows, 0) : SHAPE[0] + min(-rows, 0), max(-cols, 0) : SHAPE[1] + min(-cols, 0)]
            moved[to], deep[to] = rgb[of], depth[of]
            rgb, depth = moved, deep + self.rng.uniform(-1e-4, 1e-4, SHAPE).astype(np.float32)
        return replace(frame, rgb=rgb, depth=depth)

    def _take(self, scene: Scene, obj: int, verb: str) -> Outcome:
        self.attempts += 1
        self.blind += self.spoilt
        self.log.append(verb)
        if self.stopped.is_set():
            return Outcome("stopped", "the robot was stopped before")
        pixels = scene.observation.rgb[scene.visible_ids == obj]
        here = [k for k, box in self.boxes.items() if pixels.size and (pixels[0] == box.colour).all()]
        if not here:
            return Outcome("missed", "the fingers closed on nothing")
        taken = here[0]
        if self.fault == "wrong_object":
            taken = next((k for k in self.boxes if k != taken), taken)
            self.boxes[here[0]] = self.boxes[here[0]].moved(*self.rng.integers(-4, 5, 2).tolist())
        if self.fault == "lying_gripper" and self.rng.random() < 0.5:  # nor taken, but shoved
            self.boxes[taken] = self.boxes[taken].moved(*self.rng.integers(-6, 7, 2).tolist())
        elif self.takes and self.fault != "lying_gripper":
            del self.boxes[taken]
            self.delivered.append(taken)
        return Outcome("done", "put down, if it was held")


@dataclass
class FaultyMasks:
    """Masks by colour of what shows; the tracker swaps the target's id with another one's after a while."""

    table: FaultyTable
    swaps_at: int | None = None
    for_one_frame: bool = False
    seen: int = 0

    def __post_init__(self) -> None:
        self.colours = {k: box.colour for k, box in self.table.boxes.items()}

    def segment(self, observation: Observation) -> Scene:
        self.seen += 1
        swaps = self.swaps_at is not None and self.seen >= self.swaps_at
        if self.for_one_frame and self.swaps_at is not None:
            swaps = self.seen == self.swaps_at
        other = TARGET + 1
        visible, objects = np.zeros(SHAPE, np.int32), []
        for k, colour in self.colours.items():
            number = {TARGET: other, other: TARGET}.get(k, k) if swaps else k
            mask = (observation.rgb == np.array(colour, np.uint8)).all(axis=2)
            if mask.any():
                visible[mask] = number
                objects.append(DetectedObject(number, MaskCrop.from_mask(mask)))
        return Scene(observation, tuple(objects), visible)


def grasp_at_once(ids: tuple[int, ...], target: int) -> Decision:
    """What decides does not matter here."""
    proof = Certificate("exact", 0.0, None, True, True)
    scores = dict.fromkeys(ids, 0.1) | {target: 0.9}
    return Decision(Grasp(target), scores, frozenset(), proof, "exact", 0.5, 0.5, 0.0, 0.0)


def run_with(fault: str, seed: int) -> tuple[FaultyTable, RunResult]:
    """One run with a fault; whether ids are kept, how many boxes there are and so on are drawn."""
    rng = np.random.default_rng((seed, FAULTS.index(fault) if fault in FAULTS else 99))
    table = FaultyTable(scattered(rng, int(rng.integers(2, 7))), fault=fault, rng=rng)
    table.takes = fault in ("none", "swapped", "delayed", "wrong_object") or bool(rng.random() < 0.2)
    table.for_one_frame = bool(rng.random() < 0.3)
    masks = FaultyMasks(table, for_one_frame=table.for_one_frame)
    if fault == "swapped":
        masks.swaps_at = int(rng.integers(2, 4))
        if rng.random() < 0.5:  # an attempt that fails first: the swap comes before the next one
            table.misses = {TARGET: 1}
            miss, table._take = table._take, None
            table._take = lambda scene, obj, verb: _miss_once(table, miss, scene, obj, verb)
    kept = fault == "swapped" or bool(rng.random() < 0.5)
    settings = LoopSettings(budget=4, ids_are_kept=kept)
    return table, retrieve(table, Deciding(masks, grasp_at_once), TARGET, settings)


def _miss_once(table, take, scene, obj, verb) -> Outcome:
    if table.misses.pop(TARGET, 0):
        table.attempts += 1
        return Outcome("missed", "the fingers closed on nothing")
    return take(scene, obj, verb)


def is_false(table: FaultyTable, result: RunResult) -> bool:
    """Whether a run says `retrieved` and the target was not delivered."""
    return result.ended == "retrieved" and TARGET not in table.delivered


def is_wrong_unnoticed(table: FaultyTable, result: RunResult) -> bool:
    """Whether another object was delivered as the target, and the run does not say so."""
    wrong = any(k != TARGET for k in table.delivered)
    notes = " ".join(note for cycle in result.cycles for note in cycle.notes)
    noticed = any(word in notes for word in ("still seen", "lies where it lay", "not trusted"))
    return wrong and result.ended == "retrieved" and not noticed
