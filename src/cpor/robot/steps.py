"""The steps of a cycle in which nothing moves: take a frame, decide, hear a person, check a delivery."""

from collections.abc import Set
from dataclasses import replace

import numpy as np

from cpor.answer import Answer
from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.errors import CameraError, InvalidSettingError
from cpor.evidence import PairState
from cpor.infer.policy import LISTING
from cpor.pipeline import UNSEEN, PairBeliefs
from cpor.relations import Label, ObstructionPosterior
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


LIKELIER_THAN_NOT = 0.5
"""Least score of an action that stands in for one that was tried in vain, however bold the threshold is; and
least belief in a blocker for it to be in the way of an action."""


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
    """Why a frame does not show what is there now; None where nothing speaks against it."""
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
            said = f"object {removed} was removed, as the robot says"
            notes.append(f"{said}, but {why}; the target is in doubt")


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


def choose(
    answer: Answer, excluded: frozenset[int], make_room: bool = False, hopeless: frozenset[int] | None = None
) -> tuple[Action, str | None]:
    """The action to take, and why it is another one than the decision's; None where it is the same.

    Where the action decided on is excluded, the next best one that is likely to be right is taken.

    Things can lie on each other in a circle, which inference rules out. So where an object is decided on and
    something is believed to lie on it all the same, it defers: what has to go first is not known.
    Where no other action is likely enough, the excluded one is tried again until it is hopeless: a grasp that
    slipped may hold the next time, and removing something else would be a guess.

    Args:
        answer: A decision for the target.
        excluded: Objects not to be tried again where there is something better to do.
        make_room: Whether, where nothing else is likely enough to be right, a free neighbour of the object
            that was tried in vain may be removed.
        hopeless: Those of them not to be tried again at all; all of them by default.
    """
    decision, posterior = answer.decision, answer.posterior
    assert decision is not None and posterior is not None
    action, target = decision.action, posterior.target
    if note := why_obstructed(posterior, action):
        return Defer("conflicting_evidence"), note
    if isinstance(action, Defer) or action.obj not in excluded:
        return action, None
    other = _next_best(decision, target, excluded)
    why = f"object {action.obj} was tried in vain and has not changed"
    if not isinstance(other, Defer):
        verb = "grasps" if isinstance(other, Grasp) else "removes"
        return other, f"{why}; it {verb} object {other.obj} instead, the next best"
    beliefs = None if answer.view is None else answer.view.beliefs
    if make_room and beliefs is not None and isinstance(action.obj, int):
        neighbour = _free_neighbour(beliefs, decision.tau, action.obj, excluded | {target})
        if neighbour is not None:
            note = f"{why}; it removes object {neighbour}, which lies free beside it, to make room"
            return Remove(neighbour), note
    if action.obj not in (excluded if hopeless is None else hopeless):
        return action, f"{why}; no other action is likelier than not to be right, so it is tried again"
    return other, f"{why}; no other action is likely enough to be right, so it defers"


def why_obstructed(posterior: ObstructionPosterior, action: Action) -> str | None:
    """Why the object that is to be acted on is believed to be obstructed itself; None where it is not."""
    if isinstance(action, Defer):
        return None
    p = np.nan_to_num(posterior.p_obstructs[posterior.objects.index(action.obj)])
    if not p.max() > LIKELIER_THAN_NOT:
        return None
    blocker = posterior.objects[int(p.argmax())]
    only = f"object {action.obj} would be next only if no things lay on each other in a circle"
    return f"{only}, but object {blocker} is believed to lie on it ({p.max():.0%}); it defers"


def _next_best(decision: Decision, target: Label, excluded: frozenset[int]) -> Action:
    # Ties as everywhere: the target first, then the order of the objects.
    least = {obj: decision.interval(obj)[0] for obj in decision.scores}
    for obj in sorted(least, key=lambda obj: (-least[obj], obj != target)):
        if obj == UNSEEN or obj in excluded or not least[obj] > max(decision.tau, LIKELIER_THAN_NOT):
            continue
        return Grasp(obj) if obj == target else Remove(obj)
    return Defer("weak_evidence")


def _free_neighbour(beliefs: PairBeliefs, tau: float, obj: int, excluded: frozenset[Label]) -> int | None:
    """The object beside `obj` that is likeliest to lie free, if it does with more than tau; else None."""
    here = beliefs.ids.index(obj)
    state = beliefs.geometry.state
    touches = (state[here] != PairState.NO_CONTACT) | (state[:, here] != PairState.NO_CONTACT)
    # No answer is not free: NaN stays NaN, and exceeds nothing.
    p_free = np.prod(1.0 - beliefs.p_fused, axis=1) * (1.0 - beliefs.p_unseen)
    beside = [k for k, label in enumerate(beliefs.ids) if touches[k] and label not in excluded]
    likely = [k for k in beside if p_free[k] > tau]
    return beliefs.ids[max(likely, key=lambda k: float(p_free[k]))] if likely else None
