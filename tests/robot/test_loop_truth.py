"""What the loop says is true: delivered means gone, and the target is the object that was meant."""

from dataclasses import replace

import numpy as np
import pytest
from robot.table_runs import run, two
from support.box_table import Box, BoxTable, OverTheTable, TableMasks, stack
from support.plain_system import plain_system

from cpor.errors import RobotError
from cpor.robot.cameras import FolderCamera
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.robot.robot_file import build_ur
from cpor.tracking.memory import Memory

RED = (200, 30, 30)


def says_done(table, meanwhile):
    """A robot that says `done` after something else happened."""

    def grasp(scene, obj):
        table.log.append("grasp")
        meanwhile()
        return Outcome("done", "put down, if it was held: the gripper cannot tell")

    table.grasp = grasp
    return table


@pytest.mark.parametrize("kept", [False, True])
def test_a_target_that_was_only_shoved_is_not_retrieved(tmp_path, kept):
    table = two()
    says_done(table, lambda: table.boxes.update({1: table.boxes[1].moved(1, 2)}))
    result = run(table, tmp_path, {"ids_are_kept": kept, "budget": 4})
    assert result.ended in ("budget", "deferred") and result.final_scene is None
    assert "still seen" in result.cycles[0].notes[-1] or "lies where it lay" in result.cycles[0].notes[-1]


@pytest.mark.parametrize("kept", [False, True])
def test_another_object_delivered_in_its_place_is_no_retrieval_and_the_loop_goes_on(tmp_path, kept):
    table = two()
    take = table.grasp

    def take_the_other():
        table.grasp = take
        del table.boxes[4]
        table.boxes[1] = table.boxes[1].moved(6, 6)

    result = run(says_done(table, take_the_other), tmp_path, {"ids_are_kept": kept})
    assert result.retrieved and result.actions == 2 and not table.boxes


def test_what_looks_like_a_delivered_target_but_lies_deeper_is_not_reached_for(tmp_path):
    upper = Box((20, 60), (20, 60), 0.08, RED, "red box")
    table = BoxTable({1: upper, 4: stack()[4]})

    def taken():
        table.boxes[1] = replace(upper, top=0.05, rows=(22, 58), cols=(22, 58))  # its like lay below, unseen

    says_done(table, taken)
    plain = table.grasp
    table.grasp = lambda scene, obj: replace(plain(scene, obj), holding=True)
    result = run(table, tmp_path)
    assert result.ended == "unconfirmed" and result.actions == 1
    assert "it may have lain below" in result.cycles[0].notes[-1]


def test_a_last_frame_without_depth_is_no_proof(tmp_path):
    table = two()
    observe = table.observe

    def blind():
        frame = observe()
        return replace(frame, depth=np.full_like(frame.depth, np.nan))

    def take_and_go_blind():
        del table.boxes[1]
        table.observe = blind

    result = run(says_done(table, take_and_go_blind), tmp_path)
    assert result.ended == "unconfirmed" and "no depth" in result.cycles[0].notes[-1]


def test_something_without_depth_where_the_target_lay_is_no_proof(tmp_path):
    table = two()
    observe = table.observe

    def dark():
        frame = observe()
        here = stack()[1].mask()
        return replace(
            frame,
            rgb=np.where(here[..., None], np.uint8(0), frame.rgb),
            depth=np.where(here, np.nan, frame.depth),
        )

    def swap():
        table.boxes[7] = replace(table.boxes.pop(1), colour=(0, 0, 0))
        table.observe = dark

    result = run(says_done(table, swap), tmp_path)
    assert not result.retrieved and "without depth" in result.cycles[0].notes[-1]


def test_a_frame_lost_in_the_last_look_is_tried_again(tmp_path):
    table = two()
    result = run(says_done(table, lambda: setattr(table, "lost_frames", 1)), tmp_path)
    assert result.ended == "deferred" and 1 in table.boxes
    assert "frame was lost" in result.cycles[0].notes[0] and "lies where it lay" in result.cycles[0].notes[1]


def test_the_last_look_may_be_left_out_and_the_record_says_so(tmp_path):
    result = run(two(), tmp_path, {"check_target_is_out": False})
    assert result.ended == "unconfirmed" and "as the robot says" in result.detail


def test_a_dry_run_never_retrieves_even_where_the_frames_change(tmp_path):
    class Changing(OverTheTable):
        def frame(self):
            frame = super().frame()
            self.table.boxes.pop(1, None)  # the next frame is another one, as in a folder
            return frame

    camera = Changing({1: Box((40, 56), (54, 66), 0.04, RED), 4: stack()[4]})
    for check in (True, False):
        camera.table.boxes[1] = Box((40, 56), (54, 66), 0.04, RED)
        result = retrieve(
            build_ur("192.0.2.1", camera),
            plain_system(ColourMasks()),
            1,
            settings=LoopSettings(check_target_is_out=check, ids_are_kept=True),
        )
        assert result.ended == "target_lost" and result.cycles[0].outcome.kind == "done"
        assert "dry run" in result.cycles[0].notes[-1] and result.robot.dry_run


class ColourMasks:
    """Masks by colour, of whatever the frame shows."""

    def segment(self, observation):
        table = BoxTable({1: Box((40, 56), (54, 66), 0.04, RED), 4: stack()[4]})
        scene = TableMasks(table).segment(observation)
        shown = set(np.unique(scene.visible_ids).tolist())
        return replace(scene, objects=tuple(o for o in scene.objects if o.id in shown))


def test_a_recorded_run_as_camera_ends_dry(tmp_path):
    table = two()
    run(table, tmp_path)
    result = retrieve(build_ur("192.0.2.1", FolderCamera(tmp_path / "run")), plain_system(ColourMasks()), 1)
    assert not result.retrieved


class ShownOnly(TableMasks):
    """Masks of what shows; what is wholly covered is not found."""

    def segment(self, observation):
        scene = super().segment(observation)
        shown = set(np.unique(scene.visible_ids).tolist())
        return replace(scene, objects=tuple(o for o in scene.objects if o.id in shown))


def test_an_alike_thing_that_comes_to_light_elsewhere_is_not_followed_as_the_target(tmp_path):
    boxes = {
        1: Box((20, 60), (10, 50), 0.04, RED),
        2: Box((20, 60), (80, 120), 0.09, (30, 200, 30)),
        5: Box((24, 56), (84, 116), 0.04, (180, 50, 40)),
    }
    table = BoxTable(boxes)

    def misses_and_uncovers(scene, obj):
        table.log.append("grasp")
        del table.boxes[1]
        table.boxes[2] = table.boxes[2].moved(36, 0)
        return Outcome("missed", "the fingers closed on nothing")

    table.grasp = misses_and_uncovers
    result = run(table, tmp_path, masks=ShownOnly(table))
    assert result.ended == "target_lost" and set(table.boxes) == {2, 5} and result.actions == 1


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [
        (None, Box((55, 92), (10, 50), 0.04, RED), True),  # on bare ground
        (None, Box((22, 58), (82, 118), 0.10, RED), True),  # on top of the lid
        (Box((22, 58), (82, 118), 0.02, RED), None, False),  # lay under the lid, which has gone
    ],
)
def test_a_thing_can_have_moved_to_bare_ground_or_on_top_but_not_to_what_was_covered(then, now, same):
    red, lid = Box((5, 45), (10, 50), 0.04, RED), Box((20, 60), (80, 120), 0.06, (30, 200, 30))
    before = BoxTable({1: red, 2: lid})
    after = BoxTable({1: now, 2: lid} if now else {1: then})
    memory = Memory().carry_to(ShownOnly(before).segment(before.observe()))
    assert (1 in memory.carry_to(ShownOnly(after).segment(after.observe())).known) is same


def test_an_id_of_the_first_frame_means_nothing_later_where_frames_number_anew(tmp_path):
    table = two()

    class Anew:
        frames = 0

        def segment(self, observation):
            scene = TableMasks(table).segment(observation)
            self.frames += 1
            new = {1: 9, 4: 4} if self.frames == 1 else {1: 9, 4: 1}
            keep = (4,) if self.frames == 1 else (1, 4)
            ids = np.zeros_like(scene.visible_ids)
            for k in keep:
                ids[scene.visible_ids == k] = new[k]
            return replace(
                scene,
                objects=tuple(replace(o, id=new[o.id]) for o in scene.objects if o.id in keep),
                visible_ids=ids,
            )

    result = run(table, tmp_path, masks=Anew())
    assert result.ended == "target_lost" and result.actions == 0 and set(table.boxes) == {1, 4}


def test_a_robot_that_cannot_say_how_it_is_left_is_recorded_as_such(tmp_path):
    table = two()

    def status():
        if table.log[-1:] == ["home"] and len(table.log) > 1:
            raise RobotError("no answer")
        return RobotStatus("ready", "ready", False)

    table.status = status
    result = run(table, tmp_path)
    assert result.retrieved and result.robot is None
