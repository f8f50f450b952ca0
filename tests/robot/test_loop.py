"""The loop on a table of boxes: it retrieves, and whatever goes wrong it ends safe and says what happened."""

from dataclasses import replace

import numpy as np
import pytest
from robot.table_runs import RED, run
from support.box_table import Box, BoxTable, TableMasks, stack
from support.plain_system import Deciding, plain_system

from cpor.answer import DecideSettings
from cpor.decision import Certificate, Decision, Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, Robot
from cpor.robot.run_folder import read_run, replay
from cpor.robot.steps import choose
from cpor.system import System


def decision(action, scores, tau=0.5):
    proof = Certificate("exact", 0.0, None, True, True)
    return Decision(action, scores, frozenset(), proof, "exact", tau, tau, 0.0, 0.0)


def always_defer(ids: tuple[int, ...], target: int) -> Decision:
    return decision(Defer("weak_evidence"), dict.fromkeys(ids, 0.3))


def at_rest(table):
    return table.log[-1] in ("home", "stop")


def test_box_table_is_a_robot():
    assert isinstance(BoxTable(), Robot)


def test_clears_the_pile_top_down_and_delivers_the_target(tmp_path):
    table = BoxTable()
    result = run(table, tmp_path)
    assert result.retrieved and result.actions == 3 and result.removed == 2
    assert table.log == ["home", "remove 3", "remove 2", "grasp 1", "home"]
    assert set(table.boxes) == {4}
    assert result.final_scene is not None and 1 not in result.final_scene.ids
    assert read_run(tmp_path / "run").final_scene == result.final_scene


def test_follows_the_target_when_every_frame_numbers_anew(tmp_path, rng):
    table = BoxTable()
    masks = TableMasks(table, rng)
    result = run(table, tmp_path, masks=masks, target=masks.find(RED))
    assert result.retrieved and table.log[1:4] == ["remove 3", "remove 2", "grasp 1"]
    assert len({cycle.target for cycle in result.cycles}) == 1


def test_an_arm_refuses_the_rule_that_acts_on_unproven_scores(tmp_path):
    table = BoxTable()
    with pytest.raises(InvalidSettingError, match="for comparison only"):
        retrieve(table, plain_system(TableMasks(table), method="topk"), 1)
    assert table.log == []


def test_the_next_best_action_too_needs_its_lower_end_above_tau(tmp_path):
    bounds = {1: (0.9, 1.0), 2: (0.1, 1.0), 3: (0.0, 0.1), 4: (0.0, 0.1)}

    def decide(ids, target) -> Decision:
        proof = Certificate("k_max", 0.5, 4, False, False)
        scores = {1: 0.95, 2: 0.9, 3: 0.0, 4: 0.0}
        return Decision(Grasp(1), scores, frozenset(), proof, "topk", 0.5, 0.5, None, None, bounds=bounds)

    table = BoxTable()
    system = Deciding(TableMasks(table), decide)
    answer = system.decide(system.look(table.observe()), 1)
    assert isinstance(choose(answer, frozenset({1}))[0], Defer)
    result = run(BoxTable(), tmp_path, decider=decide, settings={"budget": 1})
    assert read_run(tmp_path / "run").cycles[0].decision == result.cycles[0].decision
    assert result.cycles[0].decision.interval(2) == (0.1, 1.0)


def test_ends_when_the_budget_is_spent(tmp_path):
    table = BoxTable()
    result = run(table, tmp_path, settings={"budget": 2})
    assert result.ended == "budget" and result.actions == 2 and 1 in table.boxes and at_rest(table)


def test_deferring_looks_again_and_then_asks_a_person(tmp_path):
    table = BoxTable()
    result = run(table, tmp_path, decider=always_defer, settings={"max_deferrals": 3})
    assert result.ended == "deferred" and result.deferrals == 3 and result.actions == 0
    assert table.log == ["home", "home"]


def test_a_person_can_answer(tmp_path):
    table = BoxTable()
    answers = iter([Remove(3), Remove(2), Grasp(1)])
    result = run(table, tmp_path, decider=always_defer, ask=lambda cycle: next(answers))
    assert result.retrieved and result.actions == 3 and len(result.cycles) == 9
    assert any("a person said" in note for note in result.cycles[2].notes)


@pytest.mark.parametrize("answer", [Remove(77), Remove(1), Grasp(2), None, Defer("weak_evidence")])
def test_an_answer_that_cannot_be_done_ends_deferred(tmp_path, answer):
    table = BoxTable()
    result = run(table, tmp_path, decider=always_defer, ask=lambda cycle: answer)
    assert result.ended == "deferred" and result.actions == 0


def test_a_lost_frame_is_tried_again(tmp_path):
    table = BoxTable(lost_frames=2)
    result = run(table, tmp_path)
    assert result.retrieved and sum("frame was lost" in note for note in result.cycles[0].notes) == 2


def test_a_dead_camera_ends_as_fault_with_the_arm_stopped(tmp_path):
    table = BoxTable(lost_frames=100)
    result = run(table, tmp_path)
    assert result.ended == "fault" and "no frame" in result.detail and result.actions == 0
    assert table.log[-1] == "stop"


def test_a_delivery_that_a_dead_camera_cannot_check_ends_as_fault_and_says_so(tmp_path):
    table = BoxTable({1: stack()[1]})
    grasp = table.grasp

    def grasp_and_cut_the_cable(scene, obj):
        table.lost_frames = 100
        return grasp(scene, obj)

    table.grasp = grasp_and_cut_the_cable
    result = run(table, tmp_path)
    assert result.ended == "fault" and "as the robot says; that was not checked" in result.detail
    assert result.cycles[-1].outcome.kind == "done" and table.log[-1] == "stop" and 1 not in table.boxes


def test_a_missed_grasp_is_counted_and_tried_again(tmp_path):
    table = BoxTable(misses={3: 1})
    result = run(table, tmp_path)
    assert result.retrieved and result.actions == 4
    assert result.cycles[0].outcome.kind == "missed"
    assert any("has not changed since it was tried" in note for note in result.cycles[1].notes)


def test_after_two_failures_on_an_unchanged_object_the_next_best_is_taken(tmp_path):
    table = BoxTable(misses={3: 100})

    def decide(ids, target):
        return decision(Remove(3), {1: 0.1, 2: 0.2, 3: 0.9, 4: 0.6})

    result = run(table, tmp_path, decider=decide, settings={"budget": 3})
    assert table.log[1:4] == ["remove 3", "remove 3", "remove 4"]
    assert "tried in vain" in result.cycles[2].notes[-1] and result.cycles[2].decision.action == Remove(3)


def test_without_another_likely_action_it_tries_again_four_times_and_then_defers(tmp_path):
    table = BoxTable(misses={3: 100})
    result = run(table, tmp_path)
    assert result.ended == "deferred" and result.actions == 4
    assert table.log.count("remove 3") == 4 and set(table.boxes) == {1, 2, 3, 4}
    assert run(BoxTable(misses={3: 3}), tmp_path / "slips").retrieved


def test_however_bold_it_is_a_guess_never_stands_in_for_what_was_tried_in_vain(tmp_path):
    table = BoxTable(misses={3: 3})

    def decide(ids, target):
        return replace(decision(Remove(3), {1: 0.1, 2: 0.2, 3: 0.9, 4: 0.4}), tau=0.0)

    run(table, tmp_path, decider=decide, settings={"budget": 4})
    assert table.log[1:5] == ["remove 3"] * 4


def test_makes_room_by_removing_a_free_neighbour_where_allowed(tmp_path):
    boxes = stack()
    boxes[5] = Box((40, 80), (112, 124), 0.05, (30, 200, 200))
    table = BoxTable(boxes, misses={3: 2})
    result = run(table, tmp_path, settings={"make_room": True})
    assert table.log[1:5] == ["remove 3", "remove 3", "remove 5", "remove 3"]
    assert "to make room" in result.cycles[2].notes[-1] and result.retrieved


def test_never_makes_room_with_what_may_be_obstructed(tmp_path):
    table = BoxTable(misses={3: 100})
    result = run(table, tmp_path, settings={"make_room": True})
    assert result.ended == "deferred" and set(table.boxes) == {1, 2, 3, 4}


def test_failures_are_forgotten_when_the_object_changes(tmp_path):
    table = BoxTable(misses={3: 3})
    take = table.remove

    def remove_and_nudge(scene, obj):
        outcome = take(scene, obj)
        if 3 in table.boxes:
            table.boxes[3] = table.boxes[3].moved(0, 5 if table.boxes[3].cols[0] == 70 else -5)
        return outcome

    table.remove = remove_and_nudge
    result = run(table, tmp_path)
    assert result.retrieved and table.log.count("remove 3") == 4


def test_what_was_decided_is_what_the_record_decides(tmp_path):
    table = BoxTable(misses={3: 1})
    observe = table.observe
    noise = np.random.default_rng(3)

    def observe_with_noise():
        frame = observe()
        depth = frame.depth + noise.normal(0.0, 0.0004, frame.depth.shape).astype(np.float32)
        return type(frame)(frame.rgb, depth, frame.camera)

    table.observe = observe_with_noise
    result = run(table, tmp_path)
    again = replay(tmp_path / "run", plain_system("given"))
    assert len(again) == len(result.cycles) and not any(each.differs for each in again)
    assert max(each.largest_difference for each in again) == 0.0


def test_the_threshold_still_binds_when_the_next_best_is_taken():
    table = BoxTable()
    strict = plain_system(TableMasks(table), tau=0.5)
    answer = strict.decide(strict.look(table.observe()), 1)
    assert choose(answer, frozenset()) == (Remove(3), None)
    assert isinstance(choose(answer, frozenset({3}))[0], Defer)


def test_calls_back_before_the_robot_moves_and_after_every_cycle(tmp_path):
    table, seen = BoxTable(), []
    run(
        table,
        tmp_path,
        on_decision=lambda cycle: seen.append((cycle.index, cycle.attempt, len(table.log))),
        on_cycle=lambda cycle: seen.append((cycle.index, cycle.attempt, len(table.log))),
    )
    assert seen[:2] == [(0, "none", 1), (0, "ended", 2)] and len(seen) == 6


def test_a_stopped_outcome_from_the_robot_ends_as_stopped(tmp_path):
    table = BoxTable()
    table.remove = lambda scene, obj: Outcome("stopped", "somebody pressed the button")
    assert run(table, tmp_path).ended == "stopped"


@pytest.mark.parametrize("setting", ["budget", "max_deferrals", "looks_for_target"])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(InvalidSettingError, match=setting):
        LoopSettings(**{setting: 0})


def test_an_object_that_is_believed_to_be_obstructed_is_not_acted_on(tmp_path):
    # 2 and 3 lie on each other: that 3 is free follows from ruling out circles alone.
    p = np.zeros((4, 4))
    p[0, 1] = p[1, 2] = 0.99
    p[2, 1] = 0.75

    class InCircle(System):
        def decide(self, view, request=None, **options):
            answer = super().decide(view, request, **options)
            posterior = ObstructionPosterior(view.seen.ids, request, p)
            return replace(answer, posterior=posterior, decision=Pipeline(tau=0.0).decide(posterior))

    table = BoxTable()
    settings = DecideSettings(ignore_checks=True)
    system = InCircle(TableMasks(table), "none", "none", second_look=False, settings=settings)
    result = run(table, tmp_path, system=system)
    assert result.cycles[0].decision.action == Remove(3)
    assert result.cycles[0].action == Defer("conflicting_evidence") and result.actions == 0
    assert "object 2 is believed to lie on it (75%)" in result.cycles[0].notes[-1]
