"""ROS 2 types without ROS 2: their definitions as text, their names on the wire, and their hashes.

A kind is `pkg/Name` for a message, `pkg/srv/Name_Request` or `pkg/srv/Name_Response` for a half of a service,
and `pkg/action/Name_...` for what an action is made of.
"""

import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

DEFINITIONS = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "builtin_interfaces/Duration": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "std_msgs/String": "string data",
    "std_msgs/Empty": "uint8 structure_needs_at_least_one_member",
    "std_srvs/srv/Trigger_Request": "uint8 structure_needs_at_least_one_member",
    "std_srvs/srv/Trigger_Response": "bool success\nstring message",
    "sensor_msgs/Image": "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
    "uint8 is_bigendian\nuint32 step\nuint8[] data",
    "sensor_msgs/CompressedImage": "std_msgs/Header header\nstring format\nuint8[] data",
    "sensor_msgs/RegionOfInterest": "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\n"
    "bool do_rectify",
    "sensor_msgs/CameraInfo": "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\n"
    "float64[] d\nfloat64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\n"
    "sensor_msgs/RegionOfInterest roi",
    "sensor_msgs/JointState": "std_msgs/Header header\nstring[] name\nfloat64[] position\n"
    "float64[] velocity\nfloat64[] effort",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Transform": "geometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation",
    "geometry_msgs/TransformStamped": "std_msgs/Header header\nstring child_frame_id\n"
    "geometry_msgs/Transform transform",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular",
    "tf2_msgs/TFMessage": "geometry_msgs/TransformStamped[] transforms",
    "trajectory_msgs/JointTrajectoryPoint": "float64[] positions\nfloat64[] velocities\n"
    "float64[] accelerations\nfloat64[] effort\nbuiltin_interfaces/Duration time_from_start",
    "trajectory_msgs/JointTrajectory": "std_msgs/Header header\nstring[] joint_names\n"
    "trajectory_msgs/JointTrajectoryPoint[] points",
    "trajectory_msgs/MultiDOFJointTrajectoryPoint": "geometry_msgs/Transform[] transforms\n"
    "geometry_msgs/Twist[] velocities\ngeometry_msgs/Twist[] accelerations\n"
    "builtin_interfaces/Duration time_from_start",
    "trajectory_msgs/MultiDOFJointTrajectory": "std_msgs/Header header\nstring[] joint_names\n"
    "trajectory_msgs/MultiDOFJointTrajectoryPoint[] points",
    "control_msgs/JointTolerance": "string name\nfloat64 position\nfloat64 velocity\nfloat64 acceleration",
    "control_msgs/JointComponentTolerance": "string joint_name\nuint16 component\nfloat64 position\n"
    "float64 velocity\nfloat64 acceleration",
    "control_msgs/action/FollowJointTrajectory_Goal": "trajectory_msgs/JointTrajectory trajectory\n"
    "trajectory_msgs/MultiDOFJointTrajectory multi_dof_trajectory\n"
    "control_msgs/JointTolerance[] path_tolerance\n"
    "control_msgs/JointComponentTolerance[] component_path_tolerance\n"
    "control_msgs/JointTolerance[] goal_tolerance\n"
    "control_msgs/JointComponentTolerance[] component_goal_tolerance\n"
    "builtin_interfaces/Duration goal_time_tolerance",
    "control_msgs/action/FollowJointTrajectory_Result": "int32 error_code\nstring error_string",
    "control_msgs/action/FollowJointTrajectory_Feedback": "std_msgs/Header header\nstring[] joint_names\n"
    "trajectory_msgs/JointTrajectoryPoint desired\ntrajectory_msgs/JointTrajectoryPoint actual\n"
    "trajectory_msgs/JointTrajectoryPoint error\nstring[] multi_dof_joint_names\n"
    "trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_desired\n"
    "trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_actual\n"
    "trajectory_msgs/MultiDOFJointTrajectoryPoint multi_dof_error",
    "control_msgs/GripperCommand": "float64 position\nfloat64 max_effort",
    "control_msgs/action/GripperCommand_Goal": "control_msgs/GripperCommand command",
    "control_msgs/action/GripperCommand_Result": "float64 position\nfloat64 effort\nbool stalled\n"
    "bool reached_goal",
    "control_msgs/action/GripperCommand_Feedback": "float64 position\nfloat64 effort\nbool stalled\n"
    "bool reached_goal",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w",
    "geometry_msgs/Pose": "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose\nfloat64[36] covariance",
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
    "diagnostic_msgs/KeyValue": "string key\nstring value",
    "diagnostic_msgs/DiagnosticStatus": "byte level\nstring name\nstring message\nstring hardware_id\n"
    "diagnostic_msgs/KeyValue[] values",
    "diagnostic_msgs/DiagnosticArray": "std_msgs/Header header\ndiagnostic_msgs/DiagnosticStatus[] status",
    "unique_identifier_msgs/UUID": "uint8[16] uuid",
    "action_msgs/GoalInfo": "unique_identifier_msgs/UUID goal_id\nbuiltin_interfaces/Time stamp",
    "action_msgs/GoalStatus": "action_msgs/GoalInfo goal_info\nint8 status",
    "action_msgs/GoalStatusArray": "action_msgs/GoalStatus[] status_list",
    "action_msgs/srv/CancelGoal_Request": "action_msgs/GoalInfo goal_info",
    "action_msgs/srv/CancelGoal_Response": "int8 return_code\naction_msgs/GoalInfo[] goals_canceling",
    "rcl_interfaces/FloatingPointRange": "float64 from_value\nfloat64 to_value\nfloat64 step",
    "rcl_interfaces/IntegerRange": "int64 from_value\nint64 to_value\nuint64 step",
    "rcl_interfaces/ListParametersResult": "string[] names\nstring[] prefixes",
    "rcl_interfaces/ParameterValue": "uint8 type\nbool bool_value\nint64 integer_value\n"
    "float64 double_value\nstring string_value\nbyte[] byte_array_value\n"
    "bool[] bool_array_value\nint64[] integer_array_value\n"
    "float64[] double_array_value\nstring[] string_array_value",
    "rcl_interfaces/Parameter": "string name\nrcl_interfaces/ParameterValue value",
    "rcl_interfaces/ParameterDescriptor": "string name\nuint8 type\nstring description\n"
    "string additional_constraints\nbool read_only\nbool dynamic_typing\n"
    "rcl_interfaces/FloatingPointRange[<=1] floating_point_range\n"
    "rcl_interfaces/IntegerRange[<=1] integer_range",
    "rcl_interfaces/SetParametersResult": "bool successful\nstring reason",
    "rcl_interfaces/srv/ListParameters_Request": "string[] prefixes\nuint64 depth",
    "rcl_interfaces/srv/ListParameters_Response": "rcl_interfaces/ListParametersResult result",
    "rcl_interfaces/srv/GetParameters_Request": "string[] names",
    "rcl_interfaces/srv/GetParameters_Response": "rcl_interfaces/ParameterValue[] values",
    "rcl_interfaces/srv/GetParameterTypes_Request": "string[] names",
    "rcl_interfaces/srv/GetParameterTypes_Response": "uint8[] types",
    "rcl_interfaces/srv/DescribeParameters_Request": "string[] names",
    "rcl_interfaces/srv/DescribeParameters_Response": "rcl_interfaces/ParameterDescriptor[] descriptors",
    "rcl_interfaces/srv/SetParameters_Request": "rcl_interfaces/Parameter[] parameters",
    "rcl_interfaces/srv/SetParameters_Response": "rcl_interfaces/SetParametersResult[] results",
    "rcl_interfaces/srv/SetParametersAtomically_Request": "rcl_interfaces/Parameter[] parameters",
    "rcl_interfaces/srv/SetParametersAtomically_Response": "rcl_interfaces/SetParametersResult result",
}
"""Fields of the types of others that we use; the tests compare them with the official texts."""

_GOAL_ID = "unique_identifier_msgs/UUID goal_id\n"
_OF_ACTIONS = {
    "SendGoal_Request": _GOAL_ID + "{0}_Goal goal",
    "SendGoal_Response": "bool accepted\nbuiltin_interfaces/Time stamp",
    "GetResult_Request": _GOAL_ID,
    "GetResult_Response": "int8 status\n{0}_Result result",
    "FeedbackMessage": _GOAL_ID + "{0}_Feedback feedback",
}
"""What ROS 2 makes of every `.action` file."""

_PARTS = {"Request": 0, "Response": 1, "Goal": 0, "Result": 1, "Feedback": 2}

# Of type_description_interfaces/FieldType; char is another name of uint8.
_TYPE_IDS = {
    "int8": 2, "uint8": 3, "char": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8,
    "uint64": 9, "float32": 10, "float64": 11, "bool": 15, "byte": 16, "string": 17,
}  # fmt: skip
_NESTED, _ARRAY, _BOUNDED, _UNBOUNDED = 1, 48, 96, 144


class FieldType(NamedTuple):
    """Type of a field.

    Attributes:
        base: A number, `string`, or a kind.
        size: None: one; 0: a sequence; else an array of so many.
        bound: Most elements of a sequence; 0: any number.
    """

    base: str
    size: int | None = None
    bound: int = 0


@cache
def fields_of(kind: str) -> tuple[tuple[str, FieldType], ...]:
    """Names and types of the fields of a kind."""
    found = []
    for line in _text_of(kind).splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2:
            continue
        base, bracket, rest = words[0].partition("[")
        rest = rest.removesuffix("]")
        bound = int(rest[2:]) if rest.startswith("<=") else 0
        size = None if not bracket else 0 if bound or not rest else int(rest)
        found.append((words[1], FieldType(base, size, bound)))
    return tuple(found)


def _text_of(kind: str) -> str:
    if kind in DEFINITIONS:
        return DEFINITIONS[kind]
    ours = files("cpor.bridges").joinpath("cpor_msgs")
    package, folder, name = full_name(kind).split("/")
    if folder == "msg":
        return ours.joinpath("msg", f"{name}.msg").read_text(encoding="utf-8")
    stem, _, part = name.partition("_")
    if part in _OF_ACTIONS:
        return _OF_ACTIONS[part].format(f"{package}/action/{stem}")
    text = ours.joinpath(folder, f"{stem}.{folder}").read_text(encoding="utf-8")
    return re.split(r"^---$", text, flags=re.MULTILINE)[_PARTS[part]]


def full_name(kind: str) -> str:
    """The name of a kind in ROS 2, such as `sensor_msgs/msg/Image`."""
    return kind if kind.count("/") == 2 else kind.replace("/", "/msg/")


def type_name(kind: str) -> str:
    """The name of a kind on the wire, such as `sensor_msgs::msg::dds_::Image_`."""
    package, folder, name = full_name(kind).split("/")
    return f"{package}::{folder}::dds_::{name}_"


@cache
def type_hash(kind: str) -> str:
    """The hash of a kind, version RIHS01 of ROS 2: SHA-256 of its description and of those it is made of."""
    others: dict[str, str] = {}

    def collect(of: str) -> None:
        for _, field in fields_of(of):
            if field.base not in _TYPE_IDS and full_name(field.base) not in others:
                others[full_name(field.base)] = field.base
                collect(field.base)

    collect(kind)
    told = {
        "type_description": _describe(kind),
        "referenced_type_descriptions": [_describe(others[name]) for name in sorted(others)],
    }
    return f"RIHS01_{hashlib.sha256(json.dumps(told).encode()).hexdigest()}"


def _describe(kind: str) -> dict[str, Any]:
    fields = []
    for name, (base, size, bound) in fields_of(kind):
        number = _TYPE_IDS.get(base, _NESTED)
        if size is not None:
            number += _ARRAY if size else _BOUNDED if bound else _UNBOUNDED
        nested = "" if base in _TYPE_IDS else full_name(base)
        kind_of_it = {"type_id": number, "capacity": size or bound, "string_capacity": 0}
        fields.append({"name": name, "type": {**kind_of_it, "nested_type_name": nested}})
    return {"type_name": full_name(kind), "fields": fields}
