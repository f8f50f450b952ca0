"""Routes that look at pictures."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from cpor.errors import InvalidSettingError
from cpor.serve.api.answered import DecideReply, ExampleMessage, SceneDecideReply, SceneReply
from cpor.serve.api.asked import SceneDecideRequest
from cpor.serve.api.camera_routes import LiveCamera, add_camera_routes
from cpor.serve.api.decide_routes import DecidingPool, as_json, run_decide_on_view
from cpor.serve.api.drift_watch import DriftWatch
from cpor.serve.api.example_scenes import Examples
from cpor.serve.api.kept_views import KeptView, ViewShelf, asked_of, points_at_nothing
from cpor.serve.api.look_jobs import Seen, look, look_and_decide, look_closer
from cpor.serve.http.form import ASK_PARTS, SCENE_PARTS, read_form
from cpor.serve.http.openapi import gives, multipart_body
from cpor.serve.http.settings import ServeSettings
from cpor.serve.http.uploads import UploadLimits
from cpor.serve.jobs.workers import WorkerPool
from cpor.system import System

_Name = Annotated[str, Path(max_length=100)]


def add_scene_routes(
    app: FastAPI,
    settings: ServeSettings,
    looking: WorkerPool[System],
    deciding: DecidingPool,
    shelf: ViewShelf,
    examples: Examples,
    watch: DriftWatch | None = None,
    camera: LiveCamera | None = None,
) -> None:
    """Add the routes."""
    limits = UploadLimits(settings.most_pixels, settings.most_mask_pixels)

    def warn(kept: KeptView) -> list[str]:
        """Count a picture; what to tell of drift."""
        if watch is None:
            return []
        assert kept.view.beliefs is not None
        watch.add(kept.view.beliefs)
        return [watch.warning] if watch.warning else []

    def keep(seen: Seen) -> Response:
        notes = warn(seen.kept) + seen.reply.notes
        return as_json(seen.reply.model_copy(update={"id": shelf.put(seen.kept), "notes": notes}))

    async def decide_seen(http: HttpRequest, masks_needed: bool) -> Response:
        upload, request = await read_form(http, SCENE_PARTS + ASK_PARTS)
        if masks_needed and upload.instances is None:
            raise InvalidSettingError("the part instances is missing: a PNG of the id that each pixel shows")
        asked_of(request)
        said, kept = await looking.run(look_and_decide, upload, limits, request)
        return as_json(said | {"id": shelf.put(kept), "notes": warn(kept) + said["notes"]})

    if camera is not None:
        add_camera_routes(app, camera, looking, keep)

    @app.get("/v1/examples")
    async def list_examples() -> list[ExampleMessage]:
        """Scenes that come with the service."""
        return list(examples.listed)

    @app.get("/v1/examples/{name}/rgb.png", **gives("image/png", "The picture."))
    async def example_picture(name: _Name) -> Response:
        """The photograph of an example."""
        return Response(examples.picture(name), media_type="image/png")

    @app.get("/v1/examples/{name}/small.jpg", **gives("image/jpeg", "The picture, at most 320 px wide."))
    async def small_example_picture(name: _Name) -> Response:
        """The photograph of an example for a list of them: a hundredth of the bytes."""
        return Response(examples.small_picture(name), media_type="image/jpeg")

    @app.post("/v1/examples/{name}", response_model=SceneReply)
    async def look_at_example(
        name: _Name, masks: Annotated[Literal["found", "given"], Query()] = "found"
    ) -> Response:
        """An example, analysed as if it was uploaded: with our own networks, or with the masks it has."""
        return keep(await looking.run(look, examples.upload(name, masks == "given"), limits))

    @app.post("/v1/scenes", response_model=SceneReply, openapi_extra=multipart_body(SCENE_PARTS, ("rgb",)))
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
        openapi_extra=multipart_body(SCENE_PARTS + ASK_PARTS, ("rgb",)),
    )
    async def decide_rgbd(http: HttpRequest) -> Response:
        """From a picture and a request to a decision."""
        return await decide_seen(http, masks_needed=False)

    @app.post(
        "/v1/decide/masks",
        response_model=SceneDecideReply,
        openapi_extra=multipart_body(SCENE_PARTS + ASK_PARTS, ("rgb", "instances")),
    )
    async def decide_masks(http: HttpRequest) -> Response:
        """The same with masks of your own."""
        return await decide_seen(http, masks_needed=True)
