"""Live runs of the simulated arm, each in a process of its own: begun, followed, controlled, forgotten."""

import multiprocessing
import secrets
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from cpor.robot.cycle import Ended
from cpor.serve.api.messages import ControlRequest, FilmMessage, RunEvent, RunReply, RunRequest
from cpor.serve.http.refusals import Busy, Conflict, NotKept, Refusal, TooSlow
from cpor.serve.live.events import EventLog, Pictures, RunListener
from cpor.serve.live.pipe_messages import CycleTold, FrameTold, PipeMessage, RunOrder, StateTold
from cpor.serve.live.process import live
from cpor.serve.live.run_limits import RunLimits

_LOOK_S = 0.25
"""How often is looked whether a run was abandoned. [s]"""

_ORDER_S = 20.0
"""How long an order may take to be confirmed. [s]"""

_MOST_ORDERS = 16
"""Orders not yet obeyed; so few never fill the pipe, so that sending one never waits."""

_OVER = ("ended", "failed")


class Run:
    """One run; every method may be called from any thread.

    Args:
        run_id: Names it to clients.
        request: What to run.
        limits: Bounds.
    """

    def __init__(self, run_id: str, request: RunRequest, limits: RunLimits) -> None:
        self.run_id = run_id
        self.events = EventLog(limits)
        self._limits = limits
        self._cycle_pictures = Pictures(limits.most_pictures)
        self._frames = Pictures(limits.most_frames)
        self._frame = 0
        self._ids: frozenset[int] = frozenset()  # of the objects of the last cycle
        self._orders = 0
        self._obeyed = 0
        self._done: OrderedDict[int, str | None] = OrderedDict()
        self._change = threading.Condition()
        self._interest_s = time.monotonic()
        self._stop_by_s: float | None = None
        self._why_stopped: str | None = None
        self._is_abandoned = False
        self._reply = self._say(StateTold("preparing", 0, None, None))
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=live, args=(theirs, request, limits, self.pictures_path), name="cpor-run", daemon=True
        )
        self._process.start()
        theirs.close()  # so that its death is seen as the end of the pipe
        self._thread = threading.Thread(target=self._listen, name="cpor-run-listener", daemon=True)
        self._thread.start()

    @property
    def pictures_path(self) -> str:
        """Where the pictures are, relative to the service."""
        return f"/v1/runs/{self.run_id}/pictures"

    @property
    def is_over(self) -> bool:
        """Whether it ended or failed."""
        with self._change:
            return self._reply.state in _OVER

    def reply(self) -> RunReply:
        """How it stands."""
        with self._change:
            self._interest_s = time.monotonic()
            return self._reply

    def picture(self, name: str) -> bytes:
        """A picture, as JPEG.

        Raises:
            NotKept: It was never there, or is not kept any more.
        """
        found = self._cycle_pictures.get(name) or self._frames.get(name)
        if found is None:
            raise NotKept("this picture is not kept, or not any more; events name the newest ones")
        return found

    def listen(self, after: int) -> RunListener | None:
        """Follow the events after a number; None where no more will come."""
        return self.events.subscribe(after)

    def leave(self, listener: RunListener) -> None:
        """Follow no longer."""
        self.events.leave(listener)
        with self._change:
            self._interest_s = time.monotonic()

    def control(self, request: ControlRequest) -> RunReply:
        """Control the run; returns once it has obeyed.

        Raises:
            Conflict: It is over, or does not ask anything.
            Refusal: The object is none of the last cycle.
        """
        with self._change:
            if self._reply.state in _OVER:
                raise Conflict(f"this run is over: {self._reply.detail or self._reply.state}")
            if request.do == "retarget" and request.obj is None:
                raise Refusal("say which object is asked for instead: `obj`")
            if request.obj is not None and request.obj not in self._ids:
                known = ", ".join(map(str, sorted(self._ids))) or "nothing yet"
                raise Refusal(f"object {request.obj} was not seen in the last cycle, which has: {known}")
        if request.do == "stop":
            self._must_end("stopped on request")
        self._order(request.do, request.obj)
        return self.reply()

    def kill(self) -> None:
        """End the process at once."""
        self._must_end("stopped on request")
        self._process.kill()
        self._thread.join()

    def _order(self, do: str, obj: int | None) -> None:
        with self._change:
            if self._orders - self._obeyed >= _MOST_ORDERS:
                raise Conflict(f"the run has not yet obeyed the last {_MOST_ORDERS} orders; wait for it")
            self._orders += 1
            order = RunOrder(self._orders, do, obj)  # type: ignore[arg-type]
            try:
                self._pipe.send(order)
            except OSError:
                raise Conflict("this run is over") from None
            until = time.monotonic() + _ORDER_S
            # While the process still starts, the order waits in the pipe, and is not lost.
            while order.number not in self._done and self._reply.state not in (*_OVER, "preparing"):
                if not self._change.wait(until - time.monotonic()):
                    raise TooSlow("the run has not said that it obeyed; see how it stands and try again")
            refused = self._done.pop(order.number, None)
        if refused is not None:
            raise Conflict(refused)

    def _must_end(self, why: str) -> None:
        with self._change:
            if self._stop_by_s is None:
                self._stop_by_s = time.monotonic() + self._limits.stop_s
                self._why_stopped = why

    def _listen(self) -> None:
        """Take down what the process tells until it ends, whatever way it ends."""
        try:
            while True:
                if self._pipe.poll(_LOOK_S):
                    self._take_down(self._pipe.recv())
                self._look_after()
        except (EOFError, OSError):
            pass
        self._process.join()
        if not self.is_over:
            self._take_down(self._end_unheard())
        self._pipe.close()

    def _end_unheard(self) -> StateTold:
        """The state of a process that ended without a word."""
        last = self._reply
        if self._why_stopped is not None:
            return StateTold(
                "ended", last.cycle, last.target, last.target_name, Ended.STOPPED, self._why_stopped
            )
        code = self._process.exitcode or 0
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        detail = f"the simulation ended unexpectedly ({how}); start another run"
        return StateTold("failed", last.cycle, last.target, last.target_name, None, detail)

    def _look_after(self) -> None:
        """Stop runs without a follower; kill those that do not stop."""
        now = time.monotonic()
        listeners = self.events.listeners
        with self._change:
            unheeded = not listeners and now - self._interest_s > self._limits.abandoned_s
            if unheeded and self._why_stopped is None and self._reply.state not in _OVER:
                self._is_abandoned = True
                self._must_end(f"stopped, since it had no follower for {self._limits.abandoned_s:g} s")
                self._pipe.send(RunOrder(0, "stop"))
            late = self._stop_by_s is not None and now > self._stop_by_s
        if late:
            self._process.kill()

    def _take_down(self, told: PipeMessage) -> None:
        if isinstance(told, FrameTold):
            self._frame += 1
            name = f"film_{self._frame:06d}"
            self._frames.add(name, told.picture)
            film = FilmMessage(frame=self._frame, picture=f"{self.pictures_path}/{name}.jpg")
            self.events.add(RunEvent(number=0, film=film))
        elif isinstance(told, CycleTold):
            if told.picture is not None:
                name = told.message.picture.rsplit("/", 1)[-1].removesuffix(".jpg")
                self._cycle_pictures.add(name, told.picture)
            with self._change:
                self._ids = frozenset(o.id for o in told.message.objects)
            self.events.add(RunEvent(number=0, cycle=told.message))
        elif isinstance(told, StateTold):
            reply = self._say(told)
            with self._change:
                changed, self._reply = reply != self._reply, reply
                self._change.notify_all()
            if changed:
                self.events.add(RunEvent(number=0, run=reply))
            if reply.state in _OVER:
                self.events.close()  # the process itself may take a while to end
                with self._change:
                    self._stop_by_s = self._stop_by_s or time.monotonic() + self._limits.stop_s
        else:
            with self._change:
                self._obeyed += told.order > 0
                self._done[told.order] = told.refused
                while len(self._done) > 64:
                    self._done.popitem(last=False)
                self._change.notify_all()

    def _say(self, told: StateTold) -> RunReply:
        detail = told.detail
        if told.ended == Ended.STOPPED and self._is_abandoned:
            detail = self._why_stopped
        return RunReply(
            run_id=self.run_id,
            state=told.state,
            cycle=told.cycle,
            target=told.target,
            target_name=told.target_name,
            ended=told.ended,
            detail=detail,
        )


class RunKeeper:
    """All runs of the service.

    Args:
        limits: How many there may be.

    Attributes:
        threads: For whatever of a run may wait.
    """

    def __init__(self, limits: RunLimits) -> None:
        self.limits = limits
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        # As many as can wait for runs to obey, and some more for those that begin and end.
        self.threads = ThreadPoolExecutor(_MOST_ORDERS * limits.most_running + 4, "cpor-runs")

    def begin(self, request: RunRequest) -> Run:
        """Begin a run.

        Raises:
            Busy: As many run already as may.
        """
        with self._lock:
            if self._closed:
                raise Busy("the service is being shut down")
            running = [run for run in self._runs.values() if not run.is_over]
            if len(running) >= self.limits.most_running:
                active = "Another run is" if len(running) == 1 else f"{len(running)} runs are"
                raise RunsBusy(f"{active} active. Rejoin it or stop it first.")
            while len(self._runs) >= self.limits.most_kept:
                oldest = next(run_id for run_id, run in self._runs.items() if run.is_over)
                del self._runs[oldest]
            run = Run(secrets.token_urlsafe(12), request, self.limits)
            self._runs[run.run_id] = run
            return run

    def active(self) -> list[Run]:
        """The runs that go on, the newest last."""
        return [run for run in list(self._runs.values()) if not run.is_over]

    def get(self, run_id: str) -> Run:
        """A run that is kept.

        Raises:
            NotKept: There is none of this name, or not any more.
        """
        run = self._runs.get(run_id)  # without the lock, which is held while a process starts
        if run is None:
            raise NotKept("there is no such run, or it is not kept any more; start another one")
        return run

    def forget(self, run_id: str) -> None:
        """Stop a run and forget it."""
        run = self.get(run_id)
        run.kill()
        with self._lock:
            self._runs.pop(run_id, None)

    def close(self) -> None:
        """End all runs; no further one begins."""
        with self._lock:
            self._closed = True
            runs = list(self._runs.values())
        for run in runs:
            run.kill()
        self.threads.shutdown(wait=True, cancel_futures=True)


class RunsBusy(Busy):
    """As many runs go on as may; one takes a minute or so."""

    retry_after_s = 15
