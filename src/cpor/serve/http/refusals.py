"""Reasons why the service refuses or fails a request, each with its HTTP status and code."""

import re
from typing import ClassVar

from cpor.errors import (
    CporError,
    InvalidSceneError,
    InvalidSettingError,
    MissingExtraError,
    SceneFileError,
    TooLargeError,
)
from cpor.serve.api.messages import ErrorCode, ErrorReply


class Refusal(CporError):  # noqa: N818
    """A request that is not answered as asked; the message goes to the caller."""

    status: ClassVar[int] = 400
    code: ClassVar[ErrorCode] = "invalid"
    retry_after_s: ClassVar[int | None] = None


class TooMuch(Refusal):
    """More bytes, pixels or objects than are taken."""

    status = 413
    code = "too_large"


class Unsupported(Refusal):
    """A file that is not of a kind we read."""

    status = 415
    code = "unsupported"


class Unauthorised(Refusal):
    """No token, or a wrong one."""

    status = 401
    code = "unauthorised"


class Forbidden(Refusal):
    """Asked by a page of another site."""

    status = 403
    code = "unauthorised"


class NotKept(Refusal):
    """Something that is not there, or not any more."""

    status = 404
    code = "not_found"


class Conflict(Refusal):
    """What is asked does not go with the present state."""

    status = 409
    code = "conflict"


class Busy(Refusal):
    """The queue is full."""

    status = 503
    code = "busy"
    retry_after_s = 1


class TooSlow(Refusal):
    """Not answered within the time limit."""

    status = 504
    code = "timeout"


class Failed(Refusal):
    """A fault of the service."""

    status = 500
    code = "failed"


class NotInstalled(Refusal):
    """Asked for a part of the package that this service does not have."""

    status = 501
    code = "not_installed"


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
