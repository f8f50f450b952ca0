"""Where the shards of a run are answered: in this process, or in several on this machine."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Protocol, TypeAlias

from cpor.errors import CporError, InvalidSettingError
from cpor.experiments.runs.answer import Shard
from cpor.files.workers import end_with_parent

Answer: TypeAlias = Callable[[Shard], bytes]

MOST_DEATHS = 3
"""A shard whose worker died this often is given up: whatever kills workers there will do so again."""


class WorkerDiedError(CporError):
    """Workers died again and again; what was finished is kept."""


class Engine(Protocol):
    """Answers shards."""

    def answer_all(self, answer: Answer, shards: Sequence[Shard]) -> Iterator[tuple[Shard, bytes]]:
        """Each shard with its answer, in any order; a worker's death costs time, never an answer."""
        ...


class SerialEngine:
    """One after the other in this process."""

    def answer_all(self, answer: Answer, shards: Sequence[Shard]) -> Iterator[tuple[Shard, bytes]]:
        """Each shard with its answer, in order."""
        for shard in shards:
            yield shard, answer(shard)


class ProcessEngine:
    """Several processes on this machine."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise InvalidSettingError(f"--workers is {workers}; give at least 1")
        self.workers = workers

    def answer_all(self, answer: Answer, shards: Sequence[Shard]) -> Iterator[tuple[Shard, bytes]]:
        """Each shard with its answer, as they come; the shards of a dead worker are given to new ones."""
        todo = deque(shards)
        while todo:
            running: dict[Future[bytes], Shard] = {}
            with _pool(self.workers) as pool, suppress(BrokenProcessPool):
                yield from self._feed(pool, answer, todo, running)
            # One death breaks the pool; which shard it was shows when each has a worker to itself.
            for future, shard in running.items():
                yield shard, future.result() if _succeeded(future) else _answer_alone(answer, shard)

    def _feed(
        self,
        pool: ProcessPoolExecutor,
        answer: Answer,
        todo: deque[Shard],
        running: dict[Future[bytes], Shard],
    ) -> Iterator[tuple[Shard, bytes]]:
        """Keep every worker busy with one shard; `running` tells which when one dies."""
        while todo or running:
            while todo and len(running) < self.workers:
                running[pool.submit(answer, todo[0])] = todo[0]
                todo.popleft()
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                lines = future.result()
                yield running.pop(future), lines


def _succeeded(future: Future[bytes]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _pool(workers: int) -> ProcessPoolExecutor:
    # Not fork: threads of compiled code do not survive it.
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=spawn, initializer=end_with_parent)


def _answer_alone(answer: Answer, shard: Shard) -> bytes:
    """Answer a shard during which a worker died."""
    for _ in range(MOST_DEATHS - 1):
        with _pool(1) as pool:
            try:
                return pool.submit(answer, shard).result()
            except BrokenProcessPool:
                continue
    raise WorkerDiedError(
        f"workers died {MOST_DEATHS} times at items {shard.first} to {shard.numbers[-1]} of the dataset "
        "(out of memory?); what is finished is kept: mend the cause and give the same command again"
    )
