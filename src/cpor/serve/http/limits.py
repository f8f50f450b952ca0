"""How much a request may bring: its body is read whole, counted as it comes, before anyone looks at it."""

import asyncio
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cpor.serve.http.refusals import Busy, Refusal, TooMuch, TooSlow
from cpor.serve.http.request_time import begin_request
from cpor.serve.http.security import refuse
from cpor.serve.http.settings import ServeSettings

UPLOAD_PATHS = ("/v1/scenes", "/v1/decide/rgbd", "/v1/decide/masks")
"""Take pictures; everything else is JSON."""


@dataclass
class BodyLimit:
    """Reads bodies, and refuses those that are too long, or too many at once.

    Attributes:
        app: What comes after.
        settings: With the limits.
        in_flight: Bytes of all bodies that are held now.
    """

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
        uploads = scope["path"] in UPLOAD_PATHS
        return self.settings.most_upload_bytes if uploads else self.settings.most_json_bytes


def _check_declared(scope: Scope, most: int) -> None:
    """Spare the sender of a long body the trouble; a length that is not true is noticed while it comes."""
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
    """The body once, then whatever else happens, such as the caller going away."""
    left = [body]

    async def again() -> Message:
        if not left:
            return await receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return again


async def _close_after(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body has ended; the rest of it is not waited for."""
    response = refuse(refusal)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)
