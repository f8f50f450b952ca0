"""Leaves of a behaviour tree: every outcome, an example that fetches, and cancelling at any tick."""

import time

import pytest
from py_trees.common import Status
from support.box_table import Box, BoxTable, TableMasks

from cpor.bridges.trees import Act, AskPerson, Cell, CheckDelivery, DecideNext, Look, fetch_tree
from cpor.decision import Defer, Grasp, Remove
from cpor.system import System

FREE = {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30)), 2: Box((5, 18), (100, 120), 0.04, (200, 200, 30))}


def cell(table, find=1):
    return Cell(table, System(TableMasks(table), "none"), find)


def finish(leaf):
    """Tick until it is done."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        leaf.tick_once()
        if leaf.status != Status.RUNNING:
            return leaf.status
        time.sleep(0.002)
    raise AssertionError("it never ended")


def test_leaves_say_what_is_next():
    free, buried = cell(BoxTable(dict(FREE))), cell(BoxTable())
    for here, next_, action in ((free, "grasp", Grasp(1)), (buried, "remove", Remove(3))):
        look, decide = Look("look", here), DecideNext("decide", here)
        assert finish(look) == finish(decide) == Status.SUCCESS
        assert (decide.board.next, decide.board.action) == (next_, action)
    bold = DecideNext("decide", Cell(free.robot, System("depth", "none"), 1))
    bold.board.view = None
    assert finish(bold) == Status.FAILURE and bold.board.next == "ask"


def test_a_look_that_fails_leaves_nothing_to_act_on():
    here = cell(BoxTable(dict(FREE)))
    assert finish(Look("look", here)) == Status.SUCCESS
    here.robot.lost_frames = 1
    look = Look("look again", here)
    assert finish(look) == Status.FAILURE and "no frame" in look.feedback_message
    assert look.board.view is None and look.board.next == "ask"
    act = Act("act", here)
    assert finish(act) == Status.FAILURE and "grasp 1" not in here.robot.log
    absent = Look("look for another", cell(here.robot, find=9))
    assert finish(absent) == Status.FAILURE and absent.board.target is None


@pytest.mark.parametrize(
    ("said", "status", "next_"),
    [
        (Remove(2), Status.SUCCESS, "remove"),
        (Grasp(1), Status.SUCCESS, "grasp"),
        (Grasp(2), Status.FAILURE, "ask"),
        (Remove(7), Status.FAILURE, "ask"),
        (Defer("weak_evidence"), Status.FAILURE, "ask"),
        (None, Status.FAILURE, "ask"),
    ],
)
def test_what_a_person_says(said, status, next_):
    here = cell(BoxTable(dict(FREE)))
    assert finish(Look("look", here)) == Status.SUCCESS
    asks = AskPerson("ask", here, lambda answer: said)
    asks.board.next = "ask"
    assert finish(asks) == status and asks.board.next == next_


def test_an_outcome_that_is_not_done_is_a_failure():
    table = BoxTable(dict(FREE), misses={1: 1})
    here = cell(table)
    for wanted in (Status.FAILURE, Status.SUCCESS):
        finish(Look("look", here))
        finish(DecideNext("decide", here))
        act = Act("act", here)
        assert finish(act) == wanted
    assert table.log.count("grasp 1") == 2 and act.board.view is None
    assert finish(Act("again", here)) == Status.FAILURE  # one look serves one action


def test_a_change_right_before_a_motion_keeps_the_robot_from_it():
    table = BoxTable(dict(FREE))
    here = cell(table)
    assert finish(Look("look", here)) == finish(DecideNext("decide", here)) == Status.SUCCESS
    table.boxes[1] = table.boxes[1].moved(20, 0)
    act = Act("act", here)
    assert finish(act) == Status.FAILURE and act.board.outcome is None and "grasp 1" not in table.log
    assert "the robot is not sent: something changed at object 1" in act.feedback_message
    table.boxes[1] = table.boxes[1].moved(-20, 0)
    assert finish(fetch_tree(here, lambda answer: None)) == Status.SUCCESS


def test_a_delivery_that_a_look_does_not_prove_is_no_success():
    table = BoxTable(dict(FREE), lies={1})  # it says done, and the target lies where it lay
    here = cell(table)
    root = fetch_tree(here, lambda answer: None, most_actions=2)
    assert finish(root) == Status.FAILURE and table.log.count("grasp 1") == 2

    class Falls(BoxTable):
        def _take(self, scene, obj, verb):
            outcome = super()._take(scene, obj, verb)
            self.boxes[1] = Box((42, 54), (56, 64), 0.02, (60, 60, 200))
            return outcome

    falls = Falls(dict(FREE))
    root = fetch_tree(cell(falls), lambda answer: None)
    assert finish(root) == Status.FAILURE and falls.log.count("grasp 1") == 1
    check = next(leaf for leaf in root.iterate() if isinstance(leaf, CheckDelivery))
    assert check.board.delivery.known == "not_known" and "was not there before" in check.feedback_message


def test_the_example_fetches_a_buried_target():
    table = BoxTable()
    assert finish(fetch_tree(cell(table), lambda answer: None)) == Status.SUCCESS
    assert [each for each in table.log if each not in ("home", "stop")] == ["remove 3", "remove 2", "grasp 1"]
    lost = BoxTable(lost_frames=99)
    assert finish(fetch_tree(cell(lost), lambda answer: None)) == Status.FAILURE


def test_cancelled_at_any_tick_the_arm_is_at_rest(evidence):
    moved = ticks = 0
    for after in range(24):
        table = BoxTable(waits_for_stop=True)  # each motion lasts until somebody stops it
        root = fetch_tree(cell(table), lambda answer: None)
        for _ in range(after):
            root.tick_once()
            ticks += 1
            time.sleep(0.001 * (after % 5))
            if table.moving.is_set() and after % 2:
                break
        root.stop(Status.INVALID)
        moved += table.moving.is_set()
        assert table.status().state == "stopped" and table.log[-1] == "stop"
        assert all(leaf._thread is None for leaf in root.iterate() if hasattr(leaf, "_thread"))
    # And surely once in the middle of a motion.
    table = BoxTable(waits_for_stop=True)
    root = fetch_tree(cell(table), lambda answer: None)
    while not table.moving.is_set():
        root.tick_once()
        time.sleep(0.001)
    root.stop(Status.INVALID)
    assert table.log[-1] == "stop" and table.stopped.is_set()
    evidence(
        "serves", "behaviour tree cancelled at a tick", "arm at rest", f"25 of 25, {moved + 1} while it moved"
    )
