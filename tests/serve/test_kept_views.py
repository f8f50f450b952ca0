from dataclasses import replace

import numpy as np
import pytest
from support.labelled import draw_labelled_scene

from cpor.fitting import fit_model
from cpor.scene import Observation, Scene
from cpor.serve.api.drift_watch import DriftWatch
from cpor.serve.api.kept_views import KeptView, ViewShelf
from cpor.serve.http.refusals import NotKept
from cpor.sources import describe_sources
from cpor.view import View


def kept(side=10):
    scene = Scene(Observation(np.zeros((side, side, 3), np.uint8)))
    return KeptView(View(scene, "given", describe_sources(scene, None, None), ()), 1, (8, 8))


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


def test_drift_is_told_after_a_window_of_other_pictures_and_not_of_the_same():
    rng = np.random.default_rng(5)
    model = fit_model((f"{k}", draw_labelled_scene(rng)) for k in range(40)).model
    alike = [model.pipeline().believe(draw_labelled_scene(rng)) for _ in range(30)]
    watch = DriftWatch(model)
    for beliefs in alike:
        watch.add(beliefs)
    assert watch.warning == ""
    for beliefs in alike:
        watch.add(replace(beliefs, p_fused=np.where(beliefs.p_fused > 0.0, 0.5, 0.0)))
    assert "differ" in watch.warning
