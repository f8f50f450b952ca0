"""Routes of a camera of the service: what it sees now, and a frame of it to decide on.

The camera is opened at the start, closed when no request has come for a while, and opened again.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from fastapi import FastAPI
from PIL import Image
from starlette.responses import Response

from cpor.errors import CameraError
from cpor.robot.cameras import FrameCamera, close_camera, open_camera, parse_camera
from cpor.scene import Observation
from cpor.serve.api.answered import SceneReply
from cpor.serve.api.decide_routes import gives
from cpor.serve.api.look_jobs import Seen, look_at_frame
from cpor.serve.http.refusals import NotKept
from cpor.serve.jobs.workers import WorkerPool
from cpor.system import System
from cpor.viz.overlay import encode_picture

_LOG = logging.getLogger("cpor.serve")

_IDLE_S = 20.0
"""Time without a request after which the camera is closed. [s]"""


class LiveCamera:
    """A camera that several clients may use; frames of a folder are shown again and again.

    `kind` is what replies may call it: a folder's path stays on this machine.
    """

    def __init__(self, name: str) -> None:
        self.name, self.kind = name, parse_camera(name)[0]
        self._lock = Lock()
        self._camera: FrameCamera | None = open_camera(name)

    def frame(self) -> Observation:
        """Take a frame; a camera that fails is reopened once."""
        with self._lock:
            if self._camera is not None:
                with suppress(CameraError):
                    return self._camera.frame()
                self._close()
            self._camera = open_camera(self.name)
            return self._camera.frame()

    def release(self) -> None:
        """Close the camera until the next request."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        camera, self._camera = self._camera, None
        if camera is not None:
            close_camera(camera)


_NO_PICTURE = "the camera of this service gives no picture; the log of the service says why"


def add_camera_routes(
    app: FastAPI, camera: LiveCamera, looking: WorkerPool[System], keep: Callable[[Seen], Response]
) -> None:
    """Add the routes; `keep` makes a reply from a view."""
    idle: list[asyncio.TimerHandle] = []

    async def frame() -> Observation:
        while idle:
            idle.pop().cancel()
        try:
            found = await asyncio.to_thread(camera.frame)
        except CameraError as problem:
            _LOG.error("no picture from the camera: %s", problem)
            raise NotKept(_NO_PICTURE) from None
        idle.append(asyncio.get_running_loop().call_later(_IDLE_S, camera.release))
        return found

    @app.get("/v1/camera/view.jpg", **gives("image/jpeg", "The colour picture."))
    async def view() -> Response:
        """What the camera of the service sees now."""
        seen = Image.fromarray((await frame()).rgb)
        return Response(encode_picture(seen, 80, "JPEG"), media_type="image/jpeg")

    @app.post("/v1/camera/look", response_model=SceneReply)
    async def look_now() -> Response:
        """Take a frame with depth, find its objects, and say what is believed of every pair."""
        return keep(await looking.run(look_at_frame, await frame()))
