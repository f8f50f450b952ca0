"""Perceive, decide, act, look again: until the target is out or there is a reason to end.

Whatever happens, the arm is left at rest (`home` or `stop`) and the record says what is known and no more.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from cpor.decision import Action, Defer, Grasp
from cpor.errors import CameraError, CporError, list_labels
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import Pipeline
from cpor.robot.carry_over import Look, Memory, recognise
from cpor.robot.choose import Decider, choose
from cpor.robot.cycle import Cycle, Ended, LoopSettings, RunResult, as_recorded, list_beliefs, scores_used
from cpor.robot.protocol import Outcome, OutcomeKind, Robot
from cpor.robot.run_folder import RunFolder
from cpor.robot.safe_stop import POLL_S, leave_safe, stop_for_sure, stopping
from cpor.scene import Observation, Scene

TargetFinder: TypeAlias = Callable[[Scene], int | None]
"""Finds the target in a scene, by its name for example; None where it is not there."""

Ask: TypeAlias = Callable[[Cycle], Action | None]
"""Asks a person what to do in a cycle that defers; None: end the run."""


class _End(NamedTuple):
    ended: Ended
    detail: str


def retrieve(
    robot: Robot,
    segmenter: Segmenter,
    target: int | TargetFinder,
    pipeline: Pipeline | Decider | None = None,
    settings: LoopSettings | None = None,
    record: RunFolder | None = None,
    on_cycle: Callable[[Cycle], None] | None = None,
    *,
    on_decision: Callable[[Cycle], None] | None = None,
    ask: Ask | None = None,
    stop: threading.Event | None = None,
) -> RunResult:
    """Retrieve the target from clutter.

    Args:
        robot: Sees and acts.
        segmenter: Finds the objects of a frame.
        target: Its id in the first frame, or who finds it.
        pipeline: Who decides; `Pipeline()` by default.
        settings: When to go on and when to end.
        record: Where every cycle is written as it happens; None keeps it in memory only.
        on_cycle: Called after every cycle.
        on_decision: Called before the robot is sent.
        ask: Asked after too many deferrals in a row.
        stop: Stops the robot at once, from whatever thread it is set.

    Returns:
        How it ended and every cycle. Errors of ours end the run as `fault`; any other error leaves the
        robot stopped and the record written, and is raised.

    Raises:
        RunRecordError: The record could not be written; the robot is at rest.
    """
    run = _Run(robot, segmenter, target, pipeline or Pipeline(), settings or LoopSettings(), record)
    run.on_cycle, run.on_decision, run.ask = on_cycle, on_decision, ask
    run.stop = stop or run.stop
    with stopping(robot, run.stop):
        return run.carry_out()


class _Run:
    """One run; its methods in the order in which a cycle passes through them."""

    def __init__(
        self,
        robot: Robot,
        segmenter: Segmenter,
        target: int | TargetFinder,
        decider: Pipeline | Decider,
        settings: LoopSettings,
        record: RunFolder | None,
    ) -> None:
        self.robot, self.segmenter, self.decider = robot, segmenter, decider
        self.wanted, self.settings, self.record = target, settings, record
        self.on_cycle: Callable[[Cycle], None] | None = None
        self.on_decision: Callable[[Cycle], None] | None = None
        self.ask: Ask | None = None
        self.stop = threading.Event()
        self.cycles: list[Cycle] = []
        self.open: Cycle | None = None  # the cycle under way, not yet among `cycles`
        self.final_scene: Scene | None = None
        self.memory = Memory()
        self.target: int | None = None  # its id in the last frame
        self.target_look: Look | None = None
        self.tried: int | None = None  # whom the last action was about, by its id in the last frame
        self.actions = self.deferrals = self.unseen = 0

    def carry_out(self) -> RunResult:
        """Run to the end, whatever the end is."""
        if self.record is not None:
            wanted = self.wanted if isinstance(self.wanted, int) else None
            self.record.begin(wanted, self.settings)
        try:
            end = self._start() or self._turn_until_end()
        except KeyboardInterrupt:
            stop_for_sure(self.robot)
            end = _End("stopped", "interrupted from the keyboard")
        except CporError as error:
            end = _End("stopped" if self._was_stopped() else "fault", str(error))
        except BaseException as error:
            # Not ours to handle, but the arm must not be left moving nor the record open.
            self._finish(_End("fault", f"the program failed: {type(error).__name__}: {error}"))
            raise
        return self._finish(end)

    def _start(self) -> _End | None:
        if self.stop.is_set():
            return _End("stopped", "stopped before it began")
        return self._unless_able() or self._unless_done(self.robot.home())

    def _turn_until_end(self) -> _End:
        while True:
            end = self._turn()
            if end is None and self.open is not None:
                self._close(self.open)
            if end is not None:
                return end

    def _turn(self) -> _End | None:
        """One cycle; None to go on."""
        if self.stop.is_set():
            return _End("stopped", "stopped on request")
        if self.actions >= self.settings.budget:
            return _End("budget", f"the target is not out after {self.actions} actions")
        if end := self._unless_able():
            return end
        cycle = self._perceive()
        if cycle.target is None:
            return self._look_again_for_target(cycle)
        self.unseen = 0
        cycle = self._decide(cycle, cycle.target)
        if isinstance(cycle.action, Defer):
            self.deferrals += 1
            if self.deferrals < self.settings.max_deferrals:
                return None
            cycle = self._ask(cycle)
            if isinstance(cycle.action, Defer):
                return _End("deferred", f"it deferred {self.deferrals} times in a row; a person has to say")
        self.deferrals = 0
        if self.stop.is_set():
            return _End("stopped", "stopped on request, before the robot was sent")
        return self._act(cycle)

    def _perceive(self) -> Cycle:
        """Look, find the objects, and carry over what still holds."""
        watch = _Watch()
        notes: list[str] = []
        observation = self._observe(notes)
        watch.lap("look")
        # Where the segmenter fails, the record still has the frame.
        self.open = Cycle(len(self.cycles), Scene(as_recorded(observation)), notes=tuple(notes))
        seen = self.segmenter.segment(observation)
        seen = replace(seen, observation=as_recorded(seen.observation))
        watch.lap("segment")
        self.memory = self.memory.carry_to(seen, self.settings.ids_are_kept)
        new_id = {old: new for new, old in self.memory.same_as.items()}
        self.target = self._find_target(seen, new_id)
        if self.target is not None:
            self.target_look = self.memory.known[self.target].last
        if self.tried is not None and new_id.get(self.tried) in self.memory.unchanged:
            obj = new_id[self.tried]
            self.memory = self.memory.failed(obj)
            notes.append(f"object {obj} has not changed since it was tried")
        self.tried = None
        watch.lap("carry_over")
        self.open = Cycle(
            len(self.cycles),
            self.memory.add_to(seen),
            self.target,
            same_as=self.memory.same_as,
            unchanged=self.memory.unchanged,
            notes=tuple(notes),
            times_s=watch.times_s,
        )
        return self.open

    def _observe(self, notes: list[str]) -> Observation:
        for _ in range(self.settings.camera_retries):
            try:
                return self.robot.observe()
            except CameraError as error:
                notes.append(f"a frame was lost: {error}")
        return self.robot.observe()

    def _find_target(self, scene: Scene, new_id: dict[int, int]) -> int | None:
        """The target's id in this frame; None where it is not seen, never a guess."""
        seen = [k for k, known in self.memory.known.items() if known.last.area or scene.visible_ids is None]
        followed = self.target_look is not None and not self.settings.ids_are_kept
        if not isinstance(self.wanted, int) and not followed:
            found = self.wanted(scene)
        elif not followed:
            found = self.wanted if isinstance(self.wanted, int) else None
        else:
            found = new_id.get(self.target) if self.target is not None else None
            if found is None and self.target_look is not None:
                strangers = {k: self.memory.known[k].last for k in seen if k not in self.memory.same_as}
                found = next(iter(recognise({0: self.target_look}, strangers)), None)
            if found is None and not isinstance(self.wanted, int):
                found = self.wanted(scene)
        return found if found in seen else None

    def _look_again_for_target(self, cycle: Cycle) -> _End | None:
        self.unseen += 1
        has = list_labels(cycle.scene.ids) or "nothing"
        self.open = self._noted(cycle, f"the target is not seen; the scene has: {has}")
        if self.unseen < self.settings.looks_for_target:
            return None
        if not any(each.scene.objects for each in (*self.cycles, cycle)):
            return _End("empty", f"nothing was seen in {self.unseen} looks")
        return _End("target_lost", f"the target was not seen in {self.unseen} looks; the scene has: {has}")

    def _decide(self, cycle: Cycle, target: int) -> Cycle:
        watch = _Watch(cycle.times_s)
        limit = self.settings.failures_before_exclusion
        excluded = frozenset(k for k, known in self.memory.known.items() if known.failures >= limit)
        choice = choose(self.decider, cycle.scene, target, excluded, self.settings.make_room)
        scene = cycle.scene
        if choice.result is not None:
            scene = replace(scene, semantic_scores=scores_used(scene, choice.result))
        beliefs = list_beliefs(choice.result, self.memory.carried) if choice.result else ()
        self.memory = self.memory.learn(scene.semantic_scores)
        watch.lap("decide")
        self.open = replace(
            cycle,
            scene=scene,
            decision=choice.decision,
            action=choice.action,
            p_success=choice.p_success,
            beliefs=beliefs,
            notes=(*cycle.notes, *choice.notes),
            times_s=watch.times_s,
        )
        return self.open

    def _ask(self, cycle: Cycle) -> Cycle:
        """The cycle with what a person says instead, if anything that can be done."""
        action = self.ask(cycle) if self.ask is not None else None
        if action is None or isinstance(action, Defer):
            return cycle
        if action.obj not in cycle.scene.ids or isinstance(action, Grasp) != (action.obj == cycle.target):
            self.open = self._noted(cycle, f"a person said {action}, which cannot be done in this scene")
            return self.open
        self.open = replace(self._noted(cycle, f"a person said {action}"), action=action, p_success=None)
        return self.open

    def _act(self, cycle: Cycle) -> _End | None:
        action, scene = cycle.action, cycle.scene
        assert action is not None and not isinstance(action, Defer) and isinstance(action.obj, int)
        self.open = replace(cycle, attempt="begun")
        self._write(self.open)
        if self.on_decision is not None:
            self.on_decision(self.open)
        watch = _Watch(cycle.times_s)
        self.actions += 1
        self.tried = action.obj
        send = self.robot.grasp if isinstance(action, Grasp) else self.robot.remove
        outcome = send(scene, action.obj)
        watch.lap("act")
        self.open = replace(self.open, attempt="ended", outcome=outcome, times_s=watch.times_s)
        if outcome.kind == "done":
            self.memory = self.memory.taken(action.obj)
            if isinstance(action, Grasp):
                return self._check_target_is_out()
        if outcome.kind == "fault" and self._recover():
            return None
        return self._unless_done(outcome) if outcome.kind in ("stopped", "fault") else None

    def _check_target_is_out(self) -> _End | None:
        assert self.open is not None and self.target is not None
        done = _End("retrieved", f"the target is out after {self.actions} actions")
        if not self.settings.check_target_is_out:
            return done
        try:
            seen = self.segmenter.segment(self.robot.observe())
        except CameraError as error:
            self.open = self._noted(self.open, f"that the target is out was not checked: {error}")
            return done
        after = self.memory.carry_to(seen, self.settings.ids_are_kept)
        if any(old == self.target and new in after.unchanged for new, old in after.same_as.items()):
            note = "the robot says that it has the target, yet the target lies where it lay"
            self.open = self._noted(self.open, note)
            return None
        self.final_scene = replace(seen, observation=as_recorded(seen.observation))
        return done

    def _unless_able(self) -> _End | None:
        status = self.robot.status()
        if status.state not in ("protective_stop", "disconnected") or self._recover():
            return None
        return _End("fault", f"the robot is in state {status.state}: {status.detail}")

    def _recover(self) -> bool:
        """Wait for a person to clear a protective stop, if so set, and go home."""
        if self.robot.status().state not in ("protective_stop", "disconnected"):
            return False  # it failed in another way, which nobody is there to clear
        until = time.monotonic() + self.settings.wait_for_recovery_s
        while not self.stop.is_set() and time.monotonic() < until:
            if self.robot.status().state not in ("protective_stop", "disconnected"):
                if self.robot.home().kind != "done":
                    return False
                if self.open is not None:
                    self.open = self._noted(self.open, "a person cleared the protective stop; it goes on")
                return True
            self.stop.wait(POLL_S)
        return False

    def _was_stopped(self) -> bool:
        try:
            return self.stop.is_set() or self.robot.status().state == "stopped"
        except CporError:
            return False

    def _unless_done(self, outcome: Outcome) -> _End | None:
        if outcome.kind == "done":
            return None
        return _End("stopped" if outcome.kind == "stopped" else "fault", outcome.detail)

    def _noted(self, cycle: Cycle, note: str) -> Cycle:
        return replace(cycle, notes=(*cycle.notes, note))

    def _write(self, cycle: Cycle) -> None:
        if self.record is not None:
            self.record.write_cycle(cycle)

    def _close(self, cycle: Cycle) -> None:
        self._write(cycle)
        self.cycles.append(cycle)
        self.open = None
        if self.on_cycle is not None:
            self.on_cycle(cycle)

    def _finish(self, end: _End) -> RunResult:
        """Leave the arm at rest first, then write what is known."""
        status = leave_safe(self.robot, may_move=end.ended not in ("stopped", "fault"))
        if self.open is not None:
            if self.open.attempt == "begun":
                kind: OutcomeKind = "stopped" if end.ended == "stopped" else "fault"
                detail = f"{end.detail}; where the object is now is not known"
                self.open = replace(self.open, attempt="ended", outcome=Outcome(kind, detail))
            self._close(self.open)
        result = RunResult(end.ended, end.detail, tuple(self.cycles), self.final_scene, status)
        if self.record is not None:
            self.record.finish(result)
        return result


class _Watch:
    """Time of each step, in seconds."""

    def __init__(self, before: Mapping[str, float] | None = None) -> None:
        self.times_s = dict(before or {})
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.times_s[step] = now - self._last
        self._last = now
