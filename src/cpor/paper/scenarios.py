"""One scenario of the robot table: a heap, a target, a method, the loop closed on the simulated arm."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from cpor.answer import Answer, Believed, View
from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.errors import CameraError, InvalidSettingError, RobotError
from cpor.evidence.source import SEMANTIC
from cpor.model import FittedModel
from cpor.paper.deciders import Decider, MethodName, deciders, true_scores
from cpor.paper.loop_causes import Step, list_steps
from cpor.parts import NONE
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import PairBeliefs, Pipeline, PipelineResult
from cpor.robot.choose import why_obstructed
from cpor.robot.cycle import Cycle, Ended, LoopSettings, RunResult
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.semantics.embedded import EmbeddedScorer
from cpor.semantics.scorer import score_stage
from cpor.sim.dataset.manifest import Tier
from cpor.sim.physics.sweep import sweep_relations
from cpor.sim.physics.truth import has_cycle
from cpor.sim.staged_run import DemoSettings, Eyes, Stage, demonstrate, set_stage
from cpor.system import System
from cpor.words.grounding_answers import Found, RequestLike

Cause: TypeAlias = Literal["perception", "reasoning", "grasp", "physics"]
"""Why a scenario failed. `perception`: no frame came, nothing was found in it, or the target was not although
it can be seen. `reasoning`: a wrong action was taken, or none although one was right. `grasp`: right actions,
but the gripper did not get hold. `physics`: the pile fell, the target left the view, or the arm stopped
itself."""


_Out = TypeVar("_Out")

SIGNED_OFF = "the robot table: every row decides with the same prior, in simulation only"
"""Why its scenarios may fill missing answers with a prior."""


@dataclass(frozen=True)
class ScenarioSettings:
    """What all scenarios of a table share.

    Attributes:
        model: File of the fitted model.
        tau: Act only above this score, in every row but the oracle's.
        budget: Attempts on objects.
        finger_friction: Friction of the pads.
        eyes: What finds objects and scores relations: our networks, or true masks and no scores.
        person: Whether a person who knows the truth is asked where the loop defers three times in a row. What
            they say is never held against the method; how often they are asked is counted.

    Raises:
        InvalidSettingError: One of them is out of its range.
    """

    model: Path
    tau: float = 0.0
    budget: int = 12
    finger_friction: float = 0.5
    eyes: Eyes = "networks"
    person: bool = False

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
    """One scenario for some methods."""

    tier: Tier
    seed: int
    methods: tuple[MethodName, ...]
    settings: ScenarioSettings


class ScenarioRecord(BaseModel):
    """What came of one scenario.

    Attributes:
        tier, seed, method: Which.
        ended: How the loop ended.
        retrieved: Whether the target is in the delivery tray, by the simulator.
        success: As the paper defines it: retrieved, and every action was right.
        actions: Attempts on objects.
        wrong: Actions that occlusion or sweep says were wrong, less those that a person said.
        deferrals: Times it deferred.
        failed_grasps: Attempts that did not end with the object in a tray.
        cause: Why it is no success; None where it is.
        cyclic: Whether the first truth held a cycle.
        n_objects: In the heap.
        detail: How it ended, in words.
        pointed: How often a person had to say again which object is meant.
        sign_off_prior: Why missing answers were filled with a prior; None where they were not.
        asked: How often a person was asked what to do.
        steps: Every decision, with the cause of each wrong one.
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
    pointed: int = 0
    sign_off_prior: str | None = None
    asked: int = 0
    steps: tuple[Step, ...] = ()

    @property
    def needless(self) -> int:
        """Questions to a person where the robot's own likeliest action was right."""
        return sum(step.by_person and not step.own_wrong for step in self.steps)


class Person:
    """A person who knows the truth and is asked what to do.

    Args:
        stage: Where it is.

    Attributes:
        asked: How often they were asked, also which object is the target and whether it is out.
        told: Cycles in which they said what to do.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.asked = 0
        self.told: set[int] = set()

    def __call__(self, cycle: Cycle) -> Action | None:
        """A right action, or which object is the target; None: the target is out, or nothing is right."""
        self.asked += 1
        if cycle.attempt != "none":
            out = self._stage.robot.in_tray(self._stage.heap.target, "delivery")
            return None if out or cycle.target is None else Grasp(cycle.target)
        target = self._stage.find_target(cycle.scene)
        if target is None or target != cycle.target:
            return None if target is None else Grasp(target)
        self.told.add(cycle.index)
        scores = true_scores(cycle.scene.ids, target, self._stage.truth_in(cycle.scene))
        best = cycle.scene.ids[int(scores.argmax())]
        return None if not scores.any() else Grasp(best) if best == target else Remove(best)


class SideBySide(System):
    """A row of the table as the system of a loop, and other rows that are asked about the same scenes.

    A run is decided by its actions alone: a method that says the same throughout would have had the same run.

    Args:
        segmenter: Finds the objects.
        leads: The row that decides.
        others: Rows that are asked as well.

    Attributes:
        said: What each of the others said in each decision, of those that still agree.
    """

    def __init__(self, segmenter: Segmenter, leads: Decider, others: Mapping[MethodName, Decider]) -> None:
        super().__init__(segmenter, NONE, NONE, second_look=False)
        self._leads, self._others = leads, others
        self.said: dict[MethodName, list[Decision]] = {method: [] for method in others}

    def decide(self, view: View, request: RequestLike = None, **kept: object) -> Answer:
        """The leading row's answer; rows decide by a scene alone, with no check of the input."""
        assert view.memory is not None and isinstance(request, int)
        result = self._leads(view.seen, request, view.memory.pairs.apply)
        for method in tuple(self.said):
            other = self._others[method](view.seen, request, view.memory.pairs.apply)
            both_act = (_why(other) is None) == (_why(result) is None)
            if other.decision.action == result.decision.action and both_act:
                self.said[method].append(other.decision)
            else:
                del self.said[method]
        view.believed = Believed(result.beliefs, view.sources, _scores_of(result.beliefs))
        view.memory = view.memory.learn(result.beliefs)
        tau, rate = result.decision.tau, result.p_success
        return Answer(result.decision, result.posterior, view, Found(request), None, tau, p_success=rate)


def _why(result: PipelineResult) -> str | None:
    return why_obstructed(result.posterior, result.decision.action)


def _scores_of(beliefs: PairBeliefs) -> SemanticScores | None:
    """The semantic scores that beliefs were made from; None where there are none."""
    said, scores = beliefs.scores[SEMANTIC], dict[BlockedBy, float | None]()
    for i, j in zip(*np.nonzero(said.asked), strict=True):
        score = float(said.score[i, j])
        scores[BlockedBy(beliefs.ids[i], beliefs.ids[j])] = None if np.isnan(score) else score
    return SemanticScores(scores, beliefs.scorer) if scores else None


def run_scenario(job: Job) -> tuple[ScenarioRecord, ...]:
    """Heap, look, decide, act, until the loop ends; a record a method.

    The same job gives the same records anywhere. Methods that say the same share a run.

    Raises:
        CporError: Neither camera nor arm failed but the program or a setting: that is no scenario's outcome.
        KeyboardInterrupt: It was stopped.
    """
    done: dict[MethodName, ScenarioRecord] = {}
    while left := sorted((m for m in job.methods if m not in done), key=lambda m: m != "cpor"):
        done |= _run_first(job, left)
    return tuple(done[method] for method in job.methods)


def _run_first(job: Job, methods: Sequence[MethodName]) -> dict[MethodName, ScenarioRecord]:
    """The run of the first method, which is also that of every other one that says the same."""
    of_all = job.settings
    settings = DemoSettings(
        job.tier, finger_friction=of_all.finger_friction, budget=of_all.budget, eyes=of_all.eyes
    )
    stage = set_stage(job.seed, settings)
    cyclic = any(has_cycle(truth) for truth in (stage.heap.occlusion, sweep_relations(stage.world)))
    pipeline = _scoring_pipeline(of_all.model, of_all.tau)
    pipeline = replace(pipeline, measure=_once(pipeline.measure), score=_once(pipeline.score))
    rows = deciders(pipeline, stage.truth_in)
    first, *others = methods
    decider = SideBySide(stage.segmenter, rows[first], {method: rows[method] for method in others})
    person = Person(stage)
    ask = person if of_all.person else None
    run = demonstrate(stage, settings, decider, ask=ask, sign_off_prior=SIGNED_OFF)
    result = run.result
    if result.error is not None and not isinstance(result.error, CameraError | RobotError):
        raise result.error
    if result.ended == Ended.STOPPED and result.error is None:
        raise KeyboardInterrupt
    wrong = sum(verdict.is_wrong for k, verdict in run.verdicts.items() if k not in person.told)
    failed = sum(c.outcome is not None and c.outcome.kind != "done" for c in result.cycles)
    told = frozenset(person.told)
    record = ScenarioRecord(
        tier=job.tier,
        seed=job.seed,
        method=first,
        ended=result.ended,
        retrieved=run.delivered,
        success=run.delivered and wrong == 0,
        actions=result.actions,
        wrong=wrong,
        deferrals=result.deferrals,
        failed_grasps=failed,
        cause=cause_of(result, run.delivered, wrong, failed, stage.target_shows()),
        cyclic=cyclic,
        n_objects=len(stage.world.objects),
        detail=result.detail,
        pointed=run.pointed,
        sign_off_prior=SIGNED_OFF,
        asked=person.asked,
        steps=list_steps(result.cycles, run.moments, told),
    )
    records = {first: record}
    if failed < LoopSettings().failures_before_exclusion:  # else more than the decided actions may count
        for method, said in decider.said.items():
            steps = list_steps(_with_decisions(result.cycles, said), run.moments, told)
            records[method] = record.model_copy(update={"method": method, "steps": steps})
    return records


def _once(stage: Callable[[Scene], _Out]) -> Callable[[Scene], _Out]:
    """The stage, computed once where it is asked about the same scene several times in a row."""
    last: list[tuple[Scene, _Out]] = []

    def kept(scene: Scene) -> _Out:
        if not last or last[0][0] is not scene:
            last[:] = [(scene, stage(scene))]
        return last[0][1]

    return kept


def _with_decisions(cycles: Sequence[Cycle], said: Sequence[Decision]) -> list[Cycle]:
    """The cycles of a run as another method decided them."""
    each = iter(said)
    return [replace(c, decision=next(each)) if c.decision is not None else c for c in cycles]


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
        last = next((c for c in reversed(result.cycles) if c.decision), None)
        if last is None or last.decision is None or last.action == Defer("conflicting_evidence"):
            return "reasoning"
        if last.decision.action in (Defer("no_evidence"), Defer("unseen_blocker")):
            return "perception"
        # It knew what to do and could not: the gripper is to blame.
        return "reasoning" if isinstance(last.decision.action, Defer) else "grasp"
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
    return (
        pipeline
        if SEMANTIC not in pipeline.calibrate
        else replace(pipeline, score=score_stage(EmbeddedScorer()))
    )
