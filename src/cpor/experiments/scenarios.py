"""One scenario of the robot table: a heap, a target, a method, the loop closed on the simulated arm."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from cpor.decision import Defer
from cpor.experiments.deciders import MethodName, deciders
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.robot.cycle import Ended, RunResult
from cpor.sim.demo import DemoSettings, demonstrate, set_stage
from cpor.sim.sweep import sweep_relations
from cpor.sim.truth import Tier, has_cycle

Cause: TypeAlias = Literal["perception", "reasoning", "grasp", "physics"]
"""Why a scenario failed. `perception`: evidence was missing. `reasoning`: a wrong action was taken, or none
although one was right. `grasp`: right actions, but the gripper did not get hold. `physics`: the pile fell,
the target left the bin, or the arm stopped itself."""


class ScenarioSettings(BaseModel):
    """What all scenarios of a table share.

    Attributes:
        model: File of the fitted model.
        tau: Act only above this score, in every row but the oracle's.
        budget: Attempts on objects.
        finger_friction: Of the pads.
    """

    model_config = ConfigDict(frozen=True)

    model: Path
    tau: float = 0.0
    budget: int = 12
    finger_friction: float = 0.5


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


def run_scenario(job: Job) -> ScenarioRecord:
    """Heap, look, decide, act, until the loop ends. The same job gives the same record anywhere."""
    of_all = job.settings
    settings = DemoSettings(job.tier, finger_friction=of_all.finger_friction, budget=of_all.budget)
    stage = set_stage(job.seed, settings)
    cyclic = any(has_cycle(truth) for truth in (stage.heap.occlusion, sweep_relations(stage.world)))
    pipeline = fitted_pipeline(of_all.model, of_all.tau)
    run = demonstrate(stage, settings, deciders(pipeline, stage.truth)[job.method])
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
        cause=cause_of(run.result, run.delivered, wrong, failed),
        cyclic=cyclic,
        n_objects=len(stage.world.objects),
        detail=run.result.detail,
    )


def cause_of(result: RunResult, retrieved: bool, wrong: int, failed_grasps: int) -> Cause | None:
    """Why a run is no success, by what ended it; the first rule that applies."""
    if retrieved and not wrong:
        return None
    if result.ended in ("target_lost", "fault", "empty"):
        return "physics"
    if result.ended == "deferred":
        last = next((c.decision for c in reversed(result.cycles) if c.decision), None)
        if last is not None and last.action == Defer("no_evidence"):
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
