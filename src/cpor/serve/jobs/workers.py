"""Processes that work for the service: a bounded queue before them, a time limit that is kept by ending them.

Compiled inference cannot be interrupted and keeps other threads from running, so whatever may take long runs
in a process of its own. The one that answers requests stays free to say that it is alive, or busy.
"""

import asyncio
import multiprocessing
import multiprocessing.connection
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

from cpor.errors import CporError
from cpor.io.pool import end_with_parent
from cpor.serve.http.refusals import FAILED, Busy, Failed, TooSlow
from cpor.serve.http.request_limits import answer_by

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Tools = TypeVar("_Tools")

_ALARM_S = 2.0
"""How much longer than its limit a worker runs when the service is gone and cannot end it. [s]"""

BEGUN = "begun"
"""What a worker says before it works, so that a job which it never got can be given to another."""

_START_LIMIT_S = 600.0
"""For the first start on a machine, which compiles. [s]"""

_LOOK_S = 0.25
"""How often to look whether an idle worker has died. [s]"""

_REST_S = 5.0
"""How long a worker that could not be started is left alone. [s]"""


@dataclass
class WorkerPool(Generic[_Tools]):
    """Runs functions in worker processes; arguments and results are pickled.

    Attributes:
        name: What they do, for their process names.
        workers: How many.
        most_waiting: Requests that may wait.
        time_limit_s: For one request, waiting and working together; also the longest that a worker works at
            one job before it is ended. [s]
        prepare: What each does first; what it returns is the first argument of every job.
        waiting: Requests that wait for a worker now.
    """

    name: str
    workers: int
    most_waiting: int
    time_limit_s: float
    prepare: Callable[[], _Tools]
    waiting: int = field(default=0, init=False)
    _threads: ThreadPoolExecutor = field(init=False, repr=False)
    _free: "asyncio.Queue[_Worker]" = field(init=False, repr=False)
    _all: "list[_Worker]" = field(init=False, repr=False)
    _watch: "asyncio.Task[None] | None" = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        # One more than workers, so that a worker can be started anew while the others work.
        name = f"cpor-{self.name}"
        self._threads = ThreadPoolExecutor(self.workers + 1, name)
        self._all = [_Worker(name, self.prepare, self.time_limit_s) for _ in range(self.workers)]

    async def start(self) -> None:
        """Start the workers and wait until they are ready."""
        self._free = asyncio.Queue()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, worker.start) for worker in self._all))
        for worker in self._all:
            self._free.put_nowait(worker)
        self._watch = asyncio.create_task(self._replace_dead())

    @property
    def able(self) -> int:
        """How many workers are at work or could take a job now."""
        return sum(worker.is_ready for worker in self._all)

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
            Failed: The worker died at this job. One that died before the job began is replaced instead.
            CporError: Whatever error of ours the job raised.
        """
        limit = self.time_limit_s
        until = answer_by(limit)
        if self._free.empty() and self.waiting >= self.most_waiting:
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
            raise Busy("the caller has gone")
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
        """Restart a dead worker before reuse, so that no caller waits for it."""
        if worker.is_ready or worker.is_closed:
            self._free.put_nowait(worker)
            return
        start = asyncio.get_running_loop().run_in_executor(self._threads, worker.start_again)
        start.add_done_callback(lambda _: self._free.put_nowait(worker))

    async def _replace_dead(self) -> None:
        """Restart idle workers that have died."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for _ in range(self._free.qsize()):
                self._hand_back(self._free.get_nowait())

    def close(self) -> None:
        """End the workers."""
        if self._watch is not None:
            self._watch.cancel()
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
        self._prepared = False
        self._closed = threading.Event()

    @property
    def is_ready(self) -> bool:
        """Whether it lives and has prepared itself; it may be at work."""
        process = self._process
        return self._prepared and process is not None and not _has_ended(process)

    @property
    def is_closed(self) -> bool:
        """Whether it was ended for good."""
        return self._closed.is_set()

    def start_again(self) -> None:
        """Start where it has ended; where that fails, it is tried again after a rest."""
        try:
            self.start()
        except (Failed, Busy):
            self._closed.wait(_REST_S)

    def start(self) -> Connection:
        """Start the process, in place of one that has died, and wait until it is ready."""
        self.end(for_good=False)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        work = (theirs, self._prepare, self._limit_s)
        process = context.Process(target=do_jobs, args=work, name=self._name, daemon=True)
        process.start()
        theirs.close()  # so that its death is seen as the end of the pipe
        self._process, self._pipe = process, ours
        if self.is_closed:  # meanwhile
            self.end()
            raise Busy(_ENDING)
        try:
            ready = ours.poll(_START_LIMIT_S) and ours.recv()
        except (EOFError, OSError):
            ready = False
        if not ready:
            self.end(for_good=False)
            raise Failed(f"a worker ({self._name}) did not start; its output says more")
        self._prepared = True
        return ours

    def call(self, job: object, args: object, kwargs: object) -> object:
        """What a job returns; the process is ended where it takes too long, and started anew for the next."""
        if self.is_closed:
            raise Busy(_ENDING)
        try:
            pipe = self._hand_over((job, args, kwargs))
            self._wait(pipe)
            right, answer = pipe.recv()
        except (EOFError, OSError):
            self.end(for_good=False)
            raise Failed(FAILED) from None
        if not right:
            assert isinstance(answer, CporError)
            raise answer
        return answer

    def _hand_over(self, work: object) -> Connection:
        """Give a job to the process and hear that it begins; one that dies before that is replaced, once."""
        try:
            return self._offer(work)
        except (EOFError, OSError):
            if self.is_closed:
                raise
            self.end(for_good=False)
            return self._offer(work)

    def _offer(self, work: object) -> Connection:
        pipe = self._pipe if self.is_ready else None
        pipe = pipe or self.start()
        pipe.send(work)
        self._wait(pipe)
        pipe.recv()
        return pipe

    def _wait(self, pipe: Connection) -> None:
        if not pipe.poll(self._limit_s):
            self.end(for_good=False)
            raise TooSlow(_TOO_SLOW)

    def end(self, for_good: bool = True) -> None:
        """End the process."""
        if for_good:
            self._closed.set()
        self._prepared = False
        process, self._process = self._process, None
        pipe, self._pipe = self._pipe, None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()


def _has_ended(process: SpawnProcess) -> bool:
    return bool(multiprocessing.connection.wait([process.sentinel], 0))


def do_jobs(pipe: Connection, prepare: Callable[[], object], limit_s: float) -> None:
    """Do job after job: an error that is not ours ends the process, and its traceback goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers itself
    end_with_parent()
    tools = prepare()
    answer: object = True
    while True:
        try:
            pipe.send(answer)
            job, args, kwargs = pipe.recv()
            pipe.send(BEGUN)
        except (EOFError, OSError):  # the service is gone
            return
        _set_alarm(limit_s + _ALARM_S)
        try:
            answer = (True, job(tools, *args, **kwargs))
        except CporError as error:
            answer = (False, error)
        _set_alarm(0.0)


def _set_alarm(seconds: float) -> None:
    """End this process after so long; compiled code keeps threads from running, but not the system."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
