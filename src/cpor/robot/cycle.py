"""What is said of one turn of the loop and of a whole run: settings, cycles, result."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias, TypedDict

import numpy as np

from cpor.decision import Action, Decision, Defer, Remove
from cpor.errors import CporError, InvalidSettingError
from cpor.gate.check import Check
from cpor.io.depth import DEPTH_RANGE_M
from cpor.records import PairBelief, Promise
from cpor.robot.protocol import Outcome, RobotStatus
from cpor.scene import Observation, Scene


class Ended(StrEnum):
    """Why a run of the loop ended.

    `retrieved`: the robot delivered the target, and a look after it shows its place empty. `unconfirmed`: the
    robot says so, and no look proves or refutes it. `budget`: no action is left. `deferred`: it deferred too
    often in a row, or the target's id is not to be trusted: a person has to say. `stopped`: a person or a
    program stopped it. `fault`: camera, robot or program failed. `target_lost`: the target is not seen any
    more. `empty`: nothing was ever seen.
    """

    RETRIEVED = "retrieved"
    UNCONFIRMED = "unconfirmed"
    BUDGET = "budget"
    DEFERRED = "deferred"
    STOPPED = "stopped"
    FAULT = "fault"
    TARGET_LOST = "target_lost"
    EMPTY = "empty"


Attempt: TypeAlias = Literal["none", "begun", "ended"]
"""Whether the robot was sent: `begun` with no outcome means that it is not known what came of it."""

_SATURATED = 65535  # of 16 bits; means no reading in a scene folder


@dataclass(frozen=True)
class LoopSettings:
    """When the loop goes on and when it ends.

    Attributes:
        budget: Attempts on objects, failed ones included.
        max_deferrals: Deferrals in a row after which a person is asked.
        camera_retries: Further tries for a frame after one was lost. One that is not newer than the last, or
            equal to it, is lost too.
        looks_for_target: Looks in a row without the target after which it is lost; and looks after a delivery
            that prove nothing after which a person is asked.
        failures_before_exclusion: Attempts on an object that change nothing after which another action is
            taken instead, if one is likelier than not to be right.
        failures_before_asking: Attempts on an object that change nothing after which it is left alone until
            it or something near it changes.
        wait_for_recovery_s: How long to wait for a person to clear a protective stop; 0 ends at once. The
            loop never clears one itself. [s]
        ids_are_kept: Whether the segmenter says to give a thing the same number in every frame. That counts
            as evidence of identity, beside place and look.
        check_target_is_out: Whether to look once more after the robot says that it has the target; without
            it a delivery is never confirmed.
        make_room: Whether, where an object was tried in vain and nothing else is likely enough to be right, a
            neighbour that lies free may be removed. It need not be on the target's chain.
        frames_may_repeat: Whether two frames of an unmoved heap may be equal to the last pixel, as from a
            simulated camera without noise. They must be newer by number or time then.
        sign_off_prior: A person; allows a decider that assumes a probability where no source has an answer
            (`Pipeline.prior`), or does not say whether it does, to move the arm in this run, and why. It is
            refused without.
    """

    budget: int = 12
    max_deferrals: int = 3
    camera_retries: int = 3
    looks_for_target: int = 3
    failures_before_exclusion: int = 2
    failures_before_asking: int = 4
    wait_for_recovery_s: float = 0.0
    ids_are_kept: bool = False
    check_target_is_out: bool = True
    make_room: bool = False
    frames_may_repeat: bool = False
    sign_off_prior: str | None = None

    def __post_init__(self) -> None:
        least = {"budget": 1, "max_deferrals": 1, "looks_for_target": 1, "failures_before_exclusion": 1}
        least["failures_before_asking"] = 1
        for name, low in {**least, "camera_retries": 0, "wait_for_recovery_s": 0}.items():
            if not getattr(self, name) >= low:
                raise InvalidSettingError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.sign_off_prior is not None and not self.sign_off_prior.strip():
            raise InvalidSettingError("sign_off_prior is empty; write who and why")


@dataclass(frozen=True, eq=False)
class Cycle:
    """One turn: what was seen, decided and done.

    Attributes:
        index: From 0.
        scene: What was seen, with the semantic scores that were used.
        target: The target's id in this scene; None where it was not seen.
        decision: What the decider said; None where there was nothing to decide.
        action: What was to be done: the decision's action unless `notes` say why another one.
        p_success: How often an action with such a score succeeds, where known.
        promise: The promised error rate of the decision; None where none is made.
        checks: What was found about the frame and its masks, where a system decided.
        attempt: Whether the robot was sent.
        outcome: What came of it; None where the robot was not sent or it is not known.
        beliefs: What was believed of each pair that may obstruct.
        p_same: For each object that was known before, under the same id, the probability that it is the same.
        unchanged: Objects that did not change since the cycle before.
        near: Those of them near to something that changed, came or went.
        notes: What else happened, in sentences.
        times_s: Time of each step. [s]
        retargeted: Whether a person asked for another object, which is the target from this cycle on.
    """

    index: int
    scene: Scene
    target: int | None = None
    decision: Decision | None = None
    action: Action | None = None
    p_success: float | None = None
    promise: Promise | None = None
    checks: tuple[Check, ...] = ()
    attempt: Attempt = "none"
    outcome: Outcome | None = None
    beliefs: tuple[PairBelief, ...] = ()
    p_same: Mapping[int, float] = field(default_factory=dict)
    unchanged: frozenset[int] = frozenset()
    near: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    times_s: Mapping[str, float] = field(default_factory=dict)
    retargeted: bool = False


Ask: TypeAlias = Callable[[Cycle], Action | None]
"""Asks a person what to do in a cycle that defers; None: end the run. In a cycle that does not know its
target, `Grasp` says which object it is; in one that does not know whether the target is out, any action says
that it is not: the loop looks and decides anew."""

Retarget: TypeAlias = Callable[[], int | None]
"""Tells, once, the id in the last frame of another object that is asked for from now on; None: no change."""


class PersonCallbacks(TypedDict, total=False):
    """How a person takes part in a run.

    Attributes:
        ask: Asks a person, after too many deferrals in a row, and where looking again does not tell.
        stop: Stops the robot at once, from any thread.
        retarget: Called before every look and right before the robot is sent: it then stays, and looks again
            for the new target. The result is about the object that was asked for last.
        confirm: Asks a person yes or no before anything moves, where the gripper is not known to be empty or
            the last program did not end in order. None: such a run ends as `stopped`.
    """

    ask: Ask | None
    stop: threading.Event | None
    retarget: Retarget | None
    confirm: Callable[[str], bool] | None


@dataclass(frozen=True, eq=False)
class RunResult:
    """What became of a run; where a person asked for another object on the way, of the last one asked for.

    Attributes:
        ended: How it ended.
        detail: One sentence for people.
        cycles: Every turn, in order.
        final_scene: The look after the target was delivered, where one was taken.
        robot: How the robot was left; None where it could not say.
        error: What it failed with, where it was an error that ended it.
    """

    ended: Ended
    detail: str
    cycles: tuple[Cycle, ...]
    final_scene: Scene | None = None
    robot: RobotStatus | None = None
    error: CporError | None = None

    @property
    def retrieved(self) -> bool:
        """Whether the target was delivered."""
        return self.ended == Ended.RETRIEVED

    @property
    def actions(self) -> int:
        """How often the robot was sent."""
        return sum(cycle.attempt != "none" for cycle in self.cycles)

    @property
    def deferrals(self) -> int:
        """How often the decision was to defer, or no allowed action was left."""
        return sum(isinstance(cycle.action, Defer) for cycle in self.cycles)

    @property
    def retargeted(self) -> int:
        """How often a person asked for another object on the way."""
        return sum(cycle.retargeted for cycle in self.cycles)

    @property
    def removed(self) -> int:
        """How many other objects were put aside."""
        done = [c for c in self.cycles if c.outcome is not None and c.outcome.kind == "done"]
        return sum(isinstance(c.action, Remove) for c in done)


def as_recorded(observation: Observation) -> Observation:
    """The frame with depth as a scene folder keeps it, so that a record decides to the bit as the run did."""
    if observation.depth is None:
        return observation
    unit = observation.camera.depth_unit_m
    steps = np.rint(np.nan_to_num(observation.depth.astype(np.float64)) / unit)
    depth = (steps * unit).astype(np.float32)
    low, high = DEPTH_RANGE_M
    kept = (depth >= low) & (depth <= high) & (steps < _SATURATED)
    return replace(observation, depth=np.where(kept, depth, np.float32(np.nan)))
