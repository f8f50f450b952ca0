"""The loop closed on a simulated heap that our own networks look at: ids change, the truth is translated."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.cli.app import app
from cpor.decision import Grasp, Remove
from cpor.robot.cycle import Cycle
from cpor.sim.staged_run import DemoSettings, Pointer, Witness, demonstrate, set_stage
from cpor.truth import right_actions


@pytest.fixture(scope="module")
def stage():
    return set_stage(3, DemoSettings("easy", eyes="networks"))


def test_what_is_found_is_judged_by_what_it_truly_is(stage):
    scene = stage.look_at_it()
    known = stage.recognise(scene)
    target = stage.find_target(scene)
    assert not stage.ids_are_kept and known.owner[target] == stage.heap.target
    truth = stage.truth_in(scene)
    right = right_actions(target, truth)
    for obj in scene.ids:
        action = Grasp(obj) if obj == target else Remove(obj)
        cycle, witness = Cycle(0, scene, target, action=action), Witness(stage)
        verdict = witness.judge(cycle, witness.look(cycle))
        assert verdict.is_wrong == (obj not in right), (obj, verdict)
        assert bool(verdict.because) == verdict.is_wrong


def test_somebody_points_at_the_target_as_often_as_asked(stage):
    pointer, scene = Pointer(stage), stage.look_at_it()
    assert pointer(scene) == stage.find_target(scene) is not None
    assert pointer(scene) == stage.find_target(scene)
    assert pointer.times == 2
    nothing = replace(scene, objects=(), visible_ids=np.zeros_like(scene.visible_ids))
    assert pointer(nothing) is None and pointer.times == 2


@pytest.mark.slow
def test_the_arm_works_from_what_the_networks_see(stage, evidence):
    settings = DemoSettings("easy", eyes="networks", budget=3)
    done = demonstrate(stage, settings)
    assert done.result.cycles and done.result.ended in (*("retrieved", "budget", "deferred", "target_lost"),)
    acted = [c for c in done.result.cycles if c.attempt != "none"]
    assert set(done.verdicts) == {c.index for c in acted}
    for cycle in acted:
        assert cycle.scene.semantic_scores.scorer.startswith("embedded")
    assert done.delivered == stage.robot.in_tray(stage.heap.target, "delivery")
    evidence("acts", "the loop with our own networks, easy target, 3 attempts", "runs", done.result.ended)


def test_the_demo_refuses_other_eyes():
    from typer.testing import CliRunner

    ran = CliRunner().invoke(app, ["demo", "--eyes", "eagle"])
    assert "choose one of: networks, truth" in str(ran.exception)
