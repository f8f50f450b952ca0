"""Whole retrievals on the simulated arm: judged by the truth, kept, and not run again."""

import pytest

pytest.importorskip("mujoco")

from cpor.model import FittedModel, bundled_model
from cpor.paper import scenarios
from cpor.robot.judged_retrievals import read_retrievals
from cpor.sim.staged_run import DemoSettings


@pytest.mark.slow
def test_an_episode_is_judged_once(tmp_path, monkeypatch):
    out, settings = tmp_path / "runs.jsonl", DemoSettings(eyes="truth")
    (made,) = scenarios.run_episodes(out, 1, settings)
    model = FittedModel.load(bundled_model("geometry"))
    assert (made.tau, made.model) == (model.tau(), model.tested_digest)
    assert made.where.startswith("simulated, mode cautious, masks of ") and made.wrong is not None
    monkeypatch.setattr(scenarios, "run_episode", None)
    assert scenarios.run_episodes(out, 1, settings) == [made] == read_retrievals([out])
