"""The paper's pipeline: its equations on real scenes, stage by stage, and nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from typer.testing import CliRunner

from cpor import CporError, System
from cpor.answer import DecideSettings
from cpor.cli.app import app
from cpor.evidence.source import GEOMETRY, SEMANTIC
from cpor.infer.topk import TopKSettings, run_algorithm1
from cpor.io.scene_folder import read_scene_folder
from cpor.learn.gated import GatedFusion
from cpor.learn.logistic import LogisticCalibrator
from cpor.paper_model import PAPER_FILE, PaperFit, load_model, paper_evidence
from cpor.scene import BlockedBy, SemanticScores

SIM = Path(__file__).parents[1] / "examples" / "scenes" / "sim"
KAPPA, STAR = 12.0, 0.15


@pytest.fixture(scope="module")
def scene():
    return read_scene_folder(SIM / "scene_00002")


def fused_by_hand(fit, scene, scores):
    """Eq. geometry-score, calibration and fusion as printed, pair by pair."""
    found = paper_evidence(scene)
    place = {label: k for k, label in enumerate(scene.ids)}
    alpha_0, alpha_n, c_0, c_n = fit.calibration.theta
    phi = (np.log1p(len(scores)) - fit.calibration.mean[0]) / fit.calibration.scale[0]
    scale = np.exp(np.clip(alpha_0 + alpha_n * phi, -5, 5))
    bias = c_0 + c_n * phi
    expected = np.zeros((len(place), len(place)))
    for i, j in np.ndindex(expected.shape):
        if i == j:
            continue
        raw = scores.get(BlockedBy(scene.ids[i], scene.ids[j]))
        is_cv = bool(found.is_candidate[i, j])
        if raw is None and not is_cv:
            continue
        g, prior = fit.fusion.gamma, logit(fit.fusion.prior)
        if raw is not None:
            calibrated = scale * logit(np.clip(raw, 1e-6, 1 - 1e-6)) + bias
            g += fit.fusion.beta[SEMANTIC] * (calibrated - prior)
        if is_cv:
            r = found.reliability[i, j]
            cues = found.hidden_overlap[i, j] - STAR, found.clearance[i, j] - STAR, found.depth_order[i, j]
            u = KAPPA * sum(cues)
            g += fit.fusion.beta[GEOMETRY] * r * (u - prior)
        expected[i, j] = expit(g)
    return expected


def test_every_probability_is_eq_fusion(scene, rng):
    fit = PaperFit.load(PAPER_FILE)
    pairs = [BlockedBy(i, j) for i in scene.ids for j in scene.ids if i != j]
    scores = {pair: float(rng.random()) for pair in pairs[::3]}
    stages = load_model("paper").pipeline()
    beliefs = stages.combine(paper_evidence(scene), SemanticScores(scores, "embedded 6"))
    assert beliefs.p_fused == pytest.approx(fused_by_hand(fit, scene, scores), abs=1e-8)
    assert not np.isnan(beliefs.p_fused).any()
    assert not beliefs.p_unseen.any()
    # The maximum with the geometric probability, which the default pipeline takes, would raise some of them.
    assert (beliefs.p[GEOMETRY] > beliefs.p_fused + 0.01).any()


def test_without_depth_a_candidate_takes_the_base_rate_of_the_fusion(scene):
    fit = PaperFit.load(PAPER_FILE)
    evidence = paper_evidence(scene)
    blind = evidence.__class__(
        **{**evidence.__dict__, "reliability": np.full(evidence.reliability.shape, 1e-9)}
    )
    p = load_model("paper").pipeline().combine(blind, None).p_fused
    assert p[evidence.is_candidate] == pytest.approx(expit(fit.fusion.gamma), abs=1e-6)
    assert not p[~evidence.is_candidate].any()


def test_no_answer_stays_no_answer(scene):
    i, j = (
        scene.ids[k]
        for k in np.argwhere(~paper_evidence(scene).is_candidate & ~np.eye(len(scene.ids), dtype=bool))[0]
    )
    asked = SemanticScores({BlockedBy(i, j): None}, "embedded 6")
    p = load_model("paper").pipeline().combine(paper_evidence(scene), asked).p_fused
    assert np.isnan(p[scene.ids.index(i), scene.ids.index(j)])


def test_the_command_decides_by_algorithm_1(scene):
    command = [
        "decide",
        str(SIM / "scene_00002"),
        "--target",
        "3",
        "--scorer",
        "none",
        "--pipeline",
        "paper",
        "--json",
    ]
    ran = CliRunner().invoke(app, command, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    p = load_model("paper").pipeline().believe(scene).p_fused
    expected = run_algorithm1(p, scene.ids.index(3), 0.5, TopKSettings())
    scores = [found["scores"][str(label)] for label in scene.ids]
    assert scores == pytest.approx(expected.scores.tolist(), abs=1e-9)
    assert found["certificate"]["k"] == expected.k
    assert found["tau"] == 0.5
    assert found["method"] == "topk"


def test_python_and_command_agree_and_promise_nothing(scene):
    system = System("given", "none", "paper")
    view = system.look(scene)
    answer = system.decide(view, 3, settings=DecideSettings("topk"))
    assert answer.promise is None
    assert any("No error rate is promised: the paper promises none" in note for note in answer.notes)
    assert answer.decision.tau == 0.5


def test_a_run_takes_the_papers_pipeline(tmp_path):
    out = tmp_path / "run"
    command = ["run", str(SIM), "--out", str(out), "--scorer", "none", "--pipeline", "paper", "--json"]
    ran = CliRunner().invoke(app, command, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output)["n_cases"] == 12
    assert json.loads((out / "run.json").read_text())["settings"]["method"] == "topk"


def test_fit_writes_what_the_pipeline_reads(tmp_path):
    out = tmp_path / "paper.json"
    ran = CliRunner().invoke(app, ["fit", str(SIM), "--pipeline", "paper", "--out", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    fit = PaperFit.load(out)
    assert (fit.n_scenes, fit.calibration, fit.scorer) == (12, None, None)
    assert isinstance(fit.fusion, GatedFusion)
    command = ["decide", str(SIM / "scene_00002"), "--target", "3", "--scorer", "none", "--pipeline", "paper"]
    ran = CliRunner().invoke(app, [*command, "--model", str(out), "--json"], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    calibration = PaperFit.load(PAPER_FILE).calibration
    assert isinstance(calibration, LogisticCalibrator) and calibration.sees == "scene"


def test_an_unknown_pipeline_is_refused():
    with pytest.raises(CporError, match="unknown --pipeline 'mine'"):
        CliRunner().invoke(
            app, ["decide", str(SIM / "scene_00002"), "--pipeline", "mine"], catch_exceptions=False
        )
