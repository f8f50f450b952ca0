"""Processes that work for the service: a bounded queue before them, a time limit that is kept by ending them.

Compiled inference cannot be interrupted and keeps other threads from running, so whatever may take long runs
in a process of its own. The one that answers requests stays free to say that it is alive, or busy.
"""

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

from cpor.errors import CporError
from cpor.serve.refusals import Busy, Failed, TooSlow

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Tools = TypeVar("_Tools")

_START_LIMIT_S = 600.0
"""For the first start on a machine, which compiles. [s]"""


@dataclass(frozen=True)
class PoolSettings(Generic[_Tools]):
    """A pool of workers.

    Attributes:
        name: What they do, for their process names.
        workers: How many.
        most_waiting: Requests that may wait.
        time_limit_s: For waiting, and for working. [s]
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
            _Worker(f"cpor-{self.settings.name}", self.settings.prepare) for _ in range(self.settings.workers)
        ]

    async def start(self) -> None:
        """Start the workers and wait until they are ready."""
        self._free = asyncio.Queue()
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, worker.start, _START_LIMIT_S) for worker in self._all)
        )
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
            Busy: Too many wait already, or its turn has not come within the time limit.
            TooSlow: It was not done within the time limit.
            Failed: The worker died.
            CporError: Whatever error of ours the job raised.
        """
        limit = self.settings.time_limit_s
        if self._free.empty() and self.waiting >= self.settings.most_waiting:
            raise Busy(f"{self.waiting} requests wait already; try again in a moment")
        self.waiting += 1
        try:
            worker = await asyncio.wait_for(self._free.get(), limit)
        except TimeoutError:
            raise Busy(f"others were served for {limit:g} s before its turn came; try again") from None
        finally:
            self.waiting -= 1
        if await gone():
            self._free.put_nowait(worker)
            raise Busy("nobody waits for the answer any more")
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, worker.call, job, args, kwargs, limit
        )
        # Even where the caller goes away, the worker is handed back only when it is done.
        work.add_done_callback(lambda _: self._free.put_nowait(worker))
        return cast(_T, await asyncio.shield(work))

    def close(self) -> None:
        """End the workers."""
        for worker in self._all:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)


async def _still_there() -> bool:
    return False


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, name: str, prepare: Callable[[], object]) -> None:
        self._name, self._prepare = name, prepare
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def start(self, limit_s: float) -> Connection:
        """Start the process and wait until it is ready."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._prepare), name=self._name, daemon=True)
        process.start()
        theirs.close()  # so that its death is seen as the end of the pipe
        self._process, self._pipe = process, ours
        try:
            ready = ours.poll(limit_s) and ours.recv()
        except (EOFError, OSError):
            ready = False
        if not ready:
            self.end()
            raise Failed(f"a worker ({self._name}) did not start; its output says more")
        return ours

    def call(self, job: object, args: object, kwargs: object, limit_s: float) -> object:
        """What a job returns; the process is ended where it takes too long, and started anew for the next."""
        until = time.monotonic() + limit_s
        if self._closed:
            raise Busy("the service is being shut down")
        pipe = self._pipe or self.start(_START_LIMIT_S)
        try:
            pipe.send((job, args, kwargs))
            if not pipe.poll(max(until - time.monotonic(), 0.0)):
                self.end(for_good=self._closed)
                raise TooSlow("not done within the time limit; ask for less: fewer objects or relations")
            right, answer = pipe.recv()
        except (EOFError, OSError):
            self.end(for_good=self._closed)
            raise Failed("the service failed at this request; its log says more") from None
        if not right:
            assert isinstance(answer, CporError)
            raise answer
        return answer

    def end(self, for_good: bool = True) -> None:
        """End the process."""
        self._closed = for_good
        process, self._process = self._process, None
        pipe, self._pipe = self._pipe, None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()


def _work(pipe: Connection, prepare: Callable[[], object]) -> None:
    """The life of a worker: an error that is not ours ends it, and its traceback goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers itself
    tools = prepare()
    pipe.send(True)
    while True:
        try:
            job, args, kwargs = pipe.recv()
        except EOFError:
            return
        try:
            answer = (True, job(tools, *args, **kwargs))
        except CporError as error:
            answer = (False, error)
        pipe.send(answer)
