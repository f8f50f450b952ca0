"""ROS 2 messages without ROS 2, in XCDR1, the form in which they travel.

A message is a namespace with the fields of its definition; `uint8[]` is bytes (a view of what came, no copy),
other numbers are lists. What does not fit its definition is a `WireError`, also for garbage.
"""

import struct
from types import SimpleNamespace
from typing import Any

from cpor.bridges.ros2_types import FieldType, fields_of
from cpor.errors import CporError

MOST_ELEMENTS = 2**27
"""A longer sequence is garbage: 128 MB of pixels."""

_NUMBERS = {
    "bool": "?", "byte": "B", "char": "B", "uint8": "B", "int8": "b", "uint16": "H", "int16": "h",
    "uint32": "I", "int32": "i", "uint64": "Q", "int64": "q", "float32": "f", "float64": "d",
}  # fmt: skip


class WireError(CporError, ValueError):
    """Bytes that are not the message they should be."""


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
        return bytes(kind.size) if kind.base == "uint8" else [_empty(one) for _ in range(kind.size)]
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
    reader = _CdrReader(memoryview(data)[4:], "<" if data[1] else ">")
    try:
        found: SimpleNamespace = reader.read(FieldType(kind))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise WireError(f"{len(data)} bytes that are no {kind}: {error}") from None
    return found


def _write(out: bytearray, value: Any, kind: FieldType) -> None:
    base, count, _ = kind
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


class _CdrReader:
    """Reads values one after the other, each at its alignment."""

    def __init__(self, data: memoryview, order: str) -> None:
        self._data, self._order, self._at = data, order, 0

    def read(self, kind: FieldType) -> Any:
        """A value of a type."""
        base, count, _ = kind
        if count is not None:
            n = count or self._numbers("I", 1)[0]
            if n > min(kind.bound or MOST_ELEMENTS, len(self._data)):
                raise IndexError(f"a sequence of {n}")
            if base == "uint8":
                return self._bytes(n)
            if base in _NUMBERS:
                return list(self._numbers(_NUMBERS[base], n))
            return [self.read(FieldType(base)) for _ in range(n)]
        if base == "string":
            text = self._bytes(self._numbers("I", 1)[0])
            if not text or text[-1] != 0:
                raise IndexError("a text without end")
            return str(text[:-1], "utf-8")
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

    def _bytes(self, n: int) -> memoryview:
        if self._at + n > len(self._data):
            raise IndexError(f"{n} bytes where {len(self._data) - self._at} are left")
        found = self._data[self._at : self._at + n]
        self._at += n
        return found
