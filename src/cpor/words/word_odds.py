"""How much likelier each object is meant by a request than none in view: calibrated odds, word by word.

Each word multiplies the odds of an object by how much more often such an object is called so than any object.
Weights are fitted on the dev photographs that were judged by eye, on simulated dev scenes, and on requests
for things that are in none of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cpor.scene import Scene
from cpor.words.appearance import Appearance
from cpor.words.grounding_answers import PERHAPS, Exchange, RefusedError
from cpor.words.nouns import LEAST_TOLD
from cpor.words.request_words import LayoutWish, Wish
from cpor.words.vocabulary import vocabulary
from cpor.words.word_judge import BESIDE, Fit, WordJudge
from cpor.words.word_measures import FORM_OF_SHAPE, FORMS, TWO_SENSES, members, nth_chance


@dataclass(frozen=True)
class Weights:
    """Weights of the log-odds.

    Attributes:
        base, any_base: What every object has, where words describe it, and where none does.
        colour, usual_colour: Of the log of how much likelier than usual a colour is said; of one that such
            things mostly have.
        shape, kind: Of a word for a shape, and of a narrower noun: log of how rarely it is said; then of the
            log-odds that it is said of an object: intercept; log of how much more than usual is said of its
            classes; log of its probability by the shape network.
        form: Weight of the log of how well an outline fits a word for a form.
        large, border: Of the share of the image over a tenth, and of touching its border: furniture.
        relation, landmark: Of the log of how well a relation holds, by the best of the objects; and of the
            probability that what it points to is there.
    """

    base: float = -0.89
    any_base: float = 3.0
    colour: float = 1.22
    usual_colour: float = 1.31
    shape: tuple[float, float, float, float] = (2.41, 0.88, 1.46, 0.72)
    kind: tuple[float, float, float, float] = (2.98, -2.54, 1.03, 0.0)
    form: float = 1.0
    large: float = -10.0
    border: float = -0.95
    relation: float = 1.0
    landmark: float = 0.5


WEIGHTS = Weights()

CALLED = 30.0
"""How much likelier an object is meant that has the name, or by whose name the word holds."""

_LEAST_SHAPE, _LEAST_FORM, _LEAST_HELD, _LEAST_SAID = 1e-2, 0.05, 0.02, 0.01
"""Added to probabilities of a shape and of a colour word, and to how well a form and a relation hold."""

_STRIPED = (3.0, 0.3)
"""How much likelier an object is meant by a word for a pattern that it has, and that it has not."""


class OddsJudge(WordJudge):
    """Holds each word of a request against each object, as odds against none in view.

    Args:
        scene, words, named, before, looks: See `WordJudge`.
        classes: What the noun network says of the objects, asked for where a noun needs it; see
            `judge_classes`.
    """

    def __init__(
        self,
        scene: Scene,
        words: str,
        named: Mapping[int, frozenset[str]],
        before: Exchange,
        looks: Callable[[], Mapping[int, Appearance]],
        classes: Callable[[], Mapping[int, np.ndarray]],
    ) -> None:
        super().__init__(scene, words, named, before, looks)
        self._ask_classes = classes

    def _fit(self, wish: Wish) -> Fit:
        described = wish.colours or wish.patterns or wish.shapes or wish.kinds or wish.forms or wish.names
        base = WEIGHTS.base if described else WEIGHTS.any_base
        odds = {k: float(np.exp(base + prior)) for k, prior in self._priors.items()}
        self._by_name(wish, odds)
        self._by_before(wish, odds)
        self._by_colour(wish, odds, nearly=False)
        self._by_shape(wish, odds, nearly=False)
        for word in wish.forms:
            forms = {k: FORMS[word](look.outline) for k, look in self.looks.items()}
            self._by_measure(word, odds, {
                k: None if form is None else (form + _LEAST_FORM) ** WEIGHTS.form for k, form in forms.items()
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
    def _priors(self) -> Fit:
        """Log-odds of each object before a word is heard: furniture is asked for less often."""
        ids = self.scene.visible_ids
        if ids is None:
            return dict.fromkeys(self.named, 0.0)
        share = np.bincount(ids.ravel(), minlength=max(self.scene.ids, default=0) + 1) / ids.size
        border = set(np.concatenate([ids[0], ids[-1], ids[:, 0], ids[:, -1]]).tolist())
        return {
            k: WEIGHTS.large * max(0.0, float(share[k]) - 0.1) + WEIGHTS.border * (k in border)
            for k in self.named
        }

    def _by_name(self, wish: Wish, fit: Fit) -> None:
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
                by_look = float(((said + _LEAST_SAID) / usual) ** WEIGHTS.colour)
                fit[k] *= CALLED if colour in named else by_look
            for pattern in wish.patterns:
                fits = look is not None and (look.striped if pattern == "striped" else not look.said_colours)
                fit[k] *= _STRIPED[not fits]

    def _by_shape(self, wish: Wish, fit: Fit, nearly: bool) -> None:
        for key, word in (*wish.shapes, *wish.kinds):
            if not vocabulary().classes.get(word) and word not in vocabulary().shape_words:
                if all(self.named.values()):
                    raise RefusedError(f'No object is called "{word}".')
                self.narrow.append((key, word))
            usual = () if wish.colours else vocabulary().usual_colours.get(word, ())
            self._by_measure(word, fit, {k: self._noun_odds(key, word, k, usual) for k in fit})

    def _noun_odds(self, key: str, word: str, obj: int, usual: tuple[str, ...]) -> float | None:
        """How much likelier a noun means an object than none in view; None where no class tells."""
        named, like = vocabulary().keys_of(self.named[obj], "shape") - {"thing"}, vocabulary().like[key]
        if named:
            return CALLED * max(like.get(other, 0.0) for other in named)
        told, look = self._ask_classes().get(obj), self.looks.get(obj)
        classes = vocabulary().classes[word]
        if told is None or look is None or look.shapes is None:
            form = FORMS.get(FORM_OF_SHAPE.get(key, ""))
            fits = None if form is None or look is None else form(look.outline)
            return None if fits is None else fits / _LEAST_FORM
        clear = any((each.shapes or {}).get(key, 0.0) >= 0.5 for each in self.looks.values())
        beside = BESIDE if clear else 1.0
        p_shape = sum(
            p * like.get(shape, 0.0) * (1.0 if shape == key else beside) for shape, p in look.shapes.items()
        )
        rarity, base, by_class, by_shape = WEIGHTS.shape if word in vocabulary().shape_words else WEIGHTS.kind
        more = np.log(told[list(classes)].mean() + LEAST_TOLD) if classes else 0.0
        log_odds = base + by_class * more + by_shape * np.log(p_shape + _LEAST_SHAPE)
        chances = [look.said_chances[each] for each in usual]
        log_odds += WEIGHTS.usual_colour * max(
            (np.log(p + _LEAST_SAID) - np.log(often) for p, often in chances), default=0.0
        )
        return float(np.exp(rarity) / (1.0 + np.exp(-log_odds))) * self._recognised.get(obj, 1.0)

    def _by_relation(self, relation: LayoutWish, fit: Fit) -> None:
        """Objects that lie so to the objects that the relation points to."""
        if self.scene.visible_ids is None or (
            relation.key in ("on", "under") and not self.layout.knows_hidden
        ):
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
            fit[k] *= sure**WEIGHTS.landmark * (held + _LEAST_HELD) ** WEIGHTS.relation

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
        # Where a word is asked back, a place orders the candidates, no more.
        least = 0.5 if self.unknown or self.unjudged else 0.0
        for k in fit:
            fit[k] *= least + (1.0 - least) * sum(each.get(k, 0.0) for each in chances) / len(chances)


def as_described(odds: Fit) -> Fit:
    """Probability that each object is as described, by its odds."""
    return {k: value / (1.0 + value) for k, value in odds.items()}
