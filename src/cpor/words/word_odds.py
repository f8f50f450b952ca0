"""How much likelier each object is meant by a request than none in view: calibrated odds, word by word.

Each word multiplies the odds of an object by how much more often such an object is called so than any object.
The weights are those of `word_weights.json`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np

from cpor.scene import Scene
from cpor.words.appearance import Appearance
from cpor.words.grounding_answers import PERHAPS, Exchange, RefusedError
from cpor.words.labels import share_printed
from cpor.words.layout import HEAPED
from cpor.words.nouns import LEAST_TOLD
from cpor.words.outlines import FORM_OF_SHAPE, FORMS, SIZES, TWO_SENSES, nth_chance
from cpor.words.request_words import LayoutWish, Wish
from cpor.words.vocabulary import split_words, vocabulary
from cpor.words.word_judge import BESIDE, Fit, WordJudge, members

FILE = Path(__file__).with_name("word_weights.json")


WEIGHTS = (
    *("described", "any", "colour", "colour_named", "usual_colour", "shape", "shape_class", "shape_chance"),
    *("kind", "kind_class", "kind_chance", "kind_best", "label", "form", "large", "border"),
    *("relation", "relation_best", "landmark", "place", "size", "worlds", "worlds_none"),
)
"""Weights of the log-odds, fitted by `benchmarks/fit_words.py`.

- described, any: What every object has, where words describe it, and where none does.
- colour, colour_named, usual_colour: Log of how much likelier than usual a colour is said; that we would say
  it; log of how much likelier than usual one is said that such a thing has.
- shape, shape_class, shape_chance: For a word for a shape: what every object has besides; log of how much
  more than usual is said of its classes; log of its probability.
- kind, kind_class, kind_chance, kind_best: The same for a narrower noun; and log of how much more is said of
  its classes for the object for which most is said.
- label: Square of the share of the words of a noun, or of a word that is not ours, that are printed.
- form: Log of how well an outline fits a word for a form.
- large, border: Share of the image over a tenth; touching its border: furniture.
- relation, relation_best, landmark: Log of how well a relation holds, by the best of the objects; how well it
  does, for objects that fit as well; log of the probability that what it points to is there.
- place, size: Log of the probability that an object has a place in a row, or the most of it; the same where
  sizes are compared.
- worlds, worlds_none: Log of the share of the worlds in which an object is meant, and in which none is; see
  `cpor.words.word_answer`.
"""


@cache
def fitted_weights() -> tuple[dict[str, float], dict[str, float]]:
    """Weights where the shape of an object matters and is hardly known, and where it is not in doubt."""
    data = json.loads(FILE.read_text())
    unsure, sure = ({name: data[name][k] for name in WEIGHTS} for k in (0, 1))
    return unsure, sure


def mix_weights(sure: float) -> dict[str, float]:
    """Weights where shapes are so sure, in [0, 1]: between the fitted ones."""
    low, high = fitted_weights()
    return {name: (1.0 - sure) * low[name] + sure * high[name] for name in WEIGHTS}


CALLED = 30.0
"""How much likelier an object is meant that has the name, or by whose name the word holds."""

_LEAST_SHAPE, _LEAST_FORM, _LEAST_HELD, _LEAST_SAID = 1e-2, 0.05, 2e-3, 0.01
"""Added to probabilities of a shape and of a colour word, and to how well a form and a relation hold."""

_USUAL_FORM = 0.25
"""How well a word for a form fits a usual object."""

_FIRST = 4.0
"""Power of how near to the best an object comes, of all that fit and lie so."""

_LEAST_PLACE = 1e-3
"""Added to the probability of a place."""

_SAME_KIND = 0.95
"""Share of the words on one object that are held to be on another that looks like it."""

_STRIPED = (3.0, 0.3)
"""How much likelier an object is meant by a word for a pattern that it has, and that it has not."""


class OddsJudge(WordJudge):
    """Holds each word of a request against each object, as odds against none in view.

    Args:
        scene, words, named, before, looks: See `WordJudge`.
        classes: What the noun network says of the objects, asked for where a noun needs it; see
            `judge_classes`.
        weights: Weights of the log-odds.
        printed: Words printed on the objects, where they were read.
    """

    def __init__(
        self,
        scene: Scene,
        words: str,
        named: Mapping[int, frozenset[str]],
        before: Exchange,
        looks: Callable[[], Mapping[int, Appearance]],
        classes: Callable[[], Mapping[int, np.ndarray]],
        weights: Mapping[str, float],
        printed: Mapping[int, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        super().__init__(scene, words, named, before, looks)
        self._printed = printed
        self._ask_classes, self.weights = classes, weights

    def _fit(self, wish: Wish) -> Fit:
        described = wish.colours or wish.patterns or wish.shapes or wish.kinds or wish.forms or wish.names
        weights = self.weights
        base = weights["described"] if described else weights["any"]
        odds = {
            k: float(np.exp(base + weights["large"] * large + weights["border"] * border))
            for k, (large, border) in self._furniture.items()
        }
        self._by_name(wish, odds)
        self._by_before(wish, odds)
        self._by_colour(wish, odds, nearly=False)
        self._by_shape(wish, odds, nearly=False)
        for word in wish.forms:
            forms = {k: FORMS[word](look.outline) for k, look in self.looks.items()}
            self._by_measure(word, odds, {
                k: None if form is None else ((form + _LEAST_FORM) / _USUAL_FORM) ** weights["form"]
                for k, form in forms.items()
            })  # fmt: skip
        for other in wish.unlike:
            self.judged += 1
            for k, value in self._fit(other).items():
                odds[k] /= 1.0 + value
        for relation in wish.relations:
            self._by_relation(relation, odds)
        for word in wish.most:
            self._by_place_in_row(1, word, odds)
        if wish.order is not None and wish.order.start is not None:
            self._by_place_in_row(wish.order.n, wish.order.start, odds)
        elif wish.order is not None:
            self._by_order(
                wish.order, *members(as_described(odds), bool(self.unknown or self.unjudged)), odds
            )
        return odds

    @cached_property
    def _furniture(self) -> dict[int, tuple[float, bool]]:
        """Share of the image over a tenth that each object has, and whether it touches the border."""
        ids = self.scene.visible_ids
        if ids is None:
            return dict.fromkeys(self.named, (0.0, False))
        share = np.bincount(ids.ravel(), minlength=max(self.scene.ids, default=0) + 1) / ids.size
        border = set(np.concatenate([ids[0], ids[-1], ids[:, 0], ids[:, -1]]).tolist())
        return {k: (max(0.0, float(share[k]) - 0.1), k in border) for k in self.named}

    def _by_name(self, wish: Wish, fit: Fit) -> None:
        for word in wish.names:
            shares = self._shares_printed((word,))
            if max(shares.values(), default=0.0) > 0.0:
                self.judged += 1
                for k in fit:
                    fit[k] *= float(np.exp(self.weights["label"] * shares.get(k, 0.0) ** 2))
                wish = replace(wish, names=tuple(each for each in wish.names if each != word))
        super()._by_name(wish, fit)
        for k, called in self.named.items():
            fit[k] *= CALLED ** len(called.intersection(wish.names))

    def _by_colour(self, wish: Wish, fit: Fit, nearly: bool) -> None:
        if not (wish.colours or wish.patterns):
            return
        if self.scene.visible_ids is None:
            super()._by_colour(wish, fit, nearly)
            return
        self.judged += len(wish.colours) + len(wish.patterns)
        for k in fit:
            look, named = self.looks.get(k), vocabulary().keys_of(self.named[k], "colour")
            for colour in wish.colours:
                said, usual = look.said_chances[colour] if look is not None else (_LEAST_SAID, 1.0)
                by_look = float(((said + _LEAST_SAID) / usual) ** self.weights["colour"])
                ours = look is not None and colour in look.said_colours
                by_look *= float(np.exp(self.weights["colour_named"] * ours))
                fit[k] *= CALLED if colour in named else by_look
            for pattern in wish.patterns:
                fits = look is not None and (look.striped if pattern == "striped" else not look.said_colours)
                fit[k] *= _STRIPED[not fits]

    def _by_shape(self, wish: Wish, fit: Fit, nearly: bool) -> None:
        for key, word in (*wish.shapes, *wish.kinds):
            shares = self._shares_printed(own_words(word))
            said = max(shares.values(), default=0.0) > 0.0
            if not said and not vocabulary().classes.get(word) and word not in vocabulary().shape_words:
                if all(self.named.values()):
                    raise RefusedError(f'No object is called "{word}".')
                self.narrow.append((key, word))
            usual = () if wish.colours else vocabulary().usual_colours.get(word, ())
            self._by_measure(word, fit, self._noun_odds(key, word, usual))
            for k in fit:
                fit[k] *= float(np.exp(self.weights["label"] * shares.get(k, 0.0) ** 2))

    def _shares_printed(self, words: tuple[str, ...]) -> dict[int, float]:
        """Share of words that are printed on each object that may be asked for.

        An object on which nothing is read may be of the same kind as one that looks like it.
        """
        read = {k: share_printed(words, each) for k, each in self._printed.items() if k in self.named}
        said = {k: share for k, share in read.items() if share > 0.0}
        for k in self.looks.keys() - read.keys() if said else ():
            alike = [share for j, share in said.items() if self.looks[k].is_like(self.looks[j])]
            read[k] = _SAME_KIND * max(alike, default=0.0)
        return read

    def _noun_odds(self, key: str, word: str, usual: tuple[str, ...]) -> dict[int, float | None]:
        """How much likelier a noun means each object than none in view; None where no class tells."""
        classes, weights = list(vocabulary().classes[word]), self.weights
        told = {k: each for k, each in self._ask_classes().items() if k in self.named}
        more = {
            k: float(np.log(each[classes].mean() + LEAST_TOLD)) if classes else 0.0
            for k, each in told.items()
        }
        best = max(more.values(), default=0.0)
        base, by_class, by_shape = (
            (weights["shape"], weights["shape_class"], weights["shape_chance"])
            if word in vocabulary().shape_words
            else (
                weights["kind"] + weights["kind_best"] * best,
                weights["kind_class"],
                weights["kind_chance"],
            )
        )
        if word not in vocabulary().shape_words:
            base += weights["kind_best"] * best
        like = vocabulary().like[key]
        clear = any((each.shapes or {}).get(key, 0.0) >= 0.5 for each in self.looks.values())
        beside = BESIDE if clear else 1.0
        odds: dict[int, float | None] = {}
        for k, called in self.named.items():
            shapes = None if k not in self.looks else self.looks[k].shapes
            if named := vocabulary().keys_of(called, "shape") - {"thing"}:
                odds[k] = CALLED * max(like.get(other, 0.0) for other in named)
            elif k not in more or shapes is None:
                odds[k] = self._by_form(key, k)
            else:
                p = sum(p * like.get(s, 0.0) * (1.0 if s == key else beside) for s, p in shapes.items())
                log_odds = base + by_class * more[k] + by_shape * np.log(p + _LEAST_SHAPE)
                chances = [self.looks[k].said_chances[each] for each in usual]
                log_odds += weights["usual_colour"] * max(
                    (np.log(p + _LEAST_SAID) - np.log(often) for p, often in chances), default=0.0
                )
                odds[k] = float(np.exp(log_odds)) * self._recognised.get(k, 1.0)
        return odds

    def _by_form(self, key: str, obj: int) -> float | None:
        """How much likelier a word for a shape means an object by its outline; None where none tells."""
        form = FORMS.get(FORM_OF_SHAPE.get(key, ""))
        fits = None if form is None or obj not in self.looks else form(self.looks[obj].outline)
        return None if fits is None else fits / _LEAST_FORM

    def _by_relation(self, relation: LayoutWish, fit: Fit) -> None:
        """Objects that lie so to the objects that the relation points to."""
        if self.scene.visible_ids is None or (relation.key in HEAPED and not self.layout.knows_hidden):
            self.unjudged.append(vocabulary().say("relation", relation.key))
            return
        self.judged += 1
        landmarks: dict[tuple[int, ...], float] = {(): 1.0}
        for other in relation.others:
            found = self._fit(other)
            total = 1.0 + sum(found.values())
            if max(found.values(), default=0.0) < PERHAPS:
                raise RefusedError(self.said["no_landmark"].format(words=self.words, other=relation.words))
            landmarks = {
                (*ids, k): weight * value / total
                for ids, weight in landmarks.items()
                for k, value in found.items()
                if k not in ids and value > 0.02 * total
            }
        holds = {
            k: sum(w * self.layout.fit(relation.key, k, ids) for ids, w in landmarks.items()) for k in fit
        }
        shares = as_described(fit)
        best = max((holds[k] * shares[k] for k in fit), default=0.0)
        sure = sum(landmarks.values())
        for k in fit:
            held = min(1.0, holds[k] / max(best, 1e-9))
            first = (holds[k] * shares[k] / max(best, 1e-9)) ** _FIRST
            fit[k] *= float(np.exp(self.weights["relation_best"] * first))
            fit[k] *= sure ** self.weights["landmark"] * (held + _LEAST_HELD) ** self.weights["relation"]

    def _by_place_in_row(self, n: int, word: str, fit: Fit) -> None:
        """The n-th of those that fit, where each fits with some probability."""
        shares = as_described(fit)
        chances = []
        for sense in TWO_SENSES.get(word, (word,)):
            values, scale = self._measured(sense, list(fit))
            if values:
                chances.append({k: nth_chance(n, k, values, scale, shares) for k in values})
        if not chances:
            self.unjudged.append(vocabulary().say("most", word))
            return
        self.judged += 1
        weight = self.weights["size" if word in SIZES else "place"]
        # Where a word is asked back, a place orders the candidates, no more.
        least = 0.5 if self.unknown or self.unjudged else 0.0
        for k in fit:
            chance = sum(each.get(k, 0.0) for each in chances) / len(chances)
            held = ((chance + _LEAST_PLACE) / (1.0 + _LEAST_PLACE)) ** weight
            fit[k] *= least + (1.0 - least) * held


def own_words(noun: str) -> tuple[str, ...]:
    """Words of a noun that are no words for a shape: those that may be printed on a thing."""
    voc = vocabulary()
    others = voc.shape_words | voc.polite | {"of", "and"}
    return tuple(word for word in split_words(noun) if word not in others)


def as_described(odds: Fit) -> Fit:
    """Probability that each object is as described, by its odds."""
    return {k: value / (1.0 + value) for k, value in odds.items()}
