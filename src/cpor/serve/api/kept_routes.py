"""Routes of scenes that are kept: show one again, correct it, save it, forget it."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path
from starlette.responses import Response

from cpor.io.images import encode_png
from cpor.serve.api.answered import CorrectReply, SceneReply
from cpor.serve.api.asked import CorrectRequest, FolderRequest, SceneDecideRequest
from cpor.serve.api.correct_jobs import (
    correct,
    encode_decision,
    encode_folder,
    encode_points,
)
from cpor.serve.api.decide_jobs import work
from cpor.serve.api.decide_routes import as_json
from cpor.serve.api.kept_views import ViewShelf
from cpor.serve.api.look_jobs import describe
from cpor.serve.http.openapi import gives
from cpor.serve.jobs.workers import WorkerPool
from cpor.system import System

_Id = Annotated[str, Path(max_length=100)]


def add_kept_routes(app: FastAPI, looking: WorkerPool[System], shelf: ViewShelf) -> None:
    """Add the routes."""

    @app.get("/v1/scenes/{id}", response_model=SceneReply)
    async def show_scene(id: _Id) -> Response:
        """A scene that was looked at, as it is now."""
        reply = await looking.run(describe, shelf.get(id))
        return as_json(reply.model_copy(update={"id": id}))

    @app.get("/v1/scenes/{id}/rgb.png", **gives("image/png", "The picture."))
    async def show_picture(id: _Id) -> Response:
        """The photograph of a scene, as it was analysed."""
        rgb = shelf.get(id).view.scene.observation.rgb
        return Response(await looking.run(work, encode_png, rgb), media_type="image/png")

    @app.get("/v1/scenes/{id}/points", **gives("application/octet-stream", "The points."))
    async def show_points(id: _Id) -> Response:
        """What the depth camera saw, as points: 18 bytes each, little-endian.

        x, y, z in metres in the camera's frame (float32), red, green, blue and 0 (uint8), id of the object or
        0 (uint16). At most 60,000 points, thinned along rows and columns.
        """
        content = await looking.run(work, encode_points, shelf.get(id))
        return Response(content, media_type="application/octet-stream")

    @app.delete("/v1/scenes/{id}", status_code=204)
    async def forget_scene(id: _Id) -> Response:
        """Forget a scene and its picture at once."""
        shelf.forget(id)
        return Response(status_code=204)

    @app.post("/v1/scenes/{id}/corrections", response_model=CorrectReply)
    async def correct_scene(id: _Id, request: CorrectRequest) -> Response:
        """Correct what was seen: objects, names, workspace, relations; or undo and redo."""
        kept = shelf.get(id)
        seen, decision = await looking.run(correct, kept, request)
        shelf.replace(id, kept, seen.kept)
        scene = seen.reply.model_copy(update={"id": id}).model_dump(mode="json")
        return as_json({"scene": scene, "decision": decision})

    @app.post("/v1/scenes/{id}/decision.{kind}", **gives("image/png text/html", "The decision."))
    async def draw_decision(id: _Id, kind: Literal["png", "html"], request: SceneDecideRequest) -> Response:
        """A decision to keep: a picture, or one page that needs nothing else."""
        content = await looking.run(work, encode_decision, shelf.get(id), request, kind)
        headers = {"Content-Disposition": f'attachment; filename="decision.{kind}"'}
        media_type = "image/png" if kind == "png" else "text/html; charset=utf-8"
        return Response(content, media_type=media_type, headers=headers)

    @app.post("/v1/scenes/{id}/folder.zip", **gives("application/zip", "The scene folder."))
    async def save_scene(id: _Id, request: FolderRequest) -> Response:
        """The scene with its corrections as a labelled scene folder, which `cpor fit` reads."""
        content = await looking.run(work, encode_folder, shelf.get(id), request)
        headers = {"Content-Disposition": 'attachment; filename="scene.zip"'}
        return Response(content, media_type="application/zip", headers=headers)
