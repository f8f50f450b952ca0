"""From how well objects fit the words of a request to an answer: this one, one of these, or none.

It is not certain which shape an object has, nor whether two masks show one thing. So the request is
read in many worlds: in each, every object has one of its likely shapes, and masks are pieces or not. What is
meant in most of them is meant.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from cpor.scene import Scene
from cpor.words.appearance import Appearance
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
from cpor.words.request_words import Wish
from cpor.words.vocabulary import vocabulary
from cpor.words.word_judge import WORLDS, Fit, WordJudge
from cpor.words.word_measures import LEAST_SHOWN

MEANT = 0.8
"""Probability from which an object is acted on where nouns are judged by their classes."""

AGREED = 0.35
"""Least probability by nouns of what is meant in most worlds; else the likelier one is asked about too."""

CERTAIN = 0.93
"""Where what is meant in most worlds fits so well, nouns are not judged by their classes."""

MOST_SURE = 0.98
"""The most that words tell of one object."""

IN_MOST = 0.8
"""Share of the worlds with an object that fits in which it must be the same one to be acted on."""

SEVERAL = 0.4
"""What a world counts in which several objects fit: a person who says "the cup" mostly sees just one."""

NOT_THERE = 0.6
"""How much less likely masks are read right with which nothing fits the words."""

MAYBE_ONE = 0.3
"""Probability from which it is said that two candidates may be one thing."""

IN_MANY = 0.35
"""Share of all worlds in which there must be one to be acted on."""


class RequestReader:
    """Reads one request in all worlds.

    Args:
        scene: With visible masks or names.
        words: The request as it came.
        named: Words of the name that a person gave to each object that may be asked for, by its id.
        before: What was said and done before.
    """

    def __init__(
        self, scene: Scene, words: str, named: Mapping[int, frozenset[str]], before: Exchange
    ) -> None:
        self.scene, self.words, self.named, self.before = scene, words, named, before
        self.called = {o.id: o.title or "" for o in scene.objects if o.id in named}
        self.said, self.described = vocabulary().said, describe(scene)
        self._refused: RefusedError | None = None
        self._of_world = False
        self._meant: Fit = dict.fromkeys(named, 0.0)  # share of the worlds in which an object is meant
        self._in_pieces: dict[tuple[int, ...], float] = {}  # share in which masks together are meant
        # in which no object is meant, none of these since words point to what is not there; several; of all
        self._none = self._refusals = self._several = self._total = 0.0
        self._fit: Fit = dict.fromkeys(named, 0.0)

    def answer(self, wish: Wish) -> Grounding:
        """The object that all words together describe; what is not understood is asked back."""
        told = self._in_worlds(wish)
        if isinstance(told, Found) and (not self._of_world or told.ranked[0].fit >= CERTAIN):
            return told
        fitting = told.candidates if isinstance(told, AmbiguousRequest) else ()
        if sum(each.fit >= LEAST_FIT for each in fitting) > 1:
            return told
        ranked = self._by_nouns(wish)
        if not ranked:
            return self._ask_nearly(wish, told)
        p, best = {each.id: each.fit for each in ranked}, ranked[0]
        if isinstance(told, Found):
            if max(p.get(k, 0.0) for k in (told.id, *told.pieces)) >= AGREED:
                return told
            several = tuple(sorted({told.id, best.id}, key=lambda k: -p[k]))
            said = self.said["fits"].format(words=self.words, objects=self._say(several))
            candidates = tuple(Candidate(k, p[k]) for k in several)
            return AmbiguousRequest(candidates, f"{said} {say_question(len(several))}")
        if best.fit >= MEANT:
            return Found(best.id, ranked, best.fit - (ranked[1].fit if len(ranked) > 1 else 0.0), p=best.fit)
        if best.fit >= PERHAPS:
            return ask_which(self.words, ranked, self.called, ASKED_RATIO)
        return self._ask_nearly(wish, told)

    def _ask_nearly(self, wish: Wish, told: Grounding) -> Grounding:
        """Where no object fits, the question about those that have the colours of what is not there."""
        if not (isinstance(told, NotFound) and told.ranked and wish.colours and wish.kinds):
            return told
        fit = self._judge(self.scene, lambda: self.described.looks).fit(Wish(colours=wish.colours), 0)
        candidates = tuple(each for each in _ranked(fit) if each.fit >= LEAST_FIT)
        if not candidates:
            return told
        asked = self.said["fits_poorly"].format(words=self.words, objects=self._say(c.id for c in candidates))
        return AmbiguousRequest(candidates, f"{asked} {say_question(len(candidates))}")

    def _by_nouns(self, wish: Wish) -> tuple[Candidate, ...]:
        """Probability that each object is meant, the best first; none where no noun tells.

        Each word gives odds for each object against that none in view is meant; they are compared.
        """
        judge = self._judge(self.scene, lambda: self.described.looks)
        with suppress(RefusedError):
            fit = judge.fit(wish, None)
            if not judge.by_noun or judge.unknown or judge.unjudged or judge.narrow:
                return ()
            sure = {k: min(value, MOST_SURE) for k, value in fit.items()}
            odds = {k: value / (1.0 - value) for k, value in sure.items()}
            total = 1.0 + sum(odds.values())
            return _ranked({k: value / total for k, value in odds.items()})
        return ()

    def _judge(self, scene: Scene, looks: Callable[[], Mapping[int, Appearance]]) -> WordJudge:
        named = {k: words for k, words in self.named.items() if k in scene.ids}
        return WordJudge(scene, self.words, named, self.before, looks, lambda: self.described.classes)

    def _in_worlds(self, wish: Wish) -> Grounding:
        """What is meant in most worlds."""
        readings = self._readings(wish)
        for masks in readings:
            judge = self._read(wish, masks)
        self._fit = {k: value / self._total for k, value in self._fit.items()}
        ranked = _ranked(self._fit)
        none = self._none > (1.0 - PERHAPS) * self._total
        if none and self._refused is not None and self._refusals > 0.5 * self._none:
            return NotFound(f"{self._refused} {say_there(self.called)}")
        if judge.unknown or judge.unjudged:
            return self._ask_back(judge, ranked)
        if judge.judged == 0:
            asked = self.said["fits_every"].format(words=self.words, objects=self._say(self._fit))
            return AmbiguousRequest(ranked, f"{asked} {self.said['which']}")
        if judge.narrow and ranked[0].fit >= LEAST_FIT:
            shape, kind = judge.narrow[0]
            fitting = tuple(each for each in ranked if each.fit > CLEAR_RATIO * ranked[0].fit)
            asked = self.said["is_it"].format(
                objects=self._say(each.id for each in fitting),
                kind=kind,
                shape=vocabulary().say("shape", shape),
            )
            return AmbiguousRequest(fitting, f"{asked} {self.said['which']}")
        best = max(self.named, key=lambda k: (self._meant[k], self._fit[k], -k))
        least = self._total - self._none - (1.0 - SEVERAL) * self._several
        if self._meant[best] >= max(IN_MANY * self._total, IN_MOST * least):
            return self._found(best, ranked)
        told = ask_which(self.words, ranked, self.called, ASKED_RATIO if judge.of_world else CLEAR_RATIO)
        return self._doubt_pieces(told, readings) if isinstance(told, AmbiguousRequest) else told

    def _found(self, best: int, ranked: tuple[Candidate, ...]) -> Found:
        """The object that is meant; of pieces of one thing the largest."""
        pieces: tuple[int, ...] = ()
        for masks, p in self._in_pieces.items():
            if best in masks and p > 0.5 * self._meant[best]:
                pieces, best = masks, max(masks, key=lambda k: self._meant[k])
                break
        ranked = tuple(sorted(ranked, key=lambda each: each.id != best))
        others = [each.fit for each in ranked if each.id not in (best, *pieces)]
        return Found(best, ranked, ranked[0].fit - max(others, default=0.0), pieces)

    def _readings(self, wish: Wish) -> list[MaskReading]:
        """Ways to read the masks; one where no word asks how objects look."""
        judge = self._judge(self.scene, lambda: self.described.looks)
        with suppress(RefusedError):
            judge.fit(wish, 0)
        if judge.has_looked and self.scene.visible_ids is not None:
            return self.described.readings
        return [MaskReading(1.0, self.scene, {}, {})]

    def _read(self, wish: Wish, masks: MaskReading) -> WordJudge:
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
        self._of_world = self._of_world or judge.of_world
        meant = [None if fit is None else weigh(self.words, _ranked(fit), self.called) for fit in fits]
        none = sum(each is None or isinstance(each, NotFound) for each in meant) / len(fits)
        # A person asks for what shows: masks with which nothing fits are less likely to be read right.
        share = masks.p * (1.0 - NOT_THERE * none) / len(fits)
        self._total += share * len(fits)
        self._none += share * none * len(fits)
        self._refusals += share * fits.count(None)
        for fit, each in zip(fits, meant, strict=True):
            for k, value in (fit or {}).items():
                for piece in masks.pieces.get(k, (k,)):
                    self._fit[piece] += share * value
            if isinstance(each, AmbiguousRequest):
                self._several += share
            elif isinstance(each, Found):
                pieces = masks.pieces.get(each.id, (each.id,))
                for piece in pieces:
                    self._meant[piece] += share
                if len(pieces) > 1:
                    self._in_pieces[pieces] = self._in_pieces.get(pieces, 0.0) + share
        return judge

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
        candidates = tuple(each for each in ranked if each.fit >= LEAST_SHOWN)
        if not candidates:
            return NotFound(
                " ".join([*said, "No object fits the other words.", say_there(self.called)]), ranked
            )
        return AmbiguousRequest(candidates, " ".join([*said, "Which object do you mean?"]))


def _ranked(fit: Fit) -> tuple[Candidate, ...]:
    return tuple(Candidate(k, fit[k]) for k in sorted(fit, key=lambda k: (-fit[k], k)))
