"""A dead man's switch: motion goes on only while a heartbeat comes, and else ends by itself."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cpor.robot.protocol import HEARTBEAT_S

CHECK_S = 0.02
"""How often the watchdog looks. [s]"""


class DeadMan:
    """Watches over motions from a thread of its own, which needs neither the loop nor the driver to be alive.

    Args:
        halt: Stops the arm on a channel of its own; called from that thread, again and again until the
            motion has ended.
        late_s: A heartbeat, or a sign of life of the motion itself, later than this is missing. [s]

    Attributes:
        why: Why it halted the arm last; None where it did not.
    """

    def __init__(self, halt: Callable[[], None], late_s: float = HEARTBEAT_S) -> None:
        self.why: str | None = None
        self._halt, self._late_s = halt, late_s
        self._beat = self._tick = -float("inf")
        self._moving = False

    def beat(self) -> None:
        """Feed it; from any thread, never blocks."""
        self._beat = time.monotonic()

    def tick(self) -> None:
        """Report that the thread that watches the motion is alive."""
        self._tick = time.monotonic()

    def is_fed(self) -> bool:
        """Whether a heartbeat came in time, or comes within that time now."""
        # A long computation of this very process may have delayed the heartbeat.
        until = time.monotonic() + self._late_s
        while time.monotonic() - self._beat > self._late_s:
            if time.monotonic() > until:
                return False
            time.sleep(CHECK_S / 4)
        return True

    def why_late(self) -> str | None:
        """Why the motion under way must end; None where it need not, or where nothing moves."""
        now = time.monotonic()
        if not self._moving:
            return None
        if now - self._beat > self._late_s:
            return f"no heartbeat for {now - self._beat:.2f} s"
        if now - self._tick > self._late_s:
            return f"the motion was not looked after for {now - self._tick:.2f} s"
        return None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch over one motion; `tick` must be called during it."""
        over = threading.Event()
        self.why = None

        def watch() -> None:
            while not over.wait(CHECK_S):
                self.why = self.why or self.why_late()
                if self.why is None:
                    continue
                try:
                    self._halt()
                except BaseException:
                    continue  # told again at the next look; this thread must live

        self.tick()
        self._moving = True
        thread = threading.Thread(target=watch, name="cpor-dead-man", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._moving = False
            over.set()
            thread.join()
