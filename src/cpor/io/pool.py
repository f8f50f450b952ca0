"""Work spread over this process, several processes, or a Ray cluster.

What comes of it does not depend on which, and a worker that dies costs time, never a result.
"""

import importlib
import logging
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_handles
from typing import Any, TypeVar

from cpor.errors import CporError, InvalidSettingError, one_of

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

MOST_DEATHS = 3
"""Number of dead workers after which an item is given up: it would kill the next one too."""

ENGINES = ("local", "ray")

_ITEMS_A_CORE = 2
"""Items given out ahead for each core of a cluster, so that none waits for the next."""


@dataclass(frozen=True)
class Pool:
    """Where work is done.

    Attributes:
        workers: Processes on this machine; 1 works in this one.
        engine: `local`, or `ray` for the cluster that RAY_ADDRESS names, else this machine's cores. Every
            node needs this package, and must see folders that the work reads or writes at the same path.

    Raises:
        InvalidSettingError: No workers, or an unknown engine.
    """

    workers: int = 1
    engine: str = "local"

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidSettingError(f"--workers is {self.workers}; give at least 1")
        one_of("engine", self.engine, ENGINES)

    @property
    def cores(self) -> int | None:
        """Cores of this machine that Ray uses where there is no cluster; None: all."""
        return self.workers if self.workers > 1 else None

    def do_all(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item]
    ) -> Iterator[tuple[_Item, _Result]]:
        """Each item with what came of it, in any order; `work` must be a function of a module."""
        if self.engine == "ray":
            yield from _do_on_ray(self.cores, work, items)
        elif self.workers > 1:
            yield from _do_in_processes(self.workers, work, items)
        else:
            for item in items:
                yield item, work(item)


def _do_in_processes(
    workers: int, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Iterator[tuple[_Item, _Result]]:
    """The items of a dead worker are given to new ones."""
    todo = deque(items)
    while todo:
        running: dict[Future[_Result], _Item] = {}
        with _executor(min(workers, len(todo))) as pool, suppress(BrokenProcessPool):
            while todo or running:
                # One item a worker: `running` tells which they were when one dies.
                while todo and len(running) < workers:
                    running[pool.submit(work, todo[0])] = todo[0]
                    todo.popleft()
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    result = future.result()
                    yield running.pop(future), result
        # One death breaks the pool; which item it was shows when each has a worker to itself.
        for future, item in running.items():
            succeeded = future.done() and not future.cancelled() and future.exception() is None
            yield item, future.result() if succeeded else _do_alone(work, item)


def _executor(workers: int) -> ProcessPoolExecutor:
    # Not fork: threads of compiled code do not survive it.
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=spawn, initializer=end_with_parent)


def _do_alone(work: Callable[[_Item], _Result], item: _Item) -> _Result:
    """Do an item during which a worker died."""
    for _ in range(MOST_DEATHS - 1):
        with _executor(1) as pool:
            try:
                return pool.submit(work, item).result()
            except BrokenProcessPool:
                continue
    raise _died(item, f"workers died {MOST_DEATHS} times at")


def _died(item: object, what: str) -> CporError:
    return CporError(
        f"{what} {str(item)[:200]} (out of memory?); what is finished is kept: mend the cause and give the "
        "same command again, perhaps with fewer --workers"
    )


def end_with_parent() -> None:
    """In a worker: end when the parent does, even if it was killed; a pool's worker would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for_handles([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _do_on_ray(
    cores: int | None, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Iterator[tuple[_Item, _Result]]:
    """Ray tasks, one an item; Ray itself gives the item of a dead worker or node to another."""
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise InvalidSettingError(
            "--engine ray needs Ray; install it with: pip install 'cpor-grasp[ray]'"
        ) from None
    owned = not ray.is_initialized()
    if owned:
        _connect(ray, cores)
    try:
        yield from _feed_ray(ray, work, items)
    finally:
        if owned:
            ray.shutdown()


def _connect(ray: Any, cores: int | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not os.environ.get("RAY_ADDRESS"):
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
        return
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError as error:
        raise InvalidSettingError(f"no Ray cluster answers at RAY_ADDRESS: {error}") from None


def _feed_ray(
    ray: Any, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Iterator[tuple[_Item, _Result]]:
    def do_remotely(item: _Item) -> _Result:  # Ray takes functions only, `work` may be any callable
        return work(item)

    remote = ray.remote(num_cpus=1, max_retries=MOST_DEATHS)(do_remotely)
    ahead = max(1, _ITEMS_A_CORE * int(ray.cluster_resources().get("CPU", 1)))
    waiting = deque(items)
    running: dict[Any, _Item] = {}
    while waiting or running:
        while waiting and len(running) < ahead:
            item = waiting.popleft()
            running[remote.remote(item)] = item
        finished, _ = ray.wait(list(running), num_returns=1)
        for reference in finished:
            item = running.pop(reference)
            yield item, _get(ray, reference, item)


def _get(ray: Any, reference: Any, item: object) -> Any:
    died = (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.ObjectLostError,
        ray.exceptions.OutOfMemoryError,
    )
    try:
        return ray.get(reference)
    except died as error:
        raise _died(item, f"Ray gave up ({type(error).__name__}) on") from None
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, CporError):
            raise error.cause from None
        raise
