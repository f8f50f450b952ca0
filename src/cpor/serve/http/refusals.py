"""Reasons why the service refuses or fails a request, each with its HTTP status and code."""

import re
from typing import Any, ClassVar

from cpor.errors import (
    CporError,
    InvalidSceneError,
    InvalidSettingError,
    MissingExtraError,
    SceneFileError,
    TooLargeError,
)
from cpor.serve.api.answered import ErrorCode, ErrorReply


class Refusal(CporError):  # noqa: N818
    """A request that is not answered as asked; the message goes to the caller."""

    status: int = 400
    code: ClassVar[ErrorCode] = "invalid"
    retry_after_s: ClassVar[int | None] = None

    def __init_subclass__(cls, status: int, code: ErrorCode, retry_after_s: int | None = None) -> None:
        super().__init_subclass__()
        cls.status, cls.code, cls.retry_after_s = status, code, retry_after_s

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status or self.status


class TooMuch(Refusal, status=413, code="too_large"):
    """More bytes, pixels or objects than are taken."""


class Unsupported(Refusal, status=415, code="unsupported"):
    """A file that is not of a kind we read."""


class Unauthorised(Refusal, status=401, code="unauthorised"):
    """No token, or a wrong one."""


class Forbidden(Refusal, status=403, code="unauthorised"):
    """Asked by a page of another site."""


class NotKept(Refusal, status=404, code="not_found"):
    """Something that is not there, or not any more."""


class Conflict(Refusal, status=409, code="conflict"):
    """What is asked does not go with the present state."""


class Busy(Refusal, status=503, code="busy", retry_after_s=1):
    """The queue is full."""


class RunsBusy(Refusal, status=503, code="busy", retry_after_s=15):
    """As many runs go on as may; one takes a minute or so."""


class TooSlow(Refusal, status=504, code="timeout"):
    """Not answered within the time limit."""


class Failed(Refusal, status=500, code="failed"):
    """A fault of the service."""


class NotInstalled(Refusal, status=501, code="not_installed"):
    """Asked for a part of the package that this service does not have."""


_SAID = {
    400: "Not a scene, a picture or a setting that can be used.",
    401: "No token, or a wrong one.",
    403: "Asked by a page of another site.",
    404: "Not there, or not any more.",
    405: "Another method is taken here.",
    409: "Does not go with the present state.",
    413: "More than is taken.",
    415: "A file or a body of another kind.",
    422: "The body is not what is expected.",
    500: "A fault of the service.",
    501: "A part of the package is not installed there.",
    503: "Busy; Retry-After says when to come back.",
    504: "Not answered within the time limit.",
}

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": said} for status, said in _SAID.items()
}
"""Error replies that any route may give."""

FAILED = "the service failed at this request; its log says more"


def as_refusal(error: CporError) -> Refusal:
    """The refusal that an error of ours means; one that is not the caller's fault says nothing of its cause.

    Messages of other errors may name files of this machine.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TooLargeError):
        return TooMuch(str(error))
    if isinstance(error, InvalidSceneError | InvalidSettingError | SceneFileError):
        return Refusal(str(error))
    if isinstance(error, MissingExtraError):
        return NotInstalled(str(error))
    return Failed(FAILED)


def say_refusal(refusal: Refusal) -> ErrorReply:
    """What the caller is told: printable, and not endless."""
    # Decoders name the buffer they were given, and where in memory things lie.
    message = re.sub(r" ?<(_io\.|[^<>]* at 0x)[^>]*>", "", str(refusal))
    message = "".join(c if c.isprintable() else " " for c in message)
    return ErrorReply(code=refusal.code, message=message if len(message) <= 600 else message[:599] + "…")
