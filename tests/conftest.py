"""Shared fixtures."""

import copy
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
from hypothesis import settings

from benchmarks.evidence_page import check_claim, say

# One core for each process: threads of BLAS and torch that wait for each other make a fit 20 times slower.
# The workers of `-n` and every process that a test starts inherit this.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# No test reads or writes the key and the known signers of the account it runs in.
_config = tempfile.TemporaryDirectory()
os.environ["XDG_CONFIG_HOME"] = _config.name
os.environ["XDG_STATE_HOME"] = _config.name  # leases of robots: test processes must not share them

settings.register_profile("cpor", deadline=None)  # no test asserts wall-clock times
settings.load_profile("cpor")


# With two workers each is given one half of the list, and in the end takes from the end of the other's: what
# takes long or starts a service stands at the beginning of a half, what is short is left for the end.
FIRST = ("e2e", "fitting", "paper", "perception", "validity", "")  # "": modules that are in no folder
SECOND = ("serve", "robot", "sim", "training", "semantics", "contracts", "bridges")


def folder_of(item: pytest.Item) -> str:
    folder, *_ = (*item.path.relative_to(Path(__file__).parent).parent.parts, "")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first, second, short = [], [], []
    for item in items:
        folder = folder_of(item)
        (first if folder in FIRST else second if folder in SECOND else short).append(item)
    middle = max(len(items) // 2 - len(first), 0)
    items[:] = [*first, *short[:middle], *second, *short[middle:]]


# The shapes of arrays are checked at every call of the core where the core itself is tested. Elsewhere the
# same calls come thousands of times, and the checks would cost as much as what is tested; so they would in
# tests with the mark `repeats`, whose folders have other tests of the same functions.
SHAPES_CHECKED = ("contracts", "corrections", "evidence", "infer", "learn", "words", "")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    checked = folder_of(item) in SHAPES_CHECKED and item.get_closest_marker("repeats") is None
    jaxtyping.config.update("jaxtyping_disable", not checked)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # thousands of tests stay to the end: the collector need not look at them each time


# What takes seconds and gives the same each time is made once a process; tests that check how it is made
# import it from where it is defined.


@pytest.fixture(scope="session", autouse=True)
def printed_words_are_read_once_a_picture() -> Iterator[None]:
    """Many tests ask about the same few pictures."""
    from cpor.scene import Scene
    from cpor.words import description

    read, known = description.read_labels, {}

    def read_once(scene: Scene) -> dict[int, tuple[str, ...]]:
        ids = scene.visible_ids
        picture = (scene.observation.rgb.tobytes(), None if ids is None else (ids.shape, ids.tobytes()))
        if picture not in known:
            known[picture] = read(scene)
        return known[picture]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(description, "read_labels", read_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def heaps_are_dropped_once() -> Iterator[None]:
    """Many tests begin with the same few heaps: each gets a state of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cpor.sim.staged_run", "cpor.sim.arm.simulated_robot"):
            if module := sys.modules.get(name):
                patch.setattr(module, "make_heap", partial(copy_of_heap, cache(module.make_heap)))
        yield


def copy_of_heap(make: Callable[..., Any], *given: object) -> Any:
    heap = make(*given)
    return replace(heap, world=replace(heap.world, data=copy.copy(heap.world.data)))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260701)


@pytest.fixture
def evidence(record_property) -> Callable[[str, str, str, object], None]:
    """Note a measured figure beside the one asked for, under a claim of benchmarks/evidence_page.py."""

    def note(claim: str, point: str, asked: str, measured: object) -> None:
        record_property("evidence", json.dumps([check_claim(claim), point, asked, say(measured)]))

    return note
