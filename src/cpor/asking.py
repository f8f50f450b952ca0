"""Asking only what matters: what the decision hangs on most, until no answers are likely to change it.

Before a pair is asked about, it is believed what the other sources say of it, p. An answer moves its log-odds
by s, normal with mean +-d^2 / 2 (the sign says whether the relation holds) and standard deviation d: the one
normal law under which p stays the mean of what will be believed. Drawing answers to all open questions at
once tells how likely they are to change the action. Asked next is the pair whose answer moves the margin of
the best action most: (d margin / d p)^2 p (1 - p).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.decision import Action, Decision, Defer
from cpor.errors import InvalidSettingError, say_version
from cpor.infer.decide import decide_many
from cpor.infer.explain import NO_ANSWER, explain
from cpor.pipeline import Pipeline
from cpor.relations import Label, ObstructionPosterior
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.semantics.scorer import RawReply, RelationScorer, ScoredPairs, Spent

PairAnswers: TypeAlias = Mapping[BlockedBy, float | None]
"""Answers so far, by pair; None was asked in vain, an absent pair was not asked."""

Believe: TypeAlias = Callable[[PairAnswers], ObstructionPosterior]
"""From the answers so far to what to decide from."""

Decide: TypeAlias = Callable[[Sequence[ObstructionPosterior]], Sequence[Decision]]
"""Decides many scenes."""


class NoMoreQuestionsError(Exception):
    """Raised by `ask` when no further question may be put: a budget is used up."""


@dataclass(frozen=True)
class AskingSettings:
    """When to stop.

    Attributes:
        most_change: Stop when the answers still open would change the action with at most this probability.
        answer_spread: How far an answer moves a relation's log-odds: the d above.
        samples: Sets of answers to draw for that.
        most_questions: Ask no more than this; None: as many as it takes.
    """

    most_change: float = 0.03
    answer_spread: float = 2.0
    samples: int = 64
    most_questions: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.most_change < 1.0:
            raise InvalidSettingError(f"most_change is {self.most_change}; it must lie in [0, 1)")
        if self.answer_spread <= 0.0 or self.samples < 1:
            raise InvalidSettingError("answer_spread must be above 0 and samples at least 1")
        if self.most_questions is not None and self.most_questions < 0:
            raise InvalidSettingError(f"most_questions is {self.most_questions}; it must be at least 0")


@dataclass(frozen=True)
class AskingResult:
    """What came of asking.

    Attributes:
        decision: The decision.
        answers: Answers to the questions asked, in order; None where no answer came.
        relevant: Pairs that the target can reach: the questions that asking all of them would take.
        stopped: `settled` (the open questions hardly matter), `all_asked`, or `budget`.
        p_change: Estimated probability that the open questions would change the action.
    """

    decision: Decision
    answers: PairAnswers
    relevant: int
    stopped: Literal["settled", "all_asked", "budget"]
    p_change: float


def ask_what_matters(
    believe: Believe,
    pairs: Sequence[BlockedBy],
    ask: Callable[[BlockedBy], float | None],
    rng: np.random.Generator,
    settings: AskingSettings | None = None,
    decide_all: Decide = decide_many,
) -> AskingResult:
    """Ask one question after the other, the one the decision hangs on most first.

    Args:
        believe: From the answers so far to what to decide from.
        pairs: What may be asked.
        ask: Puts one question; None is no answer. Raises NoMoreQuestionsError where none may be put.
        rng: Draws answers to open questions.
        settings: When to stop.
        decide_all: Makes decisions.
    """
    settings = settings or AskingSettings()
    answers: dict[BlockedBy, float | None] = {}
    posterior = believe(answers)
    open_pairs = relevant_pairs(pairs, posterior.target)
    relevant = len(open_pairs)
    while True:
        decision = decide_all([posterior])[0]
        p_change = _chance_of_change(posterior, decision, open_pairs, rng, settings, decide_all)
        if not open_pairs or p_change <= settings.most_change:
            return AskingResult(
                decision, answers, relevant, "settled" if open_pairs else "all_asked", p_change
            )
        if settings.most_questions is not None and len(answers) >= settings.most_questions:
            return AskingResult(decision, answers, relevant, "budget", p_change)
        pair = _next_question(posterior, decision, open_pairs)
        try:
            answers[pair] = ask(pair)
        except NoMoreQuestionsError:
            return AskingResult(decision, answers, relevant, "budget", p_change)
        open_pairs.discard(pair)
        posterior = believe(answers)


def ask_scene(
    pipeline: Pipeline,
    scene: Scene,
    target: int,
    scorer: RelationScorer,
    pairs: Sequence[BlockedBy],
    rng: np.random.Generator,
    settings: AskingSettings | None = None,
) -> tuple[AskingResult, ScoredPairs]:
    """Decide for a target, asking a scorer what matters; also what it said, and what that took.

    Pairs that were not asked about have no answer.

    Args:
        pipeline: The stages.
        scene: The scene; scores that came with it are not looked at.
        target: Id of the object asked for.
        scorer: The scorer to ask.
        pairs: What may be asked.
        rng: Draws answers to open questions.
        settings: When to stop.
    """
    replies: list[RawReply] = []
    spent = Spent()

    def ask(pair: BlockedBy) -> float | None:
        nonlocal spent
        said = scorer.score(scene, [pair])
        spent += said.spent
        if said.spent.refused:
            raise NoMoreQuestionsError
        replies.extend(said.replies)
        return said.scores[pair]

    believe = believe_with(pipeline, scene, target, pairs, scorer.name)
    asked = ask_what_matters(believe, pairs, ask, rng, settings, decide_with(pipeline))
    scores = with_unasked(asked.answers, pairs, scorer.name).scores
    return asked, ScoredPairs(scores, scorer.name, tuple(replies), spent)


def score_what_matters(
    scene: Scene, scorer: RelationScorer, stages: Pipeline, target: int, most_questions: int, seed: int
) -> tuple[ScoredPairs, bool, str, frozenset[BlockedBy]]:
    """As `score_new_pairs`, but ask only what matters for a target.

    Args:
        scene: The scene.
        scorer: The scorer.
        stages: The stages that decide.
        target: The object asked for.
        most_questions: Ask no more than this.
        seed: Random seed of the answers drawn to tell which questions matter.
    """
    pairs, limit = scorer.pairs(scene), AskingSettings(most_questions=most_questions)
    asked, scored = ask_scene(stages, scene, target, scorer, pairs, np.random.default_rng(seed), limit)
    n_asked = len(asked.answers)
    answered = sum(score is not None for score in asked.answers.values())
    note = (
        f"The scorer {say_version(scorer.name)} answered {answered} of {n_asked} questions asked, "
        f"of {asked.relevant} that could matter; the others would change the action with probability "
        f"{asked.p_change:.2f}."
    )
    return scored, n_asked == len(pairs), note + scored.say_cost(), frozenset()


def believe_with(
    pipeline: Pipeline, scene: Scene, target: int, pairs: Sequence[BlockedBy], scorer: str | None
) -> Believe:
    """What a pipeline believes of a scene given some answers; geometry is measured once."""
    geometry, others = pipeline.measure(scene), pipeline.score_sources(scene)

    def believe(answers: PairAnswers) -> ObstructionPosterior:
        beliefs = pipeline.combine(geometry, with_unasked(answers, pairs, scorer), others)
        return pipeline.posterior(beliefs, target)

    return believe


def decide_with(pipeline: Pipeline) -> Decide:
    """A pipeline's decisions, all at once."""
    return lambda posteriors: [
        pipeline.settle(each)
        for each in decide_many(posteriors, pipeline.tau, pipeline.method, prior=pipeline.prior)
    ]


def with_unasked(answers: PairAnswers, pairs: Sequence[BlockedBy], scorer: str | None) -> SemanticScores:
    """All pairs, those not asked yet without answer: a calibrator counts a scene's pairs, not questions."""
    return SemanticScores(dict.fromkeys(pairs) | dict(answers), scorer)


def relevant_pairs(pairs: Iterable[BlockedBy], target: Label) -> set[BlockedBy]:
    """The pairs whose blocked object the target can reach, whatever the answers are."""
    pairs = set(pairs)
    reached: set[Label] = {target}
    frontier = [target]
    while frontier:
        here = frontier.pop()
        found = {pair.blocker for pair in pairs if pair.blocked == here} - reached
        reached |= found
        frontier += found
    return {pair for pair in pairs if pair.blocked in reached}


def same_action(a: Action, b: Action) -> bool:
    """Whether two decisions do the same; to defer is the same for whatever reason."""
    return a == b or (isinstance(a, Defer) and isinstance(b, Defer))


def _chance_of_change(
    posterior: ObstructionPosterior,
    decision: Decision,
    open_pairs: set[BlockedBy],
    rng: np.random.Generator,
    settings: AskingSettings,
    decide_all: Decide,
) -> float:
    """How likely answers to all open questions are to change the action."""
    if not open_pairs:
        return 0.0
    scenes = _draw(posterior, sorted(open_pairs), settings.answer_spread, settings.samples, rng)
    return float(np.mean([not same_action(d.action, decision.action) for d in decide_all(scenes)]))


def _draw(
    posterior: ObstructionPosterior,
    pairs: Sequence[BlockedBy],
    d: float | Float[np.ndarray, " pairs"],
    samples: int,
    rng: np.random.Generator,
) -> list[ObstructionPosterior]:
    """What may be believed once all of these questions are answered."""
    rows = np.array([posterior.index(pair.blocked) for pair in pairs])
    cols = np.array([posterior.index(pair.blocker) for pair in pairs])
    p = posterior.p_obstructs[rows, cols]
    candidate = p != 0.0
    p = np.clip(np.where(np.isnan(p), NO_ANSWER, p), 1e-9, 1.0 - 1e-9)
    shape = (samples, len(pairs))
    sign = np.where(rng.random(shape) < p, 1.0, -1.0)
    logit = np.log(p) - np.log1p(-p) + sign * d * d / 2.0 + d * rng.standard_normal(shape)
    drawn = np.where(candidate, 1.0 / (1.0 + np.exp(-np.clip(logit, -40.0, 40.0))), 0.0)
    scenes = []
    for answers in drawn:
        filled = posterior.p_obstructs.copy()
        filled[rows, cols] = answers
        scenes.append(posterior.replace_p(filled))
    return scenes


def _next_question(
    posterior: ObstructionPosterior, decision: Decision, open_pairs: set[BlockedBy]
) -> BlockedBy:
    """The open pair whose answer moves the margin of the best action most; the smaller one of equals."""
    explanation = explain(posterior, decision, k=0, flips=False)
    ranked = sorted(decision.scores, key=lambda label: -decision.scores[label])
    rival = ranked[1] if len(ranked) > 1 and decision.scores[ranked[1]] > decision.tau else None
    moves: dict[tuple[Label, Label], float] = {}
    for effect in explanation.relations:
        slope = effect.sensitivity[ranked[0]] - (0.0 if rival is None else effect.sensitivity[rival])
        moves[effect.blocked, effect.blocker] = slope * slope * effect.p * (1.0 - effect.p)
    # Relations too many to examine rank last, by their order; none of them is left out.
    return max(sorted(open_pairs, reverse=True), key=lambda pair: moves.get(pair, -1.0))
