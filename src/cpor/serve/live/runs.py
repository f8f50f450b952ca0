"""Live runs of the simulated arm, each in a process of its own: begun, followed, controlled, forgotten."""

import asyncio
import multiprocessing
import os
import secrets
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import TypeAlias

from cpor.robot.cycle import Ended
from cpor.serve.api.answered import CycleMessage, FilmMessage, RunEvent, RunReply
from cpor.serve.api.asked import ControlRequest, RunRequest
from cpor.serve.http.refusals import Busy, Conflict, NotKept, Refusal, RunsBusy, TooSlow
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.events import EventLog, Pictures, RunListener

_LOOK_S = 0.25
"""How often is looked whether a run was abandoned. [s]"""

_ORDER_S = 20.0
"""How long an order may take to be confirmed. [s]"""

_MOST_ORDERS = 16
"""Orders not yet obeyed; so few never fill the pipe, so that sending one never waits."""

_OVER = ("ended", "failed")


RunNews: TypeAlias = RunReply | tuple[CycleMessage, bytes | None] | tuple[int, str | None] | bytes
"""What the process of a run sends: how it stands; a cycle with its picture, a JPEG, None where it was sent
before; the number of an order that was carried out, or why it was refused; or a frame of the arm, a JPEG."""


def pictures_of(run_id: str) -> str:
    """Path of the pictures of a run, relative to the service."""
    return f"/v1/runs/{run_id}/pictures"


def live(pipe: Connection, run_id: str, request: RunRequest, limits: RunLimits) -> None:
    """The process of a run: run to the end, obey orders from the pipe, and send what happens through it.

    Where the other end of the pipe is closed, the process ends at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its runs itself
    from cpor.serve.live.show import Show  # here, since the service itself never needs the simulator

    lock = threading.Lock()

    def tell(told: RunNews) -> None:
        try:
            with lock:
                pipe.send(told)
        except OSError:
            os._exit(0)

    show = Show(run_id, request, limits, tell)

    def obey() -> None:
        while True:
            try:
                number, order = pipe.recv()
            except (EOFError, OSError):
                os._exit(0)  # the service is gone
            tell((number, show.controls.obey(order)))

    threading.Thread(target=obey, name="cpor-orders", daemon=True).start()
    show.run()


class Run:
    """One run and its process, for the event loop of the service: nothing here is for other threads."""

    def __init__(
        self, run_id: str, request: RunRequest, limits: RunLimits, threads: ThreadPoolExecutor
    ) -> None:
        self.run_id = run_id
        self.events = EventLog(limits)
        self._limits, self._threads = limits, threads
        self._cycle_pictures = Pictures(limits.most_pictures)
        self._frames = Pictures(limits.most_frames)
        self._frame = 0
        self._ids: frozenset[int] = frozenset()  # of the objects of the last cycle
        self._orders = 0
        self._waiting: dict[int, asyncio.Future[str | None]] = {}  # orders not yet obeyed
        self._interest_s = time.monotonic()
        self._stop_by_s: float | None = None
        self._why_stopped: str | None = None
        self._is_abandoned = False
        self._reply = RunReply(
            run_id=run_id, state="preparing", cycle=0, target=None, target_name=None, ended=None, detail=None
        )
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=live, args=(theirs, run_id, request, limits), name="cpor-run", daemon=True
        )
        self._process.start()
        theirs.close()  # so that its death is seen as the end of the pipe
        self._task = asyncio.create_task(self._listen())

    @property
    def is_over(self) -> bool:
        """Whether it ended or failed."""
        return self._reply.state in _OVER

    def reply(self) -> RunReply:
        """How it stands."""
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

    def leave(self, listener: RunListener) -> None:
        """Follow no longer."""
        self.events.leave(listener)
        self._interest_s = time.monotonic()

    async def control(self, request: ControlRequest) -> RunReply:
        """Control the run; returns once it has obeyed.

        Raises:
            Conflict: It is over, or does not ask anything.
            Refusal: The object is none of the last cycle.
        """
        if self.is_over:
            raise Conflict(f"this run is over: {self._reply.detail or self._reply.state}")
        if request.do == "retarget" and request.obj is None:
            raise Refusal("say which object is asked for instead: `obj`")
        if request.obj is not None and request.obj not in self._ids:
            known = ", ".join(map(str, sorted(self._ids))) or "nothing yet"
            raise Refusal(f"object {request.obj} was not seen in the last cycle, which has: {known}")
        if request.do == "stop":
            self._must_end("stopped on request")
        await self._order(request)
        return self.reply()

    async def kill(self) -> None:
        """End the process at once."""
        self._must_end("stopped on request")
        self._process.kill()
        await self._task

    async def _order(self, request: ControlRequest) -> None:
        if len(self._waiting) >= _MOST_ORDERS:
            raise Conflict(f"the run has not yet obeyed the last {_MOST_ORDERS} orders; wait for it")
        self._orders += 1
        obeyed = self._waiting[self._orders] = asyncio.get_running_loop().create_future()
        try:
            self._pipe.send((self._orders, request))
        except OSError:
            raise Conflict("this run is over") from None
        if self._reply.state == "preparing":
            return  # the process still starts: the order waits in the pipe, and is not lost
        try:
            refused = await asyncio.wait_for(asyncio.shield(obeyed), _ORDER_S)
        except TimeoutError:
            raise TooSlow("the run has not said that it obeyed; see how it stands and try again") from None
        if refused is not None:
            raise Conflict(refused)

    def _must_end(self, why: str) -> None:
        if self._stop_by_s is None:
            self._stop_by_s = time.monotonic() + self._limits.stop_s
            self._why_stopped = why

    async def _listen(self) -> None:
        """Take down what the process tells until it ends, whatever way it ends."""
        loop = asyncio.get_running_loop()
        news = loop.run_in_executor(self._threads, self._pipe.recv)
        try:
            while True:
                heard, _ = await asyncio.wait({news}, timeout=_LOOK_S)
                if heard:
                    self._take_down(news.result())
                    news = loop.run_in_executor(self._threads, self._pipe.recv)
                self._look_after()
        except (EOFError, OSError):
            pass
        await loop.run_in_executor(self._threads, self._process.join)
        if not self.is_over:
            self._take_state(self._end_unheard())
        self._pipe.close()

    def _end_unheard(self) -> RunReply:
        """The state of a process that ended without a word."""
        if self._why_stopped is not None:
            ended = {"state": "ended", "ended": Ended.STOPPED, "detail": self._why_stopped}
            return self._reply.model_copy(update=ended)
        code = self._process.exitcode or 0
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        detail = f"the simulation ended unexpectedly ({how}); start another run"
        return self._reply.model_copy(update={"state": "failed", "ended": None, "detail": detail})

    def _look_after(self) -> None:
        """Stop runs without a follower; kill those that do not stop."""
        now = time.monotonic()
        unheeded = not self.events.listeners and now - self._interest_s > self._limits.abandoned_s
        if unheeded and self._why_stopped is None and not self.is_over:
            self._is_abandoned = True
            self._must_end(f"stopped, since it had no follower for {self._limits.abandoned_s:g} s")
            self._pipe.send((0, ControlRequest(do="stop")))
        if self._stop_by_s is not None and now > self._stop_by_s:
            self._process.kill()

    def _take_down(self, told: RunNews) -> None:
        match told:
            case bytes():
                self._frame += 1
                name = f"film_{self._frame:06d}"
                self._frames.add(name, told)
                film = FilmMessage(frame=self._frame, picture=f"{pictures_of(self.run_id)}/{name}.jpg")
                self.events.add(RunEvent(number=0, film=film))
            case (CycleMessage() as cycle, picture):
                if isinstance(picture, bytes):
                    name = cycle.picture.rsplit("/", 1)[-1].removesuffix(".jpg")
                    self._cycle_pictures.add(name, picture)
                self._ids = frozenset(o.id for o in cycle.objects)
                self.events.add(RunEvent(number=0, cycle=cycle))
            case (int() as number, refused):
                if (obeyed := self._waiting.pop(number, None)) is not None:
                    obeyed.set_result(refused if isinstance(refused, str) else None)
            case RunReply():
                self._take_state(told)

    def _take_state(self, told: RunReply) -> None:
        if told.ended == Ended.STOPPED and self._is_abandoned:
            told = told.model_copy(update={"detail": self._why_stopped})
        changed, self._reply = told != self._reply, told
        if changed:
            self.events.add(RunEvent(number=0, run=told))
        if self.is_over:
            self.events.close()  # the process itself may take a while to end
            self._stop_by_s = self._stop_by_s or time.monotonic() + self._limits.stop_s
            for obeyed in self._waiting.values():
                obeyed.set_result(None)
            self._waiting.clear()


class RunKeeper:
    """All runs of the service."""

    def __init__(self, limits: RunLimits) -> None:
        self.limits = limits
        self._runs: dict[str, Run] = {}
        self._closed = False
        # One listens to each run; one more, since a process may end a while after its run.
        self._threads = ThreadPoolExecutor(limits.most_kept + 1, "cpor-runs")

    def begin(self, request: RunRequest) -> Run:
        """Begin a run, unless as many run already as may."""
        if self._closed:
            raise Busy("the service is being shut down")
        if (running := len(self.active())) >= self.limits.most_running:
            active = "Another run is" if running == 1 else f"{running} runs are"
            raise RunsBusy(f"{active} active. Rejoin it or stop it first.")
        while len(self._runs) >= self.limits.most_kept:
            del self._runs[next(run_id for run_id, run in self._runs.items() if run.is_over)]
        run = Run(secrets.token_urlsafe(12), request, self.limits, self._threads)
        self._runs[run.run_id] = run
        return run

    def active(self) -> list[Run]:
        """The runs that go on, the newest last."""
        return [run for run in self._runs.values() if not run.is_over]

    def get(self, run_id: str) -> Run:
        """A run that is kept.

        Raises:
            NotKept: There is none of this name, or not any more.
        """
        if run_id not in self._runs:
            raise NotKept("there is no such run, or it is not kept any more; start another one")
        return self._runs[run_id]

    async def forget(self, run_id: str) -> None:
        """Stop a run and forget it."""
        await self.get(run_id).kill()
        self._runs.pop(run_id, None)

    async def close(self) -> None:
        """End all runs; no further one begins."""
        self._closed = True
        for run in self._runs.values():
            await run.kill()
        self._threads.shutdown()
