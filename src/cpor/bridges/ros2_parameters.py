"""ROS 2 parameters over any `Transport`: the six services that every node has."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cpor.bridges.ros2_messages import Message, new
from cpor.bridges.ros2_transport import OnReply, Transport
from cpor.errors import CporError, InvalidSettingError

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


class ParameterServer:
    """Lists, describes, gets and sets parameters.

    Args:
        transport: How it hears and speaks.
        node: Name of the node, such as `/cpor`.
        texts: The parameters, in order, and what each means.
        get: All values now.
        set_: Sets some of them, all or none; raises an error of ours where one cannot be so.
    """

    def __init__(
        self,
        transport: Transport,
        node: str,
        texts: Mapping[str, str],
        get: Callable[[], Mapping[str, Value]],
        set_: Callable[[Mapping[str, Value]], None],
    ) -> None:
        self._texts, self._get, self._set = texts, get, set_
        for name, answers in {
            "ListParameters": self._list,
            "DescribeParameters": self._describe,
            "GetParameters": self._give,
            "GetParameterTypes": self._give_types,
            "SetParameters": self._take,
            "SetParametersAtomically": self._take_at_once,
        }.items():
            service = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]
            transport.serve(f"{node}/{service}", f"{_TYPES}/srv/{name}", answers)

    def _list(self, request: Message, reply: OnReply) -> None:
        wanted = [each for each in self._texts if not request.prefixes or each in request.prefixes]
        result = new(f"{_TYPES}/ListParametersResult", names=wanted)
        reply(new(f"{_TYPES}/srv/ListParameters_Response", result=result))

    def _describe(self, request: Message, reply: OnReply) -> None:
        values, told = self._get(), []
        for name in request.names:
            kind = _FIELDS[type(values[name])][0] if name in values else 0
            text = self._texts.get(name, "")
            told.append(new(f"{_TYPES}/ParameterDescriptor", name=name, type=kind, description=text))
        reply(new(f"{_TYPES}/srv/DescribeParameters_Response", descriptors=told))

    def _give(self, request: Message, reply: OnReply) -> None:
        values = self._get()
        told = [_wire_value(values.get(name)) for name in request.names]
        reply(new(f"{_TYPES}/srv/GetParameters_Response", values=told))

    def _give_types(self, request: Message, reply: OnReply) -> None:
        values = self._get()
        told = bytes(_wire_value(values.get(name)).type for name in request.names)
        reply(new(f"{_TYPES}/srv/GetParameterTypes_Response", types=told))

    def _take(self, request: Message, reply: OnReply) -> None:
        results = [self._try([each]) for each in request.parameters]
        reply(new(f"{_TYPES}/srv/SetParameters_Response", results=results))

    def _take_at_once(self, request: Message, reply: OnReply) -> None:
        result = self._try(request.parameters)
        reply(new(f"{_TYPES}/srv/SetParametersAtomically_Response", result=result))

    def _try(self, wanted: list[Message]) -> Message:
        result = new(f"{_TYPES}/SetParametersResult", successful=True)
        try:
            now = self._get()
            self._set({each.name: _own_value(each, now) for each in wanted})
        except CporError as error:
            result.successful, result.reason = False, str(error)
        return result


def _wire_value(value: Value | None) -> Message:
    """`value` as it travels; None is not set."""
    told = new(f"{_TYPES}/ParameterValue")
    if value is not None:
        told.type, field = _FIELDS[type(value)]
        setattr(told, field, value)
    return told


def _own_value(parameter: Message, now: Mapping[str, Value]) -> Any:
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
