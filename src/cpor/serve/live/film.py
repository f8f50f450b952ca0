"""The film of a live run: the arm is kept to a watchable pace, and a thread beside it makes the pictures."""

import threading
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from cpor.serve.live.pictures import encode_jpeg
from cpor.sim.arm.film import Projector, close_camera
from cpor.sim.physics.world import World
from cpor.sim.staged_run import Stage

_LATE_S = 0.3
"""A motion this late begins its own time anew: the film does not hurry after a pause. [s]"""


class LiveFilm:
    """Watches the arm; give `watch` to the stage, then `begin`.

    Args:
        speed: How many times as fast as its own clock the arm may move.
        frames_per_s: Pictures, on the clock on the wall. [1/s]
        stop: Ends the wait when set.
        on_frame: Called with each JPEG, in the film's own thread.
    """

    def __init__(
        self, speed: float, frames_per_s: float, stop: threading.Event, on_frame: Callable[[bytes], None]
    ) -> None:
        self._speed, self._every_s = speed, 1.0 / frames_per_s
        self._stop, self._on_frame = stop, on_frame
        self._began: tuple[float, float] | None = None  # on the wall, on the world's clock
        self._next_s = 0.0
        self._cost_s = 0.0  # of the last picture
        self._pose: np.ndarray | None = None
        self._ready = threading.Condition()
        self._over = False
        self._thread: threading.Thread | None = None

    def watch(self, world: World) -> None:
        """Keep the pose if it is time, and hold the arm back if it is too fast; the world is not touched."""
        now, simulated = time.monotonic(), float(world.data.time)
        if now >= self._next_s:
            # Pictures take half of the time at most: on a busy machine they get fewer, not the arm slower.
            self._next_s = now + max(self._every_s, 2.0 * self._cost_s)
            self.show(world)
        if self._began is None:
            self._began = now, simulated
        ahead = (simulated - self._began[1]) / self._speed - (now - self._began[0])
        if ahead < -_LATE_S:
            self._began = now, simulated
        elif ahead > 0.005:
            self._stop.wait(ahead)

    def show(self, world: World) -> None:
        """Make a picture of how the world stands now; one that is not begun yet is left out for it."""
        with self._ready:
            self._pose = np.array(world.data.qpos)
            self._ready.notify()

    def begin(self, stage: Stage) -> None:
        """Make pictures from now on."""
        projector = Projector(stage.world, stage.look, close_camera())
        self._thread = threading.Thread(target=self._develop, args=(projector,), daemon=True)
        self._thread.start()
        self.show(stage.world)

    def end(self) -> None:
        """Make the last picture and end."""
        with self._ready:
            self._over = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join()

    def _develop(self, projector: Projector) -> None:
        while True:
            with self._ready:
                while self._pose is None and not self._over:
                    self._ready.wait()
                pose, self._pose = self._pose, None
            if pose is None:
                return
            began = time.monotonic()
            self._on_frame(encode_jpeg(Image.fromarray(projector.picture(pose)), 75))
            self._cost_s = time.monotonic() - began
