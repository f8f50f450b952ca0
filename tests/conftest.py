"""Shared fixtures."""

import json
from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260701)


@pytest.fixture
def evidence(record_property) -> Callable[[str, str, str, object], None]:
    """Note a measured figure beside the one asked for; `make evidence` collects them into a table."""

    def note(part: str, point: str, asked: str, measured: object) -> None:
        shown = f"{measured:.3g}" if isinstance(measured, float) else str(measured)
        record_property("evidence", json.dumps([part, point, asked, shown]))

    return note
