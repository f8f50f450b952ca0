"""Grasps from elsewhere: GraspNet arrays, a function, or a GraspGen server.

Each is given to an object by our masks, and refused where its approach meets what probably lies in the way. A
robot takes `PlannedGrasps` in place of our own finder: `UniversalRobot(..., grasps=PlannedGrasps(planner))`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSceneError, RobotError, needing
from cpor.robot.grasps import GraspPose, Gripper
from cpor.scene import Observation, Scene
from cpor.system import System

GraspPlanner: TypeAlias = Callable[[Scene, int], Sequence[GraspPose]]
"""Grasps of a scene in the world's frame, wished for one object; may give those of others too."""

GRASPNET_COLUMNS = 17
"""Score, width, height, depth, rotation (9, by rows), translation (3), object id."""

MOST_BLOCKED = 0.1
"""A grasp is refused where something in its way obstructs the object with more than this probability: the
risk that the cautious setting takes."""

APPROACH = 0.10
"""Length of the straight way to a grasp that is looked at. [m]"""

LEAST_POINTS = 4
"""Fewer points of an object in the way are taken for noise of the depth camera."""

MOST_REPLY_BYTES = 4 * 2**20
"""Size of a grasp server's reply: some ten thousand poses. A longer one closes the connection."""

LEAST_SHARE = 0.6
"""Share of the points between the fingers that the object of a grasp must have."""

Refused: TypeAlias = Literal["not_its_own", "blocked", "no_answer"]


def from_graspnet(array: Float[np.ndarray, "n 17"], seen: Observation) -> list[GraspPose]:
    """The grasps of a GraspNet-API array, such as `GraspGroup.grasp_group_array`, best first.

    There x is the approach and y the direction of closing, in the camera's frame; the fingers reach `depth`
    beyond the translation. Object ids in the array are not used.

    Args:
        array: One grasp a row. Shape (n, 17). [m]
        seen: The frame they were found in, with `T_world_camera`.
    """
    table = np.asarray(array, np.float64)
    if table.ndim != 2 or table.shape[1] != GRASPNET_COLUMNS or not np.isfinite(table).all():
        raise InvalidSceneError(f"grasps have the shape {table.shape}; give finite numbers, (n, 17)")
    R = table[:, 4:13].reshape(-1, 3, 3)
    if not np.allclose(R @ R.transpose(0, 2, 1), np.eye(3), atol=1e-2) or (np.linalg.det(R) < 0).any():
        raise InvalidSceneError("columns 4 to 12 of a grasp are no rotation; give it by rows")
    T_world_camera, found = _camera_pose(seen), []
    for row, turn in zip(table, R, strict=True):
        T = np.eye(4)
        T[:3, 0], T[:3, 1], T[:3, 2] = turn[:, 1], turn[:, 2], turn[:, 0]
        T[:3, 3] = row[13:16] + row[3] * turn[:, 0]
        found.append(_pose(T_world_camera @ T, float(row[1]), float(row[0])))
    return sorted(found, key=lambda grasp: -grasp.score)


def graspnet_planner(find: Callable[[Observation], Any]) -> GraspPlanner:
    """A planner of a function that gives a GraspNet array, or a `GraspGroup`; called once a frame."""
    last: list[tuple[Observation, list[GraspPose]]] = []

    def plan(scene: Scene, obj: int) -> Sequence[GraspPose]:
        seen = scene.observation
        if not last or last[0][0] is not seen:
            given = find(seen)
            last[:] = [(seen, from_graspnet(getattr(given, "grasp_group_array", given), seen))]
        return last[0][1]

    return plan


@dataclass(frozen=True)
class GraspGenServer:
    """A GraspGen server over ZMQ: it is sent the points of one object and gives poses of the gripper's base.

    Attributes:
        address: Address of the server.
        tip_m: From the gripper's base to the finger tips, along z. [m]
        closing: Axis of its gripper along which the fingers close.
        width: Opening before closing; the server gives none. [m]
        most: Grasps asked for.
        timeout_s: Longest to wait. [s]
    """

    address: str = "tcp://127.0.0.1:5556"
    tip_m: float = 0.105
    closing: Literal["x", "y"] = "x"
    width: float = 0.08
    most: int = 100
    timeout_s: float = 30.0

    def __call__(self, scene: Scene, obj: int) -> Sequence[GraspPose]:
        """Grasps of an object, best first."""
        points = points_of(scene)
        assert scene.visible_ids is not None
        own = points[(scene.visible_ids == obj) & np.isfinite(points[..., 0])]
        if len(own) == 0:
            return []
        said = self._ask({"action": "infer", "point_cloud": own.astype(np.float32), "num_grasps": self.most})
        server = f"the grasp server {self.address}"
        try:
            poses = np.asarray(said["grasps"], np.float64).reshape(-1, 4, 4)
            scores = np.asarray(said["confidences"], np.float64).reshape(-1)
        except (KeyError, TypeError, ValueError):
            raise RobotError(f"{server} answers in another form: {_shown(said)}") from None
        if len(poses) != len(scores) or not (np.isfinite(poses).all() and np.isfinite(scores).all()):
            both = f"{len(poses)} poses and {len(scores)} confidences"
            raise RobotError(f"{server} gave {both}; it must give as many of both, all of them finite")
        turn, tip = np.eye(4), np.eye(4)
        tip[2, 3] = self.tip_m
        if self.closing == "y":
            turn[:2, :2] = [[0.0, -1.0], [1.0, 0.0]]
        found = [_pose(T @ tip @ turn, self.width, s) for T, s in zip(poses, scores, strict=True)]
        return sorted(found, key=lambda grasp: -grasp.score)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        with needing("grasps", "a grasp server needs pyzmq and msgpack"):
            import msgpack
            import zmq
        question |= {"topk_num_grasps": self.most, "grasp_threshold": -1.0}
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.MAXMSGSIZE, MOST_REPLY_BYTES)
            for wait in (zmq.RCVTIMEO, zmq.SNDTIMEO):
                socket.setsockopt(wait, round(1e3 * self.timeout_s))
            try:
                socket.connect(self.address)
                socket.send(msgpack.packb(question, default=_pack_array))
                reply = msgpack.unpackb(socket.recv(), object_hook=_unpack_array)
            except (zmq.ZMQError, msgpack.UnpackException, ValueError, TypeError, KeyError) as error:
                raise RobotError(f"the grasp server {self.address} gave no answer: {error}") from None
        if not isinstance(reply, dict) or "error" in reply:
            raise RobotError(f"the grasp server {self.address} says: {_shown(reply)}")
        return reply


@dataclass
class PlannedGrasps:
    """Grasps of a planner that may be used; in place of `find_grasps` in a robot.

    Attributes:
        planner: Finds grasps.
        system: Believes what obstructs what; `System()` by default.
        gripper: The hand, to see what it meets on its way.
        most_blocked: Refuse above this probability that what is met obstructs the object.
        refused: How many were refused for which reason, since the last call.
    """

    planner: GraspPlanner
    system: System = field(default_factory=System)
    gripper: Gripper = field(default_factory=Gripper)
    most_blocked: float = MOST_BLOCKED
    refused: dict[Refused, int] = field(default_factory=dict, init=False)

    def __call__(self, scene: Scene, obj: int) -> list[GraspPose]:
        """The grasps of an object that are its own and whose way is free enough, best first."""
        self.refused = {}
        found = self.planner(scene, obj)
        if not found:
            return []
        beliefs = self.system.believe(self.system.look(scene)).beliefs
        assert beliefs is not None
        row = beliefs.p_fused[beliefs.ids.index(obj)]
        p_blocks = dict(zip(beliefs.ids, row.tolist(), strict=True))
        points = points_of(scene)
        assert scene.visible_ids is not None
        known = np.isfinite(points[..., 0])
        points, ids = points[known], scene.visible_ids[known]
        why = [self._why_refused(grasp, obj, p_blocks, points, ids) for grasp in found]
        self.refused = dict(Counter(each for each in why if each is not None))
        return [grasp for grasp, each in zip(found, why, strict=True) if each is None]

    def _why_refused(
        self,
        grasp: GraspPose,
        obj: int,
        p_blocks: dict[int, float],
        points: Float[np.ndarray, "n 3"],
        ids: np.ndarray,
    ) -> Refused | None:
        local = (points - grasp.T_world_gripper[:3, 3]) @ grasp.T_world_gripper[:3, :3]
        if owner(grasp, local, ids) != obj:
            return "not_its_own"
        for other in met_on_the_way(grasp, local, ids, self.gripper) - {obj}:
            p = p_blocks[other]
            if np.isnan(p):
                return "no_answer"  # which is not free
            if p > self.most_blocked:
                return "blocked"
        return None


def owner(grasp: GraspPose, local: Float[np.ndarray, "n 3"], ids: np.ndarray) -> int | None:
    """The object with most points between the fingers; points in the gripper's frame, with ids. [m]."""
    x, y, z = local.T
    between = (np.abs(x) < grasp.width / 2) & (np.abs(y) < 0.012) & (np.abs(z + 0.01) < 0.03) & (ids > 0)
    counts = np.bincount(ids[between])
    if counts.sum() < LEAST_POINTS or counts.max() < LEAST_SHARE * counts.sum():
        return None
    return int(counts.argmax())


def met_on_the_way(
    grasp: GraspPose, local: Float[np.ndarray, "n 3"], ids: np.ndarray, gripper: Gripper
) -> set[int]:
    """The objects that fingers or palm meet on the straight way to a grasp; see `owner`."""
    x, y, z = local.T
    along = (z < 0.0) & (z > -APPROACH - gripper.finger_length)
    reach = grasp.width / 2 + gripper.finger_thickness
    fingers = (np.abs(x) < reach) & (np.abs(y) < gripper.finger_width / 2)  # and what they close on
    a, b = gripper.palm_half
    palm = (np.abs(x) < a) & (np.abs(y) < b) & (z < -gripper.finger_length)
    counts = np.bincount(ids[along & (fingers | palm) & (ids > 0)])
    return set(np.flatnonzero(counts >= LEAST_POINTS).tolist())


def points_of(scene: Scene) -> Float[np.ndarray, "h w 3"]:
    """What each pixel shows, in the world's frame; NaN without depth. Shape (h, w, 3). [m]."""
    seen = scene.observation
    k = seen.camera.intrinsics
    if seen.depth is None or k is None or scene.visible_ids is None:
        raise InvalidSceneError("grasps need depth, intrinsics and masks; this scene lacks one of them")
    v, u = np.mgrid[: seen.shape[0], : seen.shape[1]]
    z = seen.depth.astype(np.float64)
    points = np.stack([(u - k.cx) / k.fx * z, (v - k.cy) / k.fy * z, z], axis=-1)
    T = _camera_pose(seen)
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])


def _camera_pose(seen: Observation) -> Float[np.ndarray, "4 4"]:
    if seen.camera.T_world_camera is None:
        raise InvalidSceneError("grasps need T_world_camera; calibrate the camera first")
    return seen.camera.T_world_camera


def _pose(T: Float[np.ndarray, "4 4"], width: float, score: float) -> GraspPose:
    T.flags.writeable = False
    return GraspPose(T, width, float(score))


def _shown(reply: object) -> str:
    text = repr(reply)
    return text if len(text) <= 300 else f"{text[:299]}…"


def _pack_array(value: object) -> object:
    """As msgpack-numpy has it."""
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value).tobytes()
        return {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape, b"data": data}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _unpack_array(value: dict[Any, Any]) -> object:
    """As msgpack-numpy has it; plain numbers only."""
    if value.get(b"nd") is not True:
        return value
    kind = np.dtype(value[b"type"])
    if kind.kind not in "fiu":
        raise ValueError(f"an array of {kind}")
    return np.frombuffer(value[b"data"], kind).reshape(value[b"shape"])
