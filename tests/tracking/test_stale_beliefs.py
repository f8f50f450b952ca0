"""Things that change behind the camera's back between two looks: old beliefs must not make a target free."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.box_table import SHAPE, Box, BoxTable, TableMasks

from cpor.decision import Grasp
from cpor.pipeline import Pipeline
from cpor.scene import Observation, Scene
from cpor.tracking.memory import Memory

INJECTIONS = ("laid on it", "swapped with another", "camera moved", "camera moved and said so")
TARGET = 1


@dataclass(frozen=True)
class Injected:
    """What came of a case.

    Attributes:
        obstructed: The truth: whether something lies on what is asked for now.
        recognised: Whether it is recognised, and sure to be the same.
        acts_free: Whether it is grasped, by all looks; False where it is not recognised.
    """

    obstructed: bool
    recognised: bool
    acts_free: bool


def inject(kind: str, seed: int) -> Injected:
    """Look at a free target a few times, change something, look once more and decide."""
    rng = np.random.default_rng((seed, len(kind)))
    boxes = _heap(rng)
    table = BoxTable(boxes)
    memory = Memory()
    for _ in range(int(rng.integers(1, 5))):
        memory = _look(memory, TableMasks(table, rng).segment(table.observe()))
    obj = _shown(memory.frame, boxes[TARGET])
    shift = (0, 0)
    if kind == "laid on it":
        under = boxes[TARGET]
        rows, cols = (int(rng.integers(-8, 9)) for _ in range(2))
        boxes[9] = replace(under, top=under.top + 0.05, colour=(20, 20, 90)).moved(rows, cols)
    elif kind == "swapped with another":
        a, b = boxes[TARGET], boxes[2]
        boxes[TARGET], boxes[2] = (
            replace(a, rows=b.rows, cols=b.cols, top=b.top),
            replace(b, rows=a.rows, cols=a.cols, top=a.top),
        )
    elif kind != "nothing":
        shift = tuple(int(v) for v in rng.integers(6, 20, 2) * rng.choice([-1, 1], 2))
        under = boxes[TARGET]
        boxes[9] = replace(under, top=under.top + 0.05, colour=(20, 20, 90)).moved(5, 5)
        table.boxes = {k: box.moved(*shift) for k, box in boxes.items()}
    seen = TableMasks(table, rng).segment(_told(table.observe(), shift, kind))
    memory = memory.carry_to(seen)
    over = [box for k, box in table.boxes.items() if k != TARGET and box.top > table.boxes[TARGET].top]
    obstructed = any((box.mask() & table.boxes[TARGET].mask()).any() for box in over)
    if obj not in memory.known or memory.known[obj].p_same < 0.9:
        return Injected(obstructed, False, False)
    beliefs = memory.pairs.apply(Pipeline().believe(memory.frame))
    by_all = Pipeline().decide(Pipeline().posterior(beliefs, obj)).action
    return Injected(obstructed, True, by_all == Grasp(obj))


def _heap(rng: np.random.Generator) -> dict[int, Box]:
    """A free target, and a box that lies under a third one."""
    size = [int(v) for v in rng.integers(18, 28, 2)]
    top, left = (int(v) for v in rng.integers(22, 30, 2))
    under = Box((top, top + size[0]), (left + 50, left + 50 + size[1]), 0.04, (30, 200, 30))
    return {
        1: Box((top, top + size[0]), (left, left + size[1]), float(rng.uniform(0.03, 0.06)), (200, 30, 30)),
        2: under,
        3: replace(under, top=0.09, colour=(30, 30, 200)).moved(
            int(rng.integers(4, 12)), int(rng.integers(4, 12))
        ),
    }


def _look(memory: Memory, seen: Scene) -> Memory:
    now = memory.carry_to(seen)
    return now.learn(now.pairs.apply(Pipeline().believe(now.frame)))


def _shown(scene: Scene, box: Box) -> int:
    """The id of what shows where a box is."""
    return int(np.bincount(scene.visible_ids[box.mask()]).argmax())


def _told(frame: Observation, shift: tuple[int, int], kind: str) -> Observation:
    """The frame of a camera that says where it stands, or still says where it stood."""
    assert frame.shape == SHAPE
    if kind != "camera moved and said so":
        return frame
    pose = frame.camera.T_world_camera.copy()
    pose[:2, 3] += np.array([-shift[1], shift[0]]) * 0.76 / 200.0
    return replace(frame, camera=replace(frame.camera, T_world_camera=pose))


@pytest.mark.parametrize("kind", INJECTIONS)
def test_nothing_is_free_by_an_old_look(kind):
    cases = [inject(kind, seed) for seed in range(100, 103)]
    assert all(each.obstructed and not each.acts_free for each in cases)


def test_where_nothing_changed_it_is_grasped():
    assert inject("nothing", 100).acts_free
