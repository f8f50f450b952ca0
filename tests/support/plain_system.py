"""Systems for tests of the loop: no scorer, no model, threshold one half, no check of drawn pictures."""

from collections.abc import Callable
from typing import Any

from cpor.answer import DecideSettings
from cpor.decision import Decision
from cpor.parts import NONE
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.system import System

Decide = Callable[[tuple[int, ...], int], Decision]
"""From the ids of the objects and the target to a decision."""


def plain_system(masks: Any, scorer: Any = NONE, tau: float = 0.5, **settings: Any) -> System:
    """Geometry by the paper's formula decides, with the masks of a segmenter."""
    decides = DecideSettings(ignore_checks=True, **settings)
    return System(masks, scorer, NONE, second_look=False, tau=tau, settings=decides)


class Deciding(System):
    """A system that decides by a function of a test."""

    def __init__(self, masks: Any, decide: Decide) -> None:
        super().__init__(masks, NONE, NONE, second_look=False, settings=DecideSettings(ignore_checks=True))
        self._decide = decide

    def infer(
        self, pipeline: Pipeline, posterior: ObstructionPosterior, settings: DecideSettings
    ) -> Decision:
        known = tuple(k for k in posterior.objects if k != posterior.unseen)
        return self._decide(known, posterior.target)  # type: ignore[arg-type]
