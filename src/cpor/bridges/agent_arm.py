"""A simulated arm that an agent moves through tools: it only does what we decide on the newest look."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cpor.bridges.agent import AgentTools, Told, whole
from cpor.bridges.states import state_of
from cpor.decision import Defer, Grasp
from cpor.errors import RobotError
from cpor.learn.modes import DEFAULT_MODE, parse_mode
from cpor.robot.safe_stop import stopping
from cpor.sim.dataset.manifest import Tier
from cpor.sim.staged_run import DemoSettings, Eyes, Stage, set_stage
from cpor.system import System
from cpor.viz.words import namer, say_step

MOST_ACTIONS = 40
"""Attempts on one heap; then it takes a new one."""


class AgentArm:
    """A heap and a simulated arm, which an agent drives; `tools` keeps the views."""

    def __init__(self, tools: AgentTools, eyes: Eyes = "networks") -> None:
        self._tools, self._eyes = tools, eyes
        self._stage: Stage | None = None
        self._system = tools.system
        self._newest: str | None = None
        self._actions = 0
        self._moving = threading.Lock()
        self._stop = threading.Event()

    def reset(self, seed: int = 0, tier: Tier | None = "medium") -> Told:
        """A new heap; `tier` says how deep its target lies, None: as it falls."""
        with self._turn():
            self._stage = None
            self._stage = set_stage(seed, DemoSettings(tier=tier, eyes=self._eyes))
            scorer = "none" if self._eyes == "truth" else None
            self._system = System(self._stage.segmenter, scorer) if scorer else self._tools.system
            self._actions = 0
            self._stop.clear()
        return self.look()

    def look(self) -> Told:
        """A look now, kept as a view; `target` is the object asked for."""
        with self._turn(), self._tools.one_at_a_time():
            stage = self._there()
            view = self._system.look(stage.robot.observe())
            self._system.believe(view)
            told = self._tools.keep(whole(view))
            self._newest = told.content["view"]
            asked = {"asked_for": stage.target_name, "target": stage.find_target(view.scene)}
        return Told(asked | told.content, told.picture)

    def act(self, view: str, target: int, mode: str | None = None) -> Told:
        """Do what is decided for a target in the newest look, if that is to act; an older look is refused."""
        with self._turn():
            stage = self._there()
            with self._tools.one_at_a_time():
                kept = self._tools.shelf.get(view).view
            if view != self._newest:
                raise RobotError("something may have moved since this look; look again with arm_look")
            if self._actions >= MOST_ACTIONS:
                raise RobotError(f"{MOST_ACTIONS} actions on this heap; begin anew with arm_reset")
            answer = self._system.decide(kept, target, mode=parse_mode(mode or DEFAULT_MODE))
            action = answer.action
            content: dict[str, Any] = {"state": state_of(action), "moved": False}
            if action is None or isinstance(action, Defer) or action.obj not in kept.scene.ids:
                why = answer.question or "nothing is likely enough to be right; ask a person, or look again"
                return Told(content | {"outcome": None, "detail": why})
            self._newest = None  # whatever comes of it, this look is old
            self._actions += 1
            send = stage.robot.grasp if isinstance(action, Grasp) else stage.robot.remove
            with stopping(stage.robot, self._stop):
                outcome = send(kept.scene, int(action.obj))
        done = {"did": say_step(action, namer(kept.scene)), "outcome": outcome.kind, "detail": outcome.detail}
        out = stage.robot.in_tray(stage.heap.target, "delivery")
        return Told(content | {"moved": True} | done | {"target_is_out": out})

    def stop(self) -> Told:
        """Stop at once, while another call moves the arm too; `home` clears it."""
        self._stop.set()
        if self._stage is not None:
            self._stage.robot.stop()
        return self.status()

    def home(self) -> Told:
        """Go home, and clear a stop."""
        with self._turn():
            stage = self._there()
            self._stop.clear()
            with stopping(stage.robot, self._stop):
                outcome = stage.robot.home()
        return Told({"outcome": outcome.kind, "detail": outcome.detail})

    def status(self) -> Told:
        """How the arm is."""
        if self._stage is None:
            return Told({"state": "none", "detail": "there is no heap yet; begin with arm_reset"})
        status = self._stage.robot.status()
        return Told({"state": status.state, "detail": status.detail, "actions": self._actions})

    def _there(self) -> Stage:
        if self._stage is None:
            raise RobotError("there is no heap yet; begin with arm_reset")
        return self._stage

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One call at a time moves the arm; another is refused, and does not wait."""
        if not self._moving.acquire(blocking=False):
            raise RobotError("the arm is busy with another call; wait for it, or call arm_stop")
        try:
            yield
        finally:
            self._moving.release()
