"""Heaps, targets and the loop closed on the simulated arm: scenarios of the robot table, and episodes.

A scenario compares methods; an episode is what a promise over retrievals is tested on.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.errors import CameraError, InvalidSettingError, RobotError
from cpor.evidence.source import SEMANTIC
from cpor.io.pool import Pool
from cpor.io.whole_files import held_alone
from cpor.model import FittedModel
from cpor.paper.methods import MethodName, MethodSystem, true_scores
from cpor.paper.robot_table import Cause, ScenarioRecord, Step
from cpor.parts import NONE
from cpor.pipeline import UNSEEN
from cpor.records import record_action
from cpor.robot.cycle import Cycle, Ended, LoopSettings, RunResult
from cpor.robot.judged_retrievals import Retrieval, keep_retrieval, read_retrievals, set_up
from cpor.sim.dataset.manifest import TIERS, Tier
from cpor.sim.physics.true_relations import has_cycle, sweep_relations
from cpor.sim.staged_run import DemoSettings, Eyes, Moment, Stage, demonstrate, set_stage
from cpor.truth import is_wrong

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
    model = FittedModel.load(of_all.model)
    scorer = None if SEMANTIC in model.calibration else NONE
    shared = model, stage.segmenter, scorer, stage.truth_in, of_all.tau, model.p_unanswered
    first, *others = (MethodSystem(method, *shared) for method in methods)
    first.beside = {other: [] for other in others}
    person = Person(stage)
    ask = person if of_all.person else None
    run = demonstrate(stage, settings, first, ask=ask, sign_off_prior=SIGNED_OFF)
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
        method=first.method,
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
    records = {first.method: record}
    if failed < LoopSettings().failures_before_exclusion:  # else more than the decided actions may count
        for other, decisions in first.beside.items():
            steps = list_steps(_with_decisions(result.cycles, decisions), run.moments, told)
            records[other.method] = record.model_copy(update={"method": other.method, "steps": steps})
    return records


def _with_decisions(cycles: Sequence[Cycle], said: Sequence[Decision]) -> list[Cycle]:
    """The cycles of a run as another method decided them."""
    each = iter(said)
    return [replace(c, decision=next(each)) if c.decision is not None else c for c in cycles]


def list_steps(
    cycles: Sequence[Cycle], moments: Mapping[int, Moment], told: frozenset[int] = frozenset()
) -> tuple[Step, ...]:
    """Every decision of a run."""
    return tuple(
        _step(cycle, cycle.decision, moments[cycle.index], cycle.index in told)
        for cycle in cycles
        if cycle.decision is not None and cycle.target is not None and cycle.index in moments
    )


def _step(cycle: Cycle, decision: Decision, moment: Moment, by_person: bool) -> Step:
    assert cycle.target is not None and cycle.action is not None
    own = _likeliest(decision.scores, cycle.target)
    action: Grasp | Remove = own if isinstance(cycle.action, Defer) else cycle.action
    return Step(
        cycle=cycle.index,
        did=record_action(cycle.action).type,
        reason=cycle.action.reason if isinstance(cycle.action, Defer) else None,
        score=float(decision.scores.get(action.obj, 0.0)),
        wrong=_is_wrong(action, moment),
        by_person=by_person,
        own_wrong=_is_wrong(own, moment),
    )


def _is_wrong(action: Grasp | Remove, moment: Moment) -> bool:
    owner = moment.recognition.owner.get(action.obj)  # type: ignore[call-overload]
    if owner is None or moment.target is None:
        return True
    return is_wrong(type(action)(owner), moment.target, moment.truth)


def _likeliest(scores: Mapping[Hashable, float], target: int) -> Grasp | Remove:
    obj = max((k for k in scores if k != UNSEEN), key=lambda k: (scores[k], k == target), default=target)
    return Grasp(obj) if obj == target else Remove(obj)


def cause_of(
    result: RunResult, retrieved: bool, wrong: int, failed_grasps: int, target_shows: bool
) -> Cause | None:
    """Why a run is no success, by what ended it; the first rule that applies.

    With the simulator's own masks the target is found wherever it shows, and with a prior for missing answers
    `no_evidence` cannot occur: then only a camera that fails is `perception`. The other rules are for
    segmenters that miss things, and for systems that ask.

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


FIRST_SEED = 3_700_000
"""Seeds of the episodes, apart from those of the data sets and of the robot table."""


class Episode(NamedTuple):
    """One to run: seed, settings with the tier, model file."""

    seed: int
    settings: DemoSettings
    model: Path | None


def run_episodes(
    out: Path,
    count: int,
    settings: DemoSettings,
    model: Path | None = None,
    workers: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Retrieval]:
    """Run retrievals with a `System` and a person who knows the truth; what a file holds is not run again."""
    if count < 1:
        raise InvalidSettingError(f"{count} episodes; give at least 1")
    out.touch()
    with held_alone(out):
        tiers = [TIERS[k % len(TIERS)] for k in range(count)]
        wanted = [
            Episode(FIRST_SEED + k, replace(settings, tier=tier), model) for k, tier in enumerate(tiers)
        ]
        done = {each.run: each for each in read_retrievals([out])}
        todo = [job for job in wanted if _name(job) not in done]
        for job, retrieval in Pool(workers).do_all(run_episode, todo):
            keep_retrieval(out, retrieval)
            done[_name(job)] = retrieval
            if progress is not None:
                progress("episodes", sum(_name(each) in done for each in wanted), len(wanted))
    return [done[_name(job)] for job in wanted]


def _name(job: Episode) -> str:
    return f"{job.settings.tier} {job.seed}, {job.settings.tau or job.settings.mode}"


def run_episode(job: Episode) -> Retrieval:
    """One heap, until the target is out or the run ends otherwise."""
    stage = set_stage(job.seed, job.settings)
    system, person = job.settings.system(stage.segmenter, job.model), Person(stage)
    run = demonstrate(stage, job.settings, system, ask=person)
    error = run.result.error
    if error is not None and not isinstance(error, CameraError | RobotError):
        raise error
    if run.result.ended == Ended.STOPPED and error is None:
        raise KeyboardInterrupt
    model, tau, where = set_up("simulated", system)
    assert model is not None and tau is not None, "a demonstration has a model"
    wrong = any(verdict.is_wrong for k, verdict in run.verdicts.items() if k not in person.told)
    return Retrieval(
        run=_name(job),
        where=where,
        model=model.tested_digest,
        tau=tau,
        wrong=wrong,
        ended=run.result.ended,
    )
