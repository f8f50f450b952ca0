"""How well each object of a scene fits the words of a request."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np

from cpor.scene import Scene
from cpor.words.appearance import NEARLY, Appearance
from cpor.words.grounding_answers import CLEAR_RATIO, LEAST_FIT, PERHAPS, Exchange, RefusedError
from cpor.words.layout import DIRECTIONS, HEAPED, Layout
from cpor.words.outlines import FORM_OF_SHAPE, FORMS, MEASURES, SIZES, TWO_SENSES, ramp
from cpor.words.request_words import LayoutWish, Order, Wish
from cpor.words.shapes import SHAPES
from cpor.words.vocabulary import vocabulary

WORLDS = 64
"""Sets of shapes that the objects may have, in which a request is read."""

BESIDE = 0.25
"""How much less an object fits a word for a shape like its own, where another is of that very shape."""

RECOGNISED, HIDDEN = 0.2, 0.4
"""Share that shows from which an object's shape is recognised; how well a shape fits one that hides."""

LEAST_SHOWN = 0.1
"""An object that fits worse is not shown where a word is asked back."""

MAYBE = 0.2
"""An object that fits this much as well as the best may be one of those that are compared or counted."""

Fit: TypeAlias = dict[int, float]


class WordJudge:
    """Holds each word of a request against each object that may be asked for.

    Args:
        scene: With visible masks or names.
        words: The request as it came.
        named: Words of the name that a person gave to each object that may be asked for, by its id.
        before: What was said and done before.
        looks: How the objects look, asked for where a word needs it.

    Attributes:
        unknown, unjudged: Words that are not known, or cannot be judged in this scene.
        narrow: Words for a kind of a shape that cannot be told from others of it, with that shape.
        judged: Words that were held against the objects.
        of_world: Whether a word depends on the world.
    """

    def __init__(
        self,
        scene: Scene,
        words: str,
        named: Mapping[int, frozenset[str]],
        before: Exchange,
        looks: Callable[[], Mapping[int, Appearance]],
    ) -> None:
        self.scene, self.words, self.named, self.before = scene, words, named, before
        self.said, self._ask_looks = vocabulary().said, looks
        self._world = 0
        self.of_world = False
        self._colours: dict[tuple[int, str, int, bool], float] = {}
        self.unknown: list[str] = []
        self.unjudged: list[str] = []
        self.narrow: list[tuple[str, str]] = []
        self.judged = 0

    @cached_property
    def looks(self) -> dict[int, Appearance]:
        """How the objects look; judged where a word asks for it."""
        return {k: each for k, each in self._ask_looks().items() if k in self.named}

    @property
    def has_looked(self) -> bool:
        """Whether a word asked how the objects look."""
        return "looks" in self.__dict__

    @cached_property
    def _shapes(self) -> dict[int, list[str]]:
        """The shape of each object in each world."""
        rng = np.random.default_rng(0)
        even = (np.arange(WORLDS) + 0.5) / WORLDS
        drawn = {}
        for k, look in self.looks.items():
            if look.shapes is not None:
                chances = np.cumsum([look.shapes[word] for word in SHAPES])
                at = np.searchsorted(chances, rng.permutation(even) * chances[-1])
                drawn[k] = [SHAPES[n] for n in at]
        return drawn

    @cached_property
    def _recognised(self) -> Fit:
        """How likely a person names the shape of each object: hardly where hardly anything of it shows."""
        ids = self.scene.visible_ids
        if ids is None:
            return {}
        shown = np.bincount(ids.ravel(), minlength=max(self.scene.ids, default=0) + 1)
        share = {
            o.id: 1.0 if o.amodal is None else float(shown[o.id] / max(1, o.amodal.pixels.sum()))
            for o in self.scene.objects
        }
        return {k: max(HIDDEN, ramp(value, 0.0, RECOGNISED)) for k, value in share.items()}

    @cached_property
    def layout(self) -> Layout:
        """Where the objects lie."""
        return Layout(self.scene, {k: look.outline for k, look in self.looks.items()})

    def fit(self, wish: Wish, world: int) -> Fit:
        """How well each object fits a wish in one of `WORLDS`, in each of which it has one likely shape.

        Raises:
            RefusedError: No object can be meant.
        """
        self._world = world
        self.unknown, self.unjudged, self.narrow, self.judged = [], [], [], 0
        return self._fit(wish)

    def _fit(self, wish: Wish) -> Fit:
        """How well each object fits a wish."""
        fit = self._described(wish, nearly=False)
        if (wish.colours or wish.shapes) and max(fit.values(), default=0.0) < LEAST_FIT:
            fit = self._described(wish, nearly=True)
        for other in wish.unlike:
            self.judged += 1
            apart = self._fit(other)
            for k in fit:
                fit[k] *= 1.0 - min(1.0, apart[k] / max(LEAST_FIT, max(apart.values())))
        for relation in wish.relations:
            self._by_relation(relation, fit)
        # Where a word is asked back, all that may fit stay.
        asks = bool(self.unknown or self.unjudged)
        for word in wish.most:
            self._by_most(word, *members(fit, asks), fit)
        if wish.order is not None:
            self._by_order(wish.order, *members(fit, asks), fit)
        return fit

    def _described(self, wish: Wish, nearly: bool) -> Fit:
        """How well each object fits what is said of itself; or nearly fits, where none does."""
        fit = dict.fromkeys(self.named, 1.0)
        self._by_name(wish, fit)
        self._by_before(wish, fit)
        self._by_colour(wish, fit, nearly)
        self._by_shape(wish, fit, nearly)
        for word in wish.forms:
            self._by_measure(word, fit, {k: FORMS[word](look.outline) for k, look in self.looks.items()})
        return fit

    def _by_name(self, wish: Wish, fit: Fit) -> None:
        for word in wish.names:
            if any(word in each for each in self.named.values()):
                self.judged += 1
                for k in fit:
                    # An object without a name may well be one.
                    fit[k] *= 1.0 if word in self.named[k] else 0.0 if self.named[k] else 0.5
            elif all(self.named.values()):
                raise RefusedError(f'No object is called "{word}".')
            else:
                self.unknown.append(word)

    def _by_before(self, wish: Wish, fit: Fit) -> None:
        """What was moved, "it", and "the other one"."""
        if wish.moved:
            moved = [k for k in self.before.moved if k in fit]
            if not moved:
                raise RefusedError(self.said["nothing_moved"])
            self.judged += 1
            for k in fit:
                fit[k] *= float(k == moved[-1])
        only = wish.pronouns and Wish(pronouns=wish.pronouns) == wish
        for key, word in wish.pronouns:
            if key == "this" and not only:
                continue  # "that one on the left" describes
            if key == "another" and self.before.last is None:
                continue
            if self.before.last is None or self.before.last not in fit:
                raise RefusedError(self.said["no_last"].format(word=word))
            self.judged += 1
            for k in fit:
                if key in ("other", "another"):
                    among = not self.before.candidates or k in self.before.candidates
                    fit[k] *= float(k != self.before.last and among)
                else:
                    fit[k] *= float(k == self.before.last)

    def _by_colour(self, wish: Wish, fit: Fit, nearly: bool) -> None:
        if not (wish.colours or wish.patterns):
            return
        if self.scene.visible_ids is None:
            self.unjudged.extend((*wish.colours, *wish.patterns))
            return
        self.judged += len(wish.colours) + len(wish.patterns)
        for k in fit:
            look, named = self.looks.get(k), vocabulary().keys_of(self.named[k], "colour")
            for colour in wish.colours:
                # Two words share the pixels: "the red and white one".
                fit[k] *= 1.0 if colour in named else self._colour_fit(k, colour, len(wish.colours), nearly)
            for pattern in wish.patterns:
                fits = look is not None and (look.striped if pattern == "striped" else not look.said_colours)
                fit[k] *= 1.0 if fits else 0.15

    def _colour_fit(self, obj: int, colour: str, words: int, nearly: bool) -> float:
        """How well one of some colour words fits an object; the same in all worlds."""
        key = obj, colour, words, nearly
        if key not in self._colours:
            look = self.looks.get(obj)
            fits = 0.0 if look is None else look.fits_colour(colour, words)
            if look is not None and nearly:
                fits = max(fits, look.nearly_fits_colour(colour))
            self._colours[key] = fits
        return self._colours[key]

    def _by_shape(self, wish: Wish, fit: Fit, nearly: bool) -> None:
        for key, word in (*wish.shapes, *wish.kinds):
            if (key, word) in wish.kinds:
                if all(self.named.values()):
                    raise RefusedError(f'No object is called "{word}".')
                self.narrow.append((key, word))
            values = {k: self._shape_fit(key, k) for k in fit}
            if 1.0 in values.values():  # where there is a block, a box is not meant by the word
                values = {k: v if v in (1.0, None) else v * BESIDE for k, v in values.items()}
            if nearly:
                unknown = {k for k, look in self.looks.items() if look.has_unknown_shape}
                values = {k: max(v or 0.0, NEARLY) if k in unknown else v for k, v in values.items()}
            self._by_measure(word, fit, values)

    def _shape_fit(self, key: str, obj: int) -> float | None:
        """How well an object fits a word for a shape: by the name it was given, else by its looks."""
        like, named = vocabulary().like[key], vocabulary().keys_of(self.named[obj], "shape") - {"thing"}
        if named:
            return max(like.get(other, 0.0) for other in named)
        look = self.looks.get(obj)
        if look is None:
            return None
        form = FORMS.get(FORM_OF_SHAPE.get(key, ""))
        if look.shapes is None or (self.scene.observation.depth is None and form is not None):
            return None if form is None else form(look.outline)
        self.of_world = True
        return like.get(self._shapes[obj][self._world], 0.0) * self._recognised[obj]

    def _by_measure(self, word: str, fit: Fit, values: Mapping[int, float | None]) -> None:
        known = {k: value for k, value in values.items() if value is not None}
        if not known:
            self.unjudged.append(word)
            return
        self.judged += 1
        for k in fit:
            fit[k] *= known.get(k, 0.5)

    def _by_relation(self, relation: LayoutWish, fit: Fit) -> None:
        """Objects that lie so to the objects that the relation points to."""
        if self.scene.visible_ids is None or (relation.key in HEAPED and not self.layout.knows_hidden):
            self.unjudged.append(vocabulary().say("relation", relation.key))
            return
        self.judged += 1
        landmarks: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        sure = 1.0
        for other in relation.others:
            found = self._fit(other)
            most = max(found.values(), default=0.0)
            if most < PERHAPS:
                raise RefusedError(self.said["no_landmark"].format(words=self.words, other=relation.words))
            sure = sure if most >= LEAST_FIT else sure * most
            fitting = [(k, value / most) for k, value in found.items() if value > CLEAR_RATIO * most]
            landmarks = [
                ((*ids, k), weight * value)
                for ids, weight in landmarks
                for k, value in fitting
                if k not in ids
            ]
        holds = {
            k: max((w * self.layout.fit(relation.key, k, ids) for ids, w in landmarks), default=0.0)
            for k in fit
        }
        for k in fit:
            fit[k] *= holds[k]
        most = max(fit.values(), default=0.0)
        if most > (0.003 if relation.key in DIRECTIONS else 0.15):  # the nearest is meant, however near
            for k in fit:
                fit[k] *= sure / most

    def _by_most(self, word: str, sure: list[int], maybe: list[int], fit: Fit) -> None:
        """Keep the fit of the object with the most; reduce others that fit by how far they are from it."""
        if not sure:
            return
        if word in SIZES and (seen := [k for k in sure if self._recognised.get(k) == 1.0]):
            sure, maybe = seen, maybe + [k for k in sure if k not in seen]
        close: Fit = {}
        first: set[int] = set()
        for sense in TWO_SENSES.get(word, (word,)):
            for k, value in self._closeness(sense, sure).items():
                close[k] = max(close.get(k, 0.0), value)
            first |= {k for k, value in self._closeness(sense, sure + maybe).items() if value == 1.0}
        if not close:
            self.unjudged.append(vocabulary().say("most", word))
            return
        self.judged += 1
        # Where a word is asked back, a place orders the candidates, no more.
        least = 0.5 if self.unknown or self.unjudged else 0.0
        for k in fit:
            fit[k] *= least + (1.0 - least) * close.get(k, 0.5) if k in sure else 0.0
        add_doubtful(first.intersection(maybe), fit)

    def _closeness(self, word: str, among: list[int]) -> Fit:
        """How close each object comes to the one with the most, in [0, 1]; empty where it cannot be told."""
        values, scale = self._measured(word, among)
        most = max(values.values(), default=0.0)
        return {k: float(np.exp(-(most - value) / scale)) for k, value in values.items()}

    def _measured(self, word: str, among: list[int]) -> tuple[Fit, float]:
        """The measure of a word, and the difference that tells two objects apart."""
        measure, tells_apart = MEASURES[word]
        values = {k: measure(self.looks[k].outline) if k in self.looks else None for k in among}
        known = {k: value for k, value in values.items() if value is not None}
        return known, max(tells_apart or 0.2 * abs(max(known.values(), default=0.0)), 1e-12)

    def _by_order(self, order: Order, sure: list[int], maybe: list[int], fit: Fit) -> None:
        """The n-th in a row; its neighbours too where they lie too close to be told apart."""
        self.judged += 1
        if order.start is None:
            row = [k for k in self.before.candidates if k in sure]
            if not row:
                raise RefusedError(self.said["no_last"].format(word=f"number {order.n}"))
            values, scale, maybe = {k: -float(n) for n, k in enumerate(row)}, 1e-6, []
        else:
            word = TWO_SENSES.get(order.start, (order.start,))[0]
            values, scale = self._measured(word, sure)
            row = sorted(values, key=lambda k: -values[k])
        if len(row) < order.n:
            count = f"{len(row)}" if not maybe else f"{len(row)} to {len(row) + len(maybe)}"
            raise RefusedError(self.said["too_few"].format(words=self.words, n=order.n, count=count))
        nth = values[row[order.n - 1]]
        for k in fit:
            fit[k] *= float(np.exp(-abs(values[k] - nth) / scale)) if k in values else 0.0
        if maybe and order.start is not None:
            longer, _ = self._measured(word, sure + maybe)
            add_doubtful({sorted(longer, key=lambda k: -longer[k])[order.n - 1]}, fit)


def members(fit: dict[int, float], asks: bool) -> tuple[list[int], list[int]]:
    """Those that fit so far, and those that perhaps do."""
    most = max(fit.values(), default=0.0)
    least = LEAST_SHOWN if asks else max(LEAST_FIT, CLEAR_RATIO * most)
    sure = [k for k, value in fit.items() if value >= least]
    return sure, [k for k, value in fit.items() if MAYBE * most <= value < least]


def add_doubtful(objects: set[int], fit: dict[int, float]) -> None:
    """Objects that would be meant if they did fit: too good to be passed over without asking."""
    most = max(fit.values(), default=0.0)
    for k in objects:
        fit[k] = max(fit[k], 1.1 * CLEAR_RATIO * most)
