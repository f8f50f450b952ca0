"""Routes of `cpor label`: the next photograph, and what was accepted of it."""

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response

from cpor.apps.label_queue import LabelQueue
from cpor.corrections import label_scene
from cpor.io.scene_folder import write_scene_folder
from cpor.serve.api.answered import QueueReply
from cpor.serve.api.asked import AcceptRequest, by_pair
from cpor.serve.api.decide_routes import as_json
from cpor.serve.api.kept_views import KeptView, ViewShelf
from cpor.serve.api.look_jobs import look_at_input
from cpor.serve.http.refusals import NotKept
from cpor.serve.jobs.workers import WorkerPool
from cpor.system import System


def add_queue_routes(app: FastAPI, looking: WorkerPool[System], shelf: ViewShelf, queue: LabelQueue) -> None:
    """Add the routes."""
    shown: dict[str, str] = {}  # scene id -> name, of the photograph on screen only

    async def show_next() -> Response:
        name = queue.begin()
        scene = None
        if name is not None:
            scene, kept = await looking.run(look_at_input, *queue.photographs[name])
            shown.clear()
            shown[(id := shelf.put(kept))] = name
            scene = scene.model_copy(update={"id": id})
        reply = QueueReply(
            name=name,
            left=len(queue.left),
            total=len(queue.photographs),
            minutes_left=queue.minutes_left,
            scene=scene,
        )
        return as_json(reply)

    def name_of(id: str) -> str:
        if id not in shown:
            raise NotKept("this photograph is not the one to label now; load the page again")
        return shown[id]

    @app.post("/v1/queue/next", response_model=QueueReply)
    async def next_photograph() -> Response:
        """The photograph to label now, as it was seen."""
        return await show_next()

    @app.post("/v1/queue/skip", response_model=QueueReply)
    async def skip_photograph(request: AcceptRequest) -> Response:
        """Leave a photograph for later; the next one."""
        queue.put_off(name_of(request.id))
        return await show_next()

    @app.post("/v1/queue/accept", response_model=QueueReply)
    async def accept_photograph(request: AcceptRequest) -> Response:
        """Write the photograph as a labelled scene folder, as it is now; the next one."""
        name = name_of(request.id)
        await looking.run(_save, shelf.get(request.id), request, queue.out / name)
        queue.accept()
        return await show_next()


def _save(_: System, kept: KeptView, request: AcceptRequest, folder: Path) -> None:
    """Write a labelled scene folder; refuse a pair without a label."""
    beliefs = kept.view.beliefs
    assert beliefs is not None
    said = dict(kept.view.relations) | by_pair(request.relations)
    write_scene_folder(label_scene(kept.view.scene, beliefs, said), folder, overwrite=True)
