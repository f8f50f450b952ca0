"""Work spread over processes; what comes of it does not depend on how many there are."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_handles
from typing import TypeVar

from cpor.errors import InvalidSettingError, SimulationError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def check_workers(workers: int) -> None:
    """Refuse a number of processes that makes no sense, before anything is begun."""
    if workers < 1:
        raise InvalidSettingError(f"--workers is {workers}; give at least 1")


def do_all(
    work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int = 1
) -> Iterator[tuple[_Item, _Result]]:
    """Each item with what came of it, as they come.

    Args:
        work: A function of a module, so that another process can find it.
        items: What to do.
        workers: Processes; 1 works in this one.

    Raises:
        SimulationError: A process died.
    """
    check_workers(workers)
    if workers == 1 or len(items) < 2:
        for item in items:
            yield item, work(item)
        return
    # Not fork: threads of compiled code do not survive it.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(items)), mp_context=spawn, initializer=end_with_parent)
    try:
        yield from _feed(pool, work, items, 2 * workers)
    except BrokenProcessPool:
        raise SimulationError(
            "a worker process died (out of memory?); what is finished is kept: give the same command again, "
            "perhaps with fewer --workers"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _feed(
    pool: ProcessPoolExecutor, work: Callable[[_Item], _Result], items: Sequence[_Item], ahead: int
) -> Iterator[tuple[_Item, _Result]]:
    running: dict[Future[_Result], _Item] = {}
    todo = iter(items)
    while True:
        while len(running) < ahead and (item := next(todo, None)) is not None:
            running[pool.submit(work, item)] = item
        if not running:
            return
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            yield running.pop(future), future.result()


def end_with_parent() -> None:
    """In a worker: end when the parent does, even if it was killed; a pool's worker would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for_handles([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
