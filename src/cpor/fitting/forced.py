"""Decisions forced on labelled scenes, whatever the threshold, and what came of them."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import Decision, Defer
from cpor.errors import FittingError
from cpor.fitting.labelled import LabelledScene
from cpor.infer.decide import decide_many
from cpor.learn.action import ActionCalibrator
from cpor.pipeline import UNSEEN, Pipeline
from cpor.truth import is_wrong, right_actions


@dataclass(frozen=True, eq=False)
class ForcedDecision:
    """What is decided for one target of a labelled scene; it defers only where an answer is missing."""

    scene: LabelledScene
    target: int
    decision: Decision

    @property
    def score(self) -> float:
        """Score of its action; NaN: no answer."""
        action = self.decision.action
        return np.nan if isinstance(action, Defer) else self.decision.scores[action.obj]

    @property
    def wrong(self) -> bool:
        """Whether the action is wrong; to defer is not."""
        return is_wrong(self.decision.action, self.target, self.scene.truth)


def force(stages: Pipeline, asked: Iterable[tuple[LabelledScene, int]]) -> list[ForcedDecision]:
    """The decisions for scenes that these stages have judged, and their targets."""
    asked = list(asked)
    posteriors = [stages.posterior(scene.beliefs, target) for scene, target in asked]
    decisions = [stages.settle(decision) for decision in decide_many(posteriors, tau=0.0)]
    return [
        ForcedDecision(scene, target, decision)
        for (scene, target), decision in zip(asked, decisions, strict=True)
    ]


def outcomes(cases: Sequence[ForcedDecision]) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Score of each decision (NaN where an answer is missing), and whether it is wrong."""
    return np.array([case.score for case in cases], float), np.array([case.wrong for case in cases], bool)


def fit_rate(cases: Sequence[ForcedDecision]) -> ActionCalibrator | None:
    """From action scores to success rates; None where too few actions are known to learn from."""
    rated = [
        (value, obj in right_actions(case.target, case.scene.truth), obj == case.target, case.scene.image)
        for case in cases
        if not isinstance(case.decision.action, Defer)
        for obj, value in case.decision.scores.items()
        if obj != UNSEEN
    ]
    if not rated:
        return None
    values, right, is_target, image = (np.array(column) for column in zip(*rated, strict=True))
    for roles in (is_target.astype(bool), None):  # one map for both kinds where one kind is too rare
        with suppress(FittingError):
            return ActionCalibrator.fit(values, right.astype(bool), is_target=roles, group=image)
    return None
