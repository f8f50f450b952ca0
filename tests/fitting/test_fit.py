"""Fitting a model in one go: disjoint parts, stages that improve, a promise that is kept or refused."""

import json
from itertools import combinations

import numpy as np
import pytest
from support.labelled import draw_labelled_scene

from cpor import CporError, Defer
from cpor.data.scene_folder import write_scene_folder
from cpor.decision import Grasp, Remove
from cpor.fitting import FitSettings, fit_model
from cpor.model import FittedModel
from cpor.scene import BlockedBy
from cpor.truth import is_wrong, on_chain, right_actions


@pytest.fixture(scope="module")
def scenes():
    rng = np.random.default_rng(7)
    return {f"scene_{k:03d}": draw_labelled_scene(rng) for k in range(240)}


@pytest.fixture(scope="module")
def report(scenes):
    return fit_model(scenes, FitSettings(alpha=0.3, delta=0.1, seed=3))


def test_parts_are_disjoint_and_complete(report, scenes):
    parts = [set(names) for names in report.model.parts.values()]
    assert set().union(*parts) == set(scenes)
    assert all(a.isdisjoint(b) for a, b in combinations(parts, 2))
    assert set(report.model.targets) == parts[2] | parts[3]


def test_calibration_and_fusion_help_where_they_were_not_fitted(report):
    figures = {data.name: data.summary for data in report.reliability}
    assert figures["semantic, calibrated"].nll < figures["semantic, raw"].nll
    # The default geometry was chosen on scenes like these, so there is little left to calibrate.
    assert figures["geometric, calibrated"].nll < figures["geometric, raw"].nll + 0.02
    assert figures["fused"].nll < figures["geometric, calibrated"].nll
    assert figures["fused"].auroc > 0.8
    assert figures["chosen action, success rate"].ece < 0.25


def test_the_model_survives_the_file(report, tmp_path, scenes):
    report.model.save(tmp_path / "model.json")
    again = FittedModel.load(tmp_path / "model.json")
    assert again == report.model
    scene = scenes["scene_000"]
    target = scene.ids[0]
    assert again.pipeline().run(scene, target).decision == report.model.pipeline().run(scene, target).decision


def test_the_same_seed_gives_the_same_file(report, scenes):
    again = fit_model(scenes, FitSettings(alpha=0.3, delta=0.1, seed=3)).model
    assert again.to_json() == report.model.to_json()


def test_the_promise_holds_on_new_scenes(report):
    assert report.model.promise.promised, report.model.promise.reason
    rng = np.random.default_rng(99)
    pipeline = report.model.pipeline()
    executed = wrong = 0
    for _ in range(120):
        scene = draw_labelled_scene(rng)
        target = int(rng.choice(scene.ids))
        decision = pipeline.run(scene, target).decision
        if not isinstance(decision.action, Defer):
            executed += 1
            wrong += is_wrong(decision.action, target, scene.true_occlusion.pairs)
    assert executed > 30
    # One draw of one promise: allow for the confidence it was made with and for the noise of new scenes.
    assert wrong / executed < 0.3 + 2.5 * np.sqrt(0.3 * 0.7 / executed)


def test_too_little_to_promise_says_so(scenes):
    few = dict(list(scenes.items())[:40])
    model = fit_model(few, FitSettings(alpha=0.01, delta=0.05)).model
    assert not model.promise.promised
    assert "too few" in model.promise.reason
    assert model.pipeline().tau == 0.5


def test_drift_is_noticed_and_no_false_alarm_is_raised(report):
    rng = np.random.default_rng(5)
    pipeline = report.model.pipeline(tau=0.0)

    def results(**changes):
        scenes = [draw_labelled_scene(rng, **changes) for _ in range(40)]
        return [pipeline.run(scene, int(rng.choice(scene.ids))) for scene in scenes]

    assert not report.model.check_drift(results(), rng, level=0.001).drifted
    assert report.model.check_drift(results(lost=0.95), rng).drifted


def test_geometry_alone_can_be_fitted(scenes):
    from dataclasses import replace

    silent = {name: replace(scene, semantic_scores=None) for name, scene in list(scenes.items())[:80]}
    model = fit_model(silent, FitSettings(alpha=0.3, condition=False)).model
    assert model.calibration is None
    assert model.condition is None
    assert model.fusion.beta_cv > 0.0


def test_bad_training_data_is_named(scenes):
    from dataclasses import replace

    with pytest.raises(CporError, match="5 labelled scenes are too few"):
        fit_model(dict(list(scenes.items())[:5]))
    name, scene = next(iter(scenes.items()))
    with pytest.raises(CporError, match=f"{name} has no relations.json"):
        fit_model({name: replace(scene, true_occlusion=None)})


def test_what_counts_as_wrong():
    truth = frozenset({BlockedBy(1, 2), BlockedBy(2, 3), BlockedBy(5, 4)})
    assert right_actions(1, truth) == {3}
    assert right_actions(4, truth) == {4}
    assert is_wrong(Grasp(1), 1, truth)
    assert not is_wrong(Grasp(4), 4, truth)
    assert not is_wrong(Remove(3), 1, truth)
    assert is_wrong(Remove(2), 1, truth)
    assert is_wrong(Remove(4), 1, truth)
    assert not is_wrong(Defer("near_tie"), 1, truth)
    assert on_chain(1, truth) == {BlockedBy(1, 2), BlockedBy(2, 3)}


def test_the_command_line_fits_decides_and_watches_for_drift(scenes, tmp_path, monkeypatch, capsys):
    import sys

    from cpor.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cpor", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return stopped.value.code, printed.out, printed.err

    for name, scene in list(scenes.items())[:60]:
        write_scene_folder(scene, tmp_path / "scenes" / name)
    model = tmp_path / "model.json"
    code, out, error = run("fit", tmp_path / "scenes", "--out", model, "--alpha", "0.3", "--json")
    assert code == 0, error
    fitted = json.loads(out)
    assert sum(fitted["parts"].values()) == 60
    plots = sorted(path.name for path in (tmp_path / "model_plots").glob("*.svg"))
    assert "fused.svg" in plots
    folder = tmp_path / "scenes" / "scene_000"
    target = scenes["scene_000"].ids[0]
    code, out, error = run("decide", folder, "--target", target, "--model", model, "--json")
    assert code == 0, error
    assert json.loads(out)["action"]["type"] in ("grasp", "remove", "defer")
    code, out, _ = run("decide", folder, "--target", target, "--model", model)
    assert "romised" in out
    code, out, _ = run("decide", folder, "--target", 4242)
    assert code == 2
    code, _, error = run("decide", folder)
    assert code == 2
    assert "--target" in error
    code, out, error = run("drift", tmp_path / "scenes", "--model", model, "--json")
    assert code == 0, error
    assert set(json.loads(out)) == {"drifted", "p_value", "level", "distance", "reason"}
