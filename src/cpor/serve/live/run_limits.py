"""How many live runs there may be, and how much of each is kept."""

from dataclasses import dataclass

from cpor.errors import InvalidSettingError


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
