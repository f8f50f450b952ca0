"""Perceive, decide, act, look again: until the target is out or there is a reason to end.

Whatever happens, the arm is left at rest (`home` or `stop`) and the record says what is known and no more.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Unpack

from cpor.decision import Action, Defer, Grasp
from cpor.errors import CporError, list_labels, say_count
from cpor.pipeline import Stopwatch
from cpor.robot import steps
from cpor.robot.checked import checked, why_it_must_stay
from cpor.robot.cycle import Cycle, Ended, LoopSettings, PersonCallbacks, RunResult, as_recorded
from cpor.robot.fresh import MOST_CHANGES, require_still_camera
from cpor.robot.protocol import Outcome, OutcomeKind, Robot, RobotStatus
from cpor.robot.run_folder import RunFolder
from cpor.robot.safe_stop import UNABLE, Left, is_stopped, leave_safe, stopping, wait_until_able
from cpor.scene import Scene
from cpor.system import System
from cpor.tracking.target import TargetFinder, Track
from cpor.view import View
from cpor.words.grounding_answers import AmbiguousRequest, RequestLike, as_request


class _End(NamedTuple):
    ended: Ended
    detail: str
    error: CporError | None = None


def retrieve(
    robot: Robot,
    system: System | None,
    request: RequestLike | TargetFinder,
    settings: LoopSettings | None = None,
    record: RunFolder | None = None,
    on_cycle: Callable[[Cycle], None] | None = None,
    *,
    on_decision: Callable[[Cycle], None] | None = None,
    **person: Unpack[PersonCallbacks],
) -> RunResult:
    """Retrieve an object from clutter.

    Args:
        robot: Sees and acts.
        system: Looks and decides; None: `System()`.
        request: The object: its id in the first frame, a pixel x, y that shows it there, words, a `Request`,
            or a function that finds it in a scene whenever it is not recognised.
        settings: When to go on and when to end.
        record: Where every cycle is written as it happens; None keeps it in memory only.
        on_cycle: Called after every cycle, the last time once the record is written.
        on_decision: Called before the robot is sent; the cycle's `attempt` is still `none`.
        person: How a person takes part: `ask`, `stop`, `retarget`, `confirm`; see `PersonCallbacks`.

    Returns:
        How it ended and every cycle. Errors of ours end the run as `fault`; any other error leaves the
        robot stopped and the record written, and is raised.

    Raises:
        InvalidSettingError: The request names no object, the system's method is `topk`, or it has a prior
            that is not signed off.
        InputFileError: The record could not be written; the robot is at rest.
    """
    settings, system = settings or LoopSettings(), system or System()
    steps.require_strict(system, settings)
    wanted = request if callable(request) else as_request(request).required()
    robot = checked(robot)
    run = _Run(robot, system, Track(wanted, settings.ids_are_kept), settings, record)
    run.on_cycle, run.on_decision, run.person = on_cycle, on_decision, person
    run.stop = person.get("stop") or run.stop
    with stopping(robot, run.stop) as run.left:
        return run.carry_out()


class _Run:
    """One run; its methods in the order in which a cycle passes through them."""

    def __init__(
        self, robot: Robot, system: System, track: Track, settings: LoopSettings, record: RunFolder | None
    ) -> None:
        self.robot, self.system, self.track = robot, system, track
        self.settings, self.record = settings, record
        self.frames = steps.Frames(robot, settings)
        self.on_cycle: Callable[[Cycle], None] | None = None
        self.on_decision: Callable[[Cycle], None] | None = None
        self.person: PersonCallbacks = {}
        self.left: Left | None = None  # what the last program left behind
        self.retargeted = False  # since the last look
        self.stop = threading.Event()
        self.cycles: list[Cycle] = []
        self.open: Cycle | None = None  # the cycle under way, not yet among `cycles`
        self.final_scene: Scene | None = None
        self.tried: int | None = None  # the object of the last action
        self.actions = self.deferrals = self.unseen = self.changes = 0

    def carry_out(self) -> RunResult:
        """Run to the end, whatever the end is."""
        if self.record is not None:
            self.record.begin(self.track.asked_for, self.settings)
        failed: BaseException | None = None
        try:
            end = self._run_to_end()
        except BaseException as error:
            # Not ours to handle, but the arm must not be left moving nor the record open.
            end, failed = _End(Ended.FAULT, f"the program failed: {type(error).__name__}: {error}"), error
        return self._finish(end, failed)

    def _run_to_end(self) -> _End:
        try:
            end = self._start()
            while end is None and (end := self._turn()) is None:
                if self.open is not None:
                    self._close(self.open)
            return end
        except (KeyboardInterrupt, SystemError) as error:
            # A signal in the middle of a compiled function comes as the cause of a SystemError.
            told = error.__cause__ if isinstance(error, SystemError) else error
            if not isinstance(told, KeyboardInterrupt):
                raise
            return _End(Ended.STOPPED, f"interrupted {f'by {told}' if told.args else 'from the keyboard'}")
        except CporError as error:
            return self._failed_with(error, str(error))

    def _start(self) -> _End | None:
        if self.stop.is_set():
            return _End(Ended.STOPPED, "stopped before it began")
        if end := self._unless_able():
            return end
        if why := why_it_must_stay(self.robot, self.left, self.person.get("confirm")):
            return _End(Ended.STOPPED, why)
        return self._unless_done(self._home())

    def _home(self) -> Outcome:
        """Go home unless the arm is to stand still."""
        return Outcome("stopped", "stopped on request") if self.stop.is_set() else self.robot.home()

    def _turn(self) -> _End | None:
        """One cycle; None to go on."""
        if self.stop.is_set():
            return _End(Ended.STOPPED, "stopped on request")
        if self.actions >= self.settings.budget:
            return _End(Ended.BUDGET, f"the target is not out after {say_count(self.actions, 'action')}")
        if end := self._unless_able():
            return end
        notes: list[str] = []
        self._turn_to_another(notes)
        cycle, view = self._perceive(notes)
        if cycle.target is None:
            return self._look_again_for_target(cycle)
        self.unseen = 0
        watch = Stopwatch(cycle.times_s, 1.0)
        answer = self.system.decide(view, cycle.target)
        cycle = steps.decide_cycle(cycle, answer, self.track.memory, self.settings)
        self.track.memory = view.memory or self.track.memory
        watch.lap("decide")
        self.open = cycle = replace(cycle, times_s=watch.times)
        if isinstance(cycle.action, Defer):
            self.deferrals += 1
            if self.deferrals < self.settings.max_deferrals:
                return None
            self.open = cycle = steps.with_answer(cycle, self._ask(cycle))
            if isinstance(cycle.action, Defer) and not self.stop.is_set():
                often = f"it deferred {say_count(self.deferrals, 'time')} in a row; a person has to say"
                return None if self._stays_for_another(cycle) else _End(Ended.DEFERRED, often)
        self.deferrals = 0
        if self.stop.is_set():
            return _End(Ended.STOPPED, "stopped on request, before the robot was sent")
        return self._act(cycle)

    def _turn_to_another(self, notes: list[str]) -> bool:
        """Whether a person asks for another object, which is the target from now on."""
        retarget = self.person.get("retarget")
        obj = None if retarget is None else retarget()
        if obj is None or obj == self.track.target:
            return False
        if not self.track.turn_to(obj):
            notes.append(f"a person asked for object {obj}, which is not seen; the target stays as it was")
            return False
        self.retargeted = True
        self.deferrals = self.unseen = 0
        return True

    def _stays_for_another(self, cycle: Cycle) -> bool:
        """Whether the robot is not sent, since a person asks for another object meanwhile."""
        notes: list[str] = []
        if stays := self._turn_to_another(notes):
            notes.append("the robot is not sent: a person asks for another object")
        self.open = steps.noted(cycle, *notes)
        return stays

    def _perceive(self, notes: list[str]) -> tuple[Cycle, View]:
        """Look, find the objects, and carry over what still holds."""
        watch, track = Stopwatch(per_s=1.0), self.track
        observation = as_recorded(self.frames.take(notes))
        require_still_camera(track.memory.frame, observation)
        watch.lap("look")
        # Where the segmenter fails, the record still has the frame.
        self.open = Cycle(len(self.cycles), Scene(observation), notes=tuple(notes))
        seen = self.system.look(observation)
        watch.lap("segment")
        steps.check_removal(track, seen.seen, notes)
        view = self.system.find(track, seen)
        notes += view.notes[len(seen.notes) :]
        if self.retargeted and track.seen:
            notes.append(f"from here on object {track.target} is asked for, another one than before")
        if self.tried in track.memory.unchanged:
            view.memory = track.memory.failed(self.tried)
            notes.append(f"object {self.tried} has not changed since it was tried")
        watch.lap("carry_over")
        self.tried, scene = None, replace(view.scene, sources=view.sources)
        assert view.memory is not None
        now = track.memory = view.memory  # with the names
        self.open = Cycle(
            len(self.cycles), scene, track.target if track.seen else None, p_same=now.p_same,
            unchanged=now.unchanged, near=now.near, notes=tuple(notes), times_s=watch.times,
            retargeted=self.retargeted,
        )  # fmt: skip
        self.retargeted = False
        return self.open, view

    def _look_again_for_target(self, cycle: Cycle) -> _End | None:
        self.unseen += 1
        has = list_labels(cycle.scene.ids) or "nothing"
        why = steps.why_not_seen(self.track, has)
        self.open = steps.noted(cycle, why)
        if self.unseen < self.settings.looks_for_target:
            return None
        if not any(each.scene.objects for each in (*self.cycles, cycle)):
            return _End(Ended.EMPTY, f"nothing was seen in {say_count(self.unseen, 'look')}")
        action = self._ask(self.open)
        said = action.obj if isinstance(action, Grasp) else None
        if isinstance(said, int) and self.track.turn_to(said):
            self.unseen = 0
            self.open = steps.noted(self.open, f"a person said that object {said} is the target")
            return None
        if self.track.doubted or isinstance(self.track.unclear, AmbiguousRequest):
            return _End(Ended.DEFERRED, f"a person has to say: {why}")
        lost = f"the target was not seen in {say_count(self.unseen, 'look')}; the scene has: {has}"
        return _End(Ended.TARGET_LOST, lost)

    def _act(self, cycle: Cycle) -> _End | None:
        action, scene = cycle.action, cycle.scene
        assert action is not None and not isinstance(action, Defer) and isinstance(action.obj, int)
        self._write(cycle)
        if self.on_decision is not None:
            self.on_decision(cycle)
        if self.stop.is_set():
            return _End(Ended.STOPPED, "stopped on request, before the robot was sent")
        if self._stays_for_another(cycle):
            return None
        assert self.open is not None
        cycle = self.open
        watch, notes = Stopwatch(cycle.times_s, 1.0), list[str]()
        changed = self.frames.look_before(scene, {action.obj, cycle.target or action.obj}, notes)
        watch.lap("fresh_look")
        self.open = cycle = steps.noted(replace(cycle, times_s=watch.times), *notes)
        self.changes = self.changes + 1 if changed else 0
        if changed:
            self.track.doubt()
            often = f"something changed {say_count(self.changes, 'time')} in a row before a motion"
            return _End(Ended.DEFERRED, often) if self.changes >= MOST_CHANGES else None
        self.actions, self.tried = self.actions + 1, action.obj
        send = self.robot.grasp if isinstance(action, Grasp) else self.robot.remove
        self.open = replace(cycle, attempt="begun")
        self._write(self.open)
        outcome = send(scene, action.obj)
        watch.lap("act")
        self.open = replace(self.open, attempt="ended", outcome=outcome, times_s=watch.times)
        self._write(self.open)
        if outcome.kind == "done" and isinstance(action, Grasp):
            return self._unless_another(self._check_target_is_out(action.obj, outcome), action.obj)
        if outcome.kind == "done":
            self.track.memory = self.track.memory.taken(action.obj)
        if outcome.kind == "fault" and self._recover():
            return None
        return self._unless_done(outcome) if outcome.kind in ("stopped", "fault") else None

    def _check_target_is_out(self, target: int, outcome: Outcome) -> _End | None:
        """The end where it is, or where that is not known; None to go on where the robot's word was wrong."""
        assert self.open is not None
        notes: list[str] = []
        said = f"the target is out after {say_count(self.actions, 'action')}"
        try:
            if self.robot.status().dry_run:
                self.open = steps.noted(self.open, "a dry run: nothing moved, so the target is not out")
                return None
            if not self.settings.check_target_is_out:
                return _End(Ended.UNCONFIRMED, f"{said}, as the robot says; nobody looked")
            delivery, seen = steps.check_delivery(
                self.robot, self.frames, self.system, self.track.memory, target, outcome, self.settings, notes
            )
        except CporError as error:
            self.open = steps.noted(self.open, *notes)
            delivered = "the target was delivered, as the robot says; that was not checked"
            return self._failed_with(error, f"{delivered}: {error}")
        self.open = steps.noted(self.open, *notes)
        if delivery.known == "not_out":
            return None
        self.final_scene = seen
        if delivery.known == "out":
            return _End(Ended.RETRIEVED, said)
        action = self._ask(self.open)
        if action is None or isinstance(action, Defer) or self.stop.is_set():
            return _End(Ended.UNCONFIRMED, f"the robot says that it delivered the target, but {delivery.why}")
        self.open, self.final_scene = steps.noted(self.open, "a person said that the target is not out"), None
        return None

    def _unless_another(self, end: _End | None, taken: int) -> _End | None:
        """None to go on where the target is out and a person asks for another object meanwhile."""
        if end is None or end.ended != Ended.RETRIEVED or self.open is None:
            return end
        notes: list[str] = []
        if goes_on := self._turn_to_another(notes):
            notes.append("the target is out, and a person asks for another object")
        self.open = steps.noted(self.open, *notes)
        if not goes_on:
            return end
        self.track.memory, self.final_scene = self.track.memory.taken(taken), None
        return None

    def _unless_able(self) -> _End | None:
        status = self.robot.status()
        if status.state not in UNABLE or self._recover():
            return None
        return _End(Ended.FAULT, f"the robot is in state {status.state}: {status.detail}")

    def _recover(self) -> bool:
        """Wait for a person to clear a protective stop, if so set, and go home."""
        limit_s, locked = self.settings.wait_for_recovery_s, self.robot.status().state in UNABLE
        if not (locked and wait_until_able(self.robot, self.stop, limit_s) and self._home().kind == "done"):
            return False
        if self.open is not None:
            self.open = steps.noted(self.open, "a person cleared the protective stop; it goes on")
        return True

    def _failed_with(self, error: CporError, detail: str) -> _End:
        by_stop = self.stop.is_set() or is_stopped(self.robot)
        return _End(Ended.STOPPED if by_stop else Ended.FAULT, detail, error)

    def _unless_done(self, outcome: Outcome) -> _End | None:
        if outcome.kind == "done":
            return None
        return _End(Ended.STOPPED if outcome.kind == "stopped" else Ended.FAULT, outcome.detail)

    def _ask(self, cycle: Cycle) -> Action | None:
        ask = self.person.get("ask")
        return None if ask is None else ask(cycle)

    def _write(self, cycle: Cycle) -> None:
        if self.record is not None:
            self.record.write_cycle(cycle)

    def _close(self, cycle: Cycle) -> None:
        self._write(cycle)
        self.cycles.append(cycle)
        self.open = None
        if self.on_cycle is not None:
            self.on_cycle(cycle)

    def _finish(self, end: _End, failed: BaseException | None) -> RunResult:
        """Leave the arm at rest first, then write what is known, then call back or raise."""
        status: RobotStatus | None = None
        try:
            leave_safe(self.robot, end.ended not in (Ended.STOPPED, Ended.FAULT), self.stop)
            status = self.robot.status()
        except (KeyboardInterrupt, CporError):
            pass
        except BaseException as error:
            said = f"the robot failed as it was left: {type(error).__name__}: {error}"
            end, failed = end._replace(detail=f"{end.detail}; {said}"), failed or error
        last, self.open = self.open, None
        if last is not None:
            if last.attempt == "begun":
                kind: OutcomeKind = "stopped" if end.ended == Ended.STOPPED else "fault"
                detail = f"{end.detail}; where the object is now is not known"
                last = replace(last, attempt="ended", outcome=Outcome(kind, detail))
            self._write(last)
            self.cycles.append(last)
        result = RunResult(end.ended, end.detail, tuple(self.cycles), self.final_scene, status, end.error)
        if self.record is not None:
            self.record.finish(result)
        if last is not None and self.on_cycle is not None:
            self.on_cycle(last)
        if failed is not None:
            raise failed
        return result
