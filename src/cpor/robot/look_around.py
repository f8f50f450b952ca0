"""Look from another place first, where that is expected to pay: in the units of acting and of asking."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpor.asking import decide_with, expected_gain, relevant_pairs, same_action
from cpor.decision import Decision, Defer
from cpor.errors import CameraError
from cpor.pipeline import Pipeline
from cpor.promise import with_memory
from cpor.relations import ObstructionPosterior
from cpor.robot.cycle import as_recorded
from cpor.robot.protocol import LooksAround, Robot
from cpor.scene import BlockedBy, Camera, Observation
from cpor.system import System
from cpor.tracking.identity import SURE
from cpor.tracking.looks import share_inside
from cpor.tracking.memory import Memory
from cpor.tracking.pair_filter import OTHER_POSE, PairFilter

LEAST_SHOWN = 0.5
"""Share of an object's pixels that must fall into the picture from elsewhere for the look to be about it."""


LOOKS_DO_NOT_HELP = ("failed_check", "unseen_blocker", "no_evidence", "not_proven")
"""Reasons to defer that are about something else than doubtful pairs."""


class Offer(NamedTuple):
    """A place to look from, and what a look from there is expected to gain, in units of a wrong action."""

    view: str
    gain: float


class Around:
    """Looks around where it pays; each place is looked from once until something is acted on.

    Args:
        robot: It may have a camera which can look from elsewhere.
        system: Looks, and believes something of each pair.
        cost: What a look must gain at least, in units of a wrong action; 1: it never looks.
    """

    def __init__(self, robot: Robot, system: System, cost: float) -> None:
        self._robot, self._system, self._cost = robot, system, cost
        self._seen_from: set[str] = set()

    def begin_anew(self) -> None:
        """Something was acted on."""
        self._seen_from.clear()

    def look(
        self, decision: Decision | None, posterior: ObstructionPosterior | None, memory: Memory
    ) -> tuple[Memory, str] | None:
        """What is known after a look from the best place, and a sentence on it; None where it does not pay.

        Args:
            decision: What would be done now.
            posterior: What it was decided from; None: it is not known.
            memory: What is known.
        """
        if decision is None or posterior is None or self._cost >= 1.0:
            return None
        if not isinstance(self._robot, LooksAround):
            return None
        if isinstance(decision.action, Defer) and decision.action.reason in LOOKS_DO_NOT_HELP:
            return None
        views = {name: at for name, at in self._robot.views().items() if name not in self._seen_from}
        offer = best_view(decision, posterior, memory, views)
        if offer is None or offer.gain <= self._cost:
            return None
        self._seen_from.add(offer.view)
        try:
            frame = self._robot.observe_from(offer.view)
        except CameraError as error:
            return memory, f"it wanted to look from {offer.view}, but: {error}"
        memory, n = look_from(frame, self._system, memory)
        told = f"recognised {n} of {len(memory.known)} objects there; expected to gain {offer.gain:.3f}"
        return memory, f"it looked from {offer.view} first, {told}"


def best_view(
    decision: Decision,
    posterior: ObstructionPosterior,
    memory: Memory,
    views: Mapping[str, Camera],
    samples: int = 48,
) -> Offer | None:
    """The place from which a look is expected to pay most.

    None where none is offered, and where the decision does not follow from the pairs alone.

    Args:
        decision: What would be done now.
        posterior: What it was decided from.
        memory: What is known.
        views: The camera at each place.
        samples: Sets of answers to draw.
    """
    assert memory.frame is not None
    shape, offers = memory.frame.observation.shape, []
    decide_all = decide_with(replace(Pipeline(), tau=decision.tau))
    if not same_action(decide_all([posterior])[0].action, decision.action):
        return None  # a rule of the decider's own
    gains: dict[tuple[BlockedBy, ...], float] = {}
    for name, camera in views.items():
        shown = {
            k for k, each in memory.known.items() if share_inside(each.last, camera, shape) > LEAST_SHOWN
        }
        told = [pair for pair in memory.pairs.pairs if shown.issuperset(pair)]
        pairs = tuple(sorted(relevant_pairs(told, posterior.target)))
        if pairs not in gains:  # places that show the same are worth the same
            rng = np.random.default_rng(0)  # the same draws for each place: only what it shows differs
            spread = {pair: memory.pairs.pairs[pair].other_spread for pair in pairs}
            gains[pairs] = expected_gain(posterior, decision, spread, rng, samples, decide_all)
        offers.append(Offer(name, gains[pairs]))
    return max(offers, key=lambda offer: offer.gain, default=None)


def look_from(frame: Observation, system: System, memory: Memory) -> tuple[Memory, int]:
    """What is known with a look from elsewhere as evidence, and how many objects it is about.

    Args:
        frame: Taken from there.
        system: Looks, and believes something of each pair.
        memory: What is known of the look from the usual place, which stays the one that is acted on.
    """
    view = system.look(as_recorded(frame))
    now = memory.carry_to(view.seen)
    assert now.frame is not None
    beliefs = system.believe(with_memory(view, replace(now, pairs=PairFilter()))).beliefs
    assert beliefs is not None
    sure = {k for k, p in now.p_same.items() if p >= SURE and k in memory.known}
    after = memory.pairs.after(beliefs, OTHER_POSE).pairs
    told = {pair: after[pair] for pair in memory.pairs.pairs if pair in after and sure.issuperset(pair)}
    return replace(memory, pairs=PairFilter({**memory.pairs.pairs, **told})), len(sure)
