"""The controls of a run, inside its process: one thread turns them, the loop obeys where it may."""

import threading
from collections.abc import Callable

from cpor.serve.api.answered import RunState
from cpor.serve.api.asked import ControlRequest


class RunControls:
    """Pause, resume, step, stop, another target, an answer; `on_state` hears when it waits or goes on."""

    def __init__(self, paused: bool, on_state: Callable[[RunState], None]) -> None:
        self.stop = threading.Event()
        self._paused = paused
        self._steps = 0
        self._waits_for: RunState | None = None
        self._wanted: int | None = None
        self._answer: int | None = None
        self._answered = False
        self._on_state = on_state
        self._change = threading.Condition()

    def obey(self, order: ControlRequest) -> str | None:
        """Carry out an order; why not, where it is refused."""
        with self._change:
            refused = self._obey(order)
            if refused is None and self._waits_for is not None and not self._must_wait(self._waits_for):
                # Set here and not by the waiting thread, so that the order shows at once.
                self._waits_for = None
                self._on_state("running")
            self._change.notify_all()
        return refused

    def _obey(self, order: ControlRequest) -> str | None:
        if order.do == "stop":
            self.stop.set()
        elif order.do == "pause":
            self._paused = True
        elif order.do == "resume":
            self._paused, self._steps = False, 0
        elif order.do == "step":
            self._paused, self._steps = True, self._steps + 1
        elif order.do == "retarget":
            self._wanted = order.obj
        elif self._waits_for != "asking":
            return "the run asks nothing at the moment"
        else:
            self._answer, self._answered = order.obj, True
        return None

    def wait_before_action(self) -> None:
        """Wait while paused; a step, a stop and another target end the waiting."""
        with self._change:
            self._wait("paused")
            if self._steps and not self.stop.is_set() and self._wanted is None:
                self._steps -= 1

    def wait_for_answer(self) -> int | None:
        """The object to act on, as a person says; None without an answer."""
        with self._change:
            self._answer, self._answered = None, False
            self._wait("asking")
            return self._answer

    def take_target(self) -> int | None:
        """The object that is asked for instead; each word counts once."""
        with self._change:
            obj, self._wanted = self._wanted, None
            return obj

    def _must_wait(self, state: RunState) -> bool:
        if self.stop.is_set() or self._wanted is not None:
            return False
        return not self._answered if state == "asking" else self._paused and not self._steps

    def _wait(self, state: RunState) -> None:
        if not self._must_wait(state):
            return
        self._waits_for = state
        self._on_state(state)
        while self._must_wait(state):
            self._change.wait()
        self._waits_for = None
