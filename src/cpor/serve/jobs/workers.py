"""Processes that work for the service: a bounded queue before them, a time limit that is kept by ending them.

Compiled inference cannot be interrupted and keeps other threads from running, so whatever may take long runs
in a process of its own. The one that answers requests stays free to say that it is alive, or busy.
"""

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

from cpor.errors import CporError
from cpor.serve.http.refusals import FAILED, Busy, Failed, TooSlow
from cpor.serve.http.request_time import answer_by

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Tools = TypeVar("_Tools")

_START_LIMIT_S = 600.0
"""For the first start on a machine, which compiles. [s]"""

_ALARM_S = 5.0
"""How much longer than its limit a worker may go on that nobody ends, since the service is gone. [s]"""


@dataclass(frozen=True)
class PoolSettings(Generic[_Tools]):
    """A pool of workers.

    Attributes:
        name: What they do, for their process names.
        workers: How many.
        most_waiting: Requests that may wait.
        time_limit_s: For one request, waiting and working together; also the longest that a worker works at
            one job before it is ended. [s]
        prepare: What each does first; what it returns is the first argument of every job.
    """

    name: str
    workers: int
    most_waiting: int
    time_limit_s: float
    prepare: Callable[[], _Tools]


@dataclass
class WorkerPool(Generic[_Tools]):
    """Runs functions in worker processes; arguments and results are pickled.

    Attributes:
        settings: Of the pool.
        waiting: Requests that wait for a worker now.
    """

    settings: PoolSettings[_Tools]
    waiting: int = field(default=0, init=False)
    _threads: ThreadPoolExecutor = field(init=False, repr=False)
    _free: "asyncio.Queue[_Worker]" = field(init=False, repr=False)
    _all: "list[_Worker]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # One more than workers, so that a worker can be started anew while the others work.
        self._threads = ThreadPoolExecutor(self.settings.workers + 1, f"cpor-{self.settings.name}")
        self._all = [
            _Worker(f"cpor-{self.settings.name}", self.settings.prepare, self.settings.time_limit_s)
            for _ in range(self.settings.workers)
        ]

    async def start(self) -> None:
        """Start the workers and wait until they are ready."""
        self._free = asyncio.Queue()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, worker.start) for worker in self._all))
        for worker in self._all:
            self._free.put_nowait(worker)

    async def run(
        self, job: Callable[Concatenate[_Tools, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """What `job` returns, in a worker, for its tools and these arguments; see `run_unless`."""
        return await self.run_unless(_still_there, job, *args, **kwargs)

    async def run_unless(
        self,
        gone: Callable[[], Awaitable[bool]],
        job: Callable[Concatenate[_Tools, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """The same, unless the caller has gone by the time its turn comes.

        Raises:
            Busy: Too many wait already, or its turn came late or never within the request's time.
            TooSlow: It was not done within the request's time, most of which it had to itself.
            Failed: The worker died.
            CporError: Whatever error of ours the job raised.
        """
        limit = self.settings.time_limit_s
        until = answer_by(limit)
        if self._free.empty() and self.waiting >= self.settings.most_waiting:
            raise Busy(f"{self.waiting} requests wait already; try again in a moment")
        self.waiting += 1
        try:
            async with asyncio.timeout_at(until):
                worker = await self._free.get()
        except TimeoutError:
            raise Busy(_TOO_LATE) from None
        finally:
            self.waiting -= 1
        if await gone():
            self._free.put_nowait(worker)
            raise Busy("nobody waits for the answer any more")
        loop = asyncio.get_running_loop()
        late = until - loop.time() < limit / 2  # then it is not its own fault where the time is too short
        work = loop.run_in_executor(self._threads, worker.call, job, args, kwargs)
        # Even where the caller goes away, or has waited so long that its time is up, the worker goes on: only
        # its own limit ends it, and it is handed back when it is done.
        work.add_done_callback(lambda _: self._hand_back(worker))
        try:
            async with asyncio.timeout_at(until):
                return cast(_T, await asyncio.shield(work))
        except TimeoutError:
            raise (Busy(_TOO_LATE) if late else TooSlow(_TOO_SLOW)) from None

    def _hand_back(self, worker: "_Worker") -> None:
        """Whoever has ended is started anew before its turn comes, so that no caller's time goes into it."""
        if worker.is_ready or worker.is_closed:
            self._free.put_nowait(worker)
            return
        start = asyncio.get_running_loop().run_in_executor(self._threads, worker.start_again)
        start.add_done_callback(lambda _: self._free.put_nowait(worker))

    def close(self) -> None:
        """End the workers."""
        for worker in self._all:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)


_ENDING = "the service is being shut down"
_TOO_LATE = "the time of this request went by before its turn came; try again"
_TOO_SLOW = "not done within the time limit; ask for less: fewer objects or relations"


async def _still_there() -> bool:
    return False


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, name: str, prepare: Callable[[], object], limit_s: float) -> None:
        self._name, self._prepare, self._limit_s = name, prepare, limit_s
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._closed = False

    @property
    def is_ready(self) -> bool:
        """Whether it takes a job at once."""
        return self._pipe is not None

    @property
    def is_closed(self) -> bool:
        """Whether it was ended for good."""
        return self._closed

    def start_again(self) -> None:
        """Start where it has ended; where that fails, the next job tries again and says so."""
        with suppress(Failed, Busy):
            self.start()

    def start(self) -> Connection:
        """Start the process and wait until it is ready."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        work = (theirs, self._prepare, self._limit_s)
        process = context.Process(target=_work, args=work, name=self._name, daemon=True)
        process.start()
        theirs.close()  # so that its death is seen as the end of the pipe
        self._process, self._pipe = process, ours
        if self._closed:  # meanwhile
            self.end()
            raise Busy(_ENDING)
        try:
            ready = ours.poll(_START_LIMIT_S) and ours.recv()
        except (EOFError, OSError):
            ready = False
        if not ready:
            self.end(for_good=False)
            raise Failed(f"a worker ({self._name}) did not start; its output says more")
        return ours

    def call(self, job: object, args: object, kwargs: object) -> object:
        """What a job returns; the process is ended where it takes too long, and started anew for the next."""
        if self._closed:
            raise Busy(_ENDING)
        pipe = self._pipe or self.start()
        try:
            pipe.send((job, args, kwargs))
            if not pipe.poll(self._limit_s):
                self.end(for_good=False)
                raise TooSlow(_TOO_SLOW)
            right, answer = pipe.recv()
        except (EOFError, OSError):
            self.end(for_good=False)
            raise Failed(FAILED) from None
        if not right:
            assert isinstance(answer, CporError)
            raise answer
        return answer

    def end(self, for_good: bool = True) -> None:
        """End the process."""
        self._closed |= for_good
        process, self._process = self._process, None
        pipe, self._pipe = self._pipe, None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()


def _work(pipe: Connection, prepare: Callable[[], object], limit_s: float) -> None:
    """The life of a worker: an error that is not ours ends it, and its traceback goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers itself
    threading.Thread(target=_end_with_the_service, name="cpor-parent", daemon=True).start()
    tools = prepare()
    answer: object = True
    while True:
        try:
            pipe.send(answer)
            job, args, kwargs = pipe.recv()
        except (EOFError, OSError):  # the service is gone
            return
        _set_alarm(limit_s + _ALARM_S)
        try:
            answer = (True, job(tools, *args, **kwargs))
        except CporError as error:
            answer = (False, error)
        _set_alarm(0.0)


def _end_with_the_service() -> None:
    """A service that was killed ends nobody; whoever works for it would go on for nothing."""
    service = multiprocessing.parent_process()
    assert service is not None
    multiprocessing.connection.wait([service.sentinel])
    os._exit(0)


def _set_alarm(seconds: float) -> None:
    """End this process after so long; compiled code keeps threads from running, but not the system."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
