"""The page and its files, the sign of life, and the metrics."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import PlainTextResponse, Response

import cpor
from cpor.serve.api.drift_watch import DriftWatch
from cpor.serve.api.messages import HealthReply
from cpor.serve.http.metrics import Metrics
from cpor.serve.http.refusals import Busy, NotKept
from cpor.serve.jobs.workers import WorkerPool

FOLDER = Path(__file__).parents[1] / "static"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


def add_page_routes(
    app: FastAPI,
    metrics: Metrics,
    pools: Sequence[WorkerPool[Any]],
    labelling: bool,
    camera: str,
    watch: DriftWatch | None,
) -> None:
    """Add the routes.

    Args:
        app: The application.
        metrics: The counters.
        pools: The worker pools.
        labelling: Whether photographs wait to be labelled.
        camera: Kind of the service's camera; empty without one.
        watch: The watch for drift; None without a model.
    """

    @app.get("/healthz")
    async def health() -> HealthReply:
        """Alive, and what there is; 503 while there is no worker of some kind."""
        if missing := [pool.settings.name for pool in pools if not pool.able]:
            raise Busy(f"no worker is ready for: {', '.join(missing)}; they are being started")
        return HealthReply(
            status="ok",
            version=cpor.__version__,
            perception=importlib.util.find_spec("onnxruntime") is not None,
            simulator=importlib.util.find_spec("mujoco") is not None,
            labelling=labelling,
            camera=camera,
            drift=watch.warning if watch is not None else "",
        )

    @app.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _serve_file("index.html")

    @app.get("/live", include_in_schema=False)
    async def live_page() -> Response:
        return _serve_file("live.html")

    @app.get("/docs", include_in_schema=False)
    async def docs_page() -> Response:
        return _serve_file("docs.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return _serve_file("icon.svg")

    @app.get("/static/{name}", include_in_schema=False)
    async def static_file(name: str) -> Response:
        return _serve_file(name)


def _serve_file(name: str) -> Response:
    """A file of the page; the name is looked up among those there are, so no path of a caller's is opened."""
    for path in FOLDER.iterdir():
        if path.name == name and path.suffix in _TYPES:
            return Response(
                path.read_bytes(), media_type=_TYPES[path.suffix], headers={"Cache-Control": "no-cache"}
            )
    raise NotKept("there is no such file of the page")
