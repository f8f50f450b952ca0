"""What every relation scorer is and gives: a number or no answer for each pair, and what was said."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Protocol, runtime_checkable

from cpor.errors import CporError, InvalidSceneError, say_count, say_known, say_version
from cpor.evidence import PairState, geometric_evidence
from cpor.scene import BlockedBy, Scene, SemanticScores


class ScorerError(CporError):
    """A scorer that is not known, not set up, or cannot do what is asked of it."""


@dataclass(frozen=True)
class Spent:
    """What was used up.

    Attributes:
        calls: Requests sent, retries among them.
        input_tokens: Tokens read by the model, as the provider counts them.
        output_tokens: Tokens written by the model.
        money: In the currency of the prices; 0 where none are given.
        remembered: Questions answered from the cache, for nothing.
        refused: Questions not asked because the budget was used up.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float = 0.0
    remembered: int = 0
    refused: int = 0

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class RawReply:
    """One reply as it came, kept whatever could be read from it.

    Attributes:
        pairs: What it was asked about.
        text: What came; None where nothing did.
        problems: What was wrong with it or with the call, in words.
        attempts: Calls made for it; 0 where it was remembered.
    """

    pairs: tuple[BlockedBy, ...]
    text: str | None
    problems: tuple[str, ...] = ()
    attempts: int = 0


@dataclass(frozen=True)
class ScoredPairs:
    """What a scorer said of the pairs it was asked about.

    Attributes:
        scores: Raw score in [0, 1] of every pair asked about; None where no answer came.
        scorer: Name of the scorer.
        replies: The replies behind the scores.
        spent: Calls, tokens and money they took.
    """

    scores: Mapping[BlockedBy, float | None]
    scorer: str
    replies: tuple[RawReply, ...] = ()
    spent: Spent = field(default_factory=Spent)

    @property
    def unanswered(self) -> tuple[BlockedBy, ...]:
        """Pairs without an answer."""
        return tuple(pair for pair, score in self.scores.items() if score is None)

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, each once, in the order it came up."""
        return tuple(dict.fromkeys(problem for reply in self.replies for problem in reply.problems))

    def say_cost(self) -> str:
        """The first problem, and what was spent; empty where there is neither."""
        said = f" Problem: {self.problems[0]}." if self.problems else ""
        if self.spent.calls:
            said += f" Spent: {self.spent.calls} calls, {self.spent.tokens} tokens."
        return said

    def semantic_scores(self) -> SemanticScores:
        """The scores as a scene keeps them."""
        return SemanticScores(self.scores, self.scorer)


@runtime_checkable
class RelationScorer(Protocol):
    """Judges, from what a scene shows, whether one object obstructs another.

    A class that inherits from this one asks about the pairs that touch; it may define other `pairs`.
    """

    @property
    def name(self) -> str:
        """What its scores are called; a fitted model holds for scores of the same name only."""
        ...

    def pairs(self, scene: Scene) -> tuple[BlockedBy, ...]:
        """The pairs of a scene worth asking about; all others have no semantic score."""
        return touching_pairs(scene)

    def score(self, scene: Scene, pairs: Sequence[BlockedBy]) -> ScoredPairs:
        """Score each pair.

        Args:
            scene: The scene.
            pairs: What to judge: does `blocker` obstruct `blocked`?

        Returns:
            A number in [0, 1] or None for every pair, never fewer: a failure is no answer, not 0.
        """
        ...


def score_new_pairs(
    scene: Scene, scorer: RelationScorer, known: Mapping[BlockedBy, float]
) -> tuple[ScoredPairs, bool, str, frozenset[BlockedBy]]:
    """Ask a scorer about every pair of a scene whose score is not known from earlier looks.

    Returns:
        The scores, whether every pair has been asked about, a sentence on what that took, and the pairs
        whose score was kept.
    """
    pairs = scorer.pairs(scene)
    kept = frozenset(pair for pair in pairs if pair in known)
    fresh = tuple(pair for pair in pairs if pair not in kept)
    scored = scorer.score(scene, fresh) if fresh else ScoredPairs({}, scorer.name)
    answered = len(fresh) - len(scored.unanswered)
    asked_for = f"{answered} of {say_count(len(fresh), 'question')}"
    note = f"The scorer {say_version(scorer.name)} answered {asked_for}." if pairs else ""
    if kept:
        note += f" The scores of {say_count(len(kept), 'pair')} are from earlier looks."
        scores = {pair: known[pair] if pair in kept else scored.scores[pair] for pair in pairs}
        scored = replace(scored, scores=scores)
    return scored, not scored.spent.refused, note + scored.say_cost(), kept


def score_scene(scorer: RelationScorer, scene: Scene) -> SemanticScores:
    """What a scorer says of its own pairs of a scene."""
    return scorer.score(scene, scorer.pairs(scene)).semantic_scores()


def touching_pairs(scene: Scene) -> tuple[BlockedBy, ...]:
    """Ordered pairs that touch, as far as the masks tell; all pairs where there are no masks."""
    if scene.visible_ids is None:
        return tuple(BlockedBy(a, b) for a in scene.ids for b in scene.ids if a != b)
    geometry = geometric_evidence(scene)
    ids = geometry.ids
    return tuple(
        BlockedBy(ids[i], ids[j])
        for i in range(len(ids))
        for j in range(len(ids))
        if i != j and geometry.state[i, j] != PairState.NO_CONTACT
    )


def check_pairs(scene: Scene, pairs: Sequence[BlockedBy]) -> tuple[BlockedBy, ...]:
    """The pairs, each once, once all are pairs of objects of the scene."""
    known = set(scene.ids)
    for pair in pairs:
        for label in pair:
            if label not in known:
                raise InvalidSceneError(f"unknown object {label}; {say_known(label, scene.ids)}")
        if pair[0] == pair[1]:
            raise InvalidSceneError(f"object {pair[0]} cannot obstruct itself; drop the pair")
    return tuple(dict.fromkeys(BlockedBy(*pair) for pair in pairs))
