"""Targets that fall back into the heap, and people who meddle between a decision and a motion."""

from dataclasses import dataclass, field, replace

import numpy as np

from cpor.robot.cycle import LoopSettings, RunResult
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome
from support.box_table import SHAPE, Box, BoxTable, TableMasks
from support.faulty_table import TARGET, grasp_at_once, scattered
from support.plain_system import Deciding


@dataclass
class DroppingTable(BoxTable):
    """A robot that says `done` while the target falls back onto the table in another pose."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    felt: bool | None = None
    drops: bool = True
    how: str = "anywhere"

    def _take(self, scene, obj, verb):
        box = self.boxes[TARGET]
        outcome = super()._take(scene, obj, verb)
        if TARGET not in self.boxes and self.drops:
            fallen = other_pose(box, self.rng)
            if self.how == "own place":
                fallen = in_place(box, fallen, self.rng)
            elif self.how == "under a mask":
                fallen = beside(self.boxes[neighbour_of(self.boxes)], fallen)
            self.boxes[TARGET] = fallen
        return replace(outcome, holding=self.felt)


DROPS = ("anywhere", "own place", "under a mask")


class MergingMasks(TableMasks):
    """Masks that join the target, once it was dropped, with the thing beside it."""

    def segment(self, observation):
        scene = super().segment(observation)
        boxes = self.table.boxes
        if not any(verb.startswith("grasp") for verb in self.table.log) or TARGET not in boxes:
            return scene
        ids = scene.visible_ids.copy()
        ids[ids == TARGET] = neighbour_of(boxes)
        return replace(scene, visible_ids=ids, objects=tuple(o for o in scene.objects if o.id != TARGET))


def neighbour_of(boxes: dict[int, Box]) -> int:
    """The lowest box besides the target."""
    return min((k for k in boxes if k != TARGET), key=lambda k: boxes[k].top)


def in_place(was: Box, fallen: Box, rng: np.random.Generator) -> Box:
    """Within the place where it lay, and lower."""
    inner = [(a + int(rng.integers(0, 3)), b - int(rng.integers(0, 3))) for a, b in (was.rows, was.cols)]
    return replace(
        fallen, rows=inner[0], cols=inner[1], top=was.top - float(rng.uniform(0.006, was.top - 0.008))
    )


def beside(other: Box, fallen: Box) -> Box:
    """Touching another box, above or below it in the picture."""
    height = fallen.rows[1] - fallen.rows[0]
    top = other.rows[1] if other.rows[1] + height < SHAPE[0] - 5 else other.rows[0] - height
    wide = min(fallen.cols[1] - fallen.cols[0], SHAPE[1] - 3 - other.cols[0])
    return replace(fallen, rows=(top, top + height), cols=(other.cols[0], other.cols[0] + wide))


def other_pose(box: Box, rng: np.random.Generator) -> Box:
    """The same thing on another side, somewhere: other outlines, height and colours."""
    size = [int(v) for v in rng.integers(8, 24, 2)]
    if rng.random() < 0.5:  # near its old place, as things fall
        top = int(np.clip(box.rows[0] + rng.integers(-14, 15), 5, SHAPE[0] - size[0] - 5))
        left = int(np.clip(box.cols[0] + rng.integers(-14, 15), 3, SHAPE[1] - size[1] - 3))
    else:
        top = int(rng.integers(5, SHAPE[0] - size[0] - 5))
        left = int(rng.integers(3, SHAPE[1] - size[1] - 3))
    colour = np.array(box.colour, float)
    shade = rng.uniform(0.5, 1.3) if rng.random() < 0.7 else 1.0
    turned = rng.permutation(colour) if rng.random() < 0.3 else colour
    colours = tuple(int(v) for v in np.clip(turned * shade + rng.integers(-6, 7, 3), 1, 254))
    return Box((top, top + size[0]), (left, left + size[1]), float(rng.uniform(0.02, 0.1)), colours)


def drop(seed: int) -> tuple[DroppingTable, RunResult, int]:
    """One run whose target falls back; pixels of it that show at the end."""
    rng = np.random.default_rng((seed, 0xD80))
    felt, how = (None, True)[int(rng.integers(2))], DROPS[seed % len(DROPS)]
    table = DroppingTable(scattered(rng, int(rng.integers(2, 7))), rng=rng, felt=felt, how=how)
    masks = MergingMasks(table) if how == "under a mask" else TableMasks(table)
    system = Deciding(masks, grasp_at_once)
    result = retrieve(table, system, TARGET, LoopSettings(budget=1))
    shown = (table.observe().rgb == np.array(table.boxes[TARGET].colour, np.uint8)).all(axis=2).sum()
    return table, result, int(shown)


MEDDLINGS = ("swapped", "laid on it", "taken away", "pushed", "camera bumped", "hand")


@dataclass
class MeddledTable(BoxTable):
    """Somebody meddles between the first look and the motion; what the fingers meet is what lies there."""

    kind: str = "swapped"
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    looks: int = 0
    after: int = 1
    taken: list[int] = field(default_factory=list)
    shift: tuple[int, int] = (0, 0)

    def observe(self):
        if self.looks == self.after:
            self._meddle()
        self.looks += 1
        frame = super().observe()
        if self.kind == "hand" and self.looks == self.after + 1:
            rgb, depth = frame.rgb.copy(), frame.depth.copy()
            wide = int(self.rng.integers(30, 70))
            rgb[:, :wide], depth[:, :wide] = (224, 172, 140), 0.5
            return replace(frame, rgb=rgb, depth=depth)
        return frame

    def _meddle(self):
        boxes, rng = self.boxes, self.rng
        other = int(rng.choice([k for k in boxes if k != TARGET]))
        a, b = boxes[TARGET], boxes[other]
        if self.kind == "swapped":
            boxes[TARGET] = replace(a, rows=b.rows, cols=b.cols, top=b.top)
            boxes[other] = replace(b, rows=a.rows, cols=a.cols, top=a.top)
        elif self.kind == "laid on it":
            boxes[other] = replace(b, rows=a.rows, cols=a.cols, top=a.top + 0.03)
        elif self.kind == "taken away":
            del boxes[TARGET]
        elif self.kind == "pushed":
            boxes[TARGET] = a.moved(*(int(v) for v in rng.integers(8, 20, 2) * rng.choice([-1, 1], 2)))
        elif self.kind == "camera bumped":
            self.shift = tuple(int(v) for v in rng.integers(8, 20, 2) * rng.choice([-1, 1], 2))
            self.boxes = {k: box.moved(*self.shift) for k, box in boxes.items()}

    def _take(self, scene, obj, verb):
        """The fingers close where the mask was, by the pose that the camera had."""
        rows, cols = np.nonzero(scene.visible_ids == obj)
        at = int(np.median(rows)), int(np.median(cols))
        if self.kind == "camera bumped" and self.looks > self.after:
            at = at[0] - self.shift[0], at[1] - self.shift[1]
            here = {k: box.moved(-self.shift[0], -self.shift[1]) for k, box in self.boxes.items()}
        else:
            here = self.boxes
        over = [
            k for k, box in here.items() if 0 <= at[0] < SHAPE[0] and 0 <= at[1] < SHAPE[1] and box.mask()[at]
        ]
        self.log.append(verb)
        if not over:
            return Outcome("missed", "the fingers closed on nothing")
        met = max(over, key=lambda k: here[k].top)
        self.taken.append(met)
        del self.boxes[met]
        return Outcome("done", "it is where it should be", 5.0)


def meddle(kind: str, seed: int) -> tuple[MeddledTable, RunResult]:
    """One run in which somebody meddles after the look that is decided on."""
    rng = np.random.default_rng((seed, MEDDLINGS.index(kind)))
    table = MeddledTable(scattered(rng, int(rng.integers(3, 7))), kind=kind, rng=rng)
    system = Deciding(TableMasks(table), grasp_at_once)
    return table, retrieve(table, system, TARGET, LoopSettings(budget=3))
