"""Looking from elsewhere first: only where it is expected to pay, and as evidence beside what was seen."""

from dataclasses import replace

import numpy as np
import pytest
from support.box_table import BoxTable, TableMasks, stack
from support.plain_system import plain_system

from cpor.decision import Defer
from cpor.infer.decide import decide
from cpor.relations import ObstructionPosterior
from cpor.robot.cycle import LoopSettings
from cpor.robot.look_around import Around, best_view
from cpor.robot.loop import retrieve
from cpor.robot.protocol import LooksAround
from cpor.scene import BlockedBy
from cpor.tracking.memory import Memory
from cpor.tracking.pair_filter import OTHER_POSE, PairEvidence, PairFilter

PAIR = BlockedBy(1, 2)


class WithWrist(BoxTable):
    """Its camera can also look from 8 px to the left; counts how often it does."""

    looks = 0

    def views(self):
        return {"the left": self._from_the_left(self.observe()).camera}

    def observe_from(self, view):
        self.looks += 1
        boxes, self.boxes = self.boxes, {k: box.moved(0, 8) for k, box in self.boxes.items()}
        frame = self._from_the_left(self.observe())
        self.boxes = boxes
        return frame

    def _from_the_left(self, frame):
        pose = frame.camera.T_world_camera.copy()
        pose[0, 3] -= 8.0 * 0.73 / 200.0
        return replace(frame, camera=replace(frame.camera, T_world_camera=pose))


@pytest.mark.parametrize(("p", "cost", "looks"), [(0.58, 0.01, 1), (0.58, 0.5, 0), (0.999, 0.01, 0)])
def test_it_looks_from_elsewhere_first_where_that_is_expected_to_pay(p, cost, looks):
    table = WithWrist({k: stack()[k] for k in (1, 2, 4)})
    assert isinstance(table, LooksAround) and not isinstance(BoxTable(), LooksAround)
    memory = Memory().carry_to(TableMasks(table).segment(table.observe()))
    odds = float(np.log(p / (1.0 - p)))
    memory = replace(memory, pairs=PairFilter({PAIR: PairEvidence(1.0, 3.0, odds)}))
    posterior = ObstructionPosterior((1, 2, 4), 1, {PAIR: p})
    around = Around(table, plain_system(TableMasks(table)), cost)
    looked = around.look(decide(posterior, tau=0.6), posterior, memory)
    assert table.looks == looks and (looked is not None) == bool(looks)
    if looked is not None:
        after, words = looked
        assert after.pairs.pairs[PAIR].weight == pytest.approx(1.0 + OTHER_POSE)
        assert "looked from the left first, recognised 3 of 3" in words
        assert after.known == memory.known and after.frame is memory.frame  # acted on is the usual view
        assert around.look(decide(posterior, tau=0.6), posterior, memory) is None  # once a place


def test_it_looks_where_that_may_save_a_question_and_not_where_another_rule_defers():
    table = WithWrist({k: stack()[k] for k in (1, 2, 4)})
    memory = Memory().carry_to(TableMasks(table).segment(table.observe()))

    def offered(p, reason=None):
        known = replace(
            memory, pairs=PairFilter({PAIR: PairEvidence(1.0, 1.0, float(np.log(p / (1.0 - p))))})
        )
        posterior = ObstructionPosterior((1, 2, 4), 1, {PAIR: p})
        decision = decide(posterior, tau=0.88)
        decision = decision if reason is None else replace(decision, action=Defer(reason))
        return best_view(decision, posterior, known, table.views())

    assert offered(0.85).gain > 0.05 > offered(0.6).gain  # to be lifted above 0.88, or too far below
    assert offered(0.95).gain == 0.0  # it acts
    assert offered(0.95, "conflicting_evidence") is None


def test_a_robot_that_can_look_around_still_retrieves():
    table = WithWrist()
    assert retrieve(table, plain_system(TableMasks(table)), 1, LoopSettings(look_cost=0.02)).retrieved
