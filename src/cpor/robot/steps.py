"""The steps of a cycle in which nothing moves: take a frame, decide, hear a person, check a delivery."""

from dataclasses import replace
from typing import Any

import numpy as np

from cpor.decision import Action, Defer, Grasp
from cpor.errors import CameraError, InvalidSettingError
from cpor.inference.decide import LISTING
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import Pipeline
from cpor.records.pair_belief import PairBelief
from cpor.relations import ObstructionPosterior
from cpor.robot.carry_over import AskOnlyNew, Memory
from cpor.robot.choose import Decider, choose
from cpor.robot.confirm import Delivery, confirm_delivery
from cpor.robot.cycle import Cycle, LoopSettings, Stopwatch, as_recorded, scores_used
from cpor.robot.protocol import Outcome, Robot
from cpor.scene import Observation, Scene

CLOCK_ERROR_S = 0.05
"""A frame may be this much older than the moment it was asked for, by the camera's clock. [s]"""


class Frames:
    """The frames of a robot's camera, each newer than the one before.

    A camera that hangs gives frames as well: one that shows nothing new counts as lost.

    Args:
        robot: Whose camera.
        settings: How often a frame is tried for, and whether equal ones are possible.
    """

    def __init__(self, robot: Robot, settings: LoopSettings) -> None:
        self._robot, self._settings = robot, settings
        self._last: Observation | None = None

    def take(self, notes: list[str]) -> Observation:
        """A frame; one that was lost is noted and tried again.

        Raises:
            CameraError: The last try brought none either.
        """
        for _ in range(self._settings.camera_retries):
            try:
                return self._look()
            except CameraError as error:
                notes.append(f"a frame was lost: {error}")
        return self._look()

    def _look(self) -> Observation:
        asked_at = self._robot.status().time_s
        frame = self._robot.observe()
        why = why_stale(frame, self._last, asked_at, self._settings.frames_may_repeat)
        if why is not None:
            raise CameraError(f"{why}; check that the camera still runs")
        self._last = frame
        return frame


def why_stale(
    frame: Observation, last: Observation | None, asked_at_s: float | None, may_repeat: bool
) -> str | None:
    """Why a frame does not show what is there now; None where nothing speaks against it.

    Args:
        frame: The frame.
        last: The one before it.
        asked_at_s: When it was asked for, on the camera's clock, where known. [s]
        may_repeat: Whether equal frames are possible, where number or time says that they are new.
    """
    if frame.time_s is not None and asked_at_s is not None and frame.time_s < asked_at_s - CLOCK_ERROR_S:
        return f"the frame is {asked_at_s - frame.time_s:.1f} s old"
    if last is None:
        return None
    counted = frame.number is not None and last.number is not None
    if counted and frame.number <= last.number:  # type: ignore[operator]
        return f"the camera gave frame {frame.number} after frame {last.number}"
    timed = frame.time_s is not None and last.time_s is not None
    # Where frames are counted as well, a clock that stands still in between is no fault.
    if timed and (frame.time_s < last.time_s or (frame.time_s == last.time_s and not counted)):  # type: ignore[operator]
        return "the frame is not newer than the one before"
    if may_repeat and (counted or timed):
        return None
    if frame.shape == last.shape and np.array_equal(frame.rgb, last.rgb):
        return "the picture is equal to the one before, to the last pixel"
    depth = frame.depth
    if depth is None or last.depth is None or np.isnan(depth).all():
        return None
    repeats = np.array_equal(depth, last.depth, equal_nan=True)
    return "the depth is equal to that before, to the last pixel" if repeats else None


def require_strict(decider: Pipeline | Decider | None, settings: LoopSettings) -> None:
    """Refuse Algorithm 1, and a prior for missing answers unless somebody signed it off for this run.

    A decider that does not say what it does is taken to assume something.

    Raises:
        InvalidSettingError: Nobody did, or the method is `topk`.
    """
    policy: Any = _pipeline_of(decider) or decider
    if (method := getattr(policy, "method", None)) in LISTING:
        raise InvalidSettingError(f"the method {method} is for comparison only; an arm needs auto or exact")
    if settings.sign_off_prior is not None:
        return
    if not (hasattr(policy, "prior") and hasattr(policy, "method")):
        raise InvalidSettingError(
            "the decider does not say what it assumes where no source has an answer; use a System, put it in "
            "cpor.robot.choose.Declared, or sign it off for this run with LoopSettings(sign_off_prior=...)"
        )
    if policy.prior is not None:
        raise InvalidSettingError(
            f"the decider assumes {policy.prior:.3g} where no source has an answer, which must not move an "
            "arm; leave the prior out, or sign it off for this run with LoopSettings(sign_off_prior=...)"
        )


def check_delivery(
    robot: Robot,
    frames: Frames,
    segmenter: Segmenter,
    before: Memory,
    target: int,
    outcome: Outcome,
    settings: LoopSettings,
    notes: list[str],
) -> tuple[Delivery, Scene]:
    """What is known of a target that the robot says it delivered, and the last look at it.

    Args:
        robot: Who says so.
        frames: Of its camera.
        segmenter: Finds the objects of a frame.
        before: What was known before the attempt.
        target: The target's id then.
        outcome: What the robot says.
        settings: How often to look where a look proves nothing.
        notes: Takes what each look says.
    """
    for is_last in (*[False] * (settings.looks_for_target - 1), True):
        seen = segmenter.segment(frames.take(notes))
        seen = replace(seen, observation=as_recorded(seen.observation))
        delivery = confirm_delivery(before, target, seen, settings.ids_are_kept, outcome, robot.status())
        notes.append(f"the robot says that it has the target; {delivery.why}")
        if delivery.known != "not_known" or is_last:
            break
    now = before.taken(target).carry_to(seen, settings.ids_are_kept)
    assert now.frame is not None
    return delivery, now.frame


def decide_cycle(
    cycle: Cycle, target: int, decider: Pipeline | Decider, memory: Memory, settings: LoopSettings
) -> tuple[Cycle, Memory, ObstructionPosterior | None]:
    """The cycle with its decision, the memory with what was learnt, and what was decided from where told.

    Args:
        cycle: What was seen.
        target: Whom it is about.
        decider: Who decides.
        memory: What is known after this frame.
        settings: When an object is left alone.
    """
    watch = Stopwatch(cycle.times_s)
    limit = settings.failures_before_exclusion
    excluded = frozenset(k for k, known in memory.known.items() if known.failures >= limit)
    hopeless = frozenset(k for k in excluded if memory.known[k].failures >= settings.failures_before_asking)
    choice = choose(decider, cycle.scene, target, excluded, settings.make_room, hopeless, memory.pairs)
    scene = cycle.scene
    if choice.result is not None:
        scene = replace(scene, semantic_scores=scores_used(scene, choice.result))
    carried = memory.carried if _uses_given_scores(decider) else frozenset()
    beliefs: tuple[PairBelief, ...] = ()
    if choice.result is not None:
        seen, n = choice.result.beliefs, len(choice.result.beliefs.ids)
        beliefs = tuple(seen.list_pairs(choice.result.posterior.p_obstructs[:n, :n], carried))
    memory = memory.learn(scene.semantic_scores, choice.result.beliefs if choice.result else None)
    watch.lap("decide")
    decided = replace(
        cycle,
        scene=scene,
        decision=choice.decision,
        action=choice.action,
        p_success=choice.p_success,
        beliefs=beliefs,
        promise=choice.answer.promise if choice.answer else None,
        checks=choice.answer.checks if choice.answer else (),
        notes=(*cycle.notes, *choice.notes),
        times_s=watch.times_s,
    )
    return decided, memory, choice.result.posterior if choice.result else None


def _pipeline_of(decider: Pipeline | Decider | None) -> Pipeline | None:
    """The pipeline that decides, also where its `run` was given."""
    owner = getattr(decider, "__self__", decider)
    return owner if isinstance(owner, Pipeline) else None


def _uses_given_scores(decider: Pipeline | Decider) -> bool:
    """Whether it is known to decide by the semantic scores that come with a scene, and not to ask anew."""
    pipeline = _pipeline_of(decider)
    return pipeline is not None and (
        isinstance(pipeline.score, AskOnlyNew) or pipeline.score is Pipeline.score
    )


def with_answer(cycle: Cycle, action: Action | None) -> Cycle:
    """The cycle with what a person says instead, if anything that can be done."""
    if action is None or isinstance(action, Defer):
        return cycle
    if action.obj not in cycle.scene.ids or isinstance(action, Grasp) != (action.obj == cycle.target):
        return noted(cycle, f"a person said {action}, which cannot be done in this scene")
    return replace(noted(cycle, f"a person said {action}"), action=action, p_success=None)


def noted(cycle: Cycle, *notes: str) -> Cycle:
    """The cycle with further notes."""
    return replace(cycle, notes=(*cycle.notes, *notes))
