"""Who is who in the next look: exact probabilities, and what is said where a thing is cut or changed."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from support.box_table import Box, BoxTable, TableMasks, stack

from cpor.scene import Camera, DetectedObject, Intrinsics, MaskCrop, PixelPoint
from cpor.tracking.identity import SURE, _find_spots, _was_one, identify, marginals
from cpor.tracking.looks import (
    PlaceSeen,
    _hues,
    _project,
    alike,
    covered,
    find_in,
    is_unchanged,
    look_at,
    look_at_spot,
)
from cpor.tracking.memory import Memory


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


def test_of_two_things_in_one_mask_the_one_pointed_at_keeps_the_id_and_else_it_is_doubted():
    boxes = {
        1: Box((20, 50), (20, 60), 0.04, (200, 30, 30)),
        2: Box((20, 50), (60, 85), 0.04, (30, 30, 200)),
    }
    apart = see(boxes)
    as_one = replace(apart, visible_ids=np.minimum(apart.visible_ids, 1), objects=apart.objects[:1])
    told = Memory().carry_to(as_one)
    for place, stays_with in ((PixelPoint(30.0, 35.0), 1), (PixelPoint(75.0, 35.0), 2)):
        now = told.trust(1, place).carry_to(apart)
        assert now.known[1].p_same > SURE and now.frame.visible_ids[boxes[stays_with].mask()].tolist()[0] == 1
    alone = told.carry_to(apart)
    assert alone.known[1].p_same < SURE and any("probably" in event for event in alone.events)


def test_a_thing_of_several_colours_is_sure_to_be_the_same_when_more_of_it_shows():
    boxes = {
        1: Box((20, 50), (20, 80), 0.04, (200, 30, 30)),
        2: Box((20, 50), (26, 80), 0.04, (30, 200, 30)),
        3: Box((15, 55), (26, 85), 0.10, (30, 30, 200)),
    }

    def look(here):
        seen = see(here)  # 1 and 2 are one thing with two colours
        ids = np.where(seen.visible_ids == 2, 1, seen.visible_ids)
        return replace(seen, visible_ids=ids, objects=tuple(o for o in seen.objects if o.id != 2))

    who = match(look(boxes), look({k: boxes[k] for k in (1, 2)}))
    assert who.same[1].known == 1 and who.same[1].p > SURE


def test_the_larger_piece_gives_its_id_and_the_other_is_no_rival_when_the_thing_moves():
    box = {1: Box((20, 50), (20, 80), 0.04, (200, 30, 30))}
    whole = see(box)
    cut = np.where((whole.visible_ids == 1) & (np.arange(128) < 40), 2, whole.visible_ids)
    cut = replace(whole, visible_ids=cut, objects=(*whole.objects, DetectedObject(2)))
    now = Memory().carry_to(cut).carry_to(whole).carry_to(see({1: box[1].moved(5, 55)}))
    assert set(now.known) == {1} and now.known[1].p_same > SURE


def test_another_thing_put_in_its_place_by_hand_is_another_thing():
    boxes = stack()
    before = see(boxes)
    boxes[4] = replace(boxes[4], colour=(30, 200, 200))
    assert 4 not in match(before, see(boxes)).same


def test_what_lay_in_the_shade_is_the_same_when_it_is_lit_and_more_of_it_shows():
    shaded = {
        1: Box((20, 50), (20, 80), 0.04, (85, 45, 100)),
        2: Box((15, 55), (32, 85), 0.10, (30, 200, 30)),
    }
    lit = {1: replace(shaded[1], colour=(146, 86, 164))}
    who = match(see(shaded), see(lit))
    assert who.same[1].known == 1 and who.same[1].p > SURE


def test_what_was_pointed_at_has_no_rival_where_its_spot_shows_in_another_light():
    pieces = {
        1: Box((20, 50), (32, 80), 0.04, (200, 60, 30)),
        2: Box((20, 50), (5, 32), 0.04, (201, 60, 30)),  # a twin, or the same thing: too little is left there
    }
    before, now = see(pieces), see({1: Box((20, 50), (20, 80), 0.04, (250, 84, 48))})
    spot = {1: look_at_spot(before.observation, PixelPoint(60.0, 35.0))}
    alone, told = (identify(look_at(before), look_at(now), now, before, spots=s) for s in ({}, spot))
    assert alone.same[1].p < SURE < told.same[1].p and told.same[1].known == 1


def test_a_thing_that_rolled_away_is_the_same_where_another_lies_in_its_old_place():
    boxes = {
        1: Box((20, 50), (20, 50), 0.04, (30, 130, 60)),
        2: Box((60, 90), (20, 50), 0.04, (200, 200, 30)),
        3: Box((20, 50), (75, 105), 0.12, (30, 30, 200)),
    }
    rolled = boxes | {1: boxes[1].moved(0, 40), 2: boxes[2].moved(-40, 0)}
    who = match(see(boxes), see(rolled))
    assert who.same[1].known == 1 and who.same[1].p > SURE


def test_a_thing_that_moved_is_surer_to_be_the_same_the_nearer_it_is():
    box = Box((30, 60), (30, 38), 0.04, (30, 130, 60))
    after = replace(box, colour=(42, 168, 84))
    p = [match(see({1: box}), see({1: after.moved(0, far)})).same[1].p for far in (9, 13, 30, 60)]
    assert p[0] > p[1] > p[2] and p[2] == p[3]


def test_a_twin_beside_a_thing_that_got_hidden_is_not_it():
    box = Box((30, 60), (30, 60), 0.04, (30, 130, 60))
    twin = replace(box.moved(0, 34), colour=(31, 130, 60))
    both = see({1: box, 2: twin})
    ids = np.where(both.visible_ids == 2, 0, both.visible_ids)  # nobody found the twin at first
    before = replace(both, visible_ids=ids, objects=both.objects[:1])
    covered = see({2: twin, 3: Box((25, 62), (25, 62), 0.10, (200, 200, 30))})
    same = match(before, covered).same
    assert 2 not in same or same[2].p < SURE


@pytest.mark.parametrize("colour", [(20, 20, 20), (90, 20, 20), (30, 130, 60)])
def test_what_is_much_darker_or_of_another_hue_is_another_thing(colour):
    box = {1: Box((20, 50), (20, 80), 0.04, (235, 235, 235))}
    assert 1 not in match(see(box), see({1: replace(box[1], colour=colour)})).same


def test_hues_stay_under_another_shade_and_gloss(rng):
    colours = rng.uniform(0.0, 1.0, (500, 3)) * np.array([120.0, 60.0, 20.0]) + [100.0, 20.0, 10.0]
    hues = _hues(colours)
    assert hues.sum() == pytest.approx(1.0)
    assert alike(hues, _hues(0.5 * colours)) > 0.98 and alike(hues, _hues(0.8 * colours + 30.0)) > 0.95
    assert alike(hues, _hues(colours[:, ::-1])) < 0.2
    grey = np.repeat(rng.uniform(20.0, 230.0, (50, 1)), 3, axis=1)
    assert _hues(grey)[-1] == pytest.approx(1.0)
    # Reddish by .15 and by .25 of the largest channel and 15: no hue, and half of one.
    for green, without in ((155, 1.0), (135, 0.5)):
        hues = _hues(np.array([[185, green, green]], np.uint8))
        assert hues[-1] == pytest.approx(without) and hues[0] == pytest.approx(1.0 - without)


def test_what_comes_into_view_where_a_thing_lay_is_no_piece_of_it():
    boxes = {
        1: Box((20, 60), (20, 60), 0.040, (40, 150, 150)),
        2: Box((20, 60), (20, 40), 0.038, (200, 200, 30)),
        3: Box((20, 60), (10, 19), 0.04, (200, 30, 30)),
    }
    now = see(boxes | {1: boxes[1].moved(0, 22)})
    who = match(see(boxes), now)
    assert who.same[1].known == 1 and who.same[1].p > SURE


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


def found(stays, gone, **more):
    nothing = dict.fromkeys((1, 2), 0.0)
    given = {
        "on": {1: stays},
        "recoloured": nothing,
        "alike": nothing,
        "same_hues": nothing,
        "relit": nothing,
    }
    return PlaceSeen(stays, gone, 0, **{**given, **more}, centre=np.zeros(2))


@pytest.mark.parametrize(("gone", "left"), [(49, False), (50, False), (51, True)])
def test_a_spot_is_gone_when_more_than_half_of_it_shows_something_deeper(gone, left, monkeypatch):
    scene = see(stack())
    spot = replace(look_at(scene)[1], pixels=np.zeros((100, 2), np.int64))
    monkeypatch.setattr("cpor.tracking.identity.find_in", lambda spot, scene: found(100 - gone, gone))
    shown, gone_from = _find_spots({7: spot}, scene)
    assert gone_from == (frozenset({7}) if left else frozenset()) and not shown


@pytest.mark.parametrize(("stays", "there"), [(69, False), (70, True), (71, True)])
def test_a_spot_still_shows_an_object_when_seven_tenths_of_it_stayed(stays, there, monkeypatch):
    scene = see(stack())
    spot = replace(look_at(scene)[1], pixels=np.zeros((100, 2), np.int64))
    for on in ({1: 10, 2: stays - 10}, {}):
        seen = found(stays, 100 - stays, on=on)
        monkeypatch.setattr("cpor.tracking.identity.find_in", lambda spot, scene, seen=seen: seen)
        assert _find_spots({7: spot}, scene)[0] == ({7: 2} if there and on else {})


@pytest.mark.parametrize(
    ("rival", "matched", "doubted"),
    [(0.3, True, False), (0.31, True, True), (0.29, True, False), (0.3, False, True), (0.1, False, True)],
)
def test_a_mask_that_may_have_held_two_things_doubts_the_smaller_share(rival, matched, doubted):
    """A rival counts where it has more of the old mask, or where no other known object explains it."""
    looks = list(look_at(see(stack())).values())[:2]
    assert alike(looks[0].histogram, looks[1].histogram) < 0.25
    shares = np.array([[[0.3, 0.9], [rival, 0.9]]])
    pairs = [(0, 0), (1, 1)] if matched else [(0, 0)]
    p = _was_one(0, 0, pairs, shares, np.zeros((2, 2)), looks)
    apart = 1.0 - 2.0 * alike(looks[0].histogram, looks[1].histogram)
    assert p == (pytest.approx(0.3 / (0.3 + rival * apart / 2.0)) if doubted else 1.0)


def test_the_share_that_covers_is_of_the_smaller_mask():
    large, small = np.zeros((20, 20), bool), np.zeros((20, 20), bool)
    large[2:18, 2:18] = True
    small[4:8, 4:8] = True
    for a, b in ((large, small), (small, large)):
        assert covered(MaskCrop.from_mask(a), MaskCrop.from_mask(b)) == 1.0


def test_a_pixel_is_projected_into_another_camera_as_by_hand():
    """A camera moved by 8 cm to the right and 4 cm down sees a thing 1 m away by f * shift / depth aside."""
    scene = see(stack())
    there = np.eye(4)
    there[:2, 3] = 0.08, 0.04
    lens = Intrinsics(100.0, 50.0, 64.0, 48.0)
    look = replace(
        look_at(scene)[1],
        pixels=np.array([[58, 84]]),
        depths=np.array([1.0]),
        colours=np.zeros((1, 3)),
        camera=Camera(lens, np.eye(4)),
    )
    pixels, depth, _ = _project(look, Camera(lens, there))
    assert pixels.tolist() == [[58 - 2, 84 - 8]] and depth.tolist() == [1.0]
    zoomed = Intrinsics(200.0, 25.0, 64.0, 48.0)
    assert _project(look, Camera(zoomed, there))[0].tolist() == [[48 + 4, 64 + 24]]


@pytest.mark.parametrize(("shows", "gone"), [(0, True), (1, False), (9, False)])
def test_without_a_reading_a_thing_is_gone_where_no_object_shows(shows, gone):
    scene = see(stack())
    look = look_at(scene)[1]
    depth, ids = scene.observation.depth.copy(), scene.visible_ids.copy()
    rows, cols = look.pixels.T
    depth[rows, cols], ids[rows, cols] = np.nan, shows
    objects = (*scene.objects, DetectedObject(9))
    blind = replace(scene.observation, depth=depth)
    found = find_in(look, replace(scene, observation=blind, visible_ids=ids, objects=objects))
    assert (found.gone, found.stays) == ((len(look.pixels), 0) if gone else (0, len(look.pixels)))


@pytest.mark.parametrize(("rise", "same"), [(0.0, True), (0.004, True), (0.006, False), (np.nan, False)])
def test_a_thing_is_unchanged_when_its_depth_moved_by_less_than_5_mm(rise, same):
    look = look_at(see(stack()))[1]
    assert is_unchanged(look, replace(look, depth=look.depth + rise)) == same
    blind = replace(look, depth=np.nan)
    assert is_unchanged(blind, blind)
