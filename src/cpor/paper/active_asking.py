"""How far answers move beliefs: what `AskingSettings.answer_spread` is chosen by."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from cpor.asking import Believe, Decide, PairAnswers, believe_with, decide_with
from cpor.errors import InvalidSceneError
from cpor.infer.decide import decide_many
from cpor.pipeline import Pipeline
from cpor.scene import Scene


class AskingCase(NamedTuple):
    """One decision, and what asking everything gives.

    Attributes:
        believe: From the answers so far to what to decide from.
        answers: To every question.
        decide_all: Makes decisions.
    """

    believe: Believe
    answers: PairAnswers
    decide_all: Decide = decide_many


def answer_spread(cases: Iterable[AskingCase]) -> float:
    """How far answers moved log-odds in these cases: the d of `AskingSettings`, to be chosen on dev data.

    Under the law of `cpor.asking` a move s has E[s^2] = d^2 + d^4 / 4.
    """
    moves = []
    for case in cases:
        before, after = case.believe({}).p_obstructs, case.believe(case.answers).p_obstructs
        known = (before > 0.0) & (before < 1.0) & (after > 0.0) & (after < 1.0)
        moves.append(_logit(after[known]) - _logit(before[known]))
    square = float(np.mean(np.concatenate(moves) ** 2)) if moves else 0.0
    return float(np.sqrt(2.0 * (np.sqrt(1.0 + square) - 1.0)))


def case_of_scene(pipeline: Pipeline, scene: Scene, target: int) -> AskingCase:
    """A scene whose semantic scores are the answers; geometry is known without asking."""
    if scene.semantic_scores is None:
        raise InvalidSceneError("the scene has no semantic scores; they are the answers to ask for")
    answers = scene.semantic_scores.scores
    believe = believe_with(pipeline, scene, target, list(answers), scene.semantic_scores.scorer)
    return AskingCase(believe, answers, decide_with(pipeline))


def _logit(p: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(p) - np.log1p(-p))
