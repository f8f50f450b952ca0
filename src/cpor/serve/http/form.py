"""Multipart requests: parts in memory, counted, known by name; names and types of files are ignored.

FastAPI's own forms guard less: they write files to disk, ignore unknown parts and keep the last of two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request as HttpRequest

from cpor.errors import InvalidSettingError
from cpor.learn.modes import MODES, parse_mode
from cpor.serve.api.asked import LONGEST_TEXT, SceneDecideRequest
from cpor.serve.http.refusals import Refusal, TooMuch, Unsupported
from cpor.serve.http.uploads import LONGEST, LONGEST_FIELD, Upload, read_number, read_text
from cpor.words.grounding import parse_point

_FILE = {"type": "string", "format": "binary"}

SCENE_PARTS: dict[str, dict[str, Any]] = {
    "rgb": {**_FILE, "description": "The picture: PNG, JPEG or WebP."},
    "depth": {**_FILE, "description": "Depth registered to it: 16-bit PNG, 0 where there is no reading."},
    "instances": {**_FILE, "description": "PNG of the id that each pixel shows, 0 for background."},
    "amodal": {**_FILE, "description": "npz with ids (n,) and masks (n, h, w): visible and hidden part."},
    "camera": {"type": "string", "description": "JSON: fx, fy, cx, cy, width, height, depth_unit_m."},
    "depth_unit_m": {"type": "number", "description": "Metres of one step of depth. [default: guessed]"},
    "objects": {"type": "string", "description": "JSON as objects.json of a scene folder has it."},
    "scores": {"type": "string", "description": "JSON as scores.json has it: what a scorer said."},
    "sources": {"type": "string", "description": "JSON as sources.json has it: makers of masks and scores."},
}
"""Parts of a request that sends a scene."""

ASK_PARTS: dict[str, dict[str, Any]] = {
    "target": {"type": "integer", "description": "Id of the object asked for."},
    "point": {"type": "string", "description": "A pixel that shows it: X,Y."},
    "request": {"type": "string", "description": "What it looks like, in words."},
    "mode": {"type": "string", "enum": list(MODES), "description": "How sure it must be before it acts."},
    "tau": {"type": "number", "minimum": 0, "maximum": 1, "description": "Act above this score instead."},
}
"""Parts that ask for a decision besides."""


def multipart_body(parts: Mapping[str, dict[str, Any]], *required: str) -> dict[str, Any]:
    """`openapi_extra` of a route that takes these parts."""
    schema = {
        "type": "object",
        "properties": parts,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


async def read_form(
    http: HttpRequest, parts: Mapping[str, dict[str, Any]]
) -> tuple[Upload, SceneDecideRequest]:
    """A scene, and what is asked about it, from a multipart request.

    Raises:
        Unsupported: It is not multipart.
        Refusal: A part is missing, unknown, given twice, or not what it should be.
    """
    kind, options = parse_options_header(http.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise Unsupported("send the scene as multipart/form-data, with the picture in the part rgb")
    given = _split(await http.body(), options.get(b"boundary", b""), tuple(parts))
    if not given.get("rgb"):
        raise Refusal("the part rgb is missing: the picture, as PNG, JPEG or WebP")
    return given, _read_request(given)


def _is_file(name: str) -> bool:
    return SCENE_PARTS.get(name, {}).get("format") == "binary"


@dataclass
class _Collector:
    """Collects the parts that the parser finds."""

    known: tuple[str, ...]
    parts: dict[str, bytes] = field(default_factory=dict)
    ended: bool = False
    _header: bytes = b""
    _disposition: bytes = b""
    _value: bytes = b""
    _chunks: list[bytes] = field(default_factory=list)

    def on_part_begin(self) -> None:
        self._disposition, self._chunks = b"", []

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._chunks.append(data[start:end])

    def on_part_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name not in self.known:
            raise Refusal(f"there is a part that is not known; known are: {', '.join(self.known)}")
        if name in self.parts:
            raise Refusal(f"the part {name} is given twice; keep one")
        self.parts[name] = b"".join(self._chunks)
        longest = LONGEST.get(name, LONGEST_FIELD)
        if not _is_file(name) and len(self.parts[name]) > longest:
            raise TooMuch(f"{name} has more than {longest:,} bytes")

    def on_end(self) -> None:
        self.ended = True


def _split(body: bytes, boundary: bytes, known: tuple[str, ...]) -> dict[str, bytes]:
    """The parts of a multipart body, by name."""
    collector = _Collector(known)
    steps = (
        *("on_part_begin", "on_header_field", "on_header_value", "on_header_end"),
        *("on_part_data", "on_part_end", "on_end"),
    )
    try:
        parser = MultipartParser(boundary, {step: getattr(collector, step) for step in steps})  # type: ignore[arg-type]
        parser.write(body)
        parser.finalize()
    except (FormParserError, ValueError):
        raise Refusal("the multipart body is damaged; send it again") from None
    if not collector.ended:
        raise Refusal("the multipart body ends too early; send it again")
    return collector.parts


def _read_request(given: dict[str, bytes]) -> SceneDecideRequest:
    target, point, mode = (read_text(given, name, LONGEST_TEXT) for name in ("target", "point", "mode"))
    tau = read_number(given, "tau", 0.0, 1.0)
    if mode is not None and tau is not None:
        raise InvalidSettingError("give mode or tau, not both")
    try:
        obj = None if target is None else int(target)
    except ValueError:
        raise InvalidSettingError("target is not a whole number; give the id of an object") from None
    return SceneDecideRequest(
        target=obj,
        point=None if point is None else parse_point(point),
        request=read_text(given, "request", LONGEST_TEXT),
        mode=None if mode is None else parse_mode(mode),
        tau=tau,
    )
