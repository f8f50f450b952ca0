"""Who is who in the next look: exact probabilities, and what is said where a thing is cut or changed."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from support.box_table import Box, BoxTable, TableMasks, stack

from cpor.scene import DetectedObject
from cpor.tracking.identity import SURE, identify, marginals
from cpor.tracking.looks import look_at


def see(boxes):
    table = BoxTable(dict(boxes))
    return TableMasks(table).segment(table.observe())


def match(before, now):
    return identify(look_at(before), look_at(now), now, before)


def by_enumeration(s):
    """Every set of matches, one after the other."""
    m, n = s.shape
    total, p = 0.0, np.zeros((m, n))
    for partners in set(permutations([*range(n), *[None] * m], m)):
        pairs = [(r, c) for r, c in enumerate(partners) if c is not None]
        weight = float(np.exp(sum(s[r, c] for r, c in pairs)))
        total += weight
        for r, c in pairs:
            p[r, c] += weight
    return p / total


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (4, 2), (3, 3)])
def test_probabilities_are_those_of_enumeration(shape, rng):
    s = rng.normal(0.0, 3.0, shape)
    s[rng.random(shape) < 0.2] = -np.inf
    assert marginals(s) == pytest.approx(by_enumeration(s), abs=1e-12)


def test_groups_too_large_to_sum_over_keep_their_likely_pairs(rng):
    s = rng.normal(-5.0, 1.0, (30, 30)) + 12.0 * np.eye(30)
    p = marginals(s)
    assert (np.diag(p) > 0.95).all() and p.sum(axis=1).max() <= 1.0 + 1e-9


def test_a_thing_cut_in_two_keeps_its_id_and_it_is_said():
    before = see(stack())
    ids = before.visible_ids.copy()
    ids[(ids == 4) & (np.arange(ids.shape[1]) >= 112)] = 9
    now = replace(before, visible_ids=ids, objects=(*before.objects, DetectedObject(9)))
    who = match(before, now)
    assert who.same[4].known == 4 and who.same[4].p > SURE and 9 not in who.same
    assert who.events == ("object 4 shows in 2 pieces now",)
    back = match(now, before)
    assert back.same[4].known == 4 and "seen as one" in back.events[0]


def test_another_thing_put_in_its_place_by_hand_is_another_thing():
    boxes = stack()
    before = see(boxes)
    boxes[4] = replace(boxes[4], colour=(30, 200, 200))
    assert 4 not in match(before, see(boxes)).same


def test_things_are_recognised_from_another_place_of_the_camera():
    boxes = {
        1: Box((20, 50), (20, 60), 0.04, (200, 30, 30)),
        2: Box((20, 50), (70, 110), 0.04, (205, 35, 30)),
    }
    before = see(boxes)
    now = see({k: box.moved(10, 40) for k, box in boxes.items()})
    # The camera went 30 px to the left and 10 up, seen at 0.76 m; the twin now stands where the first was.
    pose = now.observation.camera.T_world_camera.copy()
    pose[:2, 3] += np.array([-40.0, 10.0]) * 0.76 / 200.0
    frame = now.observation
    now = replace(now, observation=replace(frame, camera=replace(frame.camera, T_world_camera=pose)))
    who = match(before, now)
    assert {k: m.known for k, m in who.same.items()} == {1: 1, 2: 2}
    assert all(m.p > SURE for m in who.same.values())
