"""The application: routes, the page, the metrics, what stands before them, and what runs beside them."""

import asyncio
import importlib.util
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import cpor
from cpor.apps.label_queue import LabelQueue
from cpor.errors import CporError, SceneFileError
from cpor.io.whole_files import parse_strict
from cpor.model import FittedModel
from cpor.serve.api.answered import HealthReply
from cpor.serve.api.camera_routes import LiveCamera
from cpor.serve.api.decide_jobs import prepare_deciding
from cpor.serve.api.decide_routes import add_decide_routes
from cpor.serve.api.drift_watch import DriftWatch
from cpor.serve.api.kept_views import ViewShelf
from cpor.serve.api.look_jobs import load_system
from cpor.serve.api.queue_routes import add_queue_routes
from cpor.serve.api.scene_routes import add_kept_routes, add_scene_routes
from cpor.serve.http.refusals import (
    ERRORS,
    FAILED,
    Busy,
    Failed,
    NotKept,
    Refusal,
    TooMuch,
    Unsupported,
    as_refusal,
)
from cpor.serve.http.request_limits import guarded
from cpor.serve.http.security import refuse
from cpor.serve.http.settings import ServeSettings
from cpor.serve.jobs.workers import WorkerPool
from cpor.serve.live.routes import add_run_routes

_LOG = logging.getLogger("cpor.serve")

_MOST_KEYS = 32
"""Keys of one object of JSON; no message has as many, and each unknown one costs time to report."""


def create_app(settings: ServeSettings | None = None, queue: LabelQueue | None = None) -> FastAPI:
    """The service as an ASGI application; its workers start and end with it. `queue`: what to label."""
    settings = settings or ServeSettings()
    camera = None if settings.camera is None else LiveCamera(settings.camera)
    waiting, limit = settings.most_waiting, settings.time_limit_s
    load = partial(load_system, settings.model)
    looking = WorkerPool("looking", settings.analysis_workers, waiting, limit, load)
    deciding, explaining = (
        WorkerPool(name, settings.deciding_workers, waiting, limit, prepare_deciding)
        for name in ("deciding", "explaining")
    )
    shelf = ViewShelf(settings.most_scenes, settings.most_scene_bytes, settings.keep_scenes_s)
    metrics = Metrics()
    metrics.watch("cpor_scenes_kept", "Scenes kept to be asked about.", lambda: len(shelf))
    metrics.watch("cpor_looking_waiting", "Pictures that wait to be looked at.", lambda: looking.waiting)
    metrics.watch("cpor_deciding_waiting", "Large decisions that wait.", lambda: deciding.waiting)
    metrics.watch("cpor_explaining_waiting", "Explanations and plans that wait.", lambda: explaining.waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(keeper.close)
            if camera is not None:
                stack.callback(camera.release)
            for pool in (looking, deciding, explaining):
                stack.callback(pool.close)
            prepare_deciding()  # before the workers start, so that they find everything compiled
            await asyncio.gather(deciding.start(), explaining.start(), looking.start())
            yield

    app = FastAPI(
        title="CPOR-Grasp",
        version=cpor.__version__,
        description="Grasp the target, remove a blocker, or ask: decisions in clutter with probabilities.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=ERRORS,
        redirect_slashes=False,
        middleware=[Middleware(counted, metrics=metrics), Middleware(guarded, settings=settings)],
    )
    app.router.route_class = _StrictRoute
    _answer_errors(app)
    add_decide_routes(app, settings, deciding, explaining)
    watch = None if settings.model is None else DriftWatch(FittedModel.load(settings.model))
    add_scene_routes(app, settings, looking, deciding, shelf, watch, camera)
    add_kept_routes(app, looking, shelf)
    keeper = add_run_routes(app, settings.runs)
    if queue is not None:
        add_queue_routes(app, looking, shelf, queue)
    _add_pages(app)

    @app.get("/healthz")
    async def health() -> HealthReply:
        """Alive, and what there is; 503 while there is no worker of some kind."""
        pools = looking, deciding, explaining
        if missing := [pool.name for pool in pools if not pool.able]:
            raise Busy(f"no worker is ready for: {', '.join(missing)}; the service is starting them")
        return HealthReply(
            status="ok",
            version=cpor.__version__,
            perception=importlib.util.find_spec("onnxruntime") is not None,
            simulator=importlib.util.find_spec("mujoco") is not None,
            labelling=queue is not None,
            camera="" if camera is None else camera.kind,
            drift=watch.warning if watch is not None else "",
        )

    @app.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


PAGES = {"/": "index.html", "/live": "live.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}
"""Files of the page that have an address of their own."""


class _PageFiles(StaticFiles):
    """The files of the page; browsers ask whether they changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _add_pages(app: FastAPI) -> None:
    files = _PageFiles(directory=Path(__file__).parents[1] / "static")

    async def page(request: HttpRequest) -> Response:
        name = request.path_params.get("name") or PAGES[request.url.path]
        return await files.get_response(name, request.scope)

    for path in (*PAGES, "/static/{name}"):
        app.add_route(path, page, include_in_schema=False)


def _answer_errors(app: FastAPI) -> None:
    """Every error is an `ErrorReply`, and none says more than the caller's own fault."""

    async def ours(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, CporError)
        refusal = as_refusal(error)
        if isinstance(refusal, Failed):
            _LOG.error("failed: %s", error)
        return refuse(refusal)

    async def invalid(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refuse(Refusal(_say_invalid(error), 422))

    async def of_the_framework(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refuse(_FRAMEWORK.get(error.status_code, _BAD_REQUEST), error.headers)

    async def fault(request: HttpRequest, error: Exception) -> Response:
        return refuse(Failed(FAILED))

    app.add_exception_handler(CporError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, of_the_framework)
    app.add_exception_handler(Exception, fault)


def _say_invalid(error: RequestValidationError) -> str:
    """The first fault of a body, where it is and what is wrong; what was sent is not repeated."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']}"
    place = ".".join(str(step)[:40] for step in first["loc"][1:8]) or "the body"
    return f"{place}: {first['msg']}"


_BAD_REQUEST = Refusal("the request cannot be read; see /openapi.json for what is expected")
_FRAMEWORK = {
    404: NotKept("there is nothing at this address; see /openapi.json for what there is"),
    405: Refusal("this address takes another method; see /openapi.json", 405),
    413: TooMuch("the request is too large"),
    415: Unsupported("the content type is not one that this address takes"),
}


class _StrictRequest(HttpRequest):
    """A request whose JSON is unambiguous."""

    async def json(self) -> Any:
        """The body; reject duplicate keys, of which readers silently keep the last."""
        try:
            return parse_strict(await self.body(), _MOST_KEYS)
        except SceneFileError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


class _StrictRoute(APIRoute):
    """A route that reads JSON strictly."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """The handler, given such requests."""
        handler = super().get_route_handler()

        async def strictly(request: HttpRequest) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return strictly


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


def counted(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    """An application whose requests are counted and logged."""

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        start = time.perf_counter()
        status, started = 500, False

        async def note_status(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        try:
            await app(scope, receive, note_status)
            if not started:
                status = _GONE
        finally:
            # By template, so that ids of callers neither fill the memory nor reach the log.
            route = getattr(scope.get("route"), "path", None) or "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            seconds = time.perf_counter() - start
            metrics.requests.labels(method, route, status).inc()
            metrics.seconds.labels(method, route).observe(seconds)
            _LOG.info("%s %s %d %.1f ms", method, route, status, 1e3 * seconds)

    return count


_GONE = 499
"""Not sent: the caller went away before the request was there."""

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"})
