"""What the ROS 2 node hears and says, and its ROS parameters: the six services that every node has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_transport import Transport, serve_now
from cpor.errors import CporError, InvalidSettingError
from cpor.learn.modes import parse_mode
from cpor.scene import PixelPoint
from cpor.words.grounding_answers import Request

Value: TypeAlias = bool | int | float | str | list[float]

_FIELDS = {
    bool: (1, "bool_value"),
    int: (2, "integer_value"),
    float: (3, "double_value"),
    str: (4, "string_value"),
    list: (8, "double_array_value"),
}
"""Number and field of rcl_interfaces/ParameterValue for each type of ours."""

_TYPES = "rcl_interfaces"

PARAMETERS = {
    "color": "Topic of photographs; .../compressed is a CompressedImage.",
    "depth": "Topic of depth aligned to them; empty: none.",
    "info": "Topic of the camera info; empty: none.",
    "request": "Decide on this object in every frame, in words; empty: not so. It replaces target and point.",
    "target": "Or on this one, by its id; 0: not so.",
    "point": "Or on what this pixel shows, x and y; empty: not so.",
    "mode": "Risk setting: robust, cautious, balanced or bold; empty: as the system has it.",
    "max_age_s": "Pictures that were sent longer ago are not answered from.",
}
"""Name and meaning of each."""

_WAYS = ("request", "target", "point")


@dataclass(frozen=True)
class NodeSettings:
    """What to hear and to say.

    Attributes:
        color: Topic of photographs; `.../compressed` is a CompressedImage.
        depth: Topic of depth registered to them; `.../compressedDepth` is compressed. None: none.
        info: Topic of the camera info; None: the camera is not known.
        prefix: Name of the node; its topics, services and actions begin with it.
        request, target, point: Which object is decided on in every frame; all None: none, on call alone.
        max_age_s: A frame that was sent longer ago is old. [s]
        mode: The risk setting; None: the system's.
    """

    color: str
    depth: str | None = None
    info: str | None = None
    prefix: str = "/cpor"
    request: str | None = None
    target: int | None = None
    point: tuple[float, float] | None = None
    max_age_s: float = 1.0
    mode: str | None = None

    def __post_init__(self) -> None:
        for topic in (self.color, self.depth, self.info, self.prefix):
            if topic is not None and not topic.startswith("/"):
                raise InvalidSettingError(f"the topic {topic!r} must begin with /")
        _ = self.asked  # refuses several ways
        if not self.max_age_s > 0.0:
            raise InvalidSettingError(f"max_age_s is {self.max_age_s}; it must be above 0")
        if self.mode is not None:
            parse_mode(self.mode)

    @property
    def topics(self) -> tuple[str, str | None, str | None]:
        """What is heard."""
        return self.color, self.depth, self.info

    @property
    def asked(self) -> Request:
        """The object to decide on in every frame."""
        return Request(self.target, None if self.point is None else PixelPoint(*self.point), self.request)

    @property
    def decides(self) -> bool:
        """Whether there is an object to decide on in every frame."""
        return self.asked.ways == 1

    def parameters(self) -> dict[str, Value]:
        """As ROS parameters: where nothing is set, the empty value of the type."""
        found: dict[str, Value] = {name: getattr(self, name) or "" for name in PARAMETERS}
        found["target"] = self.target or 0
        found["point"] = list(self.point or ())
        found["max_age_s"] = float(self.max_age_s)
        return found

    def with_parameters(self, values: Mapping[str, Any]) -> "NodeSettings":
        """With some of them changed; one way to say which object takes the place of the others."""
        told: dict[str, Any] = {name: value or None for name, value in values.items()}
        if "max_age_s" in told:
            told["max_age_s"] = values["max_age_s"]
        if told.get("color", self.color) is None:
            raise InvalidSettingError("color is empty; name the topic of the photographs")
        if told.get("point") is not None:
            if len(told["point"]) != 2:
                raise InvalidSettingError(f"point has {len(told['point'])} numbers; give x and y")
            told["point"] = tuple(told["point"])
        if any(told.get(way) is not None for way in _WAYS):
            told = dict.fromkeys(_WAYS) | told
        return replace(self, **told)


def serve_parameters(
    transport: Transport,
    node: str,
    get: Callable[[], NodeSettings],
    set_: Callable[[NodeSettings], None],
) -> None:
    """List, describe, give and set the parameters of a node as `/cpor`; `set_` takes changed settings."""

    def listed(prefixes: list[str]) -> RosMessage:
        names = [each for each in PARAMETERS if not prefixes or each in prefixes]
        return new(f"{_TYPES}/ListParametersResult", names=names)

    def value(name: str) -> RosMessage:
        return _wire_value(get().parameters().get(name))

    def description(name: str) -> RosMessage:
        text = PARAMETERS.get(name, "")
        return new(f"{_TYPES}/ParameterDescriptor", name=name, type=value(name).type, description=text)

    def changed(wanted: list[RosMessage]) -> RosMessage:
        before = get()
        now = before.parameters()
        try:
            set_(before.with_parameters({each.name: _own_value(each, now) for each in wanted}))
        except CporError as error:
            return new(f"{_TYPES}/SetParametersResult", reason=str(error))
        return new(f"{_TYPES}/SetParametersResult", successful=True)

    answers: dict[str, Callable[[RosMessage], dict[str, Any]]] = {
        "ListParameters": lambda asked: {"result": listed(asked.prefixes)},
        "DescribeParameters": lambda asked: {"descriptors": [description(each) for each in asked.names]},
        "GetParameters": lambda asked: {"values": [value(each) for each in asked.names]},
        "GetParameterTypes": lambda asked: {"types": [value(each).type for each in asked.names]},
        "SetParameters": lambda asked: {"results": [changed([each]) for each in asked.parameters]},
        "SetParametersAtomically": lambda asked: {"result": changed(asked.parameters)},
    }
    for name, answer in answers.items():
        service = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]
        serve_now(transport, f"{node}/{service}", f"{_TYPES}/srv/{name}", answer)


def _wire_value(value: Value | None) -> RosMessage:
    """`value` as it travels; None is not set."""
    told = new(f"{_TYPES}/ParameterValue")
    if value is not None:
        told.type, field = _FIELDS[type(value)]
        setattr(told, field, value)
    return told


def _own_value(parameter: RosMessage, now: Mapping[str, Value]) -> Any:
    """The value of a parameter, of the type that it has now; an integer will do for a number."""
    name, told = parameter.name, parameter.value
    if name not in now:
        raise InvalidSettingError(f"there is no parameter {name!r}; there are: {', '.join(now)}")
    fits = type(now[name])
    found = next((kind for kind, (number, _) in _FIELDS.items() if number == told.type), None)
    if found is int and fits is float:
        return float(told.integer_value)
    if found is not fits:
        raise InvalidSettingError(f"the parameter {name!r} must be of type {fits.__name__}")
    value = getattr(told, _FIELDS[fits][1])
    return value.tolist() if fits is list else value
