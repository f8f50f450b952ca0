"""An arm of a ROS 2 graph: its description, and the whole loop through a graph in another process."""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from bridges.dds_domain import own_domain
from typer.testing import CliRunner

from cpor.bridges import ros2_arm, ros2_clients
from cpor.bridges.ros2_arm import build
from cpor.bridges.ros2_camera import Ros2Camera
from cpor.bridges.ros2_clients import PickRobot
from cpor.bridges.ros2_sim import describe_arm
from cpor.bridges.ros2_transport import DdsTransport
from cpor.cli.app import app
from cpor.errors import CameraError, InvalidSettingError, RobotError
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.robot_file import read_robot_file
from cpor.robot.safe_stop import stopping
from cpor.robot.urdf import read_chain
from cpor.sim.arm import ur3e
from cpor.sim.arm.kinematics import Kinematics
from cpor.system import System

SEED, TARGET, POINT = 5, 9, (170.0, 238.0)
"""A heap, an object with one other on it, and a pixel that shows it."""

LATE_S = 1.0


@contextmanager
def cell_process(domain, fault="none"):
    """The process, once its graph is up."""
    command = [sys.executable, __file__, str(domain), fault]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        if not process.stdin.closed:
            process.stdin.close()
        process.wait(60)
        process.stdout.close()


def delivered(process):
    """The truth, at the end: the objects in the delivery tray."""
    process.stdin.close()
    return [int(obj) for obj in process.stdout.readline().split()[1:]]


def main():
    from cpor.bridges.ros2_sim import SimulatedGraph
    from cpor.bridges.ros2_transport import DdsTransport
    from cpor.robot.protocol import Outcome
    from cpor.sim.arm.simulated_robot import build

    class FaultyGraph(SimulatedGraph):
        trajectories = 0

        def announce_poses(self):
            if fault == "late":
                threading.Timer(LATE_S, super().announce_poses).start()
            else:
                super().announce_poses()

        def follow(self, goal):
            self.trajectories += 1
            if fault == "abort" and self.trajectories == 6:
                return Outcome("fault", "joint 3 left its path")
            if fault == "vanish" and self.trajectories == 6:
                os._exit(3)  # as a driver that is killed
            return super().follow(goal)

    domain, fault = int(sys.argv[1]), sys.argv[2]
    robot = build(SEED, "easy", "none")
    if fault != "none":
        robot._dead_man._late_s = 5.0  # on a loaded machine
    graph = FaultyGraph(DdsTransport(domain), robot)
    print("up", flush=True)
    sys.stdin.read()
    print("delivered", *(obj for obj in robot.world.objects if robot.in_tray(obj, "delivery")), flush=True)
    graph.close()


DOMAIN = own_domain()
CONFIG = Path(str(files("cpor.bridges") / "simulated_ur3e.toml"))


def test_the_description_of_the_arm_is_its_kinematics(rng):
    chain, truth = read_chain(describe_arm(), "base_link", "tool_tip"), Kinematics(None)
    assert chain.names == ur3e.JOINTS and all(chain.turns)
    for _ in range(20):
        near = np.array(ur3e.HOME)
        joints = near + rng.normal(0.0, 0.3, 6)
        T = chain.forward(joints)
        in_world = truth.forward(joints)
        in_world[2, 3] -= ur3e.BASE_HEIGHT
        np.testing.assert_allclose(T, in_world, atol=1e-9)
        np.testing.assert_allclose(chain.forward(chain.solve(T, near)), T, atol=2e-3)
        assert np.linalg.norm(T[:3, 3]) < chain.reach
    far = np.eye(4)
    far[0, 3] = 2.0
    assert chain.solve(far, near) is None


def test_a_sliding_joint_and_a_turned_axis():
    def joint(name, kind, parent, child, more):
        ends = f'<parent link="{parent}"/><child link="{child}"/>'
        return f'<joint name="{name}" type="{kind}">{ends}{more}</joint>'

    turn = joint(
        "turn",
        "continuous",
        "floor",
        "disc",
        '<origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/><axis xyz="0 0 2"/>',
    )
    slide = joint("slide", "prismatic", "disc", "tip", '<axis xyz="1 0 0"/><limit lower="-0.1" upper="0.5"/>')
    chain = read_chain(f"<robot>{turn}{slide}</robot>", "floor", "tip")
    T = chain.forward(np.array([np.pi / 2, 0.3]))
    np.testing.assert_allclose(T[:3, 3], [1.0 - 0.3, 0.0, 0.0], atol=1e-12)
    assert chain.turns == (True, False) and chain.high[1] == 0.5 and chain.reach == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("urdf", "tool", "says"),
    [
        ("<robot", "tool_tip", "no XML"),
        (describe_arm(), "tool9", "the links are: base_link, link_1"),
        (describe_arm(), "base_link", "no joint between"),
    ],
)
def test_a_description_without_such_a_way(urdf, tool, says):
    with pytest.raises(InvalidSettingError, match=says):
        read_chain(urdf, "base_link", tool)


@pytest.fixture(autouse=True)
def loaded_machine(monkeypatch):
    """The graph of another process may be late; what a silent arm means stays the same."""
    monkeypatch.setattr(ros2_arm, "STALE_S", 3.0)


def connect(dry_run=False, pick=False, **arm):
    options, _ = read_robot_file(CONFIG)
    options["arm"] |= {"late_s": 5.0} | arm | ({"pick": "/arm/pick"} if pick else {})
    return build(**options, graph={"domain": DOMAIN}, dry_run=dry_run)


def fetch(robot, budget=4):
    """Fetch an object that another one lies on."""
    settings = LoopSettings(budget=budget, camera_retries=0, frames_may_repeat=True)
    system = System(mode="bold")
    return retrieve(robot, system, POINT, settings, confirm=lambda question: True)


@contextmanager
def connected(**options):
    robot = connect(**options)
    try:
        yield robot
    finally:
        if robot.address is not None:
            (robot if isinstance(robot, PickRobot) else robot.arm).close()
        robot.camera.close()


@pytest.mark.slow
def test_the_loop_retrieves_a_buried_object_through_a_graph_in_another_process():
    """By trajectories, with poses that come late."""
    with cell_process(DOMAIN, "late") as process, connected() as robot:
        done = fetch(robot)
        # Whether the last look confirms it hangs on the masks; the tray is the truth.
        assert done.ended in ("retrieved", "unconfirmed") and done.removed >= 1, done.detail
        assert delivered(process) == [TARGET]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "says", "state"),
    [
        ("abort", "was aborted: joint 3 left its path", "stopped"),
        ("vanish", "is the driver of the arm alive", "disconnected"),
    ],
)
def test_a_goal_that_is_aborted_or_lost_ends_the_run_as_a_fault(fault, says, state):
    with cell_process(DOMAIN, fault), connected() as robot:
        done = fetch(robot)
        assert done.ended == "fault" and says in done.detail
        assert robot.status().state == state


@pytest.mark.slow
def test_the_dead_man_contract_of_a_pick_action(monkeypatch):
    with cell_process(DOMAIN):
        with connected(pick=True) as robot:
            kind, detail = robot.home().kind, robot.home().detail
            assert kind == "stopped" and "no heartbeat" in detail  # nothing feeds it outside of the loop
            with stopping(robot):
                assert robot.home().kind == "done" and robot.status().state == "ready"
                robot.stop()
                assert robot.home().kind == "done"  # it clears the stop
                robot.stop()
                assert robot.grasp(robot_scene(robot), 1).kind == "stopped"
                assert robot.status().state == "stopped"
                robot.close()  # the topic is silent, as of a frozen process
                time.sleep(1.2)
                assert "no heartbeat; the arm holds its position" in robot.home().detail
        with connected() as robot:
            done = fetch(robot, budget=1)
            assert done.ended == "budget" and done.removed == 1
        with connected(dry_run=True) as robot:
            assert robot.observe().camera.T_world_camera is not None and robot.address is None
            assert robot.status().dry_run
        monkeypatch.setattr(ros2_clients, "FIND_S", 0.5)
        with pytest.raises(RobotError, match="nothing hears /nobody"):
            connect(heartbeat="/nobody")
        with pytest.raises(RobotError, match="no service /nobody"):
            connect(stop="/nobody")
        with (
            pytest.raises(RobotError, match="no action server /nobody"),
            connected(action="/nobody") as robot,
            stopping(robot),
        ):
            robot.arm.move_joints((0.0,) * 6, 1.0, 1.0)
        camera = Ros2Camera(world="mars", wait_s=1.0, transport=DdsTransport(DOMAIN))
        with pytest.raises(CameraError, match="no pose of 'camera_color_optical_frame' in 'mars'"):
            camera.frame()
        camera.close()


def robot_scene(robot):
    return System("depth", "none").look(robot.observe()).scene


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"arm": {"acton": "/x"}}, "arm has 'acton'; it takes: action"),
        ({"camera": {"colour": "/x"}}, r"\[robot.camera\] takes other options"),
        ({"graph": {"transport": "pigeon"}}, "choose one of: dds, rclpy"),
        ({"arm": {"heartbeat": True}}, "name the topic, or say false"),
    ],
)
def test_a_wrong_file_is_named(options, says):
    with pytest.raises(InvalidSettingError, match=says):
        build(**({"graph": {"domain": DOMAIN}} | options))


def test_the_command_says_how_the_simulated_arm_runs_otherwise():
    ran = CliRunner().invoke(app, ["sim"])
    assert ran.exit_code != 0 and "--robot simulated" in str(ran.exception)


if __name__ == "__main__":
    main()
