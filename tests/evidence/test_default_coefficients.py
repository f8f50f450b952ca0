"""Where the default coefficients come from, and what they are worth on scenes they never saw."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from support.data import DATA
from support.sizes import sized

from cpor.evidence import GEOMETRY_PRESETS, GeometrySettings, geometric_evidence
from cpor.io.scene_folder import read_scene_folder

RENDERED = sorted((DATA / "metagraspnet").glob("sim_*"))


def true_matrix(scene):
    truth = np.zeros((len(scene.ids), len(scene.ids)), dtype=bool)
    for pair in scene.true_occlusion.pairs:
        truth[scene.ids.index(pair.blocked), scene.ids.index(pair.blocker)] = True
    return truth


def candidate_cues(scenes):
    """Cues o, c, d of all candidate pairs, shape (m, 3), and whether each relation holds, shape (m,)."""
    cues, labels = [], []
    for scene in scenes:
        e = geometric_evidence(scene)
        chosen = e.is_candidate
        cues.append(np.stack([e.hidden_overlap, e.clearance, e.depth_order], axis=-1)[chosen])
        labels.append(true_matrix(scene)[chosen])
    return np.concatenate(cues), np.concatenate(labels)


def log_loss(weights, cues, labels):
    u = weights[0] + cues @ weights[1:]
    error = (expit(u) - labels) / labels.size
    return np.mean(np.logaddexp(0.0, u) - labels * u), np.array([error.sum(), *(cues.T @ error)])


def fit(cues, labels):
    """Logistic regression whose cues never argue backwards: intercept, kappa_o, kappa_c, kappa_z."""
    bounds = [(None, None)] + 3 * [(0.0, None)]
    return minimize(log_loss, np.zeros(4), (cues, labels), "L-BFGS-B", True, bounds=bounds).x


def folded(settings):
    """Intercept and weights of the score with o_star and c_star folded into the intercept."""
    s = settings
    intercept = s.b_cv - s.kappa_o * s.o_star - s.kappa_c * s.c_star
    return np.array([intercept, s.kappa_o, s.kappa_c, s.kappa_z])


@pytest.mark.slow
def test_a_new_fit_on_new_scenes_gives_about_the_defaults(layered_scene):
    rng = np.random.default_rng(100)
    cues, labels = candidate_cues(layered_scene(rng) for _ in range(sized(50, 100)))
    fitted, default = fit(cues, labels), folded(GeometrySettings())
    assert fitted[:2] == pytest.approx(default[:2], rel=0.25)
    assert fitted[3] == pytest.approx(default[3], rel=0.5)
    best, ours = (log_loss(w, cues, labels)[0] for w in (fitted, default))
    paper = log_loss(folded(GEOMETRY_PRESETS["paper"]), cues, labels)[0]
    assert ours < best + 0.01
    assert ours < paper
    assert roc_auc_score(labels, cues @ default[1:]) > 0.95


@pytest.mark.skipif(not RENDERED, reason=f"no rendered scenes in {DATA}; set CPOR_DATA to the data folder")
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_rendered_scenes_with_given_masks(preset, evidence):
    scores, truths, candidates = [], [], []
    for folder in RENDERED:
        scene = read_scene_folder(folder)
        e = geometric_evidence(scene, GEOMETRY_PRESETS[preset])
        others = ~np.eye(len(e.ids), dtype=bool)
        assert e.is_candidate[true_matrix(scene)].all()
        scores.append(e.p_geometry[others])
        truths.append(true_matrix(scene)[others])
        candidates.append(e.is_candidate[others])
    score, truth, candidate = map(np.concatenate, (scores, truths, candidates))
    everywhere, among = roc_auc_score(truth, score), roc_auc_score(truth[candidate], score[candidate])
    for pairs, figure in (("all pairs", everywhere), ("candidates", among)):
        point = f"geometric AUROC on rendered views, preset {preset}, {pairs}"
        evidence("sees", point, ">= 0.93", f"{figure:.3f}")
    evidence("sees", f"true relations among the candidates, preset {preset}", "all", f"all {truth.sum()}")
    assert everywhere >= 0.93
    assert among >= 0.93


@pytest.mark.skipif(not RENDERED, reason=f"no rendered scenes in {DATA}; set CPOR_DATA to the data folder")
def test_a_photograph_without_depth_gives_questions_not_answers():
    scene = read_scene_folder(DATA / "metagraspnet" / "real_scene418")
    e = geometric_evidence(scene)
    assert not e.is_candidate.any()
    assert e.is_unanswered[true_matrix(scene)].all()


def test_a_scene_that_lost_its_depth_keeps_every_true_relation_open(layered_scene):
    scene = layered_scene(np.random.default_rng(11), n_objects=10, strength=0.0)
    blind = dataclasses.replace(scene.observation, depth=None)
    e = geometric_evidence(dataclasses.replace(scene, observation=blind))
    assert not e.is_candidate.any()
    assert e.is_unanswered[true_matrix(scene)].all()
