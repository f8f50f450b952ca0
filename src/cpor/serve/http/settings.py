"""Settings of a server: address, token, and limits, those of live runs among them."""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from cpor.errors import InvalidSettingError

LEAST_TOKEN = 16
"""Characters: a shorter token can be guessed."""


@dataclass(frozen=True)
class RunLimits:
    """Bounds of live runs; each run is a process of its own.

    Attributes:
        most_running: Runs at a time.
        most_kept: Runs kept in memory, those that are over among them; the oldest is forgotten first.
        most_listeners: Listeners to one run.
        most_waiting_events: Events that a listener may lag behind before it is dropped.
        most_events: Events kept for followers that come back; of the film only the last one is.
        most_event_bytes: Size of all events kept.
        most_frames: Frames of the film kept.
        most_pictures: Pictures of cycles kept.
        frames_per_s: Rate of the film, in real time. [1/s]
        heartbeat_s: Silence after which a sign of life is sent. [s]
        abandoned_s: Time without a follower or a request after which a run is stopped. [s]
        stop_s: A run that does not end this long after it was told to is killed. [s]
    """

    most_running: int = 1
    most_kept: int = 4
    most_listeners: int = 16
    most_waiting_events: int = 128
    most_events: int = 256
    most_event_bytes: int = 16 * 2**20
    most_frames: int = 32
    most_pictures: int = 64
    frames_per_s: float = 8.0
    heartbeat_s: float = 10.0
    abandoned_s: float = 60.0
    stop_s: float = 20.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InvalidSettingError(f"{name} is {value}; it must be above 0")
        if self.most_kept < self.most_running:
            raise InvalidSettingError("most_kept is less than most_running; a run that goes on is kept")


@dataclass(frozen=True)
class ServeSettings:
    """Settings of the service.

    Attributes:
        host: Address to listen on; anything but this machine's own needs a token.
        port: Port to listen on; 0 takes a free one.
        token: What callers must show; None: nothing, on this machine only.
        public_host: Name under which a reverse proxy on this machine passes requests on; needs a token.
        analysis_workers: Processes that look at pictures.
        deciding_workers: Processes for large decisions, and as many more for explanations and plans; small
            questions are answered at once.
        most_waiting: Requests that may wait for a worker; one more is told to come back later.
        time_limit_s: Longest that a request may take to arrive, wait and be worked on, together; also the
            longest that a worker works at one. [s]
        deadline_ms: Time after which a decision makes do with what is known. [ms]
        most_upload_bytes: Size of one request with pictures.
        most_json_bytes: Size of any other request.
        most_bytes_in_flight: Size of all requests that are being received or answered.
        most_pixels: Pixels of one picture.
        most_mask_pixels: Pixels of all amodal masks of a scene together.
        most_scenes: Scenes kept to be asked about.
        most_scene_bytes: Memory of all scenes kept.
        keep_scenes_s: How long a scene is kept. [s]
        model: Model file to decide with, and to watch drift by; None: the bundled ones, and no watch.
        camera: Name of a camera or a folder of frames, to look through from the page; None: no camera.
        runs: Bounds of live runs.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    token: str | None = None
    public_host: str | None = None
    analysis_workers: int = 1
    deciding_workers: int = 1
    most_waiting: int = 32
    time_limit_s: float = 30.0
    deadline_ms: float = 2_000.0
    most_upload_bytes: int = 16 * 2**20
    most_json_bytes: int = 2 * 2**20
    most_bytes_in_flight: int = 192 * 2**20
    most_pixels: int = 20_000_000
    most_mask_pixels: int = 128_000_000
    most_scenes: int = 64
    most_scene_bytes: int = 128 * 2**20
    keep_scenes_s: float = 1_800.0
    model: Path | None = None
    camera: str | None = None
    runs: RunLimits = field(default_factory=RunLimits)

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not _is_plain(self.token)):
            raise InvalidSettingError(
                f"the token must have at least {LEAST_TOKEN} characters, all of them letters, digits or "
                "plain signs; make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        if self.token is None and not self.is_local:
            raise InvalidSettingError(
                f"--host {self.host} lets other machines in, so callers must show a token; give "
                "--token-file FILE or --token-env NAME, or keep to --host 127.0.0.1"
            )
        if self.public_host is not None:
            self._check_public_host(self.public_host)
        if not 0 <= self.port <= 65535:
            raise InvalidSettingError(f"the port is {self.port}; give one from 0 to 65535")
        for name in ("analysis_workers", "deciding_workers"):
            if getattr(self, name) < 1:
                raise InvalidSettingError(f"{name} is {getattr(self, name)}; at least 1 is needed")
        if self.most_waiting < 0 or not (self.time_limit_s > 0.0 and self.deadline_ms > 0.0):
            raise InvalidSettingError("most_waiting must be 0 or more, time limits above 0")

    def _check_public_host(self, name: str) -> None:
        if self.token is None:
            raise InvalidSettingError(
                f"--public-host {name} lets other machines in, so callers must show a token; give "
                "--token-file FILE or --token-env NAME"
            )
        if not re.fullmatch(r"[a-z0-9.-]+", name):
            raise InvalidSettingError(
                f"--public-host {name} is no name of a host; give it in small letters and without a port"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _is_plain(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token
