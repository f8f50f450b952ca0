"""How many questions active asking saves, and how often it decides as asking all of them does."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cpor.asking import (
    AskingSettings,
    Believe,
    Decide,
    PairAnswers,
    ask_what_matters,
    believe_with,
    decide_with,
    same_action,
)
from cpor.decision import Defer
from cpor.errors import InvalidSceneError
from cpor.infer.decide import decide_many
from cpor.pipeline import Pipeline
from cpor.scene import Scene


@dataclass(frozen=True)
class AskingCase:
    """One decision, and what asking everything gives.

    Attributes:
        believe: From the answers so far to what to decide from.
        answers: To every question.
        decide_all: Makes decisions.
    """

    believe: Believe
    answers: PairAnswers
    decide_all: Decide = decide_many


@dataclass(frozen=True)
class AskingReport:
    """Active asking against asking all.

    Attributes:
        scenes: Decisions made.
        same: Number decided as asking all decides.
        acted: Number acted rather than deferred.
        certain: Number proven not to depend on the questions left open.
        questions: Questions asked.
        relevant: Questions that asking all takes, counted over pairs that the target can reach.
    """

    scenes: int
    same: int
    acted: int
    certain: int
    questions: int
    relevant: int

    @property
    def same_rate(self) -> float:
        """Share of scenes decided the same."""
        return self.same / max(self.scenes, 1)

    @property
    def coverage(self) -> float:
        """Share of scenes in which it acts."""
        return self.acted / max(self.scenes, 1)

    @property
    def share_asked(self) -> float:
        """Questions asked of all there are."""
        return self.questions / max(self.relevant, 1)

    def __str__(self) -> str:
        return (
            f"{self.same_rate:.1%} of {self.scenes} decisions the same with {self.share_asked:.1%} of the "
            f"questions ({self.questions} of {self.relevant}), coverage {self.coverage:.1%}"
        )


def measure_active_asking(
    cases: Iterable[AskingCase], rng: np.random.Generator, settings: AskingSettings | None = None
) -> AskingReport:
    """Decide each case twice, actively and with all answers.

    Args:
        cases: The cases.
        rng: Draws answers to open questions.
        settings: When to stop asking.
    """
    rows = []
    for case in cases:
        asked = ask_what_matters(
            case.believe, list(case.answers), case.answers.__getitem__, rng, settings, case.decide_all
        )
        full = case.decide_all([case.believe(case.answers)])[0]
        action = asked.decision.action
        rows.append(
            (
                same_action(action, full.action),
                not isinstance(action, Defer),
                asked.certain,
                len(asked.answers),
                asked.relevant,
            )
        )
    same, acted, certain, questions, relevant = np.array(rows, np.int64).reshape(-1, 5).sum(axis=0).tolist()
    return AskingReport(len(rows), same, acted, certain, questions, relevant)


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
