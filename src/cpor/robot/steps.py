"""The steps of a cycle in which nothing moves: take a frame, decide, hear a person, check a delivery."""

from collections.abc import Set
from dataclasses import replace

import numpy as np

from cpor.answer import Answer
from cpor.decision import Action, Defer, Grasp
from cpor.errors import CameraError, InvalidSettingError
from cpor.infer.policy import LISTING
from cpor.robot.choose import choose
from cpor.robot.confirm import Delivery, confirm_delivery, label_at_place, why_unbalanced
from cpor.robot.cycle import Cycle, LoopSettings, as_recorded
from cpor.robot.fresh import what_changed
from cpor.robot.protocol import Outcome, Robot
from cpor.scene import Observation, Scene
from cpor.system import System
from cpor.tracking.memory import Memory
from cpor.tracking.target import Track
from cpor.words.grounding_answers import AmbiguousRequest

CLOCK_ERROR_S = 0.05
"""A frame may be this much older than the moment it was asked for, by the camera's clock. [s]"""


class Frames:
    """The frames of a robot's camera, each newer than the one before.

    A camera that hangs gives frames as well: one that shows nothing new counts as lost.
    """

    def __init__(self, robot: Robot, settings: LoopSettings, last: Observation | None = None) -> None:
        self._robot, self._settings, self._last = robot, settings, last

    def take(self, notes: list[str]) -> Observation:
        """A frame; one that was lost is noted and tried again.

        Raises:
            CameraError: The last try failed too. It is the first error: later ones may be its consequences.
        """
        first: CameraError | None = None
        for _ in range(self._settings.camera_retries + 1):
            try:
                return self._look()
            except CameraError as error:
                first = first or error
                notes.append(f"a frame was lost: {error}")
        assert first is not None
        raise first

    def _look(self) -> Observation:
        asked_at = self._robot.status().time_s
        frame = self._robot.observe()
        why = why_stale(frame, self._last, asked_at, self._settings.frames_may_repeat)
        if why is not None:
            raise CameraError(f"{why}; check that the camera still runs")
        self._last = frame
        return frame

    def look_before(self, scene: Scene, acted_on: Set[int], notes: list[str]) -> bool:
        """Whether a look right before a motion shows that something changed since the decision.

        In a dry run nothing moves, and a folder of frames has one for each cycle: no look is taken.

        Args:
            scene: What was decided on.
            acted_on: The target, and the object that the robot is about to take.
            notes: Gets what changed.
        """
        if self._robot.status().dry_run:
            return False
        changed = what_changed(scene, as_recorded(self.take(notes)), acted_on)
        if changed is not None:
            notes.append(f"the robot is not sent: {changed} since it was decided")
        return changed is not None


def why_stale(
    frame: Observation, last: Observation | None, asked_at_s: float | None, may_repeat: bool
) -> str | None:
    """Why a frame does not show what is there now; None where nothing speaks against it.

    Args:
        frame: The frame.
        last: The one before it.
        asked_at_s: When it was asked for, on the camera's clock. [s]
        may_repeat: Whether frames may be equal where number or time says that they are new.
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
    return None if may_repeat and (counted or timed) else _why_equal(frame, last)


def _why_equal(frame: Observation, last: Observation) -> str | None:
    """How a frame repeats the one before it; None where it differs."""
    if frame.shape == last.shape and np.array_equal(frame.rgb, last.rgb):
        return "the picture is equal to the one before, to the last pixel"
    depth = frame.depth
    if depth is None or last.depth is None or np.isnan(depth).all():
        return None
    repeats = np.array_equal(depth, last.depth, equal_nan=True)
    return "the depth is equal to that before, to the last pixel" if repeats else None


def require_strict(system: System, settings: LoopSettings) -> None:
    """Refuse Algorithm 1, and a prior for missing answers unless a person signed it off for this run.

    Raises:
        InvalidSettingError: The method is `topk`, or the prior is not signed off.
    """
    if (method := system.settings.method) in LISTING:
        raise InvalidSettingError(f"the method {method} is for comparison only; an arm needs auto or exact")
    if system.settings.prior is not None and settings.sign_off_prior is None:
        raise InvalidSettingError(
            f"the system assumes {system.settings.prior:.3g} where no source has an answer, which must not "
            "move an arm; leave the prior out, or sign it off for this run with "
            "LoopSettings(sign_off_prior=...)"
        )


def check_delivery(
    robot: Robot,
    frames: Frames,
    system: System,
    before: Memory,
    target: int,
    outcome: Outcome,
    settings: LoopSettings,
    notes: list[str],
) -> tuple[Delivery, Scene]:
    """What is known of a target that the robot says it delivered, and the last look at it.

    It looks again where a look proves nothing; `notes` gets what each look says.
    """
    for is_last in (*[False] * (settings.looks_for_target - 1), True):
        seen = system.parts.segment(Scene(as_recorded(frames.take(notes))))[0]
        delivery = confirm_delivery(before, target, seen, settings.ids_are_kept, outcome, robot.status())
        notes.append(f"the robot says that it has the target; {delivery.why}")
        if delivery.known != "not_known" or is_last:
            break
    now = before.taken(target).carry_to(seen, settings.ids_are_kept)
    assert now.frame is not None
    return delivery, now.frame


def check_removal(track: Track, seen: Scene, notes: list[str]) -> None:
    """Doubt the target if a look after a removal holds one thing too many and does not show it as before."""
    known = track.memory.known
    for removed in (k for k, each in known.items() if each.taken):
        why = why_unbalanced(track.memory, removed, seen, track.ids_are_kept)
        if why is None or track.target is None or track.target not in known:
            continue
        if label_at_place(known[track.target].last, seen) is None:
            track.doubt()
            notes.append(
                f"object {removed} was removed, as the robot says, but {why}; the target is in doubt"
            )


def decide_cycle(cycle: Cycle, answer: Answer, memory: Memory, settings: LoopSettings) -> Cycle:
    """The cycle with its decision, and with the action that follows from it."""
    limit = settings.failures_before_exclusion
    excluded = frozenset(k for k, known in memory.known.items() if known.failures >= limit)
    hopeless = frozenset(k for k in excluded if memory.known[k].failures >= settings.failures_before_asking)
    action, note = choose(answer, excluded, settings.make_room, hopeless)
    view = answer.view
    assert view is not None and view.beliefs is not None and answer.posterior is not None
    beliefs, n = view.beliefs, len(view.beliefs.ids)
    same = answer.decision is not None and action == answer.decision.action
    return replace(
        cycle,
        scene=replace(cycle.scene, semantic_scores=view.semantic, sources=view.sources),
        decision=answer.decision,
        action=action,
        p_success=answer.p_success if same else None,
        beliefs=tuple(beliefs.list_pairs(answer.posterior.p_obstructs[:n, :n], view.kept)),
        promise=answer.promise,
        checks=answer.checks,
        notes=(*cycle.notes, *((note,) if note else ())),
    )


def why_not_seen(track: Track, has: str) -> str:
    """Why the last look does not tell the target, in a sentence that ends with the objects of the look."""
    if track.doubted:
        return f"object {track.target} may be another object than before; its id is not trusted"
    if isinstance(track.unclear, AmbiguousRequest):
        return f"it is not clear which object is meant: {track.unclear.question}"
    return f"the target is not seen; the scene has: {has}"


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
