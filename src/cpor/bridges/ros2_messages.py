"""ROS 2 messages without ROS 2: definitions, bytes (XCDR1) and type hashes, all by rosbags.

A kind is `pkg/Name` for a message, `pkg/srv/Name_Request` or `pkg/srv/Name_Response` for a half of a service,
and `pkg/action/Name_...` for what an action is made of. In a message that came, arrays of numbers are NumPy
arrays; in one that is sent, lists and bytes will do. What does not fit its definition is a `WireError`.
"""

import struct
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np

from cpor.errors import CporError, needing

RosMessage: TypeAlias = Any
"""A message of any kind, with the fields of its definition."""

MESSAGES = {
    "control_msgs/JointTolerance": "string name\nfloat64 position\nfloat64 velocity\nfloat64 acceleration",
    "control_msgs/JointComponentTolerance": "string joint_name\nuint16 component\nfloat64 position\n"
    "float64 velocity\nfloat64 acceleration",
    "control_msgs/GripperCommand": "float64 position\nfloat64 max_effort",
    "vision_msgs/VisionClass": "uint16 class_id\nstring class_name",
    "vision_msgs/LabelInfo": "std_msgs/Header header\nvision_msgs/VisionClass[] class_map\nfloat32 threshold",
    "vision_msgs/Point2D": "float64 x\nfloat64 y",
    "vision_msgs/Pose2D": "vision_msgs/Point2D position\nfloat64 theta",
    "vision_msgs/BoundingBox2D": "vision_msgs/Pose2D center\nfloat64 size_x\nfloat64 size_y",
    "vision_msgs/ObjectHypothesis": "string class_id\nfloat64 score",
    "vision_msgs/ObjectHypothesisWithPose": "vision_msgs/ObjectHypothesis hypothesis\n"
    "geometry_msgs/PoseWithCovariance pose",
    "vision_msgs/Detection2D": "std_msgs/Header header\nvision_msgs/ObjectHypothesisWithPose[] results\n"
    "vision_msgs/BoundingBox2D bbox\nstring id",
    "vision_msgs/Detection2DArray": "std_msgs/Header header\nvision_msgs/Detection2D[] detections",
}
"""Messages that we use and rosbags has not, as their packages define them."""

SERVICES = {
    "std_srvs/Trigger": "uint8 structure_needs_at_least_one_member\n---\nbool success\nstring message",
    "action_msgs/CancelGoal": "action_msgs/GoalInfo goal_info\n---\nint8 return_code\n"
    "action_msgs/GoalInfo[] goals_canceling",
    "rcl_interfaces/ListParameters": "string[] prefixes\nuint64 depth\n---\nListParametersResult result",
    "rcl_interfaces/GetParameters": "string[] names\n---\nParameterValue[] values",
    "rcl_interfaces/GetParameterTypes": "string[] names\n---\nuint8[] types",
    "rcl_interfaces/DescribeParameters": "string[] names\n---\nParameterDescriptor[] descriptors",
    "rcl_interfaces/SetParameters": "Parameter[] parameters\n---\nSetParametersResult[] results",
    "rcl_interfaces/SetParametersAtomically": "Parameter[] parameters\n---\nSetParametersResult result",
}

_POINT, _PARTS = "trajectory_msgs/JointTrajectoryPoint", ("desired", "actual", "error")
_MULTI_DOF_POINT = "trajectory_msgs/MultiDOFJointTrajectoryPoint"
_GRIPPER_STATE = "float64 position\nfloat64 effort\nbool stalled\nbool reached_goal"
ACTIONS = {
    "control_msgs/FollowJointTrajectory": "trajectory_msgs/JointTrajectory trajectory\n"
    "trajectory_msgs/MultiDOFJointTrajectory multi_dof_trajectory\n"
    "control_msgs/JointTolerance[] path_tolerance\n"
    "control_msgs/JointComponentTolerance[] component_path_tolerance\n"
    "control_msgs/JointTolerance[] goal_tolerance\n"
    "control_msgs/JointComponentTolerance[] component_goal_tolerance\n"
    "builtin_interfaces/Duration goal_time_tolerance\n---\n"
    "int32 error_code\nstring error_string\n---\n"
    "std_msgs/Header header\nstring[] joint_names\n"
    + "".join(f"{_POINT} {part}\n" for part in _PARTS)
    + "string[] multi_dof_joint_names\n"
    + "".join(f"{_MULTI_DOF_POINT} multi_dof_{part}\n" for part in _PARTS),
    "control_msgs/GripperCommand": "control_msgs/GripperCommand command"
    f"\n---\n{_GRIPPER_STATE}\n---\n{_GRIPPER_STATE}",
}

_GOAL_ID = "unique_identifier_msgs/UUID goal_id\n"
_OF_ACTIONS = {
    "SendGoal_Request": _GOAL_ID + "{0}_Goal goal",
    "SendGoal_Response": "bool accepted\nbuiltin_interfaces/Time stamp",
    "GetResult_Request": _GOAL_ID,
    "GetResult_Response": "int8 status\n{0}_Result result",
    "FeedbackMessage": _GOAL_ID + "{0}_Feedback feedback",
}
"""What ROS 2 makes of every `.action` file."""


class WireError(CporError, ValueError):
    """Bytes that are not the message they should be."""


@cache
def type_store() -> Any:
    """The types of ROS 2 Jazzy, whose messages that we use equal those of Humble, and the ones above."""
    with needing("ros2", "ROS 2 messages need rosbags"):
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    store = get_typestore(Stores.ROS2_JAZZY)
    for kind, text in _texts():
        package, _, name = kind.split("/")
        # rosbags reads messages only, so that a half of a service or an action is read as one and renamed.
        fields = get_types_from_msg(text, f"{package}/msg/{name}").popitem()[1]
        store.register({kind: (fields[0], [(each, _renamed(node, kind)) for each, node in fields[1]])})
    return store


def _texts() -> Iterator[tuple[str, str]]:
    """Full name and definition of every type that rosbags has not."""
    ours = files("cpor.bridges").joinpath("cpor_msgs")

    def texts(folder: str) -> dict[str, str]:
        found = [each for each in ours.joinpath(folder).iterdir() if each.name.endswith(f".{folder}")]
        return {f"cpor_msgs/{each.name.split('.')[0]}": each.read_text(encoding="utf-8") for each in found}

    for kind, text in (MESSAGES | texts("msg")).items():
        yield full_name(kind), text
    for kind, text in (SERVICES | texts("srv")).items():
        full = kind.replace("/", "/srv/")
        for half, part in zip(("Request", "Response"), text.split("---\n"), strict=True):
            yield f"{full}_{half}", part
    for kind, text in (ACTIONS | texts("action")).items():
        full = kind.replace("/", "/action/")
        for third, part in zip(("Goal", "Result", "Feedback"), text.split("---\n"), strict=True):
            yield f"{full}_{third}", part
        for third, part in _OF_ACTIONS.items():
            yield f"{full}_{third}", part.format(kind)


def _renamed(node: Any, kind: str) -> Any:
    """A field's type; the goal, result and feedback of an action stand in the folder of actions."""
    tag, inner = node
    if tag.name in ("ARRAY", "SEQUENCE"):
        return tag, (_renamed(inner[0], kind), inner[1])
    part = tag.name == "NAME" and inner.endswith(("_Goal", "_Result", "_Feedback"))
    return (tag, inner.replace("/msg/", "/action/")) if part and "/action/" in kind else node


def fields_of(kind: str) -> list[tuple[str, Any]]:
    """Names and types of the fields of a kind, the types as rosbags has them."""
    found: list[tuple[str, Any]] = type_store().fielddefs[full_name(kind)][1]
    return found


def full_name(kind: str) -> str:
    """The name of a kind in ROS 2, such as `sensor_msgs/msg/Image`."""
    return kind if kind.count("/") == 2 else kind.replace("/", "/msg/")


def new(kind: str, **values: Any) -> RosMessage:
    """A message with these fields, the others empty or 0."""
    empty = {name: _empty(node) for name, node in fields_of(kind)}
    for name in values:
        if name not in empty:
            raise WireError(f"{kind} has no field {name!r}")
    return type_store().types[full_name(kind)](**(empty | values))


def _empty(node: Any) -> Any:
    tag, inner = node
    if tag.name == "NAME":
        return new(inner)
    if tag.name == "BASE":
        return {"string": "", "bool": False}.get(inner[0], 0)
    return [] if tag.name == "SEQUENCE" else [_empty(inner[0]) for _ in range(inner[1])]


def encode(message: RosMessage, kind: str) -> bytes:
    """A message as it travels, little-endian."""
    try:
        _make_arrays(message, full_name(kind))
        return bytes(type_store().serialize_cdr(message, full_name(kind), little_endian=True))
    except (struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"this is no {kind}: {error}") from None


def _make_arrays(message: RosMessage, full: str) -> None:
    """Make arrays of all numbers in a message, as rosbags wants them."""
    for name, (tag, inner) in fields_of(full):
        value = getattr(message, name)
        if tag.name == "NAME":
            _make_arrays(value, inner)
        elif tag.name in ("ARRAY", "SEQUENCE"):
            base, of = inner[0]
            if base.name == "NAME":
                for each in value:
                    _make_arrays(each, of)
            elif of[0] != "string" and not isinstance(value, np.ndarray):
                kind = {"bool": "bool_", "char": "uint8"}.get(of[0], of[0])
                buffer = isinstance(value, bytes | memoryview)
                setattr(message, name, np.frombuffer(value, kind) if buffer else np.array(value, kind))


def decode(data: bytes, kind: str) -> RosMessage:
    """A message that came."""
    from rosbags.serde import SerdeError

    try:
        return type_store().deserialize_cdr(memoryview(data), full_name(kind))
    except (SerdeError, IndexError, OverflowError) as error:
        raise WireError(f"{len(data)} bytes that are no {kind}: {error}") from None
