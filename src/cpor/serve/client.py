"""Talks to the service: `Client("http://127.0.0.1:8321").decide(posterior)`; replies are messages."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar, cast

import httpx
import numpy as np
from jaxtyping import UInt8
from pydantic import BaseModel, TypeAdapter, ValidationError

from cpor.corrections.history import Correction
from cpor.errors import CporError, InvalidSettingError
from cpor.io.images import encode_png
from cpor.io.scene_folder import encode_scene, read_scene_folder
from cpor.learn.modes import Mode
from cpor.relations import ObstructionPosterior
from cpor.scene import Observation, Scene
from cpor.serve.api.answered import (
    CorrectReply,
    DecideReply,
    ErrorReply,
    ExampleMessage,
    ExplainReply,
    HealthReply,
    PlanReply,
    RunEvent,
    RunReply,
    SceneDecideReply,
    SceneReply,
)
from cpor.serve.api.asked import (
    ControlRequest,
    CorrectRequest,
    DecideRequest,
    ExplainRequest,
    PlanRequest,
    SceneDecideRequest,
    validated,
)

SentPicture: TypeAlias = Scene | Observation | UInt8[np.ndarray, "h w 3"] | Path | str | bytes
"""A scene, a frame, pixels, a scene folder, or an image file or its content."""

FileLike: TypeAlias = Path | str | bytes
"""A file or its content."""


_Any = TypeVar("_Any")
_Asked = TypeVar("_Asked", DecideRequest, ExplainRequest, PlanRequest)


class ServiceError(CporError):
    """The service refused, failed, or cannot be reached.

    Attributes:
        status: HTTP status; None where no answer came.
        code: For programs; None where the answer was none of the service's.
    """

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Client:
    """A connection to the service; usable in `with`."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8321",
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        retry_for_s: float = 30.0,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            base_url: Where the service is.
            token: What it wants to be shown, where it does.
            timeout_s: Longest wait for one answer. [s]
            retry_for_s: How long to come back where the service is busy. [s]
        """
        self._retry_for_s = retry_for_s
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=base_url, headers=headers, timeout=timeout_s, trust_env=False, follow_redirects=False
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> HealthReply:
        """Whether it is alive, and what it has."""
        return self._ask(HealthReply, "GET", "/healthz")

    def decide(self, scene: DecideRequest | ObstructionPosterior, **settings: Any) -> DecideReply:
        """Decide from probabilities; `settings` are the other fields of `DecideRequest`."""
        return self._post(DecideReply, "/v1/decide", _as_request(DecideRequest, scene, settings))

    def explain(self, scene: DecideRequest | ObstructionPosterior, **settings: Any) -> ExplainReply:
        """Decide and explain; `settings` are the other fields of `ExplainRequest`."""
        return self._post(ExplainReply, "/v1/explain", _as_request(ExplainRequest, scene, settings))

    def plan(self, scene: PlanRequest | ObstructionPosterior, **settings: Any) -> PlanReply:
        """Plan removals; `settings` are the other fields of `PlanRequest`."""
        return self._post(PlanReply, "/v1/plan", _as_request(PlanRequest, scene, settings))

    def examples(self) -> list[ExampleMessage]:
        """Scenes that come with the service."""
        return self._ask(list[ExampleMessage], "GET", "/v1/examples")

    def example_picture(self, name: str) -> bytes:
        """The photograph of an example, a PNG file."""
        return self._send("GET", f"/v1/examples/{name}/rgb.png").content

    def look_at_example(self, name: str, masks: Literal["found", "given"] = "found") -> SceneReply:
        """What is seen in an example."""
        return self._ask(SceneReply, "POST", f"/v1/examples/{name}", params={"masks": masks})

    def look(
        self,
        picture: SentPicture,
        depth: FileLike | None = None,
        **files: FileLike | float | None,
    ) -> SceneReply:
        """What is seen in a picture.

        Args:
            picture: A scene, its folder or an `Observation` brings depth, camera and masks along.
            depth: A 16-bit PNG file.
            files: What comes beside a picture that is not a scene: `instances`, a PNG file of ids; `amodal`,
                an npz file of masks; `camera`, JSON as `camera.json` has it; `depth_unit_m`, metres of one
                step of depth.
        """
        parts = _parts(picture, depth, files)
        return self._ask(SceneReply, "POST", "/v1/scenes", files=parts)

    def decide_scene(
        self,
        scene: str,
        request: str | None = None,
        *,
        target: int | None = None,
        point: tuple[float, float] | None = None,
        relations: Mapping[tuple[int, int], float | None] | None = None,
        **settings: Any,
    ) -> DecideReply:
        """Decide for an object of a scene that was looked at; asked for by words, `target` or `point`.

        Args:
            scene: The `id` of what `look` answered.
            request: What it looks like, in words.
            target: Its id.
            point: A pixel that shows it. [px]
            relations: Probabilities to use in place of what is believed, by `(blocked, blocker)`.
            settings: The other fields of `SceneDecideRequest`, such as `mode` and `tau`.
        """
        changed = [{"blocked": i, "blocker": j, "p": p} for (i, j), p in (relations or {}).items()]
        asked = {"target": target, "point": point, "request": request, "relations": changed} | settings
        message = validated(SceneDecideRequest, asked)
        return self._post(DecideReply, f"/v1/scenes/{scene}/decide", message)

    def correct(self, scene: str, correction: Correction | None = None, **settings: Any) -> CorrectReply:
        """Correct a scene that was looked at; `settings` are fields of `CorrectRequest`, as `do="undo"`."""
        message = validated(CorrectRequest, {"correction": correction} | settings)
        return self._post(CorrectReply, f"/v1/scenes/{scene}/corrections", message)

    def decide_rgbd(
        self,
        picture: SentPicture,
        request: str | None = None,
        depth: FileLike | None = None,
        *,
        target: int | None = None,
        point: tuple[float, float] | None = None,
        mode: Mode | None = None,
        tau: float | None = None,
        **files: FileLike | float | None,
    ) -> SceneDecideReply:
        """From a picture and a request to a decision; asked for by words, `target` or `point`."""
        parts = _parts(picture, depth, files)
        asked = {
            "request": request,
            "target": target,
            "point": None if point is None else f"{point[0]},{point[1]}",
            "mode": mode,
            "tau": tau,
        }
        parts |= {name: (None, str(value).encode()) for name, value in asked.items() if value is not None}
        path = "/v1/decide/masks" if "instances" in parts else "/v1/decide/rgbd"
        return self._ask(SceneDecideReply, "POST", path, files=parts)

    def run(self, run_id: str) -> RunReply:
        """How a run stands."""
        return self._ask(RunReply, "GET", f"/v1/runs/{run_id}")

    def control(self, run_id: str, do: str, obj: int | None = None) -> RunReply:
        """Control a run; see `ControlRequest`."""
        request = ControlRequest.model_validate({"do": do, "obj": obj})
        return self._post(RunReply, f"/v1/runs/{run_id}/control", request)

    def picture(self, path: str) -> bytes:
        """A picture of a run, by the path that an event gives."""
        return self._send("GET", path).content

    def events(self, run_id: str, after: int | None = None) -> Iterator[RunEvent]:
        """What happens in a run, as it happens, until it ends.

        The service drops a slow reader, which asks again from the last event on: frames of the
        film may be lost, and what the service does not keep any more.

        Args:
            run_id: The run.
            after: Number of the last event already known.
        """
        while True:
            before = after
            for event in self._events_of_one_stream(run_id, after):
                after = event.number
                yield event
                if event.run is not None and event.run.state in ("ended", "failed"):
                    return
            if after == before:
                return

    def _events_of_one_stream(self, run_id: str, after: int | None) -> Iterator[RunEvent]:
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            with self._http.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as response:
                if response.status_code == 204:  # the run is over, and nothing is left to be told
                    return
                if response.status_code != 200:
                    response.read()
                    raise _refused(response)
                for data in _event_data(response.iter_lines()):
                    yield RunEvent.model_validate_json(data)
        except httpx.HTTPError as error:
            raise _unreachable(self._http, error) from error

    def _post(self, reply: type[_Any], path: str, message: BaseModel) -> _Any:
        headers = {"Content-Type": "application/json"}
        return self._ask(reply, "POST", path, content=message.model_dump_json(), headers=headers)

    def _ask(self, reply: type[_Any], method: str, path: str, **request: Any) -> _Any:
        response = self._send(method, path, **request)
        try:
            return TypeAdapter(reply).validate_json(response.content)
        except ValidationError:
            raise ServiceError(
                "the answer is none of this version's; are client and service of the same version?",
                response.status_code,
            ) from None

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request; where the service is busy, again after as long as it says."""
        until = time.monotonic() + self._retry_for_s
        while True:
            try:
                response = self._http.request(method, path, **request)
            except httpx.HTTPError as error:
                raise _unreachable(self._http, error) from error
            if response.is_success:
                return response
            pause = response.headers.get("retry-after", "")
            can_wait = response.status_code in (429, 503) and pause.isdigit()
            if not can_wait or time.monotonic() + float(pause) > until:
                raise _refused(response)
            time.sleep(float(pause))


def _as_request(
    kind: type[_Asked], scene: DecideRequest | PlanRequest | ObstructionPosterior, settings: dict[str, Any]
) -> _Asked:
    if isinstance(scene, ObstructionPosterior):
        relations = [r._asdict() for r in scene.relations()]
        asked = {"objects": list(scene.objects), "target": scene.target, "relations": relations}
        return validated(kind, asked | {"unseen": scene.unseen} | settings)
    return validated(kind, scene.model_dump() | settings)


def _parts(
    picture: SentPicture, depth: FileLike | None, given: Mapping[str, FileLike | float | None]
) -> dict[str, tuple[str | None, bytes]]:
    """The parts of a multipart request."""
    content: dict[str, bytes] = {}
    if isinstance(picture, str | Path) and Path(picture).is_dir():
        picture = read_scene_folder(picture)
    if isinstance(picture, Observation):
        picture = Scene(picture)
    if isinstance(picture, Scene):
        files = {name.partition(".")[0]: data for name, data in encode_scene(picture).items()}
        frame = {"rgb", "depth", "camera"}
        masks = {"instances", "amodal", "objects", "scores", "sources"} if "instances" in files else set()
        content = {name: data for name, data in files.items() if name in frame | masks}
    else:
        content["rgb"] = encode_png(picture) if isinstance(picture, np.ndarray) else _content(picture)
    for name, value in {"depth": depth, **given}.items():
        if value is not None:
            is_text = name in ("camera", "depth_unit_m")
            content[name] = str(value).encode() if is_text else _content(cast(FileLike, value))
    is_file = {"rgb", "depth", "instances", "amodal"}
    return {name: (name if name in is_file else None, data) for name, data in content.items()}


def _content(file: FileLike) -> bytes:
    if isinstance(file, bytes):
        return file
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidSettingError(f"cannot read {file}: {error.strerror}") from None


def _refused(response: httpx.Response) -> ServiceError:
    try:
        reply = ErrorReply.model_validate_json(response.content)
    except ValidationError:
        return ServiceError(f"the service answered with status {response.status_code}", response.status_code)
    return ServiceError(reply.message, response.status_code, reply.code)


def _unreachable(http: httpx.Client, error: httpx.HTTPError) -> ServiceError:
    what = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
    return ServiceError(f"the service at {http.base_url} {what}; is `cpor serve` running there?")


def _event_data(lines: Iterator[str]) -> Iterator[str]:
    """The `data` of each event of a stream."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
