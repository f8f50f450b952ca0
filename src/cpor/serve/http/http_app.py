"""The application: routes, what stands before them, and what runs beside them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

import cpor
from cpor.apps.label_queue import LabelQueue
from cpor.errors import CporError, SceneFileError
from cpor.io.whole_files import parse_strict
from cpor.model import FittedModel
from cpor.serve.api.camera_routes import LiveCamera
from cpor.serve.api.decide_routes import add_decide_routes
from cpor.serve.api.drift_watch import DriftWatch
from cpor.serve.api.example_scenes import Examples
from cpor.serve.api.kept_routes import add_kept_routes
from cpor.serve.api.kept_views import ViewShelf
from cpor.serve.api.look_jobs import load_system
from cpor.serve.api.queue_routes import add_queue_routes
from cpor.serve.api.scene_routes import add_scene_routes
from cpor.serve.http.metrics import Counting, Metrics
from cpor.serve.http.openapi import ERRORS
from cpor.serve.http.page_routes import add_page_routes
from cpor.serve.http.refusals import FAILED, Failed, NotKept, Refusal, TooMuch, Unsupported, as_refusal
from cpor.serve.http.request_limits import guarded
from cpor.serve.http.security import refuse
from cpor.serve.http.settings import ServeSettings
from cpor.serve.jobs.quick_or_queued import prepare_deciding
from cpor.serve.jobs.workers import PoolSettings, WorkerPool
from cpor.serve.live.routes import add_run_routes

_LOG = logging.getLogger("cpor.serve")

_MOST_KEYS = 32
"""Keys of one object of JSON; no message has as many, and each unknown one costs time to report."""


def create_app(settings: ServeSettings | None = None, queue: LabelQueue | None = None) -> FastAPI:
    """The service as an ASGI application; its workers start and end with it. `queue`: what to label."""
    settings = settings or ServeSettings()
    camera = None if settings.camera is None else LiveCamera(settings.camera)
    waiting, limit = settings.most_waiting, settings.time_limit_s
    looking = WorkerPool(
        PoolSettings(
            "looking", settings.analysis_workers, waiting, limit, partial(load_system, settings.model)
        )
    )
    deciding, explaining = (
        WorkerPool(PoolSettings(name, settings.deciding_workers, waiting, limit, prepare_deciding))
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
            stack.callback(keeper.close)
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
        middleware=[Middleware(Counting, metrics=metrics), Middleware(guarded, settings=settings)],
    )
    app.router.route_class = _StrictRoute
    _answer_errors(app)
    add_decide_routes(app, settings, deciding, explaining)
    watch = None if settings.model is None else DriftWatch(FittedModel.load(settings.model))
    add_scene_routes(app, settings, looking, deciding, shelf, Examples(), watch, camera)
    add_kept_routes(app, looking, shelf)
    keeper = add_run_routes(app, settings.runs)
    if queue is not None:
        add_queue_routes(app, looking, shelf, queue)
    pools = (looking, deciding, explaining)
    add_page_routes(app, metrics, pools, queue is not None, "" if camera is None else camera.kind, watch)
    return app


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
        return refuse(_InvalidBody(_say_invalid(error)))

    async def of_the_framework(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refuse(_FRAMEWORK.get(error.status_code, _BadRequest)(), error.headers)

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


class _InvalidBody(Refusal):
    status = 422


class _BadRequest(Refusal):
    def __init__(self) -> None:
        super().__init__("the request cannot be read; see /openapi.json for what is expected")


class _NoSuchPage(NotKept):
    def __init__(self) -> None:
        super().__init__("there is nothing at this address; see /openapi.json for what there is")


class _NotAllowed(Refusal):
    status = 405

    def __init__(self) -> None:
        super().__init__("this address takes another method; see /openapi.json")


class _TooLong(TooMuch):
    def __init__(self) -> None:
        super().__init__("the request is too large")


class _OtherType(Unsupported):
    def __init__(self) -> None:
        super().__init__("the content type is not one that this address takes")


_FRAMEWORK: dict[int, type[Refusal]] = {404: _NoSuchPage, 405: _NotAllowed, 413: _TooLong, 415: _OtherType}


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
