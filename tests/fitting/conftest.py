"""The labelled scenes that models are fitted to."""

import numpy as np
import pytest
from support.labelled import draw_labelled_scene


@pytest.fixture(scope="session")
def scenes():
    rng = np.random.default_rng(7)
    return {f"scene_{k:03d}": draw_labelled_scene(rng) for k in range(240)}
