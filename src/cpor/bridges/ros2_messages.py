"""ROS 2 messages without ROS 2: their definitions as text, and XCDR1, the form in which they travel.

A message is a namespace with the fields of its definition; `uint8[]` is bytes, other numbers are lists. What
does not fit its definition is a `WireError`, also where somebody sends garbage.
"""

import re
import struct
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, NamedTuple

from cpor.errors import CporError

MOST_ELEMENTS = 2**27
"""A longer sequence is garbage: 128 MB of pixels."""

_NUMBERS = {
    "bool": "?", "byte": "B", "char": "B", "uint8": "B", "int8": "b", "uint16": "H", "int16": "h",
    "uint32": "I", "int32": "i", "uint64": "Q", "int64": "q", "float32": "f", "float64": "d",
}  # fmt: skip

DEFINITIONS = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "sensor_msgs/Image": "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
    "uint8 is_bigendian\nuint32 step\nuint8[] data",
    "sensor_msgs/CompressedImage": "std_msgs/Header header\nstring format\nuint8[] data",
    "sensor_msgs/RegionOfInterest": "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\n"
    "bool do_rectify",
    "sensor_msgs/CameraInfo": "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\n"
    "float64[] d\nfloat64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\n"
    "sensor_msgs/RegionOfInterest roi",
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
}
"""Of the messages of others that we use; the tests compare them with the official texts."""

_CALL = "uint64 client\nint64 number\n"
"""What rmw_cyclonedds puts before each request and reply."""


class WireError(CporError, ValueError):
    """Bytes that are not the message they should be."""


class FieldType(NamedTuple):
    """Type of a field: `base` is a number, `string` or a message; `size` None: one, 0: a sequence."""

    base: str
    size: int | None = None


@cache
def fields_of(kind: str) -> tuple[tuple[str, FieldType], ...]:
    """Names and types of the fields of a message, such as `sensor_msgs/Image`."""
    found = []
    for line in _text_of(kind).splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2:
            continue
        base, bracket, rest = words[0].partition("[")
        count = None if not bracket else int(rest.removesuffix("]") or 0)
        found.append((words[1], FieldType(base, count)))
    return tuple(found)


def _text_of(kind: str) -> str:
    if kind in DEFINITIONS:
        return DEFINITIONS[kind]
    ours = files("cpor.bridges").joinpath("cpor_msgs")
    if match := re.fullmatch(r"cpor_msgs/(\w+)_(Request|Response)", kind):
        parts = ours.joinpath("srv", f"{match[1]}.srv").read_text(encoding="utf-8").split("---")
        return _CALL + parts[match[2] == "Response"]
    return ours.joinpath("msg", f"{kind.partition('/')[2]}.msg").read_text(encoding="utf-8")


def new(kind: str, **values: Any) -> SimpleNamespace:
    """A message with these fields, the others empty or 0."""
    made = SimpleNamespace(**{name: _empty(each) for name, each in fields_of(kind)})
    for name, value in values.items():
        if not hasattr(made, name):
            raise WireError(f"{kind} has no field {name!r}")
        setattr(made, name, value)
    return made


def _empty(kind: FieldType) -> Any:
    if kind.size is not None:
        one = FieldType(kind.base)
        return b"" if kind == ("uint8", 0) else [_empty(one) for _ in range(kind.size)]
    if kind.base == "string":
        return ""
    return new(kind.base) if kind.base not in _NUMBERS else False if kind.base == "bool" else 0


def encode(message: SimpleNamespace, kind: str) -> bytes:
    """A message as it travels, little-endian."""
    out = bytearray()
    try:
        _write(out, message, FieldType(kind))
    except (struct.error, AttributeError, TypeError) as error:
        raise WireError(f"this is no {kind}: {error}") from None
    return b"\x00\x01\x00\x00" + bytes(out)


def decode(data: bytes, kind: str) -> SimpleNamespace:
    """A message that came.

    Raises:
        WireError: The bytes are cut short, or are something else.
    """
    if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
        raise WireError(f"{len(data)} bytes that are no {kind} in plain CDR")
    reader = _Reader(memoryview(data)[4:], "<" if data[1] else ">")
    try:
        found: SimpleNamespace = reader.read(FieldType(kind))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise WireError(f"{len(data)} bytes that are no {kind}: {error}") from None
    return found


def _write(out: bytearray, value: Any, kind: FieldType) -> None:
    base, count = kind
    if count is not None:
        if count == 0:
            _number(out, "I", len(value))
        elif len(value) != count:
            raise TypeError(f"{len(value)} values in place of {count}")
        if base == "uint8":
            out += bytes(value)
        elif base in _NUMBERS and len(value):
            code = _NUMBERS[base]
            out += bytes(-len(out) % struct.calcsize(code))
            out += struct.pack(f"<{len(value)}{code}", *value)
        elif base not in _NUMBERS:
            for each in value:
                _write(out, each, FieldType(base))
    elif base == "string":
        text = value.encode() + b"\0"
        _number(out, "I", len(text))
        out += text
    elif base in _NUMBERS:
        _number(out, _NUMBERS[base], value)
    else:
        for name, each in fields_of(base):
            _write(out, getattr(value, name), each)


def _number(out: bytearray, code: str, value: Any) -> None:
    size = struct.calcsize(code)
    out += bytes(-len(out) % size) + struct.pack(f"<{code}", value)


class _Reader:
    """Reads values one after the other, each at its alignment."""

    def __init__(self, data: memoryview, order: str) -> None:
        self._data, self._order, self._at = data, order, 0

    def read(self, kind: FieldType) -> Any:
        """A value of a type."""
        base, count = kind
        if count is not None:
            n = count or self._numbers("I", 1)[0]
            if n > min(MOST_ELEMENTS, len(self._data)):
                raise IndexError(f"a sequence of {n}")
            if base == "uint8":
                return self._bytes(n)
            if base in _NUMBERS:
                return list(self._numbers(_NUMBERS[base], n))
            return [self.read(FieldType(base)) for _ in range(n)]
        if base == "string":
            text = self._bytes(self._numbers("I", 1)[0])
            if text[-1:] != b"\0":
                raise IndexError("a text without end")
            return text[:-1].decode()
        if base in _NUMBERS:
            return self._numbers(_NUMBERS[base], 1)[0]
        return SimpleNamespace(**{name: self.read(each) for name, each in fields_of(base)})

    def _numbers(self, code: str, n: int) -> tuple[Any, ...]:
        if n == 0:
            return ()
        self._at += -self._at % struct.calcsize(code)
        found = struct.unpack_from(f"{self._order}{n}{code}", self._data, self._at)
        self._at += n * struct.calcsize(code)
        return found

    def _bytes(self, n: int) -> bytes:
        if self._at + n > len(self._data):
            raise IndexError(f"{n} bytes where {len(self._data) - self._at} are left")
        found = bytes(self._data[self._at : self._at + n])
        self._at += n
        return found
