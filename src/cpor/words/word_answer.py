"""From the odds of each object to an answer: this one, one of these, or none."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from cpor.scene import Scene
from cpor.words.appearance import NEARLY
from cpor.words.description import describe
from cpor.words.grounding_answers import (
    ASKED_RATIO,
    CLEAR_RATIO,
    LEAST_FIT,
    PERHAPS,
    AmbiguousRequest,
    Candidate,
    Exchange,
    Found,
    Grounding,
    NotFound,
    RefusedError,
    ask_which,
    say_objects,
    say_question,
    say_there,
    say_words,
)
from cpor.words.labels import own_words
from cpor.words.request_words import Wish, all_wishes
from cpor.words.vocabulary import vocabulary
from cpor.words.word_judge import WordJudge
from cpor.words.word_weights import as_described, mix_weights, probabilities

ACTED = 0.82
"""Probability of an object from which it is acted on: the least, in steps of .02, at which at most 1 % of the
held-back requests of dev are acted on wrongly, simulated (3 of 660) and photographed (2 of 330)."""

LEAST_COLOUR = 0.19
"""Where no object fits, those are asked about whose colours fit this well."""

RELATED = (
    frozenset(("box", "book", "block", "card", "bag")),
    frozenset(("can", "cup", "tube", "bottle")),
    *map(frozenset, (("bowl", "plate"), ("ball", "fruit"), ("tool", "pen"))),
)
"""Shapes that a person may take one for the other."""

LEAST_SHOWN, ALSO_SHOWN = 0.15, 0.4
"""Where a word is asked back, objects are shown that are as described with this probability, and with this
share of the best one's."""


class RequestReader:
    """Reads one request.

    Args:
        scene: With visible masks or names.
        words: The request as it came.
        named: Words of the name that a person gave to each object that may be asked for, by its id.
        before: What was said and done before.
        printed: Words printed on the objects, where they were read.
    """

    def __init__(
        self,
        scene: Scene,
        words: str,
        named: Mapping[int, frozenset[str]],
        before: Exchange,
        printed: Mapping[int, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.scene, self.words, self.named, self.before = scene, words, named, before
        self.called = {o.id: o.title or "" for o in scene.objects if o.id in named}
        self.said, self.described = vocabulary().said, describe(scene)
        self.printed = printed

    def answer(self, wish: Wish) -> Grounding:
        """The object that all words together describe; what is not understood is asked back.

        What is printed on the objects is read where nothing else settles the request.
        """
        answer = self._answer(wish)
        if isinstance(answer, Found) or not may_be_printed(wish) or not self.described.labels:
            return answer
        reader = RequestReader(self.scene, self.words, self.named, self.before, self.described.labels)
        return reader._answer(wish)

    def _answer(self, wish: Wish) -> Grounding:
        judge = self.judge(wish)
        try:
            odds = judge.odds(wish)
        except RefusedError as why:
            return NotFound(f"{why} {say_there(self.called)}")
        if judge.unknown or judge.unjudged:
            return self._ask_back(judge, _ranked(as_described(odds)))
        if judge.judged == 0:
            ranked = _ranked(as_described(odds))
            asked = self.said["fits_every"].format(words=self.words, objects=self._say(self.called))
            return AmbiguousRequest(ranked, f"{asked} {self.said['which']}")
        ranked = _ranked(probabilities(odds, judge.weights))
        best, p = ranked[0].id, ranked[0].fit
        if judge.narrow and p >= PERHAPS:
            return self._ask_narrow(*judge.narrow[0], ranked)
        if p >= ACTED and best not in judge.against:
            return Found(best, ranked, p - (ranked[1].fit if len(ranked) > 1 else 0.0), p=p)
        if p < PERHAPS:
            return self._ask_nearly(wish, ranked)
        look = self.described.looks.get(best)
        poorly = look is not None and any(look.fits_colour(word) < LEAST_FIT for word in wish.colours)
        return ask_which(self.words, ranked, self.called, ASKED_RATIO, poorly)

    def judge(self, wish: Wish) -> WordJudge:
        """The judge, with weights for words like these."""
        weights = mix_weights(self.sure(wish))
        return WordJudge(self.scene, self.words, self.named, self.before, weights, self.printed)

    def sure(self, wish: Wish) -> float:
        """How sure shapes are, in [0, 1]: 1 where no word needs them, 0 where a noun is narrower."""
        wishes = all_wishes(wish)
        if any(each.kinds for each in wishes):
            return 0.0
        return self.described.sure if any(each.shapes for each in wishes) else 1.0

    def _ask_nearly(self, wish: Wish, ranked: tuple[Candidate, ...]) -> Grounding:
        """Where no object fits, the question about those of its colours, else of a related shape."""
        candidates = self._fit_nearly(wish)
        if not candidates:
            nothing = self.said["fits_none"].format(words=self.words)
            return NotFound(f"{nothing} {say_there(self.called)}", ranked)
        asked = self.said["fits_poorly"].format(words=self.words, objects=self._say(c.id for c in candidates))
        return AmbiguousRequest(candidates, f"{asked} {say_question(len(candidates))}")

    def _fit_nearly(self, wish: Wish) -> tuple[Candidate, ...]:
        """Objects of the colours asked for; where no colour was, those of a related shape."""
        looks = {k: look for k, look in self.described.looks.items() if k in self.named}
        wanted = {key for key, _ in (*wish.shapes, *wish.kinds)} - {"thing"}
        related = set().union(wanted, *(group for group in RELATED if wanted & group))
        alike = {k for k, o in looks.items() if o.said_shape in related or o.has_unknown_shape}
        fit: dict[int, float] = {}
        for k, look in looks.items() if wish.colours else ():
            nearly = k in alike or not wanted
            fit[k] = min(
                max(look.fits_colour(c), look.nearly_fits_colour(c) if nearly else 0.0) for c in wish.colours
            )
        if wanted and not wish.colours:
            return tuple(Candidate(k, NEARLY) for k in sorted(alike))
        return tuple(each for each in _ranked(fit) if each.fit >= LEAST_COLOUR)

    def _ask_narrow(self, shape: str, kind: str, ranked: tuple[Candidate, ...]) -> AmbiguousRequest:
        """The question where no source tells a noun from others of its shape."""
        fitting = tuple(each for each in ranked if each.fit > CLEAR_RATIO * ranked[0].fit)
        asked = self.said["is_it"].format(
            objects=self._say(each.id for each in fitting), kind=kind, shape=vocabulary().say("shape", shape)
        )
        return AmbiguousRequest(fitting, f"{asked} {say_question(len(fitting))}")

    def _say(self, ids: Iterable[int]) -> str:
        return say_objects(list(ids), self.called)

    def _ask_back(self, judge: WordJudge, ranked: tuple[Candidate, ...]) -> Grounding:
        said = []
        if judge.unknown:
            said.append(self.said["not_known"].format(words=say_words(judge.unknown)))
        if judge.unjudged:
            scene = self.scene
            lacks = (
                "the objects have no masks" if scene.visible_ids is None
                else "it has no depth" if scene.observation.depth is None
                else "its depth shows no table"
            )  # fmt: skip
            said.append(self.said["cannot_judge"].format(words=say_words(judge.unjudged), why=lacks))
        # The right one may fit the other words worse than one that the word not understood rules out.
        least = max(LEAST_SHOWN, ALSO_SHOWN * ranked[0].fit)
        candidates = tuple(each for each in ranked if each.fit >= least)
        if not candidates:
            return NotFound(
                " ".join([*said, "No object fits the other words.", say_there(self.called)]), ranked
            )
        return AmbiguousRequest(candidates, " ".join([*said, "Which object do you mean?"]))


def may_be_printed(wish: Wish) -> bool:
    """Whether words of a wish, or of what it points to, may be printed on a thing."""
    return any(each.names or any(own_words(word) for _, word in each.kinds) for each in all_wishes(wish))


def _ranked(fit: Mapping[int, float]) -> tuple[Candidate, ...]:
    return tuple(Candidate(k, fit[k]) for k in sorted(fit, key=lambda k: (-fit[k], k)))
