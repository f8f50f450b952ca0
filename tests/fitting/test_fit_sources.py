"""Models that are fitted with further sources of belief."""

from dataclasses import replace

import numpy as np
import pytest
from fitting.test_fit import FORMULA, recorded

from cpor import CporError
from cpor.evidence.source import PairScores
from cpor.fitting import FitSettings, fit_model
from cpor.fitting.fit import tested_with_of as makers_of
from cpor.fitting.labelled import LabelledScene
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.promise import make_promise
from cpor.sources import fingerprint


class Told:
    """Scores of the pairs that touch, from the truth with noise; the same scene gets the same scores."""

    fingerprint = "told 1"

    def __init__(self, name, strength):
        self.name, self.strength = name, strength

    def score(self, scene):
        rng = np.random.default_rng(
            scene.observation.rgb.size + int(np.nansum(scene.observation.depth) * 1e6)
        )
        pairs = scene.semantic_scores.scores
        score = np.full((len(scene.ids), len(scene.ids)), np.nan)
        for pair in pairs:
            sign = 1.0 if pair in scene.true_occlusion.pairs else -1.0
            logit = self.strength * sign + rng.standard_normal()
            score[tuple(scene.ids.index(each) for each in pair)] = 1.0 / (1.0 + np.exp(-logit))
        return PairScores(score)


@pytest.fixture(scope="module")
def with_sources(scenes):
    """A model fitted with a source that knows something, and one that guesses."""
    given = (Told("tells", 2.0), Told("guesses", 0.0))
    known = [(name, recorded(scene)) for name, scene in list(scenes.items())[:120]]
    return fit_model(known, FitSettings(alpha=0.3, seed=3, sources=given)), given


def test_further_sources_are_calibrated_and_weighed_by_what_they_know(with_sources):
    report, _ = with_sources
    assert list(report.model.calibration) == ["semantic", "geometry", "tells", "guesses"]
    beta = report.model.fusion.beta
    assert list(beta) == list(report.model.calibration)
    figures = {data.name: data.summary for data in report.reliability}
    assert figures["tells, calibrated"].auroc > 0.9 > 0.6 > figures["guesses, calibrated"].auroc
    # A calibrator gives a guess the base rate, so its log-odds say nothing, whatever the weight.
    spread = {name: report.model.calibration[name].slope * beta[name] for name in ("tells", "guesses")}
    assert spread["tells"] > 10.0 * spread["guesses"]
    assert figures["fused"].nll < min(figures[f"{name}, calibrated"].nll for name in ("geometry", "semantic"))


def test_a_model_decides_and_promises_with_the_sources_it_was_fitted_with_only(
    with_sources, scenes, tmp_path
):
    report, given = with_sources
    report.model.save(tmp_path / "model.json")
    model = FittedModel.load(tmp_path / "model.json")
    assert model == report.model
    scene = recorded(next(iter(scenes.values())))
    found = model.pipeline(sources=given[::-1]).believe(scene)
    assert list(found.p) == list(model.calibration)
    with pytest.raises(CporError, match="fitted with the source 'guesses', which is not installed"):
        model.pipeline(sources=given[:1])
    assert model.tested_with.sources == dict.fromkeys(("tells", "guesses"), fingerprint(given[0]))
    sealed, sources = model.sealed(), replace(scene.sources, made_here=frozenset(("masks", "scores")))
    assert sealed.promise.promised
    measured = FORMULA | model.tested_with.sources
    assert make_promise(sealed, sources, measured, (), as_tested=True)[0] is not None
    changed = measured | {"tells": "told 2"}
    promise, words = make_promise(sealed, sources, changed, (), as_tested=True)
    assert promise is None and "another measure of tells" in words


def test_without_a_fingerprint_of_every_source_nothing_is_promised(scenes):
    labelled = [
        LabelledScene.read(name, recorded(scene), Pipeline()) for name, scene in list(scenes.items())[:2]
    ]
    anonymous = Told("tells", 1.0)
    assert makers_of(labelled, [anonymous]).sources == {"tells": f"{__name__}.Told: told 1"}
    anonymous.fingerprint = None
    assert makers_of(labelled, [anonymous]) is None
