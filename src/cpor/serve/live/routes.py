"""The routes of live runs: begin, follow, control, forget."""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Annotated

from fastapi import FastAPI, Header, Path, Response
from fastapi.responses import StreamingResponse

from cpor.serve.api.answered import ErrorReply, RunReply
from cpor.serve.api.asked import ControlRequest, RunRequest
from cpor.serve.http.refusals import NotInstalled
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.events import RunListener
from cpor.serve.live.runs import Run, RunKeeper

RunId = Annotated[str, Path(max_length=64, description="As the run was named when it began.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=32, description="Number of the last event received.")
]

_NEEDS = {"mujoco": ("the simulator", "sim"), "onnxruntime": ("eyes of our networks", "perception")}


def add_run_routes(app: FastAPI, limits: RunLimits) -> RunKeeper:
    """Add the routes of live runs; await `close` of what it returns when the service ends."""
    keeper = RunKeeper(limits)
    app.state.runs = keeper
    gone: dict[int | str, dict[str, object]] = {404: {"model": ErrorReply, "description": "Not kept."}}
    refused: dict[int | str, dict[str, object]] = {
        400: {"model": ErrorReply, "description": "Not possible in this scene."},
        409: {"model": ErrorReply, "description": "Not possible in this state."},
    }
    cannot: dict[int | str, dict[str, object]] = {
        501: {"model": ErrorReply, "description": "The simulator is not installed."},
        503: {"model": ErrorReply, "description": "As many runs are active as are allowed."},
    }

    @app.post("/v1/runs", status_code=201, responses=cannot, tags=["runs"])
    async def begin_run(request: RunRequest) -> RunReply:
        """Begin a run of the simulated arm."""
        _check_installed(request)
        return keeper.begin(request).reply()

    @app.get("/v1/runs", tags=["runs"])
    async def list_runs() -> list[RunReply]:
        """The runs that go on now, to rejoin or to stop; the newest last."""
        return [run.reply() for run in keeper.active()]

    @app.get("/v1/runs/{run_id}", responses=gone, tags=["runs"])
    async def read_run(run_id: RunId) -> RunReply:
        """How a run stands."""
        return keeper.get(run_id).reply()

    @app.post("/v1/runs/{run_id}/control", responses=gone | refused, tags=["runs"])
    async def control_run(run_id: RunId, request: ControlRequest) -> RunReply:
        """Pause, step, resume or stop a run, or ask for another object."""
        return await keeper.get(run_id).control(request)

    @app.delete("/v1/runs/{run_id}", status_code=204, responses=gone, tags=["runs"])
    async def forget_run(run_id: RunId) -> None:
        """Stop a run and forget it."""
        await keeper.forget(run_id)

    @app.get(
        "/v1/runs/{run_id}/pictures/{name}.jpg",
        response_class=Response,
        responses=gone | {200: {"content": {"image/jpeg": {}}, "description": "The picture."}},
        tags=["runs"],
    )
    async def read_picture(run_id: RunId, name: Annotated[str, Path(max_length=64)]) -> Response:
        """A picture that an event names."""
        picture = keeper.get(run_id).picture(name)
        return Response(picture, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})

    @app.get(
        "/v1/runs/{run_id}/events",
        response_class=StreamingResponse,
        responses=gone
        | {
            200: {"content": {"text/event-stream": {}}, "description": "`data` of each is a RunEvent."},
            204: {"description": "The run is over, and all events were sent."},
        },
        tags=["runs"],
    )
    async def follow_run(run_id: RunId, last_event_id: LastEventId = None) -> Response:
        """Follow a run by server-sent events, from the first that is kept or from the last one received."""
        run = keeper.get(run_id)
        after = (
            int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else 0
        )
        listener = run.events.subscribe(after)
        if listener is None:
            return Response(status_code=204)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        stream = _stream(run, listener, limits.heartbeat_s)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    return keeper


async def _stream(run: Run, listener: RunListener, heartbeat_s: float) -> AsyncIterator[bytes]:
    """The events of a run as text, for one listener."""
    try:
        yield b"retry: 1000\n\n"
        async for event in listener.events(heartbeat_s):
            if event is None:
                yield b": still here\n\n"
            else:
                yield b"id: %d\ndata: %s\n\n" % (event.number, event.text)
    finally:
        run.leave(listener)


def _check_installed(request: RunRequest) -> None:
    needed = ["mujoco"] + (["onnxruntime"] if request.eyes == "networks" else [])
    for module in needed:
        if find_spec(module) is None:
            what, extra = _NEEDS[module]
            raise NotInstalled(
                f"this service has no {module}, which {what} need{'s' if extra == 'sim' else ''}; install it "
                f"with: pip install 'cpor-grasp[{extra}]'"
            )
