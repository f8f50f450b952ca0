import dataclasses
import math

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from cpor.errors import InvalidSceneError, InvalidSettingError
from cpor.evidence import GEOMETRY_PRESETS, GeometrySettings, PairState, geometric_evidence
from cpor.relations import ObstructionPosterior
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

NO_CONTACT, CANDIDATE, UNANSWERED = PairState.NO_CONTACT, PairState.CANDIDATE, PairState.UNANSWERED
SETTINGS = GeometrySettings(
    rho=2, sigma_z=0.06, kappa_o=10.0, o_star=0.1, kappa_c=4.0, c_star=0.25, kappa_z=2.0, b_cv=-0.5
)


def make_scene(visible_ids, amodal, depth=None):
    """A scene from an image of ids and amodal masks (or None) by id."""
    ids = np.asarray(visible_ids, dtype=np.int32)
    objects = (DetectedObject(k, None if m is None else MaskCrop.from_mask(m)) for k, m in amodal.items())
    return Scene(Observation(np.zeros((*ids.shape, 3), np.uint8), depth), tuple(objects), ids)


def box(shape, rows, cols):
    mask = np.zeros(shape, dtype=bool)
    mask[rows[0] : rows[1], cols[0] : cols[1]] = True
    return mask


def bar_under_block(missing=()):
    """A 2 x 5 bar, its right end under a 4 x 4 block, in 6 x 10 pixels.

    Counted by hand, with a disk of radius 2: the bar has 10 pixels, 4 of them under the block; its ring has
    5 + 7 + 7 + 5 pixels above and below and 4 + 4 beside it, 32 in all, and the block shows on 3 + 3 + 4 of
    them. The block's ring has 8 + 4 + 6 + 6 = 24 pixels inside the image; the bar shows on 4.
    """
    shape = (6, 10)
    bar, block = box(shape, (2, 4), (2, 7)), box(shape, (1, 5), (5, 9))
    ids = np.where(block, 2, np.where(bar, 1, 0))
    depth = np.full(shape, 0.9, dtype=np.float32)
    depth[block] = 0.6
    depth[2:4, 2:5] = [[0.70, 0.72, 0.74], [np.nan, np.nan, 0.76]]
    for r, c in missing:
        depth[r, c] = np.nan
    return make_scene(ids, {1: bar, 2: block}, depth)


def test_equations_at_a_point_counted_by_hand():
    e = geometric_evidence(bar_under_block([(1, 5), (1, 6), (1, 7), (4, 7)]), SETTINGS)
    assert e.ids == (1, 2)
    assert e.hidden_overlap.tolist() == [[0.0, 0.4], [0.0, 0.0]]
    assert e.clearance[0, 1] == 10 / 32
    assert e.clearance[1, 0] == 4 / 24
    # r_1 = 4/6, r_2 = 12/16; z_1 = (0.72 + 0.74) / 2, z_2 = 0.6; tanh(0.13 / 0.06) = 0.97409322
    assert e.reliability[0, 1] == e.reliability[1, 0] == 4 / 6
    assert e.depth_order[0, 1] == pytest.approx(0.64939548, abs=1e-6)
    assert e.depth_order[1, 0] == -e.depth_order[0, 1]
    # -0.5 + 10 * 0.3 + 4 * 0.0625 + 2 * 0.64939548, and -0.5 - 10 * 0.1 + 4 * (1/6 - 1/4) - 2 * 0.64939548
    assert e.logit_geometry[0, 1] == pytest.approx(4.0487910, abs=1e-5)
    assert e.logit_geometry[1, 0] == pytest.approx(-3.1321243, abs=1e-5)
    assert e.p_geometry[0, 1] == pytest.approx(1 / (1 + math.exp(-4.0487910)), abs=1e-7)
    assert e.state.tolist() == [[NO_CONTACT, CANDIDATE], [CANDIDATE, NO_CONTACT]]
    assert np.array_equal(e.is_candidate, ~np.eye(2, dtype=bool))


def test_half_of_the_overlap_must_have_depth():
    # Block 2 shows on 14 pixels of the bar's hidden part and ring.
    touch = [(r, c) for r in (1, 4) for c in (5, 6, 7)] + [(r, c) for r in (2, 3) for c in (5, 6, 7, 8)]
    assert geometric_evidence(bar_under_block(touch[:7]), SETTINGS).state[0, 1] == CANDIDATE
    e = geometric_evidence(bar_under_block(touch[:8]), SETTINGS)
    assert e.state[0, 1] == UNANSWERED
    assert math.isnan(e.p_geometry[0, 1])
    assert e.hidden_overlap[0, 1] == 0.4  # what is known stays visible


def test_without_any_depth_contact_is_no_answer_and_distance_still_is_one():
    scene = bar_under_block()
    ids = scene.visible_ids.copy()
    ids[0, 0] = 3
    far = make_scene(ids, {1: scene.objects[0].amodal.to_mask((6, 10)), 2: ids == 2, 3: ids == 3})
    e = geometric_evidence(far, dataclasses.replace(SETTINGS, rho=1))
    assert e.state[0, 1] == e.state[1, 0] == UNANSWERED
    assert e.state[0, 2] == e.state[2, 1] == NO_CONTACT
    assert np.isnan(e.logit_geometry).all()
    assert not e.depth_order.any()
    assert e.hidden_overlap[0, 1] == 0.4


def test_an_object_without_visible_pixels_has_no_answers():
    scene = bar_under_block()
    ghost = dataclasses.replace(scene, objects=(*scene.objects, DetectedObject(7)))
    e = geometric_evidence(ghost, SETTINGS)
    assert (e.state[2, :2] == UNANSWERED).all()
    assert (e.state[:2, 2] == UNANSWERED).all()
    assert np.isnan(e.hidden_overlap[2, :2]).all()
    assert e.state[0, 1] == CANDIDATE
    posterior = ObstructionPosterior(e.ids, 1, e.p_geometry)
    assert posterior.has_unanswered


@pytest.mark.parametrize("amodal", [None, np.zeros((6, 10), dtype=bool)])
def test_an_unknown_hidden_part_is_no_answer_for_its_owner_only(amodal):
    scene = bar_under_block()
    crop = None if amodal is None else MaskCrop.from_mask(amodal)
    scene = dataclasses.replace(scene, objects=(DetectedObject(1, crop), scene.objects[1]))
    e = geometric_evidence(scene, SETTINGS)
    assert e.state[0, 1] == UNANSWERED
    assert e.state[1, 0] == CANDIDATE


def test_arrays_are_read_only_and_diagonal_is_empty():
    e = geometric_evidence(bar_under_block())
    for name in (
        "state",
        "hidden_overlap",
        "clearance",
        "depth_order",
        "reliability",
        "logit_geometry",
        "p_geometry",
    ):
        array = getattr(e, name)
        assert array.shape == (2, 2)
        assert not array.flags.writeable
    assert not np.diagonal(e.p_geometry).any()


def test_ids_need_not_be_dense():
    scene = bar_under_block()
    renamed = np.choose(scene.visible_ids, [0, 65535, 40]).astype(np.int32)
    a, b = (o.amodal for o in scene.objects)
    e = geometric_evidence(
        Scene(scene.observation, (DetectedObject(65535, a), DetectedObject(40, b)), renamed), SETTINGS
    )
    assert e.ids == (40, 65535)
    assert e.hidden_overlap[1, 0] == 0.4


def test_one_pixel_masks():
    ids = np.zeros((5, 5), dtype=np.int32)
    ids[2, 2], ids[2, 3] = 1, 2
    e = geometric_evidence(make_scene(ids, {1: ids == 1, 2: ids == 2}, np.full((5, 5), 0.5, np.float32)))
    assert e.state[0, 1] == CANDIDATE
    assert e.clearance[0, 1] == 1 / 24
    assert np.isfinite(e.p_geometry).all()


def test_an_image_of_background_only():
    empty = np.zeros((5, 5), dtype=np.int32)
    assert geometric_evidence(make_scene(empty, {})).p_geometry.shape == (0, 0)
    e = geometric_evidence(make_scene(empty, {1: empty == 0, 2: None}))
    assert np.array_equal(e.is_unanswered, ~np.eye(2, dtype=bool))


def test_a_scene_that_was_never_segmented():
    observation = Observation(np.zeros((5, 5, 3), np.uint8))
    with pytest.raises(InvalidSceneError, match="segment it first"):
        geometric_evidence(Scene(observation))
    e = geometric_evidence(Scene(observation, (DetectedObject(1), DetectedObject(2))))
    assert np.array_equal(e.is_unanswered, ~np.eye(2, dtype=bool))


def test_three_hundred_objects(layered_scene):
    scene = layered_scene(np.random.default_rng(5), (240, 320), 300, strength=0.0)
    e = geometric_evidence(scene)
    assert e.state.shape == (300, 300)
    shown = np.bincount(scene.visible_ids.reshape(-1), minlength=301)[1:] > 0
    assert not shown.all()
    assert (e.state[~shown][:, shown] == UNANSWERED).all()
    ObstructionPosterior(e.ids, 1, e.p_geometry)


@pytest.mark.parametrize("lost", [0.5, 1.0])
def test_lost_depth_never_frees_a_pair(layered_scene, lost):
    """Removing readings turns candidates into questions, never into "known not to obstruct"."""
    rng = np.random.default_rng(3)
    scene = layered_scene(rng, (240, 320), 12, strength=1.0)
    depth = scene.observation.depth.copy()
    depth[rng.random(depth.shape) < lost] = np.nan
    depth[:, :160] = np.nan
    poorer = dataclasses.replace(scene, observation=dataclasses.replace(scene.observation, depth=depth))
    before, after = geometric_evidence(scene), geometric_evidence(poorer)
    assert np.array_equal(before.state == NO_CONTACT, after.state == NO_CONTACT)
    assert after.is_unanswered.sum() > before.is_unanswered.sum()
    assert np.array_equal(np.isnan(after.p_geometry), after.is_unanswered)
    assert (after.p_geometry[after.is_candidate] > 0.0).all()


def test_a_score_that_underflows_is_still_a_candidate():
    e = geometric_evidence(bar_under_block(), dataclasses.replace(SETTINGS, b_cv=-1e4))
    assert e.logit_geometry[0, 1] < -9000
    assert e.p_geometry[0, 1] > 0.0


def test_presets():
    paper = GEOMETRY_PRESETS["paper"]
    assert (paper.rho, paper.sigma_z, paper.kappa_o, paper.o_star) == (8, 0.06, 12.0, 0.15)
    assert GEOMETRY_PRESETS["default"] == GeometrySettings()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rho": -1}, "rho is -1"),
        ({"rho": 2.5}, "rho is 2.5"),
        ({"sigma_z": 0.0}, "sigma_z is 0.0"),
        ({"kappa_z": -1.0}, "must be 0 or more"),
        ({"b_cv": math.nan}, "b_cv is nan"),
        ({"min_readings": 0.0}, "min_readings is 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    # Where types are checked while testing, that check speaks before ours does.
    with pytest.raises((InvalidSettingError, TypeCheckError), match=f"{message}|Type-check error"):
        GeometrySettings(**changes)
