"""Somebody asks for another object on the way: the loop turns to it, and the record says so."""

import pytest
from support.box_table import BoxTable, TableMasks
from support.plain_system import Deciding, plain_system

from cpor.decision import Certificate, Decision, Defer, Grasp
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run
from cpor.viz.story import story_of_run, story_page
from cpor.viz.words import namer

YELLOW = (200, 200, 30)


class Person:
    """Asks for an object before the `at`-th action is carried out, by its colour."""

    def __init__(self, colour=YELLOW, at=0):
        self.colour, self.at = colour, at
        self.seen = 0
        self.wish = None

    def decided(self, cycle):
        if self.seen == self.at:
            rgb, ids = cycle.scene.observation.rgb, cycle.scene.visible_ids
            self.wish = int(ids[(rgb == self.colour).all(axis=2)].max())
        self.seen += 1

    def retarget(self):
        wish, self.wish = self.wish, None
        return wish


@pytest.mark.parametrize("numbers_anew", [False, True])
def test_a_wish_before_the_action_keeps_the_robot_from_being_sent(tmp_path, rng, numbers_anew):
    table, person = BoxTable(), Person()
    masks = TableMasks(table, rng if numbers_anew else None)
    wanted = masks.find((200, 30, 30)) if numbers_anew else 1
    result = retrieve(
        table,
        plain_system(masks),
        wanted,
        record=RunFolder(tmp_path / "run"),
        on_decision=person.decided,
        retarget=person.retarget,
    )
    assert result.retrieved and set(table.boxes) == {1, 2, 3}
    assert table.log == ["home", "grasp 4", "home"]
    assert [c.retargeted for c in result.cycles] == [False, True] and result.retargeted == 1
    first, second = result.cycles
    assert first.attempt == "none" and "a person asks for another object" in first.notes[-1]
    assert f"object {second.target} is asked for" in " ".join(second.notes)
    record = read_run(tmp_path / "run")
    assert record.head.retargeted == 1 and [c.retargeted for c in record.cycles] == [False, True]
    assert record.head.actions == 1
    page = story_page(story_of_run(tmp_path / "run"))
    name = namer(second.scene)(second.target)
    assert f"{name[0].upper()}{name[1:]} was retrieved" in page and "once" in page


def test_a_wish_while_the_target_is_delivered_goes_on_with_the_other(tmp_path):
    table = BoxTable()
    wishes = []
    take = table.grasp

    def grasp(scene, obj):
        wishes.extend([4] if obj == 1 else [])
        return take(scene, obj)

    table.grasp = grasp
    result = retrieve(
        table,
        plain_system(TableMasks(table)),
        1,
        record=RunFolder(tmp_path / "run"),
        retarget=lambda: wishes.pop() if wishes else None,
    )
    assert result.retrieved and set(table.boxes) == set()
    assert [str(c.action) for c in result.cycles] == [
        "Remove(obj=3)",
        "Remove(obj=2)",
        "Grasp(obj=1)",
        "Grasp(obj=4)",
    ]
    assert "the target is out" in result.cycles[2].notes[-1] and result.cycles[3].retargeted


def test_what_is_not_seen_cannot_be_asked_for(tmp_path):
    table = BoxTable()
    wishes = [77]
    result = retrieve(
        table, plain_system(TableMasks(table)), 1, retarget=lambda: wishes.pop() if wishes else None
    )
    assert result.retrieved and result.retargeted == 0 and 1 not in table.boxes
    assert any("object 77, which is not seen; the target stays" in n for c in result.cycles for n in c.notes)


def test_asking_for_the_target_again_changes_nothing():
    table = BoxTable()
    result = retrieve(
        table,
        plain_system(TableMasks(table)),
        1,
        LoopSettings(ids_are_kept=True),
        retarget=lambda: 1,
    )
    assert result.retrieved and len(result.cycles) == 3
    assert result.cycles[-1].retargeted is False


def test_a_wish_is_an_answer_where_the_loop_asks():
    table, wishes = BoxTable(), []

    def unsure_of_the_first(ids, target):
        proof = Certificate("exact", 0.0, None, True, True)
        action = Defer("weak_evidence") if target == 1 else Grasp(target)
        return Decision(action, dict.fromkeys(ids, 0.3), frozenset(), proof, "exact", 0.2, 0.2, 0.0, 0.0)

    def ask(cycle):
        wishes.append(4)

    result = retrieve(
        table,
        Deciding(TableMasks(table), unsure_of_the_first),
        1,
        LoopSettings(ids_are_kept=True),
        ask=ask,
        retarget=lambda: wishes.pop() if wishes else None,
    )
    assert result.retrieved and table.log == ["home", "grasp 4", "home"] and result.deferrals == 3
