"""From how well objects fit the words of a request to an answer: this one, one of these, or none.

It is not certain which shape an object has, nor whether two masks show one thing. So the request is
read in many worlds: in each, every object has one of its likely shapes, and masks are pieces or not. What is
meant in most of them is meant.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from cpor.scene import Scene
from cpor.words.appearance import NEARLY, Appearance
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
    weigh,
)
from cpor.words.pieces import MaskReading
from cpor.words.request_words import Wish, all_wishes
from cpor.words.vocabulary import vocabulary
from cpor.words.word_judge import WORLDS, Fit, WordJudge
from cpor.words.word_odds import OddsJudge, as_described, mix_weights, own_words

ACTED = 0.85
"""Probability of an object from which it is acted on: the least, in steps of .05, at which at most 1 % of the
held-back requests of dev are acted on wrongly, simulated (3 of 660) and photographed (1 of 310).

Chosen with version 5 of the segmenter. Fitted again with version 6, 4 of 660 and 4 of 310 are wrong."""

_LEAST_BY_WORLDS = 0.02
"""Added to the share of the worlds, so that they exclude no object alone."""

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

NOT_THERE = 0.6
"""How much less likely masks are read right with which nothing fits the words."""

MAYBE_ONE = 0.3
"""Probability from which it is said that two candidates may be one thing."""


class RequestReader:
    """Reads one request in all worlds.

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
        self._refused: RefusedError | None = None
        self._meant: Fit = dict.fromkeys(named, 0.0)  # share of the worlds in which an object is meant
        self._in_pieces: dict[tuple[int, ...], float] = {}  # share in which masks together are meant
        # in which no object is meant, none of these since words point to what is not there; of all
        self._none = self._refusals = self._total = 0.0

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
            odds = judge.fit(wish, 0)
        except RefusedError as why:
            return NotFound(f"{why} {say_there(self.called)}")
        if judge.unknown or judge.unjudged:
            return self._ask_back(judge, _ranked(as_described(odds)))
        if judge.judged == 0:
            ranked = _ranked(as_described(odds))
            asked = self.said["fits_every"].format(words=self.words, objects=self._say(self.called))
            return AmbiguousRequest(ranked, f"{asked} {self.said['which']}")
        readings = self.read_worlds(wish)
        none = self._none > (1.0 - PERHAPS) * self._total
        if none and self._refused is not None and self._refusals > 0.5 * self._none:
            return NotFound(f"{self._refused} {say_there(self.called)}")
        ranked = _ranked(self.pool(odds, judge.weights))
        if judge.narrow and ranked[0].fit >= PERHAPS:
            return self._ask_narrow(*judge.narrow[0], ranked)
        found = self._found(ranked)
        nearly = (
            bool(wish.relations) and self._meant[found.id] < LEAST_FIT * self._total
        )  # as its landmark is
        if found.p is not None and found.p >= ACTED and not nearly:
            return found
        if ranked[0].fit < PERHAPS:
            return self._ask_nearly(wish, ranked)
        told = ask_which(self.words, ranked, self.called, ASKED_RATIO)
        return self._doubt_pieces(told, readings) if isinstance(told, AmbiguousRequest) else told

    def judge(self, wish: Wish) -> OddsJudge:
        """The judge of the odds, with weights for words like these."""
        return OddsJudge(
            self.scene, self.words, self.named, self.before, lambda: self.described.looks,
            lambda: self.described.classes, mix_weights(self.sure(wish)), self.printed,
        )  # fmt: skip

    def sure(self, wish: Wish) -> float:
        """How sure shapes are, in [0, 1]: 1 where no word needs them, 0 where a noun is narrower."""
        if wish.kinds:
            return 0.0
        return self.described.sure if wish.shapes else 1.0

    def pool(self, odds: Fit, weights: Mapping[str, float]) -> Fit:
        """Probability that each object is meant, by both readings; the rest is that none is."""
        shares = {k: (self._meant[k] / self._total + _LEAST_BY_WORLDS) ** weights["worlds"] for k in odds}
        none = (self._none / self._total + _LEAST_BY_WORLDS) ** weights["worlds_none"]
        weighed = {k: value * shares[k] for k, value in odds.items()}
        total = sum(weighed.values()) + none
        return {k: value / total for k, value in weighed.items()}

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
        fit: Fit = {}
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

    def _found(self, ranked: tuple[Candidate, ...]) -> Found:
        """The likeliest object; of pieces of one thing the largest, with the probability of all."""
        best, p = ranked[0].id, ranked[0].fit
        pieces: tuple[int, ...] = ()
        for masks, share in self._in_pieces.items():
            if best in masks and share > 0.5 * (self._total - self._none):
                pieces = masks
                p = sum(each.fit for each in ranked if each.id in masks)
                best = max(masks, key=lambda k: self._meant[k])
                break
        ranked = tuple(sorted(ranked, key=lambda each: each.id != best))
        others = [each.fit for each in ranked if each.id not in (best, *pieces)]
        return Found(best, ranked, p - max(others, default=0.0), pieces, p=p)

    def read_worlds(self, wish: Wish) -> list[MaskReading]:
        """What is meant in each world, in `_meant`; the ways to read the masks."""
        readings = self._readings(wish)
        for masks in readings:
            self._read(wish, masks)
        return readings

    def _judge(self, scene: Scene, looks: Callable[[], Mapping[int, Appearance]]) -> WordJudge:
        named = {k: words for k, words in self.named.items() if k in scene.ids}
        return WordJudge(scene, self.words, named, self.before, looks)

    def _readings(self, wish: Wish) -> list[MaskReading]:
        """Ways to read the masks; one where no word asks how objects look."""
        judge = self._judge(self.scene, lambda: self.described.looks)
        with suppress(RefusedError):
            judge.fit(wish, 0)
        if judge.has_looked and self.scene.visible_ids is not None:
            return self.described.readings
        return [MaskReading(1.0, self.scene, {}, {})]

    def _read(self, wish: Wish, masks: MaskReading) -> None:
        """Read the request in the worlds in which masks are so."""
        judge = self._judge(masks.scene, lambda: masks.looks)
        fits: list[Fit | None] = []
        for world in range(WORLDS):
            try:
                fits.append(judge.fit(wish, world))
            except RefusedError as why:
                self._refused = self._refused or why
                fits.append(None)
            if not judge.of_world:  # the first world tells for all
                break
        meant = [None if fit is None else weigh(self.words, _ranked(fit), self.called) for fit in fits]
        none = sum(each is None or isinstance(each, NotFound) for each in meant) / len(fits)
        # A person asks for what shows: masks with which nothing fits are less likely to be read right.
        share = masks.p * (1.0 - NOT_THERE * none) / len(fits)
        self._total += share * len(fits)
        self._none += share * none * len(fits)
        self._refusals += share * fits.count(None)
        for each in meant:
            likely = {c.id: c.fit for c in each.candidates} if isinstance(each, AmbiguousRequest) else {}
            self._none += share * max(0.0, 1.0 - sum(likely.values())) * bool(likely)  # it fits poorly
            likely = {each.id: 1.0} if isinstance(each, Found) else likely
            for k, fit in likely.items():
                pieces = masks.pieces.get(k, (k,))
                part = share * fit / max(1.0, sum(likely.values()))
                for piece in pieces:
                    self._meant[piece] += part
                if len(pieces) > 1:
                    self._in_pieces[pieces] = self._in_pieces.get(pieces, 0.0) + part

    def _doubt_pieces(self, asked: AmbiguousRequest, readings: list[MaskReading]) -> AmbiguousRequest:
        """The question, with the candidates that may well be one thing."""
        together: dict[tuple[int, ...], float] = {}
        for masks in readings:
            for pieces in masks.pieces.values():
                both = tuple(each.id for each in asked.candidates if each.id in pieces)
                together[both] = together.get(both, 0.0) + masks.p * (len(both) > 1)
        likeliest = max(together, key=lambda both: together[both], default=())
        if together.get(likeliest, 0.0) < MAYBE_ONE:
            return asked
        maybe = self.said["maybe_one"].format(objects=self._say(likeliest))
        return replace(asked, question=f"{asked.question} {maybe}")

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


def _ranked(fit: Fit) -> tuple[Candidate, ...]:
    return tuple(Candidate(k, fit[k]) for k in sorted(fit, key=lambda k: (-fit[k], k)))
