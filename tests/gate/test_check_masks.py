"""Masks that do not belong to a frame are found, and those that do pass."""

import re
from dataclasses import replace

import numpy as np
import pytest
from gate.noisy_table import Table, with_depth

from cpor.gate import masks
from cpor.gate.edges import Agreement
from cpor.gate.masks import check_masks
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene


def states(scene: Scene) -> dict[str, str]:
    return {check.name: check.state for check in check_masks(scene)}


def test_masks_of_the_frame_pass():
    assert states(Table().scene()) == dict.fromkeys(
        (
            *("masks_there", "mask_coverage", "visible_inside_amodal", "mask_pieces", "object_sizes"),
            *("masks_fit_picture", "masks_fit_depth"),
        ),
        "pass",
    )


def test_masks_of_another_frame_fail_on_colour_and_on_depth():
    other = Table(move=(-12, 13)).scene()
    found = states(replace(other, observation=Table().scene().observation))
    assert found["masks_fit_picture"] == found["masks_fit_depth"] == "fail"


@pytest.mark.parametrize("shift", [(7, 0), (0, -7), (5, 5)])
def test_shifted_masks_fail_and_the_shift_back_is_named(shift):
    scene = Table().scene()
    moved = np.roll(scene.visible_ids, shift, (0, 1))
    whole = tuple(DetectedObject(o.id, MaskCrop.from_mask(moved == o.id)) for o in scene.objects)
    found = {c.name: c for c in check_masks(replace(scene, visible_ids=moved, objects=whole))}
    for name in ("masks_fit_picture", "masks_fit_depth"):
        assert found[name].state == "fail"
        right, down = map(int, re.search(r"\((-?\d+), (-?\d+)\) px", found[name].says).groups())
        assert abs(right + shift[1]) <= 1 and abs(down + shift[0]) <= 1  # an edge lies between two pixels
    assert found["visible_inside_amodal"].state == "pass"


def low(scene: Scene) -> Scene:
    """The same scene with objects that are 2 cm high, but for a strip of the last, and an arm beside them."""
    ids, rng = scene.visible_ids, np.random.default_rng(1)
    depth = 0.8 + 0.1 * np.linspace(0.0, 1.0, ids.shape[1]) + rng.normal(0.0, 0.0015, ids.shape)
    depth[ids > 0] -= 0.019
    rows = np.flatnonzero((ids == 4).any(axis=1))
    depth[rows[:8]] -= 0.06 * (ids[rows[:8]] == 4)
    depth[60:, :12] -= 0.3
    return replace(scene, observation=with_depth(scene.observation, depth))


def test_masks_of_objects_that_lie_flat_pass():
    scene = low(Table().scene())
    assert states(scene)["masks_fit_depth"] == "pass"
    other = low(Table(move=(-12, 13)).scene()).observation
    mixed = replace(scene, observation=replace(scene.observation, depth=other.depth))
    assert states(mixed)["masks_fit_depth"] == "fail"


def test_depth_of_another_frame_shows_in_the_masks_too():
    scene = Table().scene()
    other = Table(move=(-12, 13)).scene().observation
    found = states(replace(scene, observation=replace(scene.observation, depth=other.depth)))
    assert (found["masks_fit_picture"], found["masks_fit_depth"]) == ("pass", "fail")


def test_visible_masks_shifted_against_whole_ones_fail():
    scene = Table().scene()
    moved = np.roll(scene.visible_ids, 12, 1)
    assert states(replace(scene, visible_ids=moved))["visible_inside_amodal"] == "fail"


@pytest.mark.parametrize(("rows", "state"), [(40, "pass"), (90, "doubt"), (120, "fail")])
def test_a_mask_of_the_whole_picture(rows, state):
    scene = Table().scene()
    ids = np.zeros_like(scene.visible_ids)
    ids[:rows] = 1
    alone = Scene(scene.observation, (DetectedObject(1),), ids)
    assert states(alone)["mask_coverage"] == state


def test_a_mask_in_many_pieces_is_doubted():
    scene = Table().scene()
    ids = scene.visible_ids.copy()
    ids[2:118:4, 2:20:6] = 1
    found = {c.name: c for c in check_masks(replace(scene, visible_ids=ids))}
    assert found["mask_pieces"].state == "doubt" and "object 1" in found["mask_pieces"].says


@pytest.mark.parametrize(("factor", "state"), [(1.0, "pass"), (3.0, "doubt"), (10.0, "fail"), (0.02, "fail")])
def test_objects_of_an_odd_size(factor, state):
    scene = Table().scene()
    far = with_depth(scene.observation, scene.observation.depth * factor)
    assert states(replace(scene, observation=far))["object_sizes"] == state


def test_an_object_without_any_mask_is_doubted_but_a_hidden_one_is_not():
    scene = Table().scene()
    hidden = DetectedObject(9, scene.objects[0].amodal)
    assert states(replace(scene, objects=(*scene.objects, hidden)))["masks_there"] == "pass"
    nowhere = replace(scene, objects=(*scene.objects, DetectedObject(9)))
    assert states(nowhere)["masks_there"] == "doubt"


def test_no_object_is_nothing_to_doubt():
    scene = Table().scene()
    assert states(Scene(scene.observation, (), np.zeros_like(scene.visible_ids))) == {"masks_there": "pass"}


def test_without_depth_only_colour_is_compared():
    scene = Table().scene()
    found = states(replace(scene, observation=with_depth(scene.observation, None)))
    assert "masks_fit_picture" in found and not {"masks_fit_depth", "object_sizes"} & set(found)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (40, 19), (19, 700)])
def test_masks_of_any_size_are_looked_at(shape):
    depth = np.random.default_rng(0).uniform(0.5, 0.9, shape).astype(np.float32)
    seen = Observation(np.zeros((*shape, 3), np.uint8), depth)
    scene = Scene(seen, (DetectedObject(1),), np.ones(shape, np.int32))
    assert states(scene)["mask_coverage"] == "fail"


@pytest.mark.parametrize(
    ("here", "elsewhere", "state", "says"),
    [
        (1.0, 1.3, "fail", "shifted by"),  # elsewhere is strong enough to count, at the very limit
        (1.0, 1.29, "fail", "times as strong"),  # here is too weak by itself
        (1.4, 1.37, "pass", "times as strong"),
        (1.4, 1.39, "doubt", "shifted by"),  # hardly better than elsewhere
        (1.53, 1.5, "pass", "times as strong"),  # 1.02 times as good as elsewhere, at the very limit
        (1.2, 1.0, "doubt", "times as strong"),
        (0.39, 0.2, "pass", "Too few edges"),
        (0.2, 0.39, "pass", "Too few edges"),
        (0.4, 0.2, "fail", "times as strong"),
    ],
)
def test_masks_are_compared_with_the_best_fit_elsewhere(here, elsewhere, state, says, monkeypatch):
    agreement = Agreement(here, elsewhere, 500, (3, 4))
    monkeypatch.setattr(masks, "compare_edges", lambda edges, strength, factor: agreement)
    check = masks._fit("masks_fit_picture", "colour", 1, None, None, masks.ON_COLOUR)
    assert check.state == state and says in check.says


@pytest.mark.parametrize(("count", "compared"), [(99, False), (100, True)])
def test_too_few_edges_are_not_compared(count, compared, monkeypatch):
    monkeypatch.setattr(masks, "compare_edges", lambda *_: Agreement(0.5, 0.1, count, (0, 0)))
    check = masks._fit("masks_fit_depth", "depth", 1, None, None, masks.ON_DEPTH)
    assert ("Too few" not in check.says) == compared
