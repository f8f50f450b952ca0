"""Fixtures of the evidence tests."""

import pytest
from support.layered import draw_layered_scene


@pytest.fixture(scope="session")
def layered_scene():
    """`draw_layered_scene(rng, shape, n_objects, strength)`."""
    return draw_layered_scene
