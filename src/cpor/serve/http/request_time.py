"""By when a request must be answered: one limit for receiving it, waiting and working together."""

import asyncio
from contextvars import ContextVar

_UNTIL: ContextVar[float] = ContextVar("cpor_request_until")


def begin_request(limit_s: float) -> float:
    """The time by which the request of this task must be answered; on the loop's clock, in s."""
    until = asyncio.get_running_loop().time() + limit_s
    _UNTIL.set(until)
    return until


def answer_by(limit_s: float) -> float:
    """The same for a request that has begun; for whatever is no request, `limit_s` from now."""
    return _UNTIL.get(asyncio.get_running_loop().time() + limit_s)
