import numpy as np
import pytest

from cpor.answer import View
from cpor.scene import Observation, Scene
from cpor.serve.api.kept_views import KeptView, ViewShelf
from cpor.serve.http.refusals import NotKept
from cpor.sources import describe_sources


def kept(side=10):
    scene = Scene(Observation(np.zeros((side, side, 3), np.uint8)))
    return KeptView(View(scene, "given", describe_sources(scene, None, None), ()), 1)


def test_ids_are_long_and_different():
    shelf = ViewShelf(100, 10**9, 60.0)
    ids = {shelf.put(kept()) for _ in range(100)}
    assert len(ids) == 100 and min(map(len, ids)) >= 20


def test_the_one_used_longest_ago_goes_first():
    shelf = ViewShelf(2, 10**9, 60.0)
    first, second = shelf.put(kept()), shelf.put(kept())
    shelf.get(first)
    third = shelf.put(kept())
    assert shelf.get(first) and shelf.get(third)
    with pytest.raises(NotKept, match="send the picture again"):
        shelf.get(second)


def test_memory_is_bounded():
    shelf = ViewShelf(100, 5 * 300, 60.0)
    ids = [shelf.put(kept()) for _ in range(9)]
    assert len(shelf) == 5
    assert shelf.get(ids[-1])


def test_a_scene_is_forgotten_after_a_while():
    now = [0.0]
    shelf = ViewShelf(10, 10**9, 60.0, clock=lambda: now[0])
    name = shelf.put(kept())
    now[0] = 59.0
    shelf.get(name)
    now[0] = 118.0
    assert len(shelf) == 1
    now[0] = 120.0
    assert len(shelf) == 0
    with pytest.raises(NotKept):
        shelf.get(name)
