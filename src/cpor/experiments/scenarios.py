"""One scenario of the robot table: a heap, a target, a method, the loop closed on the simulated arm."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from cpor.decision import Defer
from cpor.errors import CameraError, InvalidSettingError, RobotError
from cpor.experiments.deciders import MethodName, deciders
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.robot.cycle import Ended, RunResult
from cpor.semantics.embedded import EmbeddedScorer
from cpor.semantics.scorer import score_stage
from cpor.sim.dataset.manifest import Tier
from cpor.sim.physics.sweep import sweep_relations
from cpor.sim.physics.truth import has_cycle
from cpor.sim.staged_run import DemoSettings, Eyes, demonstrate, set_stage

Cause: TypeAlias = Literal["perception", "reasoning", "grasp", "physics"]
"""Why a scenario failed. `perception`: no frame came, nothing was found in it, or the target was not although
it can be seen. `reasoning`: a wrong action was taken, or none although one was right. `grasp`: right actions,
but the gripper did not get hold. `physics`: the pile fell, the target left the view, or the arm stopped
itself."""


SIGNED_OFF = "the robot table: every row decides with the same prior, in simulation only"
"""Why its scenarios may fill missing answers with a prior."""


@dataclass(frozen=True)
class ScenarioSettings:
    """What all scenarios of a table share.

    Attributes:
        model: File of the fitted model.
        tau: Act only above this score, in every row but the oracle's.
        budget: Attempts on objects.
        finger_friction: Of the pads.
        eyes: Who finds objects and scores relations: our networks, or true masks and no scores.

    Raises:
        InvalidSettingError: One of them is out of its range.
    """

    model: Path
    tau: float = 0.0
    budget: int = 12
    finger_friction: float = 0.5
    eyes: Eyes = "networks"

    def __post_init__(self) -> None:
        if not 0.0 <= self.tau <= 1.0:  # nor NaN
            raise InvalidSettingError(f"--tau is {self.tau}; it must lie between 0 and 1")
        if self.budget < 1:
            raise InvalidSettingError(f"--budget is {self.budget}; give at least 1")
        if not 0.0 < self.finger_friction < math.inf:
            raise InvalidSettingError(
                f"--finger-friction is {self.finger_friction}; it must be above 0, as 0.5 for hard rubber"
            )


@dataclass(frozen=True)
class Job:
    """One scenario for one method."""

    tier: Tier
    seed: int
    method: MethodName
    settings: ScenarioSettings


class ScenarioRecord(BaseModel):
    """What came of one scenario.

    Attributes:
        tier, seed, method: Which.
        ended: How the loop ended.
        retrieved: Whether the target is in the delivery tray, by the simulator.
        success: As the paper defines it: retrieved, and every action was right.
        actions: Attempts on objects.
        wrong: Actions that occlusion or sweep says were wrong.
        deferrals: Times it deferred.
        failed_grasps: Attempts that did not end with the object in a tray.
        cause: Why it is no success; None where it is.
        cyclic: Whether the first truth held a cycle.
        n_objects: In the heap.
        detail: How it ended, in words.
        pointed: How often somebody had to say which object is meant.
        sign_off_prior: Why missing answers were filled with a prior; None where they were not.
    """

    model_config = ConfigDict(frozen=True)

    tier: Tier
    seed: int
    method: MethodName
    ended: Ended
    retrieved: bool
    success: bool
    actions: int
    wrong: int
    deferrals: int
    failed_grasps: int
    cause: Cause | None
    cyclic: bool
    n_objects: int
    detail: str
    pointed: int = 1
    sign_off_prior: str | None = None


def run_scenario(job: Job) -> ScenarioRecord:
    """Heap, look, decide, act, until the loop ends. The same job gives the same record anywhere.

    Raises:
        CporError: Neither camera nor arm failed but the program or a setting: that is no scenario's outcome.
        KeyboardInterrupt: Somebody stopped it.
    """
    of_all = job.settings
    settings = DemoSettings(
        job.tier, finger_friction=of_all.finger_friction, budget=of_all.budget, eyes=of_all.eyes
    )
    stage = set_stage(job.seed, settings)
    cyclic = any(has_cycle(truth) for truth in (stage.heap.occlusion, sweep_relations(stage.world)))
    pipeline = _scoring_pipeline(of_all.model, of_all.tau)
    decider = deciders(pipeline, stage.truth_in)[job.method]
    run = demonstrate(stage, settings, decider, sign_off_prior=SIGNED_OFF)
    if run.result.error is not None and not isinstance(run.result.error, CameraError | RobotError):
        raise run.result.error
    if run.result.ended == Ended.STOPPED and run.result.error is None:
        raise KeyboardInterrupt
    wrong = run.wrong_removals + run.wrong_grasps
    failed = sum(c.outcome is not None and c.outcome.kind != "done" for c in run.result.cycles)
    return ScenarioRecord(
        tier=job.tier,
        seed=job.seed,
        method=job.method,
        ended=run.result.ended,
        retrieved=run.delivered,
        success=run.delivered and wrong == 0,
        actions=run.result.actions,
        wrong=wrong,
        deferrals=run.result.deferrals,
        failed_grasps=failed,
        cause=cause_of(run.result, run.delivered, wrong, failed, stage.target_shows()),
        cyclic=cyclic,
        n_objects=len(stage.world.objects),
        detail=run.result.detail,
        pointed=run.pointed,
        sign_off_prior=SIGNED_OFF,
    )


def cause_of(
    result: RunResult, retrieved: bool, wrong: int, failed_grasps: int, target_shows: bool
) -> Cause | None:
    """Why a run is no success, by what ended it; the first rule that applies.

    With the simulator's own masks the target is found wherever it shows, and with `fill_missing`, as in
    `fitted_pipeline`, `no_evidence` cannot occur: then only a camera that fails is `perception`. The other
    rules are for segmenters that miss things, and for stages that ask.

    Args:
        result: The run, as the robot saw it.
        retrieved: The truth: whether the target is in the delivery tray.
        wrong: Actions the truth says were wrong.
        failed_grasps: Attempts that did not end with the object in a tray.
        target_shows: The truth: whether the camera sees some of the target now.
    """
    if retrieved and not wrong:
        return None
    if isinstance(result.error, CameraError) or result.ended == Ended.EMPTY:
        return "perception"
    if result.ended == Ended.TARGET_LOST:
        return "perception" if target_shows else "physics"
    if result.ended in (Ended.FAULT, Ended.STOPPED):
        return "physics"
    if result.ended in (Ended.DEFERRED, Ended.UNCONFIRMED):
        last = next((c.decision for c in reversed(result.cycles) if c.decision), None)
        if last is not None and last.action in (Defer("no_evidence"), Defer("unseen_blocker")):
            return "perception"
        # It knew what to do and could not: the gripper is to blame.
        return "grasp" if last is not None and not isinstance(last.action, Defer) else "reasoning"
    if wrong:
        return "reasoning"
    return "grasp" if failed_grasps or retrieved is not result.retrieved else "reasoning"


@lru_cache(maxsize=2)
def fitted_pipeline(model: Path, tau: float) -> Pipeline:
    """The stages of a model file, read once a process; pairs without an answer take the rate it learnt."""
    return FittedModel.load(model).pipeline(tau, fill_missing=True)


@lru_cache(maxsize=2)
def _scoring_pipeline(model: Path, tau: float) -> Pipeline:
    """The same with every scene scored anew where the model was fitted to scores."""
    pipeline = fitted_pipeline(model, tau)
    return pipeline if pipeline.calibrate is None else replace(pipeline, score=score_stage(EmbeddedScorer()))
