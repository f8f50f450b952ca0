"""Goals of ROS 2 actions from the client's side, under a dead man's switch; an arm that picks by itself.

Such an arm has a planner of its own behind the action `cpor_msgs/Pick`: it is sent grasps, best first.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast, get_args

import numpy as np
from jaxtyping import Float

from cpor.bridges.ros2_actions import ABORTED, CANCELED, SUCCEEDED
from cpor.bridges.ros2_answers import make_quaternion, now
from cpor.bridges.ros2_camera import Ros2Camera
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_transport import ServiceClient, Transport
from cpor.errors import InvalidSceneError, RobotError
from cpor.robot.arm import ArmFaultError, MotionStoppedError
from cpor.robot.dead_man import CHECK_S, DeadMan
from cpor.robot.grasps import GraspFinder, find_grasps
from cpor.robot.protocol import HEARTBEAT_S, Outcome, OutcomeKind, RobotStatus
from cpor.scene import Observation, Scene

POLL_S = 0.01
"""How often a goal under way is looked after. [s]"""

FIND_S = 5.0
"""An action server or a service that is not found within this time is not there. [s]"""

AGAIN_S = 0.2
"""A stop is sent again after this time as long as it is asked for. [s]"""

_TRIGGER = "std_srvs/srv/Trigger"
_ENDED = {SUCCEEDED: "succeeded", CANCELED: "cancelled", ABORTED: "aborted"}

Watch: TypeAlias = Callable[[], object]
"""Called again and again while a goal is under way; an error that it raises cancels the goal."""


class ActionClient:
    """Sends goals, one at a time."""

    def __init__(self, transport: Transport, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        path = f"{name}/_action"
        self._send = transport.client(f"{path}/send_goal", f"{kind}_SendGoal")
        self._results = transport.client(f"{path}/get_result", f"{kind}_GetResult")
        self._cancel = transport.client(f"{path}/cancel_goal", "action_msgs/srv/CancelGoal")

    def ready(self) -> bool:
        """Whether a server was found."""
        return all(each.ready() for each in (self._send, self._results, self._cancel))

    def run(self, goal: RosMessage, watch: Watch) -> tuple[int, RosMessage]:
        """Send a goal and wait for its end: its status and its result."""
        wait_until(self.ready, f"no action server {self.name} was found; start the driver of the arm", watch)
        id_ = new("unique_identifier_msgs/UUID", uuid=os.urandom(16))
        ended = False
        try:
            request = new(f"{self.kind}_SendGoal_Request", goal_id=id_, goal=goal)
            if not _call(self._send, request, watch).accepted:
                raise ArmFaultError(f"{self.name} rejected the goal; is its controller active?")
            told = _call(self._results, new(f"{self.kind}_GetResult_Request", goal_id=id_), watch)
            ended = True
            return told.status, told.result
        finally:
            if not ended:
                self.cancel_all()

    def cancel_all(self) -> None:
        """Cancel every goal of the server; does not wait."""
        self._cancel.send(new("action_msgs/srv/CancelGoal_Request"), lambda response: None)


class GuardedGoals:
    """Runs goals that move an arm only while a heartbeat comes, and ends them on `stop`.

    Three things end a motion: the thread that waits for it cancels its goal; `stop` and the dead man's switch
    cancel all goals and call the stop service; and what watches over the arm on its side hears no heartbeat
    any more, where this process is frozen or gone.

    Args:
        transport: How it hears and speaks.
        actions: What can move the arm.
        stop: Name of a service (std_srvs/Trigger) that stops the arm; None: goals are only cancelled.
        resume: Name of one that allows motions again; None: none is needed.
        heartbeat: Topic (std_msgs/Empty) of the heartbeat; None: the arm's side watches over nothing.
        rests: Whether the arm stands still, by what was heard after a time [s].
        late_s: A heartbeat of the loop later than this ends a motion. [s]

    Raises:
        RobotError: A service is not there, or nothing hears the heartbeat.
    """

    def __init__(
        self,
        transport: Transport,
        actions: tuple[ActionClient, ...],
        stop: str | None,
        resume: str | None,
        heartbeat: str | None,
        rests: Callable[[float], bool],
        late_s: float = HEARTBEAT_S,
    ) -> None:
        self._actions, self._rests = actions, rests
        self._stop = None if stop is None else transport.client(stop, _TRIGGER)
        self._resume = None if resume is None else transport.client(resume, _TRIGGER)
        self._halted, self._moving = threading.Event(), False
        self._stopped_s, self._closed = -float("inf"), threading.Event()
        self._dead_man = DeadMan(self.stop, late_s)
        for name, client in ((stop, self._stop), (resume, self._resume)):
            if client is not None:
                wait_until(client.ready, f"no service {name} was found; start it, or take it out of the file")
        if heartbeat is not None:
            self._beat = transport.publish(heartbeat, "std_msgs/Empty")
            lacking = "nothing would stop the arm where this process freezes; start what watches over it"
            lacking = f"nothing hears {heartbeat}, so {lacking}, or say heartbeat = false"
            wait_until(self._beat.wanted, lacking)
            threading.Thread(target=self._keep_beating, name="cpor-ros2-beat", daemon=True).start()

    def status(self, holding: bool | None = None) -> RobotStatus:
        """How the arm is, as far as its goals tell."""
        if self.halted:
            return RobotStatus("stopped", "stopped on request; call home to go on", holding)
        return RobotStatus(*(("moving", "on the way") if self._moving else ("ready", "at rest")), holding)

    def close(self) -> None:
        """Send no heartbeat any more."""
        self._closed.set()

    @property
    def halted(self) -> bool:
        """Whether it was stopped."""
        return self._halted.is_set()

    def run(
        self,
        action: ActionClient,
        goal: RosMessage,
        most_s: float,
        check: Watch = lambda: None,
        accept: Callable[[RosMessage], bool] = lambda result: False,
    ) -> RosMessage:
        """Run a goal to its end; however it ends, the arm is at rest.

        Args:
            action: Which action.
            goal: Its fields.
            most_s: A goal that takes longer is given up. [s]
            check: Raises an error where the arm must not move on.
            accept: Whether the result of a goal that did not succeed will do.

        Raises:
            MotionStoppedError: `stop` was called, before or meanwhile, or no heartbeat came.
            ArmFaultError: The goal was rejected, aborted or lost.
        """
        if not self._dead_man.is_fed():
            raise MotionStoppedError("no heartbeat, so the arm stays; see cpor.robot.safe_stop.stopping")
        until = time.monotonic() + most_s

        def watch() -> None:
            self._dead_man.tick()
            if self.halted:
                raise MotionStoppedError(f"{self._dead_man.why or 'stopped on request'}; call home to go on")
            check()
            if time.monotonic() > until:
                raise ArmFaultError(f"{action.name} did not end its goal within {most_s:.1f} s; is it alive?")

        watch()
        self._moving = True
        try:
            with self._dead_man.watching():
                status, result = action.run(goal, watch)
        finally:
            self._wait_for_rest()
            self._moving = False
        if self.halted:
            watch()
        if status != SUCCEEDED and not accept(result):
            ended = _ENDED.get(status, f"ended with status {status}")
            said = getattr(result, "error_string", "") or getattr(result, "detail", "")
            code = getattr(result, "error_code", 0)
            why = said or (f"error code {code}" if code else "it does not say why")
            raise ArmFaultError(f"the goal of {action.name} was {ended}: {why}")
        return result

    def stop(self) -> None:
        """End all goals; from any thread."""
        self._halted.set()
        now = time.monotonic()
        if now - self._stopped_s < AGAIN_S:
            return
        self._stopped_s = now
        for action in self._actions:
            action.cancel_all()
        if self._stop is not None:
            self._stop.send(new(f"{_TRIGGER}_Request"), lambda response: None)

    def heartbeat(self) -> None:
        """Feed the dead man's switch."""
        self._dead_man.beat()

    def resume(self) -> None:
        """Allow motions again."""
        if self._resume is not None:
            until = time.monotonic() + FIND_S

            def watch() -> None:
                if time.monotonic() > until:
                    raise RobotError("the service that resumes the arm does not answer; look at the arm")

            told = _call(self._resume, new(f"{_TRIGGER}_Request"), watch)
            if not told.success:
                raise RobotError(f"the arm does not resume: {told.message}")
        self._halted.clear()

    def _keep_beating(self) -> None:
        """Send the heartbeat on while nothing moves, or what moves is looked after."""
        while not self._closed.wait(CHECK_S):
            if self._dead_man.why_late() is None and not self.halted:
                self._beat(new("std_msgs/Empty"))

    def _wait_for_rest(self) -> None:
        now = time.monotonic()
        until = now + FIND_S
        while not self._rests(now) and time.monotonic() < until:
            time.sleep(POLL_S)


def _call(client: ServiceClient, request: RosMessage, watch: Watch) -> RosMessage:
    came: queue.SimpleQueue[RosMessage] = queue.SimpleQueue()
    client.send(request, came.put)
    while True:
        watch()
        try:
            return came.get(timeout=POLL_S)
        except queue.Empty:
            continue


def wait_until(found: Callable[[], bool], lacking: str, watch: Watch = lambda: None) -> None:
    """Wait for something of the graph; ArmFaultError where it does not come within `FIND_S`."""
    until = time.monotonic() + FIND_S
    while not found():
        watch()
        if time.monotonic() > until:
            raise ArmFaultError(lacking)
        time.sleep(POLL_S)


KIND = "cpor_msgs/action/Pick"

LONGEST_S = 120.0
"""A pick that takes longer is given up. [s]"""


class PickRobot:
    """A robot that picks by itself; implements `cpor.robot.protocol.Robot`. No goals: a dry run."""

    def __init__(
        self,
        goals: GuardedGoals | None,
        action: ActionClient,
        camera: Ros2Camera,
        world: str,
        address: str,
        grasps: GraspFinder = find_grasps,
    ) -> None:
        self.camera, self._goals, self._action = camera, goals, action
        self._world, self._find = world, grasps
        self.address = None if goals is None else address
        self._holding: bool | None = None
        self.stop, self.heartbeat, self.close = [lambda: None] * 3
        if goals is not None:
            self.stop, self.heartbeat, self.close = goals.stop, goals.heartbeat, goals.close

    def observe(self) -> Observation:
        """Take a frame; every pick leaves the arm out of view."""
        return self.camera.frame()

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        """Take the object and deliver it."""
        return self._pick(scene, obj, deliver=True)

    def remove(self, scene: Scene, obj: int) -> Outcome:
        """Take the object and put it aside."""
        return self._pick(scene, obj, deliver=False)

    def home(self) -> Outcome:
        """Clear a `stop`; the arm comes back and puts aside what it holds."""
        try:
            if self._goals is not None:
                self._goals.resume()
        except RobotError as error:
            return Outcome("fault", str(error))
        return self._send(new(f"{KIND}_Goal"), "the arm is back")

    def status(self) -> RobotStatus:
        """How the arm is, as far as the graph tells."""
        status = RobotStatus("ready", "at rest", self._holding)
        if not self._action.ready():
            missing = f"no action server {self._action.name}; start the arm's driver"
            status = RobotStatus("disconnected", missing)
        elif self._goals is not None:
            status = self._goals.status(self._holding)
        return replace(status, dry_run=self._goals is None, time_s=self.camera.now())

    def _pick(self, scene: Scene, obj: int, deliver: bool) -> Outcome:
        try:
            grasps = self._find(scene, obj)
        except InvalidSceneError as error:
            return Outcome("no_grasp", str(error))
        if not grasps:
            return Outcome("no_grasp", f"no way to take object {obj} was found")
        goal = new(f"{KIND}_Goal", object=obj, deliver=deliver)
        goal.grasps = [_pose(each.T_world_gripper) for each in grasps]
        goal.widths = [float(each.width) for each in grasps]
        return self._send(goal, f"it would {'deliver' if deliver else 'put aside'} object {obj}")

    def _send(self, goal: RosMessage, dry: str) -> Outcome:
        began = time.monotonic()
        if self._goals is None:
            return Outcome("done", f"{dry}; a dry run", 0.0)
        goal.header = new("std_msgs/Header", stamp=now(), frame_id=self._world)
        try:
            told = self._goals.run(self._action, goal, LONGEST_S, accept=lambda told: bool(told.outcome))
        except MotionStoppedError as error:
            return Outcome("stopped", str(error), time.monotonic() - began)
        except RobotError as error:
            self._holding = None
            return Outcome("fault", str(error), time.monotonic() - began)
        if told.outcome not in (known := get_args(OutcomeKind)):
            raise ArmFaultError(f"{self._action.name} says {told.outcome!r}; it must be one of {known}")
        felt = None if told.holding < 0 else bool(told.holding)
        # What was put down is not held; what became of anything else is not known.
        self._holding = False if told.outcome in ("done", "missed", "no_grasp", "unreachable") else None
        return Outcome(cast(OutcomeKind, told.outcome), told.detail, time.monotonic() - began, felt)


def _pose(T: Float[np.ndarray, "4 4"]) -> RosMessage:
    at = new("geometry_msgs/Point", x=float(T[0, 3]), y=float(T[1, 3]), z=float(T[2, 3]))
    return new("geometry_msgs/Pose", position=at, orientation=make_quaternion(T))
