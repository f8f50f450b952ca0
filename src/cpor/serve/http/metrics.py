"""What the service counts, for Prometheus; and a log line a request, by its route, never its query."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger("cpor.serve")

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("cpor_requests", "Requests answered.", labels, registry=self._registry)
        self.seconds = Histogram(
            "cpor_request_seconds",
            "Time until a request was answered.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def watch(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Report a number that is asked for whenever the metrics are."""
        Gauge(name, what, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)


@dataclass(frozen=True)
class Counting:
    """Counts and logs every request."""

    app: ASGIApp
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        status, started = 500, False

        async def note_status(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        try:
            await self.app(scope, receive, note_status)
            if not started:
                status = _GONE
        finally:
            # By template, so that ids of callers neither fill the memory nor reach the log.
            route = getattr(scope.get("route"), "path", None) or "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            seconds = time.perf_counter() - start
            self.metrics.requests.labels(method, route, status).inc()
            self.metrics.seconds.labels(method, route).observe(seconds)
            _LOG.info("%s %s %d %.1f ms", method, route, status, 1e3 * seconds)


_GONE = 499
"""Not sent: the caller went away before the request was there."""

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"})
