"""`retrieved` needs positive evidence: what a failed look, a stale frame or a swapped id cannot give."""

from dataclasses import replace

import numpy as np
import pytest
from support.box_table import Box, BoxTable, TableMasks, stack
from support.faulty_table import (
    FAULTS,
    TARGET,
    FaultyMasks,
    FaultyTable,
    grasp_at_once,
    is_false,
    is_wrong_unnoticed,
    run_with,
    scattered,
)
from support.plain_system import Deciding, plain_system

from cpor.decision import Grasp
from cpor.errors import InvalidSceneError, InvalidSettingError
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome
from cpor.robot.run_folder import RunFolder, read_run
from cpor.robot.steps import why_stale
from cpor.scene import Observation, Scene


def faulty(fault, n=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    return FaultyTable(scattered(rng, n), fault=fault, rng=rng, **options)


def run(table, kept=False, masks=None, **options):
    settings = LoopSettings(budget=4, ids_are_kept=kept, **options.pop("settings", {}))
    return retrieve(table, Deciding(masks or FaultyMasks(table), grasp_at_once), TARGET, settings, **options)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("fault", ["black", "black_with_depth", "grey", "noise", "covered", "shifted"])
def test_a_gripper_that_took_nothing_and_a_failed_look_are_not_a_retrieval(fault, kept):
    table = faulty(fault, takes=False)
    result = run(table, kept)
    assert not result.retrieved and TARGET in table.boxes and table.log[-1] in ("home", "stop")
    if fault in ("black_with_depth", "grey", "noise"):
        assert result.ended == "unconfirmed" and result.actions == 1
        assert len(result.cycles[-1].notes) == LoopSettings().looks_for_target


@pytest.mark.parametrize("fault", ["frozen", "restamped"])
def test_a_frozen_camera_is_a_fault_before_anything_is_tried_by_its_frames(fault):
    table = faulty(fault, takes=False)
    result = run(table)
    assert result.ended == "fault" and result.actions == 1 and table.log[-1] == "stop"
    assert "check that the camera still runs" in result.detail


def test_a_frame_from_before_the_motion_is_not_decided_on():
    table = faulty("delayed")
    result = run(table)
    assert result.retrieved and result.actions == 1 and "s old" in " ".join(result.cycles[-1].notes)


def missing_once(table):
    """The first attempt on it fails."""
    take = table._take

    def miss_once(scene, obj, verb):
        table._take = take
        return Outcome("missed", "the fingers closed on nothing")

    table._take = miss_once
    return table


@pytest.mark.parametrize("for_one_frame", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_tracker_that_swaps_ids_does_not_get_the_wrong_object_delivered(seed, for_one_frame):
    """Place and look outweigh the tracker's numbers: the ids stay with the things."""
    table = missing_once(faulty("swapped", seed=seed))
    masks = FaultyMasks(table, swaps_at=2, for_one_frame=for_one_frame)
    result = run(table, kept=True, masks=masks)
    assert result.retrieved and table.delivered == [TARGET]
    assert {cycle.target for cycle in result.cycles} == {TARGET}


def twins_that_roll():
    """While the arm misses, the target and its twin roll to where nothing tells them apart."""
    boxes = {k: Box((10 + 30 * k, 25 + 30 * k), (20, 40), 0.04, (200, 30 + k, 30)) for k in (1, 2)}
    table = BoxTable({**boxes, 4: stack()[4]})
    take = table._take

    def rolls(scene, obj, verb):
        table._take = take
        table.boxes = {k: box.moved(0, 50) if k != 4 else box for k, box in table.boxes.items()}
        return Outcome("missed", "the fingers closed on nothing")

    table._take = rolls
    return table


def test_a_target_that_may_be_its_twin_is_asked_about_and_never_guessed():
    table = twins_that_roll()
    result = retrieve(table, Deciding(TableMasks(table), grasp_at_once), 1)
    assert result.ended == "deferred" and result.actions == 1
    assert "not trusted" in result.cycles[-1].notes[-1]
    table = twins_that_roll()
    result = retrieve(
        table, Deciding(TableMasks(table), grasp_at_once), 1, ask=lambda cycle: Grasp(cycle.scene.ids[0])
    )
    assert result.actions == 2 and "a person said" in " ".join(n for c in result.cycles for n in c.notes)


def test_where_nobody_knows_a_person_is_asked_and_may_send_it_on():
    table = faulty("black", takes=False, for_one_frame=False)
    asked = []

    def say(cycle):
        asked.append(cycle)
        table.fault, table.takes = "none", True
        return Grasp(TARGET)

    result = run(table, ask=say)
    assert result.retrieved and result.actions == 2 and len(asked) == 1
    assert asked[0].outcome.kind == "done" and "not out" in result.cycles[0].notes[-1]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_matrix_of_faults(fault):
    for seed in range(100, 105):
        table, result = run_with(fault, seed)
        assert not is_false(table, result), result.detail
        assert not is_wrong_unnoticed(table, result)
        assert table.log[-1] in ("home", "stop")


@pytest.mark.parametrize(("felt", "after"), [(False, None), (None, True)])
def test_the_gripper_s_own_sign_counts(felt, after):
    table = faulty("none")
    take, status = table._take, table.status
    table._take = lambda scene, obj, verb: replace(take(scene, obj, verb), holding=felt)
    table.status = lambda: replace(status(), holding=after if table.attempts else False)
    result = run(table)
    assert not result.retrieved and "its gripper" in result.cycles[0].notes[-1]


def test_a_target_alone_on_a_bare_table_needs_the_gripper_s_sign():
    """Without anything else in the picture a moved camera looks like an empty place."""
    for felt, ended in ((None, "unconfirmed"), (True, "retrieved")):
        table = BoxTable({1: stack()[1]})
        observe, take = table.observe, table._take

        def bare(observe=observe):
            frame = observe()
            return replace(frame, rgb=np.where(frame.rgb == 30, np.uint8(90), frame.rgb))

        table.observe = bare
        table.boxes[1] = replace(table.boxes[1], colour=(200, 40, 40))
        table._take = lambda *a, take=take, felt=felt: replace(take(*a), holding=felt)
        assert retrieve(table, plain_system(TableMasks(table)), 1).ended == ended


def test_a_picture_without_depth_is_judged_by_colour_and_objects():
    for lies, retrieved in ((set(), True), ({1}, False)):
        table = BoxTable({1: stack()[1], 4: stack()[4]}, lies=lies)
        observe = table.observe
        table.observe = lambda observe=observe: replace(observe(), depth=None)
        assert retrieve(table, Deciding(TableMasks(table), grasp_at_once), 1).retrieved is retrieved


def test_what_slides_into_the_place_is_no_target_left_behind():
    table = BoxTable({1: stack()[1], 4: stack()[4], 5: replace(stack()[3], rows=(70, 90), cols=(10, 40))})
    take = table._take

    def slides(scene, obj, verb):
        table.boxes[4] = replace(table.boxes[4], rows=(22, 58), cols=(22, 58), top=0.05)
        return take(scene, obj, verb)

    table._take = slides
    settings = LoopSettings(ids_are_kept=True)
    assert retrieve(table, Deciding(TableMasks(table), grasp_at_once), 1, settings).retrieved


RGB = np.random.default_rng(0).integers(0, 255, (8, 8, 3)).astype(np.uint8)
DEPTH = np.full((8, 8), 0.7, np.float32)
FIRST = Observation(RGB, DEPTH, time_s=1.0, number=7)
NEXT = Observation(RGB + 1, DEPTH + np.float32(0.001), time_s=1.1, number=8)


@pytest.mark.parametrize(
    ("frame", "asked_at", "may_repeat", "why"),
    [
        (NEXT, None, False, None),
        (NEXT, 1.1, False, None),
        (NEXT, 2.1, False, "1.0 s old"),
        (replace(NEXT, number=7), None, False, "frame 7 after frame 7"),
        (replace(NEXT, time_s=0.9), None, False, "not newer"),
        (replace(NEXT, time_s=1.0), None, False, None),  # the counter says that it is new
        (replace(NEXT, time_s=1.0, number=None), None, False, "not newer"),
        (replace(NEXT, time_s=None, number=None), None, False, None),
        (replace(FIRST, number=8, time_s=1.1), None, False, "picture is equal"),
        (replace(NEXT, depth=DEPTH), None, False, "depth is equal"),
        (replace(FIRST, number=8, time_s=1.1), None, True, None),
        (replace(FIRST, number=None, time_s=None), None, True, "picture is equal"),
    ],
)
def test_a_frame_must_be_newer_than_the_last_one(frame, asked_at, may_repeat, why):
    said = why_stale(frame, FIRST, asked_at, may_repeat)
    assert said is None if why is None else why in said


def test_time_and_number_of_a_frame_are_kept_in_the_record(tmp_path):
    write_scene_folder(Scene(FIRST), tmp_path / "frame")
    again = read_scene_folder(tmp_path / "frame").observation
    assert (again.time_s, again.number) == (1.0, 7)
    write_scene_folder(Scene(Observation(RGB)), tmp_path / "plain")
    plain = read_scene_folder(tmp_path / "plain").observation
    assert plain.time_s is None and plain.number is None
    assert "time_s" not in (tmp_path / "plain" / "camera.json").read_text()
    with pytest.raises(InvalidSceneError, match="time_s"):
        replace(FIRST, time_s=float("nan"))


def test_a_prior_for_missing_answers_moves_no_arm_unless_signed_off(tmp_path):
    table = BoxTable()
    with pytest.raises(InvalidSettingError, match="sign it off"):
        retrieve(table, plain_system(TableMasks(table), prior=0.1), 1)
    assert table.log == []
    with pytest.raises(InvalidSettingError, match="for comparison only"):
        retrieve(table, plain_system(TableMasks(table), method="topk"), 1)
    assert table.log == []
    with pytest.raises(InvalidSettingError, match="who and why"):
        LoopSettings(sign_off_prior=" ")
    signed = LoopSettings(sign_off_prior="a benchmark: nothing can be hurt")
    record = RunFolder(tmp_path / "run")
    assert retrieve(table, plain_system(TableMasks(table), prior=0.1), 1, signed, record).retrieved
    assert read_run(tmp_path / "run").head.settings["sign_off_prior"].startswith("a benchmark")
