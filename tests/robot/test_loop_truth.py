"""What the loop says is true: delivered means gone, stopped means still, and the record is always closed."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from support.box_table import Box, BoxTable, OverTheTable, TableMasks, stack

from cpor.decision import Certificate, Decision, Defer
from cpor.errors import RobotError
from cpor.pipeline import Pipeline
from cpor.robot.cameras import FolderCamera
from cpor.robot.carry_over import Memory
from cpor.robot.choose import Declared
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.robot.run_folder import RunFolder, read_run
from cpor.robot.safe_stop import POLL_S
from cpor.robot.ur import connect_ur

RED = (200, 30, 30)


def two():
    """The target lies free, another box apart from it."""
    return BoxTable({1: stack()[1], 4: stack()[4]})


def run(table, tmp_path, settings=None, masks=None, target=1, **options):
    record, decider = RunFolder(tmp_path / "run"), options.pop("decider", None)
    result = retrieve(
        table,
        masks or TableMasks(table),
        target,
        Declared(decider) if decider else Pipeline(),
        settings=LoopSettings(**(settings or {})),
        record=record,
        **options,
    )
    assert read_run(tmp_path / "run").ended == result.ended
    return result


def always_defer(scene, target):
    proof = Certificate("exact", 0.0, None, True, True)
    scores = dict.fromkeys(scene.ids, 0.3)
    return Decision(Defer("weak_evidence"), scores, frozenset(), proof, "exact", 0.5, 0.5, 0.0, 0.0)


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
            connect_ur("192.0.2.1", camera),
            ColourMasks(),
            1,
            Pipeline(),
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
    result = retrieve(connect_ur("192.0.2.1", FolderCamera(tmp_path / "run")), ColourMasks(), 1, Pipeline())
    assert not result.retrieved


def test_a_stop_while_a_person_is_asked_is_not_overridden_by_going_home(tmp_path):
    table, stop = BoxTable(), threading.Event()
    result = run(table, tmp_path, decider=always_defer, ask=lambda cycle: stop.set(), stop=stop)
    assert result.ended == "stopped" and result.robot.state == "stopped"
    assert table.log.count("home") == 1 and table.log[-1] == "stop"


def test_a_stop_in_the_last_look_leaves_the_arm_where_it_is(tmp_path):
    table, stop = two(), threading.Event()
    observe, grasp = table.observe, table.grasp

    def grasp_then_stop_in_the_look(scene, obj):
        table.observe = lambda: (stop.set(), observe())[1]
        return grasp(scene, obj)

    table.grasp = grasp_then_stop_in_the_look
    result = run(table, tmp_path, stop=stop)
    assert result.retrieved and result.robot.state == "stopped" and table.log.count("home") == 1


@pytest.mark.parametrize("nth", [1, 2])
def test_a_stop_that_a_home_clears_is_said_again(tmp_path, nth):
    """First home: the start. Second: the last one."""
    table, stop = two(), threading.Event()
    home, homes = table.home, []

    def home_that_clears():
        homes.append(1)
        if len(homes) == nth:
            stop.set()
            time.sleep(3 * POLL_S)
        return home()

    table.home = home_that_clears
    result = run(table, tmp_path, stop=stop)
    assert result.robot.state == "stopped" and table.log[-1] == "stop" and len(homes) == nth
    assert result.ended == ("stopped" if nth == 1 else "retrieved")


def test_a_stop_while_waiting_for_recovery_does_not_go_home(tmp_path):
    table, stop = BoxTable(faults_on={3}), threading.Event()
    status = table.status

    def clears_and_stops():
        if table.state == "protective_stop" and table.log[-1].startswith("remove"):
            table.polls = getattr(table, "polls", 0) + 1
            if table.polls == 4:
                stop.set()
                table.state = "ready"
        return status()

    table.status = clears_and_stops
    result = run(table, tmp_path, {"wait_for_recovery_s": 20.0}, stop=stop)
    assert table.log.count("home") == 1 and result.robot.state == "stopped"
    assert result.cycles[0].outcome.kind == "fault"


def test_the_watcher_survives_a_stop_that_fails(tmp_path):
    table, stop = BoxTable(waits_for_stop=True), threading.Event()
    real, tries = table.stop, []

    def stop_at_the_third_try():
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("rtde: busy")
        real()

    table.stop = stop_at_the_third_try
    threading.Thread(target=lambda: (table.moving.wait(10.0), stop.set()), daemon=True).start()
    result = run(table, tmp_path, stop=stop)
    assert result.ended == "stopped" and result.cycles[0].outcome.kind == "stopped"


def test_a_foreign_error_in_the_last_home_stops_the_arm_closes_the_record_and_is_raised(tmp_path):
    table = two()
    home, homes = table.home, []

    def home_once():
        homes.append(1)
        if len(homes) > 1:
            raise RuntimeError("rtde: connection lost")
        return home()

    table.home = home_once
    with pytest.raises(RuntimeError, match="connection lost"):
        run(table, tmp_path)
    on_disk = read_run(tmp_path / "run")
    assert table.log[-1] == "stop" and on_disk.ended == "retrieved"
    assert "connection lost" in on_disk.head.detail and on_disk.cycles[-1].outcome.kind == "done"


def test_a_foreign_error_in_status_does_not_hide_the_first_one(tmp_path):
    table = two()

    def lost(*args):
        raise RuntimeError("no status")

    def break_down(scene, obj):
        table.status = lost
        raise ZeroDivisionError("a bug")

    table.grasp = break_down
    with pytest.raises(ZeroDivisionError):
        run(table, tmp_path)
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == "fault" and on_disk.head.robot is None and table.log[-1] == "stop"
    assert "ZeroDivisionError" in on_disk.head.detail and "no status" in on_disk.head.detail


def test_a_stop_that_never_works_is_raised_after_the_record_is_closed(tmp_path):
    table = BoxTable(interrupts_on={3})

    def jammed():
        table.log.append("stop?")
        raise RuntimeError("rtde: gone")

    table.stop = jammed
    with pytest.raises(RuntimeError, match="gone"):
        run(table, tmp_path)
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == "stopped" and table.log.count("stop?") == 3


def test_an_outcome_is_on_disk_before_the_next_look(tmp_path):
    table = two()
    observe, seen = table.observe, []

    def look():
        if len(table.log) > 1:
            seen.append(read_run(tmp_path / "run").cycles[-1].outcome)
        return observe()

    table.observe = look
    run(table, tmp_path)
    assert seen[-1].kind == "done"


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt])
def test_a_callback_that_fails_after_the_last_cycle_finds_the_record_closed(tmp_path, error):
    table = two()

    def show(cycle):
        raise error

    with pytest.raises(error):
        run(table, tmp_path, on_cycle=show)
    assert read_run(tmp_path / "run").ended == "retrieved" and table.log[-1] == "home"


def test_ctrl_c_before_the_robot_is_sent_is_no_attempt(tmp_path):
    table = two()

    def interrupted(cycle):
        assert read_run(tmp_path / "run").cycles[-1].attempt == "none"
        raise KeyboardInterrupt

    result = run(table, tmp_path, on_decision=interrupted)
    assert result.ended == "stopped" and result.actions == 0 and result.cycles[0].outcome is None
    assert "grasp 1" not in table.log


def test_begun_is_on_disk_while_the_robot_is_under_way(tmp_path):
    table = two()
    grasp = table.grasp

    def look_into_the_record(scene, obj):
        assert read_run(tmp_path / "run").cycles[-1].attempt == "begun"
        return grasp(scene, obj)

    table.grasp = look_into_the_record
    assert run(table, tmp_path).retrieved


def test_a_stop_in_the_callback_before_the_robot_is_sent_keeps_it_still(tmp_path):
    table, stop = two(), threading.Event()
    result = run(table, tmp_path, on_decision=lambda cycle: stop.set(), stop=stop)
    assert result.ended == "stopped" and result.actions == 0 and "grasp 1" not in table.log


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
        return RobotStatus("ready", "ready")

    table.status = status
    result = run(table, tmp_path)
    assert result.retrieved and result.robot is None
