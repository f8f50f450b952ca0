"""A limit on a whole call: HTTP libraries limit each wait for bytes, so a trickle would never end."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from cpor.semantics.provider import ProviderFailure

_GRACE = 1.1  # the HTTP library's own limit, the same number, goes first where it can

T = TypeVar("T")


def within(limit_s: float, call: Callable[[], T]) -> T:
    """What a call gives or raises; one that takes too long is left to itself.

    Args:
        limit_s: How long it may take. [s]
        call: The call.

    Raises:
        ProviderFailure: It took too long.
    """
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as problem:  # handed on to whoever waits
            found.set_exception(problem)

    threading.Thread(target=run, name="call", daemon=True).start()
    try:
        return found.result(_GRACE * limit_s)
    except TimeoutError:
        raise ProviderFailure("timeout", f"no reply in {limit_s:g} s", None, True) from None
