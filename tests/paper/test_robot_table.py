"""The robot table: real scenarios on the simulated arm, a file that can be resumed, rates and causes."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cpor import CporError
from cpor.cli.app import app
from cpor.decision import Certificate, Decision, Defer, Grasp, Remove
from cpor.errors import CameraError, InputFileError, InvalidSceneError, InvalidSettingError, RobotError
from cpor.io.pool import Pool
from cpor.io.whole_files import held_alone
from cpor.model import FittedModel, bundled_model
from cpor.paper.means import WilsonRate
from cpor.paper.robot_table import (
    FIRST_SEED,
    ScenarioRecord,
    read_records,
    run_robot_table,
    summarise,
)
from cpor.paper.scenarios import Person, ScenarioSettings, cause_of
from cpor.robot.cycle import Cycle, RunResult
from cpor.scene import Scene
from cpor.sim.staged_run import DemoSettings, demonstrate, set_stage
from cpor.truth import right_actions


def record(tier, seed, method, success, **changes):
    fields = {
        "ended": "retrieved" if success else "budget",
        "retrieved": success,
        "success": success,
        "actions": 3,
        "wrong": 0,
        "deferrals": 0,
        "failed_grasps": 0,
        "cause": None if success else "grasp",
        "cyclic": False,
        "n_objects": 11,
        "detail": "",
    }
    return ScenarioRecord(tier=tier, seed=seed, method=method, **(fields | changes))


def ended(how, action=None, error=None, done=None):
    decision = None
    if action is not None:
        nothing = Certificate("exact", 0.0, None, True, True)
        decision = Decision(action, {1: 1.0}, frozenset(), nothing, "exact", 0.5, 0.5, None, None)
    return RunResult(how, "", (Cycle(0, None, 1, decision, done or action),), error=error)


@pytest.mark.parametrize(
    ("result", "retrieved", "wrong", "failed", "cause"),
    [
        (ended("retrieved"), True, 0, 2, None),
        (ended("retrieved"), True, 1, 0, "reasoning"),
        (ended("target_lost"), False, 1, 0, "physics"),
        (ended("fault"), False, 0, 0, "physics"),
        (ended("fault", error=RobotError("the arm does not answer")), False, 0, 0, "physics"),
        (ended("fault", error=CameraError("no frame")), False, 0, 0, "perception"),
        (ended("empty"), False, 0, 0, "perception"),
        (ended("deferred", Defer("no_evidence")), False, 0, 0, "perception"),
        (ended("deferred", Defer("near_tie")), False, 0, 1, "reasoning"),
        (ended("deferred", Remove(1)), False, 0, 2, "grasp"),
        (ended("deferred", Remove(1), done=Defer("conflicting_evidence")), False, 0, 0, "reasoning"),
        (ended("budget", Grasp(1)), False, 0, 5, "grasp"),
        (ended("budget", Remove(1)), False, 2, 5, "reasoning"),
    ],
)
def test_every_failure_has_one_cause(result, retrieved, wrong, failed, cause):
    assert cause_of(result, retrieved, wrong, failed, target_shows=False) == cause


def test_a_target_that_shows_and_is_not_found_is_for_perception():
    assert cause_of(ended("target_lost"), False, 0, 0, target_shows=True) == "perception"


@pytest.mark.parametrize(
    "changes",
    [{"tau": float("nan")}, {"tau": -0.1}, {"tau": 1.5}, {"budget": 0}]
    + [{"finger_friction": mu} for mu in (0.0, -1.0, float("nan"), float("inf"))],
)
def test_a_setting_out_of_range_is_refused_before_anything_runs(changes):
    with pytest.raises(InvalidSettingError, match=next(iter(changes)).replace("_", "-")):
        ScenarioSettings(model=bundled_model(), **changes)


class Blind:
    """Finds some objects of a scene, never the target, or nothing at all."""

    def __init__(self, knows, missed):
        self.knows, self.missed = knows, missed

    def segment(self, observation):
        scene = self.knows.segment(observation)
        found = tuple(o for o in scene.objects if o.id not in self.missed)
        ids = np.where(np.isin(scene.visible_ids, list(self.missed)), 0, scene.visible_ids)
        return Scene(observation, found, ids)


@pytest.mark.slow
@pytest.mark.parametrize(("misses_all", "how"), [(False, "target_lost"), (True, "empty")])
def test_a_segmenter_that_misses_the_target_fails_for_perception(misses_all, how):
    settings = DemoSettings("easy", eyes="truth")
    stage = set_stage(FIRST_SEED, settings)
    missed = set(stage.world.objects) if misses_all else {stage.heap.target}
    stage = replace(stage, segmenter=Blind(stage.segmenter, missed))
    run = demonstrate(stage, settings)
    assert (run.result.ended, run.delivered) == (how, False)
    assert cause_of(run.result, run.delivered, 0, 0, stage.target_shows()) == "perception"


@pytest.mark.slow
def test_an_error_of_the_program_is_no_outcome_of_a_scenario(tmp_path, monkeypatch):
    def broken(scene, obj, gripper):
        raise InvalidSceneError("grasps need depth")

    monkeypatch.setattr("cpor.sim.arm.simulated_robot.find_grasps", broken)
    settings = ScenarioSettings(model=bundled_model(), eyes="truth")
    with pytest.raises(InvalidSceneError, match="grasps need depth"):
        run_robot_table(tmp_path / "records.jsonl", settings, 1, ("oracle",))
    assert read_records(tmp_path / "records.jsonl") == []


def test_rates_have_wilson_intervals():
    # Wilson for 8 of 10, as tables print it.
    rate = WilsonRate.of([True] * 8 + [False] * 2)
    assert (rate.share, rate.n) == (0.8, 10)
    assert rate.ci == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert np.isnan(WilsonRate.of([]).share)


def test_rows_count_tiers_causes_and_pairs():
    records = [record("easy", k, "cpor", k < 3) for k in range(4)]
    records += [
        record("easy", k, "single_map", k < 1, cause=None if k < 1 else "reasoning") for k in range(4)
    ]
    rows = summarise(records, np.random.default_rng(0))
    assert list(rows) == ["single_map", "cpor"]
    assert rows["cpor"].success["easy"].hits == 3 and rows["cpor"].success["hard"].n == 0
    assert rows["single_map"].causes == {"reasoning": 3}
    paired = rows["single_map"].paired
    assert (paired.corrections, paired.regressions, paired.delta) == (2, 0, 0.5)
    assert rows["cpor"].paired is None


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "records.jsonl"
    settings = ScenarioSettings(model=bundled_model(), eyes="truth", person=True)
    return path, settings, run_robot_table(path, settings, 1, ("cpor", "oracle"))


@pytest.mark.slow
def test_scenarios_run_on_the_arm(table, evidence):
    path, _, records = table
    assert [(r.tier, r.method) for r in records] == [
        (tier, method) for tier in ("easy", "medium", "hard") for method in ("cpor", "oracle")
    ]
    assert records[0].seed == FIRST_SEED
    assert read_records(path) == records
    oracle = [r for r in records if r.method == "oracle"]
    assert sum(r.retrieved for r in oracle) >= 2  # the arm can do it; the full table is in `make evidence`
    for r in records:
        assert r.success == (r.retrieved and r.wrong == 0)
        assert (r.cause is None) == r.success


@pytest.mark.slow
def test_a_file_of_records_is_resumed_not_repeated(table):
    path, settings, records = table
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # killed while it wrote the last record
    assert run_robot_table(path, settings, 1, ("cpor", "oracle")) == records
    assert path.read_bytes() == whole
    with pytest.raises(CporError, match="made with other settings"):
        run_robot_table(path, replace(settings, tau=0.4), 1)
    other = path.with_name("other.json")
    other.write_text(settings.model.read_text() + "\n")
    with pytest.raises(CporError, match="made with other files"):
        run_robot_table(path, replace(settings, model=other), 1)
    same = path.with_name("same.json")
    same.write_bytes(settings.model.read_bytes())
    assert run_robot_table(path, replace(settings, model=same), 1, ("cpor", "oracle")) == records
    path.write_bytes(whole.replace(b'"mujoco-core": "', b'"mujoco-core": "1.', 1))
    with pytest.raises(CporError, match="made with other versions"):
        run_robot_table(path, settings, 1)
    path.write_bytes(whole.replace(b'"easy"', b'"soft"', 1))
    with pytest.raises(CporError, match="line 2 is no record"):
        read_records(path)
    path.write_bytes(whole)


@pytest.mark.slow
def test_the_command_line_prints_the_table(table):
    path, _, _ = table
    arguments = ["experiment", "robot", "--out", str(path), "--per-tier", "1", "--methods", "cpor,oracle"]
    arguments[2:2] = ["--eyes", "truth", "--person"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "true relations" in shown.output and "CPOR against true relations" in shown.output
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert found["cpor"]["success"]["all"]["n"] == 3
    wrong = CliRunner().invoke(app, [*arguments[:-1], "cpor,magic"])
    assert isinstance(wrong.exception, CporError) and "choose from" in str(wrong.exception)


def test_records_go_into_a_file_that_can_be_written(tmp_path):
    settings = ScenarioSettings(model=bundled_model(), eyes="truth", person=True)
    (tmp_path / "letter.txt").write_text("dear")
    for out, said in [(tmp_path, "is a folder"), (tmp_path / "letter.txt", "no file of records")]:
        with pytest.raises(CporError, match=f"{said}.*choose another --out"):
            run_robot_table(out, settings, 1)
    for out in (tmp_path / "letter.txt" / "records", Path("/proc/none/records")):
        with pytest.raises(CporError, match=f"cannot write to {out}: .*choose another --out"):
            run_robot_table(out, settings, 1)
    with pytest.raises(InvalidSettingError, match="at least 1"):
        run_robot_table(tmp_path / "records", settings, 1, pool=Pool(0))
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks there")
def test_two_do_not_write_to_one_file(tmp_path):
    out = tmp_path / "records.jsonl"
    out.touch()
    with held_alone(out), pytest.raises(InputFileError, match="another process"):
        run_robot_table(out, ScenarioSettings(model=bundled_model(), eyes="truth"), 1)


def test_the_bundled_model_learnt_what_an_arm_meets():
    model = FittedModel.load(bundled_model())
    assert model.truth == "any" and model.scorer is None
    assert 0.0 < model.p_unanswered < 0.5


@pytest.mark.slow
def test_what_a_person_says_is_theirs_and_where_the_target_is_out_they_say_nothing():
    stage = set_stage(FIRST_SEED, DemoSettings("easy", eyes="truth"))
    person, scene = Person(stage), stage.look_at_it()
    seen = Cycle(4, scene, stage.heap.target, action=Defer("weak_evidence"))
    right = right_actions(stage.heap.target, stage.truth())
    assert person(seen).obj in right and person.told == {4}
    # Asked whether the target is out, they say that it is not; the grasp stays the robot's own.
    assert person(replace(seen, index=5, attempt="ended")) == Grasp(stage.heap.target)
    assert person.told == {4} and person.asked == 2
