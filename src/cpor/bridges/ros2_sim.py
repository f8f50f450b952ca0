"""The simulated UR3e as a ROS 2 graph: camera, joints, TF, trajectories, gripper, a pick action, stop.

The driver of a real arm would look like this from outside. Time passes for the world only while the arm
moves, and the camera takes pictures only while it rests.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from cpor.bridges.ros2_actions import ABORTED, CANCELED, SUCCEEDED, ActionServer, Goal
from cpor.bridges.ros2_answers import make_camera_info, make_image, make_transform, now
from cpor.bridges.ros2_arm import GRIPPER, TRAJECTORY
from cpor.bridges.ros2_clients import KIND as PICK
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_transport import Transport, serve_now
from cpor.bridges.ros_images import pose_matrix
from cpor.robot.grasps import GraspPose
from cpor.robot.protocol import Outcome
from cpor.scene import Observation
from cpor.sim.arm import ur3e
from cpor.sim.arm.simulated_robot import SimulatedRobot

CAMERA, CAMERA_FRAME, WORLD = "/camera", "camera_color_optical_frame", "world"

JOINTS_HZ = 50.0
"""Joint states a second."""

ARRIVED_M = 0.001
"""The fingers reached an opening that is nearer than this. [m]"""

_TRIGGER = "std_srvs/srv/Trigger"


class SimulatedGraph:
    """The graph; `close` ends it."""

    def __init__(self, transport: Transport, robot: SimulatedRobot, frames_hz: float = 4.0) -> None:
        self._transport, self._robot, self._frames_hz = transport, robot, frames_hz
        self._busy, self._ended, self._stopped = threading.Lock(), threading.Event(), False
        say = transport.publish
        self._say_color = say(f"{CAMERA}/color/image_raw", "sensor_msgs/Image")
        self._say_depth = say(f"{CAMERA}/aligned_depth_to_color/image_raw", "sensor_msgs/Image")
        self._say_info = say(f"{CAMERA}/color/camera_info", "sensor_msgs/CameraInfo")
        self._say_joints = say("/joint_states", "sensor_msgs/JointState")
        self._say_poses = say("/tf_static", "tf2_msgs/TFMessage", latched=True)
        self._describe = say("/robot_description", "std_msgs/String", latched=True)
        self._describe(new("std_msgs/String", data=describe_arm()))
        self.announce_poses()
        transport.subscribe("/cpor/heartbeat", "std_msgs/Empty", lambda message, sent_s: robot.heartbeat())
        serve_now(transport, "/arm/stop", _TRIGGER, self._stop)
        serve_now(transport, "/arm/resume", _TRIGGER, self._resume)
        follow, fingers = "/arm_controller/follow_joint_trajectory", "/gripper_controller/gripper_cmd"
        self._actions = [
            self._offer(follow, TRAJECTORY, self.follow, _trajectory_result),
            self._offer(fingers, GRIPPER, self.move_fingers, self._gripper_result),
            self._offer("/arm/pick", PICK, self.pick, _pick_result),
        ]
        works = (self._film, self._tell)
        self._threads = [threading.Thread(target=work, name="cpor-sim", daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the arm, end, and close the transport."""
        self._ended.set()
        self._robot.stop()
        for action in self._actions:
            action.close()
        for thread in self._threads:
            thread.join()
        self._transport.close()

    def announce_poses(self) -> None:
        """Say where camera and arm stand."""
        base = np.eye(4)
        base[2, 3] = ur3e.BASE_HEIGHT
        stood = {CAMERA_FRAME: self._robot.camera.T_world_camera, "base_link": base}
        poses = [make_transform(T, WORLD, frame, now()) for frame, T in stood.items()]
        self._say_poses(new("tf2_msgs/TFMessage", transforms=poses))

    def follow(self, goal: RosMessage) -> Outcome:
        """Follow the trajectory of a goal."""
        told, points = list(goal.trajectory.joint_names), goal.trajectory.points
        if sorted(told) != sorted(ur3e.JOINTS) or not points:
            joints = ", ".join(ur3e.JOINTS)
            return Outcome("fault", f"the trajectory must name the joints {joints}, and have points")
        order = [told.index(name) for name in ur3e.JOINTS]
        postures = np.array([point.positions for point in points], np.float64)[:, order]
        times = np.array([p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in points])
        if not (np.isfinite(postures).all() and (np.diff(times) > 0.0).all() and times[0] > 0.0):
            return Outcome("fault", "the points of the trajectory are not in order")
        return self._robot.follow(postures, times)

    def move_fingers(self, goal: RosMessage) -> Outcome:
        """Bring the fingers to the opening of a goal."""
        return self._robot.move_fingers(float(goal.command.position))

    def pick(self, goal: RosMessage) -> Outcome:
        """Pick with the grasps of a goal."""
        if not goal.grasps:
            return self._robot.home()
        grasps = [
            GraspPose(pose_matrix(each.position, each.orientation), float(width), 0.0)
            for each, width in zip(goal.grasps, goal.widths, strict=False)
        ]
        return self._robot.pick(grasps, f"object {goal.object}", "delivery" if goal.deliver else "discard")

    def _offer(
        self,
        name: str,
        kind: str,
        move: Callable[[RosMessage], Outcome],
        result_of: Callable[[Outcome], RosMessage],
    ) -> ActionServer:
        def run(goal: Goal) -> tuple[int, RosMessage]:
            over = threading.Event()

            def obey() -> None:
                while not over.wait(0.01):
                    if goal.cancelled.is_set():
                        self._robot.stop()

            watcher = threading.Thread(target=obey, name="cpor-sim-cancel", daemon=True)
            watcher.start()
            with self._busy:
                outcome = move(goal.asked)
                over.set()
                watcher.join()
                if goal.cancelled.is_set() and not self._stopped:
                    self._robot.resume()  # a cancelled goal alone is no stop
            status = SUCCEEDED if outcome.kind == "done" else CANCELED if goal.cancelled.is_set() else ABORTED
            return status, result_of(outcome)

        return ActionServer(self._transport, name, kind, run, lambda why: result_of(Outcome("fault", why)))

    def _gripper_result(self, outcome: Outcome) -> RosMessage:
        result = new(f"{GRIPPER}_Result", position=self._robot.motion.opening)
        result.stalled = bool(outcome.holding)
        result.reached_goal = outcome.kind == "done" and not outcome.holding
        return result

    def _stop(self, request: RosMessage) -> dict[str, Any]:
        self._stopped = True
        self._robot.stop()
        return {"success": True, "message": "the arm holds its position"}

    def _resume(self, request: RosMessage) -> dict[str, Any]:
        self._stopped = False
        free = self._robot.resume()
        return {"success": free, "message": "ready" if free else "protective stop; see what the arm hit"}

    def _film(self) -> None:
        """Send pictures while the arm rests and the camera is heard."""
        while not self._ended.wait(1.0 / self._frames_hz):
            if self._say_color.wanted() and self._busy.acquire(blocking=False):
                try:
                    seen = self._robot.observe()
                    stamp = now()
                finally:
                    self._busy.release()
                self._send(seen, new("std_msgs/Header", stamp=stamp, frame_id=CAMERA_FRAME))

    def _send(self, seen: Observation, header: RosMessage) -> None:
        assert seen.depth is not None and seen.camera.intrinsics is not None
        steps = np.rint(np.nan_to_num(seen.depth).astype(np.float64) / 0.001).astype(np.uint16)
        self._say_info(make_camera_info(seen.camera.intrinsics, seen.shape, header))
        self._say_depth(make_image(steps, "16UC1", header))
        self._say_color(make_image(seen.rgb, "rgb8", header))

    def _tell(self) -> None:
        """Say where the joints are."""
        names = [*ur3e.JOINTS, "finger_joint"]
        while not self._ended.wait(1.0 / JOINTS_HZ):
            position = [*self._robot.motion.joints.tolist(), self._robot.motion.opening]
            header = new("std_msgs/Header", stamp=now())
            self._say_joints(new("sensor_msgs/JointState", header=header, name=names, position=position))


def describe_arm() -> str:
    """The simulated arm as a robot description (URDF), without shapes."""
    limit = f'<limit lower="{-ur3e.JOINT_LIMIT}" upper="{ur3e.JOINT_LIMIT}"/><axis xyz="0 0 1"/>'
    joints = [(name, f"link_{k + 1}", "revolute", limit) for k, name in enumerate(ur3e.JOINTS)]
    lengths = [(0.0, 0.0, 0.0), *ur3e.DH[:-1], (0.0, ur3e.DH[-1][1] + ur3e.FLANGE_TO_TIPS, 0.0)]
    parts, parent = ['<link name="base_link"/>'], "base_link"
    ends = [*joints, ("tool_joint", "tool_tip", "fixed", "")]
    for (name, child, kind, more), (a, d, alpha) in zip(ends, lengths, strict=True):
        origin = f'<origin xyz="{a!r} 0.0 {d!r}" rpy="{alpha!r} 0 0"/>'
        links = f'<parent link="{parent}"/><child link="{child}"/>'
        parts += [f'<link name="{child}"/><joint name="{name}" type="{kind}">{links}{origin}{more}</joint>']
        parent = child
    return f'<robot name="simulated_ur3e">{"".join(parts)}</robot>'


def _trajectory_result(outcome: Outcome) -> RosMessage:
    said = "" if outcome.kind == "done" else outcome.detail
    return new(f"{TRAJECTORY}_Result", error_code=0 if not said else -4, error_string=said)


def _pick_result(outcome: Outcome) -> RosMessage:
    felt = -1 if outcome.holding is None else int(outcome.holding)
    return new(f"{PICK}_Result", outcome=outcome.kind, detail=outcome.detail, holding=felt)
