"""Any arm of a ROS 2 graph: FollowJointTrajectory and GripperCommand, or a pick action of the user's.

Straight motions become trajectories by the joints of `/robot_description`; `cpor.robot.ur.UniversalRobot`
picks with it as with a UR: same checks, same steps, same dead man's switch.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation, Slerp

from cpor.bridges.ros2_camera import Ros2Camera, open_transport
from cpor.bridges.ros2_clients import FIND_S, ActionClient, GuardedGoals, PickRobot, wait_until
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_transport import Transport
from cpor.errors import InvalidSettingError, RobotError
from cpor.robot.arm import ARRIVED_RAD, Arm, ArmFaultError, unreachable
from cpor.robot.dry_arm import DryRunArm
from cpor.robot.grippers import DryRunGripper, GripperDevice
from cpor.robot.protocol import HEARTBEAT_S, Robot, RobotStatus
from cpor.robot.robot_file import fill, make_limits, make_station
from cpor.robot.ur import UniversalRobot
from cpor.robot.urdf import JointChain, read_chain

TRAJECTORY = "control_msgs/action/FollowJointTrajectory"
GRIPPER = "control_msgs/action/GripperCommand"

STALE_S = 0.5
"""Joint states older than this tell nothing: the driver is gone. [s]"""

KNOT_M, KNOT_RAD = 0.01, 0.05
"""A straight motion has a posture at least this often. [m], [rad]"""

JUMP_RAD = 0.5
"""Postures of neighbouring knots that differ by more are no straight motion. [rad]"""

POINT_S = 0.05
"""Points of a trajectory are so far apart. [s]"""

REST_S, REST_RAD = 0.1, 1e-4
"""The arm rests where no joint moved by more within this time. [s], [rad]"""

LATE_S = 3.0
"""A trajectory may end so much later than planned, and take half as long again. [s]"""

EMPTY = 0.02
"""A gripper that is closed further than this share of its stroke holds nothing."""


@dataclass(frozen=True)
class ArmTopics:
    """The names of an arm in its graph.

    Attributes:
        action: Its action FollowJointTrajectory.
        pick: An action `cpor_msgs/Pick` that does a whole pick instead; None: none.
        base, tool: Links of the description: where the arm stands, and midway between the finger tips.
        joint_states: Topic of its joints.
        description: Topic of the robot description (latched).
        stop, resume: Services (std_srvs/Trigger) that stop the arm at once and allow motions; None: none.
        late_s: A heartbeat of the loop later than this ends a motion. [s]
        heartbeat: Topic that tells the arm's side that this process lives; False: it watches over nothing.
    """

    action: str = "/joint_trajectory_controller/follow_joint_trajectory"
    pick: str | None = None
    base: str = "base_link"
    tool: str = "tool0"
    joint_states: str = "/joint_states"
    description: str = "/robot_description"
    stop: str | None = None
    resume: str | None = None
    late_s: float = HEARTBEAT_S
    heartbeat: str | bool = "/cpor/heartbeat"


@dataclass(frozen=True)
class GripperTopics:
    """A gripper behind GripperCommand.

    Attributes:
        action: Its action.
        joint: Its joint among the joint states; None: what it holds is known from its last result alone.
        open, closed: Positions that mean open and closed. [m] or [rad]
        stroke: Distance of the fingers when open. [m]
        effort: `max_effort`. [N]
    """

    action: str = "/gripper_controller/gripper_cmd"
    joint: str | None = None
    open: float = 0.085
    closed: float = 0.0
    stroke: float = 0.085
    effort: float = 40.0


class JointStates:
    """The newest position of every joint that the graph speaks of."""

    def __init__(self, transport: Transport, topic: str) -> None:
        self._topic, self._lock = topic, threading.Lock()
        self._at: dict[str, tuple[float, float]] = {}  # position, and when it was sent
        self._moved_s = self._sent_s = time.monotonic()
        transport.subscribe(topic, "sensor_msgs/JointState", self._hear)

    def read(self, names: tuple[str, ...]) -> Float[np.ndarray, " n"]:
        """Positions of joints. Shape (n,). [rad] or [m]."""
        with self._lock:
            found = [self._at.get(name, (np.nan, -np.inf)) for name in names]
        positions = np.array([position for position, _ in found])
        age_s = time.monotonic() - min(sent_s for _, sent_s in found)
        known = np.isfinite(positions)
        if not (age_s < STALE_S and known.all()):
            lacking = [name for name, is_known in zip(names, known, strict=True) if not is_known]
            what = f"does not tell {', '.join(lacking)}" if lacking else f"is silent for {age_s:.1f} s"
            raise ArmFaultError(f"{self._topic} {what}; is the driver of the arm alive?")
        return positions

    def wait_for(self, names: tuple[str, ...]) -> None:
        """Wait until joints are told; an ArmFaultError where they are not."""
        until = time.monotonic() + FIND_S
        while True:
            try:
                self.read(names)
                return
            except ArmFaultError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def rest(self, since_s: float) -> bool:
        """Whether states sent later than a time say that nothing moves any more. [s]."""
        return min(self._sent_s - since_s, time.monotonic() - self._moved_s) > REST_S

    def _hear(self, message: RosMessage, sent_s: float) -> None:
        self._sent_s = sent_s
        with self._lock:
            for name, position in zip(message.name, message.position, strict=False):
                before = self._at.get(name, (np.inf, 0.0))[0]
                if not abs(position - before) < REST_RAD:
                    self._moved_s = time.monotonic()
                self._at[name] = (float(position), sent_s)


class Ros2Arm:
    """An arm behind FollowJointTrajectory; see `cpor.robot.arm.Arm`. `joint_speed` is its limit. [rad/s]."""

    def __init__(
        self,
        goals: GuardedGoals,
        trajectory: ActionClient,
        joints: JointStates,
        chain: JointChain,
        joint_speed: float,
        address: str,
    ) -> None:
        self.address = address
        self._goals, self._trajectory, self._joints = goals, trajectory, joints
        self._chain, self._joint_speed = chain, joint_speed
        self.stop, self.heartbeat, self.resume = goals.stop, goals.heartbeat, goals.resume
        self.close = goals.close

    def _read(self) -> Float[np.ndarray, " n"]:
        """Where its joints are; an ArmFaultError where that is not known."""
        return self._joints.read(self._chain.names)

    def pose(self) -> Float[np.ndarray, "4 4"]:
        """Where the tool is."""
        return self._chain.forward(self._read())

    def check_way(self, poses: Sequence[Float[np.ndarray, "4 4"]]) -> None:
        """Check that there are postures all along the straight ways from pose to pose."""
        joints = self._read()
        for T in poses:
            joints = self._line(joints, T)[-1]

    def move_line(self, T_base_tool: Float[np.ndarray, "4 4"], speed: float, acceleration: float) -> None:
        """Move the tool straight to a pose."""
        joints = self._read()
        length = float(np.linalg.norm(T_base_tool[:3, 3] - self._chain.forward(joints)[:3, 3]))
        seconds = max(1.875 * length / speed, np.sqrt(5.78 * length / acceleration))
        self._follow(self._line(joints, T_base_tool), seconds)

    def move_joints(self, joints: tuple[float, ...], speed: float, acceleration: float) -> None:
        """Move to joint angles."""
        if len(joints) != len(self._chain.names):
            names = ", ".join(self._chain.names)
            raise RobotError(f"look_joints has {len(joints)} angles; the arm has the joints {names}")
        path = np.array([self._read(), joints])
        span = float(np.abs(path[1] - path[0]).max())
        self._follow(path, max(1.875 * span / speed, np.sqrt(5.78 * span / acceleration)))

    def status(self) -> RobotStatus:
        """How the arm is, as far as a graph tells."""
        try:
            self._read()
        except ArmFaultError as error:
            return RobotStatus("disconnected", str(error))
        return self._goals.status()

    def _line(
        self, joints: Float[np.ndarray, " n"], T_base_tool: Float[np.ndarray, "4 4"]
    ) -> Float[np.ndarray, "k n"]:
        """Postures along the straight way to a pose, each near the one before."""
        here = self._chain.forward(joints)
        way = T_base_tool[:3, 3] - here[:3, 3]
        both = Rotation.from_matrix([here[:3, :3], T_base_tool[:3, :3]])
        length, angle = float(np.linalg.norm(way)), float((both[0].inv() * both[1]).magnitude())
        shares = np.linspace(0.0, 1.0, 2 + int(max(length / KNOT_M, angle / KNOT_RAD)))
        path, T = [joints], np.eye(4)
        for share, turned in zip(shares[1:], Slerp([0.0, 1.0], both)(shares[1:]), strict=True):
            T[:3, :3], T[:3, 3] = turned.as_matrix(), here[:3, 3] + share * way
            found = self._chain.solve(T, path[-1])
            if found is None or np.abs(found - path[-1]).max() > JUMP_RAD:
                raise unreachable(T)
            path.append(found)
        return np.array(path)

    def _follow(self, path: Float[np.ndarray, "k n"], seconds: float) -> None:
        """Follow postures by a smooth law of time, not faster than the joints may move. [s]."""
        knots = np.linspace(0.0, 1.0, len(path))
        steepest = float(np.abs(np.diff(path, axis=0)).max() * (len(path) - 1))
        if steepest < REST_RAD:
            return
        seconds = max(seconds, 1.875 * steepest / self._joint_speed, POINT_S)
        t = np.linspace(0.0, 1.0, 1 + max(2, int(np.ceil(seconds / POINT_S))))
        s = t**3 * (10.0 - 15.0 * t + 6.0 * t**2)
        where = np.stack([np.interp(s, knots, joint) for joint in path.T], axis=1)
        speeds = np.gradient(where, t * seconds, axis=0)
        speeds[[0, -1]] = 0.0
        kind, goal = "trajectory_msgs/JointTrajectoryPoint", new(f"{TRAJECTORY}_Goal")
        goal.trajectory.joint_names = list(self._chain.names)
        goal.trajectory.points = [
            new(kind, positions=q.tolist(), velocities=v.tolist(), time_from_start=_duration(at))
            for at, q, v in zip((t * seconds)[1:], where[1:], speeds[1:], strict=True)
        ]

        self._goals.run(self._trajectory, goal, 1.5 * seconds + LATE_S, self._read)
        apart = float(np.abs(self._read() - path[-1]).max())
        if apart > ARRIVED_RAD:
            raise ArmFaultError(f"a joint ended {np.degrees(apart):.1f} degrees from its goal")


class Ros2Gripper:
    """A gripper behind GripperCommand; see `cpor.robot.grippers.GripperDevice`."""

    def __init__(
        self, goals: GuardedGoals, action: ActionClient, topics: GripperTopics, joints: JointStates
    ) -> None:
        self._goals, self._action, self._topics, self._joints = goals, action, topics, joints
        self._wanted: float | None = None  # the last opening, as a share of the stroke
        self._stalled: bool | None = None

    def open(self, width: float | None = None) -> None:
        """Open, to a width where one is given."""
        self._go(1.0 if width is None else min(max(width / self._topics.stroke, 0.0), 1.0))

    def close(self) -> None:
        """Close until it meets something or is closed."""
        self._go(0.0)

    def holding(self) -> bool | None:
        """Whether the fingers were kept from closing, by their joint, else by the last result."""
        t = self._topics
        if t.joint is None:
            return self._stalled if self._wanted == 0.0 else None if self._wanted is None else False
        share = (float(self._joints.read((t.joint,))[0]) - t.closed) / (t.open - t.closed)
        if share < EMPTY:
            return False
        if self._wanted == 0.0:
            return True
        return False if share > (1.0 if self._wanted is None else self._wanted) - EMPTY else None

    def _go(self, share: float) -> None:
        t, self._wanted = self._topics, share
        position = t.closed + share * (t.open - t.closed)
        command = new("control_msgs/GripperCommand", position=position, max_effort=t.effort)
        goal = new(f"{GRIPPER}_Goal", command=command)
        # Some controllers abort a goal when the fingers meet something.
        result = self._goals.run(self._action, goal, FIND_S, accept=lambda result: bool(result.stalled))
        self._stalled = bool(result.stalled and not result.reached_goal)


def build(
    arm: Mapping[str, Any] | None = None,
    camera: Mapping[str, Any] | None = None,
    gripper: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    station: Mapping[str, Any] | None = None,
    world: str = "world",
    graph: Mapping[str, Any] | None = None,
    dry_run: bool = True,
) -> Robot:
    """The robot `ros2` of `cpor.robots`, from the tables of a TOML file; see docs/ros2.md."""
    topics, fingers = fill(ArmTopics, arm or {}, "arm"), fill(GripperTopics, gripper or {}, "gripper")
    if topics.heartbeat is True:
        raise InvalidSettingError("arm.heartbeat is true; name the topic, or say false")
    wire = _made(open_transport, graph, "graph")
    eyes: Ros2Camera = _made(Ros2Camera, {**(camera or {}), "world": world, "transport": wire}, "camera")
    states = JointStates(wire, topics.joint_states)
    action = ActionClient(wire, topics.pick, "cpor_msgs/action/Pick") if topics.pick else None
    moves = (action,) if action else (ActionClient(wire, topics.action, TRAJECTORY),)
    hand = None if action else ActionClient(wire, fingers.action, GRIPPER)

    def guarded() -> GuardedGoals:
        beat = str(topics.heartbeat) if topics.heartbeat else None
        both = moves if hand is None else (*moves, hand)
        return GuardedGoals(wire, both, topics.stop, topics.resume, beat, states.rest, topics.late_s)

    address = f"ros2 {moves[0].name}"
    if action is not None:
        return PickRobot(None if dry_run else guarded(), action, eyes, world, address)
    assert eyes.tree is not None and hand is not None
    chain = read_chain(_description(wire, topics.description), topics.base, topics.tool)
    bounds, places = make_limits(limits), make_station(station)
    T_world_base = eyes.tree.lookup(world, topics.base, 0, FIND_S)
    if len(places.look_joints) != len(chain.names):
        raise InvalidSettingError(f"station.look_joints must be angles of {', '.join(chain.names)}")
    T_base_look = chain.forward(np.array(places.look_joints))
    places = replace(places, T_world_base=T_world_base, T_world_look=T_world_base @ T_base_look)
    states.wait_for(chain.names)
    device: GripperDevice = DryRunGripper()
    limb: Arm = DryRunArm(T_base_look, T_base_look, chain.reach)
    if not dry_run:
        goals = guarded()
        limb = Ros2Arm(goals, moves[0], states, chain, bounds.joint_speed, address)
        device = Ros2Gripper(goals, hand, fingers, states)
        if fingers.joint is not None:
            states.wait_for((fingers.joint,))
    return UniversalRobot(limb, eyes, device, bounds, places)


def _made(make: Callable[..., Any], options: Mapping[str, Any] | None, table: str) -> Any:
    try:
        return make(**dict(options or {}))
    except TypeError as error:
        raise InvalidSettingError(f"[robot.{table}] takes other options: {error}") from None


def _description(wire: Transport, topic: str) -> str:
    came: list[str] = []

    end = wire.subscribe(topic, "std_msgs/String", lambda told, _: came.append(str(told.data)), latched=True)
    lacking = f"no robot description came on {topic}; start robot_state_publisher, or mend arm.description"
    wait_until(lambda: bool(came), lacking)
    end()
    return came[-1]


def _duration(seconds: float) -> RosMessage:
    sec, nanosec = divmod(round(seconds * 1e9), 10**9)
    return new("builtin_interfaces/Duration", sec=sec, nanosec=nanosec)
