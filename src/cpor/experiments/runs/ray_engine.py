"""Shards answered on a Ray cluster: the one RAY_ADDRESS names, else one of this machine's cores."""

import importlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from cpor.errors import InvalidSettingError
from cpor.experiments.runs.answer import Shard
from cpor.experiments.runs.engine import MOST_DEATHS, Answer, WorkerDiedError

_SHARDS_A_CORE = 2
"""Shards given out ahead for each core of the cluster, so that none waits for the next."""


class RayEngine:
    """Ray tasks, one a shard; Ray itself gives the shard of a dead worker or node to another.

    Every node needs this package; where the dataset is a folder, every node must see it at the same path.

    Attributes:
        workers: Cores to use of this machine where there is no cluster; None: all.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers

    def answer_all(self, answer: Answer, shards: Sequence[Shard]) -> Iterator[tuple[Shard, bytes]]:
        """Each shard with its answer, as they come."""
        ray = _import_ray()
        owned = not ray.is_initialized()
        if owned:
            self._connect(ray)
        try:
            yield from _answer_all(ray, answer, shards)
        finally:
            if owned:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if not os.environ.get("RAY_ADDRESS"):
            ray.init(address="local", num_cpus=self.workers, include_dashboard=False, **quiet)
            return
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError as error:
            raise InvalidSettingError(f"no Ray cluster answers at RAY_ADDRESS: {error}") from None


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InvalidSettingError(
            "--engine ray needs Ray; install it with: pip install 'cpor-grasp[ray]'"
        ) from None


def _answer_all(ray: Any, answer: Answer, shards: Sequence[Shard]) -> Iterator[tuple[Shard, bytes]]:

    def answer_remotely(shard: Shard) -> bytes:  # Ray takes functions only, `answer` may be any callable
        return answer(shard)

    remote = ray.remote(num_cpus=1, max_retries=MOST_DEATHS)(answer_remotely)
    ahead = max(1, _SHARDS_A_CORE * int(ray.cluster_resources().get("CPU", 1)))
    waiting = iter(shards)
    running: dict[Any, Shard] = {}
    while True:
        while len(running) < ahead and (shard := next(waiting, None)) is not None:
            running[remote.remote(shard)] = shard
        if not running:
            return
        finished, _ = ray.wait(list(running), num_returns=1)
        for reference in finished:
            shard = running.pop(reference)
            yield shard, _get(ray, reference, shard)


def _get(ray: Any, reference: Any, shard: Shard) -> bytes:
    died = (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.ObjectLostError,
        ray.exceptions.OutOfMemoryError,
    )
    try:
        lines: bytes = ray.get(reference)
    except died as error:
        raise WorkerDiedError(
            f"Ray gave up on items {shard.first} to {shard.numbers[-1]} of the dataset "
            f"({type(error).__name__}); what is finished is kept: mend the cause and "
            "give the same command again"
        ) from None
    return lines
