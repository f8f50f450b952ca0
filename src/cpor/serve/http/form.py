"""Multipart requests: parts in memory, counted, known by name; names and types of files are ignored.

FastAPI's own forms guard less: they write files to disk, ignore unknown parts and keep the last of two.
"""

from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request as HttpRequest

from cpor.errors import InvalidSettingError
from cpor.learn.modes import parse_mode
from cpor.serve.api.asked import LONGEST_TEXT, SceneDecideRequest
from cpor.serve.http.refusals import Refusal, TooMuch, Unsupported
from cpor.serve.http.uploads import Upload
from cpor.words.grounding import parse_point

SCENE_PARTS = (
    *("rgb", "depth", "instances", "amodal", "camera", "depth_unit_m"),
    *("objects", "scores", "sources"),
)
"""Parts of a request that sends a scene."""

ASK_PARTS = ("target", "point", "request", "mode", "tau")
"""Parts that ask for a decision besides."""

_FILES = frozenset({"rgb", "depth", "instances", "amodal"})
_TEXTS = ("camera", "objects", "scores", "sources")
_LONGEST_FIELD = 16_384
_LONGEST = {"objects": 2**18, "scores": 2**20}
"""These grow with the number of objects and pairs."""


async def read_form(http: HttpRequest, parts: tuple[str, ...]) -> tuple[Upload, SceneDecideRequest]:
    """A scene, and what is asked about it, from a multipart request.

    Raises:
        Unsupported: It is not multipart.
        Refusal: A part is missing, unknown, given twice, or not what it should be.
    """
    kind, options = parse_options_header(http.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise Unsupported("send the scene as multipart/form-data, with the picture in the part rgb")
    given = _split(await http.body(), options.get(b"boundary", b""), parts)
    if not given.get("rgb"):
        raise Refusal("the part rgb is missing: the picture, as PNG, JPEG or WebP")
    texts = {name: _text(given, name, _LONGEST.get(name, _LONGEST_FIELD)) for name in _TEXTS}
    files = {name: given[name] for name in _FILES if given.get(name)}
    upload = Upload(**files, **texts, depth_unit_m=_number(given, "depth_unit_m", 1e-7, 1.0))  # type: ignore[arg-type]
    return upload, _read_request(given)


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
        longest = _LONGEST.get(name, _LONGEST_FIELD)
        if name not in _FILES and len(self.parts[name]) > longest:
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
    target, point, mode = (_text(given, name) for name in ("target", "point", "mode"))
    tau = _number(given, "tau", 0.0, 1.0)
    if mode is not None and tau is not None:
        raise InvalidSettingError("give mode or tau, not both")
    try:
        obj = None if target is None else int(target)
    except ValueError:
        raise InvalidSettingError("target is not a whole number; give the id of an object") from None
    return SceneDecideRequest(
        target=obj,
        point=None if point is None else parse_point(point),
        request=_text(given, "request"),
        mode=None if mode is None else parse_mode(mode),
        tau=tau,
    )


def _text(given: dict[str, bytes], name: str, longest: int = LONGEST_TEXT) -> str | None:
    """A part as text; None where it is absent or blank."""
    try:
        text = given.get(name, b"").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSettingError(f"{name} is not UTF-8 text") from None
    if len(text) > longest:
        raise InvalidSettingError(f"{name} has {len(text)} characters; at most {longest} are taken")
    return text if text.strip() else None


def _number(given: dict[str, bytes], name: str, low: float, high: float) -> float | None:
    text = _text(given, name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InvalidSettingError(f"{name} must be a number from {low:g} to {high:g}")
    return value
