"""Routes that look at pictures, and those of scenes that are kept: show one again, correct, save, forget."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from cpor.errors import InvalidSettingError
from cpor.io.images import encode_png
from cpor.serve.api.answered import CorrectReply, DecideReply, ExampleMessage, SceneDecideReply, SceneReply
from cpor.serve.api.asked import CorrectRequest, FolderRequest, SceneDecideRequest
from cpor.serve.api.camera_routes import LiveCamera, add_camera_routes
from cpor.serve.api.correct_jobs import correct, encode_decision, encode_folder, encode_points
from cpor.serve.api.decide_jobs import work
from cpor.serve.api.decide_routes import DecidingPool, as_json, gives, run_decide_on_view
from cpor.serve.api.drift_watch import DriftWatch
from cpor.serve.api.example_scenes import find_example, list_examples, read_example, small_picture
from cpor.serve.api.kept_views import KeptView, ViewShelf, asked_of, points_at_nothing
from cpor.serve.api.look_jobs import Seen, describe, look, look_and_decide, look_closer
from cpor.serve.http.form import ASK_PARTS, SCENE_PARTS, multipart_body, read_form
from cpor.serve.http.settings import ServeSettings
from cpor.serve.jobs.workers import WorkerPool
from cpor.system import System

_Name = Annotated[str, Path(max_length=100)]


def add_scene_routes(
    app: FastAPI,
    settings: ServeSettings,
    looking: WorkerPool[System],
    deciding: DecidingPool,
    shelf: ViewShelf,
    watch: DriftWatch | None = None,
    camera: LiveCamera | None = None,
) -> None:
    """Add the routes."""
    limits = settings.most_pixels, settings.most_mask_pixels

    def warn(kept: KeptView) -> list[str]:
        """Count a picture; what to tell of drift."""
        if watch is None:
            return []
        assert kept.view.beliefs is not None
        watch.add(kept.view.beliefs)
        return [watch.warning] if watch.warning else []

    def keep(seen: Seen) -> Response:
        reply, kept = seen
        notes = warn(kept) + reply.notes
        return as_json(reply.model_copy(update={"id": shelf.put(kept), "notes": notes}))

    async def decide_seen(http: HttpRequest, masks_needed: bool) -> Response:
        upload, request = await read_form(http, SCENE_PARTS | ASK_PARTS)
        if masks_needed and not upload.get("instances"):
            raise InvalidSettingError("the part instances is missing: a PNG of the id that each pixel shows")
        asked_of(request)
        said, kept = await looking.run(look_and_decide, upload, limits, request)
        return as_json(said | {"id": shelf.put(kept), "notes": warn(kept) + said["notes"]})

    if camera is not None:
        add_camera_routes(app, camera, looking, keep)

    @app.get("/v1/examples")
    async def examples() -> list[ExampleMessage]:
        """Scenes that come with the service."""
        return list(list_examples())

    @app.get("/v1/examples/{name}/rgb.png", **gives("image/png", "The picture."))
    async def example_picture(name: _Name) -> Response:
        """The photograph of an example."""
        return Response((find_example(name) / "rgb.png").read_bytes(), media_type="image/png")

    @app.get("/v1/examples/{name}/small.jpg", **gives("image/jpeg", "The picture, at most 320 px wide."))
    async def small_example_picture(name: _Name) -> Response:
        """The photograph of an example for a list of them: a hundredth of the bytes."""
        return Response(small_picture(name), media_type="image/jpeg")

    @app.post("/v1/examples/{name}", response_model=SceneReply)
    async def look_at_example(
        name: _Name, masks: Annotated[Literal["found", "given"], Query()] = "found"
    ) -> Response:
        """An example, analysed as if it was uploaded: with our own networks, or with the masks it has."""
        return keep(await looking.run(look, read_example(name, masks == "given"), limits))

    @app.post("/v1/scenes", response_model=SceneReply, openapi_extra=multipart_body(SCENE_PARTS, "rgb"))
    async def look_at_scene(http: HttpRequest) -> Response:
        """Find the objects of a picture, and say what is believed of every pair."""
        upload, _ = await read_form(http, SCENE_PARTS)
        return keep(await looking.run(look, upload, limits))

    @app.post("/v1/scenes/{id}/decide", response_model=DecideReply)
    async def decide_scene(id: _Name, request: SceneDecideRequest) -> Response:
        """Decide for an object of a scene that was looked at."""
        kept = shelf.get(id)
        if points_at_nothing(kept, request):
            before, kept = kept, await looking.run(look_closer, kept, request)
            shelf.replace(id, before, kept)
        return as_json(await run_decide_on_view(deciding, kept, request))

    @app.post(
        "/v1/decide/rgbd",
        response_model=SceneDecideReply,
        openapi_extra=multipart_body(SCENE_PARTS | ASK_PARTS, "rgb"),
    )
    async def decide_rgbd(http: HttpRequest) -> Response:
        """From a picture and a request to a decision."""
        return await decide_seen(http, masks_needed=False)

    @app.post(
        "/v1/decide/masks",
        response_model=SceneDecideReply,
        openapi_extra=multipart_body(SCENE_PARTS | ASK_PARTS, "rgb", "instances"),
    )
    async def decide_masks(http: HttpRequest) -> Response:
        """The same with masks of your own."""
        return await decide_seen(http, masks_needed=True)


def add_kept_routes(app: FastAPI, looking: WorkerPool[System], shelf: ViewShelf) -> None:
    """Add the routes of scenes that are kept."""

    @app.get("/v1/scenes/{id}", response_model=SceneReply)
    async def show_scene(id: _Name) -> Response:
        """A scene that was looked at, as it is now."""
        reply = await looking.run(describe, shelf.get(id))
        return as_json(reply.model_copy(update={"id": id}))

    @app.get("/v1/scenes/{id}/rgb.png", **gives("image/png", "The picture."))
    async def show_picture(id: _Name) -> Response:
        """The photograph of a scene, as it was analysed."""
        rgb = shelf.get(id).view.scene.observation.rgb
        return Response(await looking.run(work, encode_png, rgb), media_type="image/png")

    @app.get("/v1/scenes/{id}/points", **gives("application/octet-stream", "The points."))
    async def show_points(id: _Name) -> Response:
        """What the depth camera saw, as points: 18 bytes each, little-endian.

        x, y, z in metres in the camera's frame (float32), red, green, blue and 0 (uint8), id of the object or
        0 (uint16). At most 60,000 points, thinned along rows and columns.
        """
        content = await looking.run(work, encode_points, shelf.get(id))
        return Response(content, media_type="application/octet-stream")

    @app.delete("/v1/scenes/{id}", status_code=204)
    async def forget_scene(id: _Name) -> Response:
        """Forget a scene and its picture at once."""
        shelf.forget(id)
        return Response(status_code=204)

    @app.post("/v1/scenes/{id}/corrections", response_model=CorrectReply)
    async def correct_scene(id: _Name, request: CorrectRequest) -> Response:
        """Correct what was seen: objects, names, workspace, relations; or undo and redo."""
        kept = shelf.get(id)
        (reply, after), decision = await looking.run(correct, kept, request)
        shelf.replace(id, kept, after)
        scene = reply.model_copy(update={"id": id}).model_dump(mode="json")
        return as_json({"scene": scene, "decision": decision})

    @app.post("/v1/scenes/{id}/decision.{kind}", **gives("image/png text/html", "The decision."))
    async def draw_decision(id: _Name, kind: Literal["png", "html"], request: SceneDecideRequest) -> Response:
        """A decision to keep: a picture, or one page that needs nothing else."""
        content = await looking.run(work, encode_decision, shelf.get(id), request, kind)
        headers = {"Content-Disposition": f'attachment; filename="decision.{kind}"'}
        media_type = "image/png" if kind == "png" else "text/html; charset=utf-8"
        return Response(content, media_type=media_type, headers=headers)

    @app.post("/v1/scenes/{id}/folder.zip", **gives("application/zip", "The scene folder."))
    async def save_scene(id: _Name, request: FolderRequest) -> Response:
        """The scene with its corrections as a labelled scene folder, which `cpor fit` reads."""
        content = await looking.run(work, encode_folder, shelf.get(id), request)
        headers = {"Content-Disposition": 'attachment; filename="scene.zip"'}
        return Response(content, media_type="application/zip", headers=headers)
