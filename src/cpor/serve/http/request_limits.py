"""Guards of every HTTP server of ours: `guarded` puts the gate and the body limits before an application.

A body is read whole, and counted while it comes, before the application sees the request.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cpor.serve.http.refusals import Busy, Refusal, TooMuch, TooSlow
from cpor.serve.http.security import Gate, refuse
from cpor.serve.http.settings import ServeSettings

UPLOAD_PATHS = ("/v1/scenes", "/v1/decide/rgbd", "/v1/decide/masks")
"""Take pictures; everything else is JSON."""

MCP_PATH = "/mcp"
"""Takes pictures in JSON, as base64."""


def guarded(app: ASGIApp, settings: ServeSettings) -> ASGIApp:
    """An application behind token, host and origin checks, and behind the limits on bodies."""
    return Gate(BodyLimit(app, settings), settings)


def most_mcp_bytes(settings: ServeSettings) -> int:
    """Longest MCP message: one upload as base64, and what surrounds it."""
    return settings.most_upload_bytes * 4 // 3 + 2**16


@dataclass
class BodyLimit:
    """Reads bodies, and refuses those that are too long, or too many at once."""

    app: ASGIApp
    settings: ServeSettings
    in_flight: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        held = 0
        try:
            chunks: list[bytes] = []
            most = self._most(scope)
            _check_declared(scope, most)
            until = begin_request(self.settings.time_limit_s)
            more = True
            while more:
                message = await _receive_by(receive, until)
                if message["type"] == "http.disconnect":
                    return
                chunk = message.get("body", b"")
                held += len(chunk)
                self.in_flight += len(chunk)
                if held > most:
                    raise TooMuch(f"the request has more than {most:,} bytes; send less")
                if self.in_flight > self.settings.most_bytes_in_flight:
                    raise Busy("too many uploads at once; try again in a moment")
                chunks.append(chunk)
                more = message.get("more_body", False)
            body = _replay(b"".join(chunks), receive)
            chunks.clear()  # so that a request that waits is held once
            await self.app(scope, body, send)
        except (TooMuch, Busy, TooSlow) as refusal:
            await _close_after(refusal, scope, receive, send)
        finally:
            self.in_flight -= held

    def _most(self, scope: Scope) -> int:
        if scope["path"] == MCP_PATH:
            return most_mcp_bytes(self.settings)
        uploads = scope["path"] in UPLOAD_PATHS
        return self.settings.most_upload_bytes if uploads else self.settings.most_json_bytes


def _check_declared(scope: Scope, most: int) -> None:
    """Refuse a body that is declared too long; a wrong length is noticed while the body comes."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:19]) > most:
            raise TooMuch(f"the request has more than {most:,} bytes; send less")


async def _receive_by(receive: Receive, until: float) -> Message:
    try:
        async with asyncio.timeout_at(until):
            return await receive()
    except TimeoutError:
        raise TooSlow("the request did not arrive within the time limit") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then the other messages, such as a disconnect."""
    left = [body]

    async def again() -> Message:
        if not left:
            return await receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return again


async def _close_after(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body has ended, without reading the rest."""
    response = refuse(refusal)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


_UNTIL: ContextVar[float] = ContextVar("cpor_request_until")


def begin_request(limit_s: float) -> float:
    """The time by which the request of this task must be answered; on the loop's clock, in s."""
    until = asyncio.get_running_loop().time() + limit_s
    _UNTIL.set(until)
    return until


def answer_by(limit_s: float) -> float:
    """The same for a request that has begun; for whatever is no request, `limit_s` from now."""
    return _UNTIL.get(asyncio.get_running_loop().time() + limit_s)
