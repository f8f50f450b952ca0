"""A relation scorer from any vision-language model, in either way of asking."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from cpor.evidence import geometric_evidence
from cpor.scene import BlockedBy, Scene
from cpor.semantics.badges import draw_marks
from cpor.semantics.calls import PatientCaller
from cpor.semantics.config import ScorerConfig
from cpor.semantics.grounder import WordsReply
from cpor.semantics.matching import NumberedMarks
from cpor.semantics.provider import NO_LOGPROBS, Completion, EncodedPicture, Provider, Question
from cpor.semantics.questions import (
    NAMES_SCHEMA,
    NAMES_SYSTEM,
    RELATIONS_SCHEMA,
    SYSTEM,
    WORDS_SCHEMA,
    WORDS_SYSTEM,
    names_prompt,
    pair_prompt,
    read_names_reply,
    read_words_reply,
    scene_prompt,
    why_not_asked,
    words_prompt,
)
from cpor.semantics.reply_parser import p_yes, read_relations
from cpor.semantics.scorer import RawReply, RelationScorer, ScoredPairs, ScorerError, Spent, check_pairs

REFUSED = "the model refused to answer"
T = TypeVar("T")
Pairs: TypeAlias = tuple[BlockedBy, ...]
Scores: TypeAlias = dict[BlockedBy, float | None]
_FEW = 3  # one reply may lack them by accident


class ModelScorer(RelationScorer):
    """Asks the model of a provider."""

    def __init__(self, config: ScorerConfig, provider: Provider) -> None:
        self.config = config
        self.provider = provider
        self.caller = PatientCaller(provider, config)

    @property
    def name(self) -> str:
        """What its scores are called."""
        return self.config.name


class VlmScorer(ModelScorer):
    """Asks a model, by one prompt a scene or by yes and no for each pair."""

    _gives_logprobs = False

    def score(self, scene: Scene, pairs: Sequence[BlockedBy]) -> ScoredPairs:
        """See `RelationScorer`."""
        pairs = check_pairs(scene, pairs)
        before = self.caller.purse.spent
        if not pairs:
            return ScoredPairs({}, self.name)
        picture, marks = draw_marks(scene, self.config.points)
        ask = self._ask_scene if self.config.way == "scene" else self._ask_pairs
        scores, replies = ask(scene, pairs, picture, marks)
        return ScoredPairs(scores, self.name, replies, self.caller.purse.spent - before)

    def which_object(self, scene: Scene, words: str) -> WordsReply | None:
        """See `Grounder`: one question, whichever way pairs are asked. None where `words = false`."""
        if not self.config.words:
            return None
        if (reason := why_not_asked(words)) is not None:
            return WordsReply(None, self.name, None, (reason,))
        picture, marks = draw_marks(scene, self.config.points)
        prompt = words_prompt(scene, marks.number, words)
        question = Question(picture, prompt, WORDS_SYSTEM, WORDS_SCHEMA, False, self.config.max_output_tokens)
        fit, text, problems, spent = self._ask_once(question, marks, read_words_reply)
        return WordsReply(fit, self.name, text, problems, spent)

    def name_objects(self, scene: Scene) -> tuple[Mapping[int, str] | None, str] | None:
        """What objects are, by id, and what to know about it, in a sentence: one question a scene.

        No names where the model gave none. None unless `names = true`, or where all have names.
        """
        if not self.config.names or all(o.title for o in scene.objects):
            return None
        picture, marks = draw_marks(scene, self.config.points)
        prompt = names_prompt(scene, marks.number)
        question = Question(picture, prompt, NAMES_SYSTEM, NAMES_SCHEMA, False, self.config.max_output_tokens)
        names, _, problems, spent = self._ask_once(question, marks, read_names_reply)
        cost = f" Spent: {spent.calls} calls, {spent.tokens} tokens." if spent.calls else ""
        if names is None:
            why = f" ({problems[-1]})" if problems else ""
            return None, f"{self.name} gave no names{why}; colours and shapes do.{cost}"
        return names, f"{self.name} named {len(names)} objects.{cost}"

    def _ask_once(
        self,
        question: Question,
        marks: NumberedMarks,
        read: Callable[[str, NumberedMarks], tuple[T | None, tuple[str, ...]]],
    ) -> tuple[T | None, str | None, tuple[str, ...], Spent]:
        """What one question brings: what was read, the reply as it came, what went wrong, what it took."""
        before = self.caller.purse.spent

        def understand(completion: Completion) -> tuple[T | None, tuple[str, ...]]:
            if completion.refused:
                return None, (REFUSED,)
            found, problems = read(completion.text, marks)
            if completion.cut and found is None:
                return None, ("the reply was cut: raise max_output_tokens",)
            return found, problems

        (asked,) = self.caller.ask_all([question], lambda _, reply: understand(reply)[0] is not None)
        spent = self.caller.purse.spent - before
        if asked.completion is None:
            return None, None, asked.problems, spent
        found, problems = understand(asked.completion)
        return found, asked.completion.text, (*asked.problems, *problems), spent

    def _ask_scene(
        self, scene: Scene, pairs: tuple[BlockedBy, ...], picture: EncodedPicture, marks: NumberedMarks
    ) -> tuple[Scores, tuple[RawReply, ...]]:
        hints = (
            geometric_evidence(scene) if self.config.hypotheses and scene.visible_ids is not None else None
        )
        size = self.config.pairs_per_prompt
        groups = [pairs[k : k + size] for k in range(0, len(pairs), size)]
        questions = [
            Question(
                picture,
                scene_prompt(scene, marks.number, group, hints),
                SYSTEM,
                RELATIONS_SCHEMA,
                max_output_tokens=self.config.max_output_tokens,
            )
            for group in groups
        ]

        def read(group: Pairs, reply: Completion) -> tuple[Scores, tuple[str, ...]]:
            if reply.refused:
                return dict.fromkeys(group), (REFUSED,)
            scores, problems = read_relations(reply.text, marks, group)
            if reply.cut and None in scores.values():
                problems += ("the reply was cut: raise max_output_tokens, or lower pairs_per_prompt",)
            return scores, problems

        return self._gather(groups, questions, read)

    def _ask_pairs(
        self, scene: Scene, pairs: tuple[BlockedBy, ...], picture: EncodedPicture, marks: NumberedMarks
    ) -> tuple[Scores, tuple[RawReply, ...]]:
        questions = [
            Question(
                picture,
                pair_prompt(scene, marks.number, pair),
                SYSTEM,
                wants_yes_no=True,
                max_output_tokens=min(self.config.max_output_tokens, 16),
            )
            for pair in pairs
        ]

        def read(group: Pairs, reply: Completion) -> tuple[Scores, tuple[str, ...]]:
            if reply.refused:
                return dict.fromkeys(group), (REFUSED,)
            if not reply.first_token:
                return dict.fromkeys(group), ("the reply has no log-probabilities",)
            p = p_yes(reply.first_token, self.config.least_yes_no)
            problems = () if p is not None else ("the model would have said neither yes nor no",)
            return dict.fromkeys(group, p), problems

        lacking: list[Completion] = []

        def watch(reply: Completion) -> None:
            if reply.first_token is not None:
                self._gives_logprobs = True
            elif reply.text.strip() and not reply.refused:
                lacking.append(reply)
            if len(lacking) >= _FEW and not self._gives_logprobs:
                raise no_logprobs  # rather than ask, and pay, for all pairs

        no_logprobs = ScorerError(f"scorer {self.name}: {NO_LOGPROBS}")
        found = self._gather([(pair,) for pair in pairs], questions, read, watch)
        if lacking and not self._gives_logprobs:
            raise no_logprobs
        return found

    def _gather(
        self,
        groups: Sequence[Pairs],
        questions: Sequence[Question],
        read: Callable[[Pairs, Completion], tuple[Scores, tuple[str, ...]]],
        watch: Callable[[Completion], None] = lambda _: None,
    ) -> tuple[Scores, tuple[RawReply, ...]]:
        """Ask about each group of pairs: `watch` sees each reply, `read` gives scores and problems."""

        def useful(place: int, reply: Completion) -> bool:
            watch(reply)
            return any(value is not None for value in read(groups[place], reply)[0].values())

        scores: Scores = {}
        replies = []
        for group, asked in zip(groups, self.caller.ask_all(questions, useful), strict=True):
            scores |= dict.fromkeys(group)
            text, problems = None, tuple[str, ...]()
            if asked.completion is not None:
                text = asked.completion.text
                values, problems = read(group, asked.completion)
                scores |= values
            replies.append(RawReply(group, text, (*asked.problems, *problems), asked.attempts))
        return scores, tuple(replies)
