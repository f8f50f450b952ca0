"""How much likelier each object is meant by a request than none in view: calibrated odds, word by word.

Each word multiplies the odds of an object by how much more often such an object is called so than any object.
"""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np

from cpor.scene import Scene
from cpor.words import word_weights as numbers
from cpor.words.appearance import Appearance
from cpor.words.description import describe
from cpor.words.grounding_answers import LEAST_FIT, PERHAPS, Exchange, RefusedError
from cpor.words.labels import own_words, share_printed
from cpor.words.layout import HEAPED, Layout
from cpor.words.nouns import LEAST_TOLD
from cpor.words.outlines import FORM_OF_SHAPE, FORMS, MEASURES, SIZES, TWO_SENSES, nth_chance, ramp
from cpor.words.request_words import LayoutWish, Order, Wish
from cpor.words.vocabulary import vocabulary
from cpor.words.word_weights import Odds, as_described


class WordJudge:
    """Holds each word of a request against each object that may be asked for, as odds against none in view.

    Args:
        scene: With visible masks or names.
        words: The request as it came.
        named: Words of the name that a person gave to each object that may be asked for, by its id.
        before: What was said and done before.
        weights: Weights of the log-odds.
        printed: Words printed on the objects, where they were read.

    Attributes:
        against: Objects that are never taken without asking.
        unknown, unjudged: Words that are not known, or cannot be judged in this scene.
        narrow: Words for a kind of a shape that cannot be told from others of it, with that shape.
        judged: Words that were held against the objects.
    """

    def __init__(
        self,
        scene: Scene,
        words: str,
        named: Mapping[int, frozenset[str]],
        before: Exchange,
        weights: Mapping[str, float],
        printed: Mapping[int, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.scene, self.words, self.named, self.before = scene, words, named, before
        self.weights, self._printed, self._described = weights, printed, describe(scene)
        self.unknown: list[str] = []
        self.unjudged: list[str] = []
        self.narrow: list[tuple[str, str]] = []
        self.against: set[int] = set()
        self.judged = 0

    def odds(self, wish: Wish) -> Odds:
        """The odds of each object.

        Raises:
            RefusedError: No object can be meant.
        """
        self.unknown, self.unjudged, self.narrow, self.judged = [], [], [], 0
        odds = self._odds(wish)
        self.against = self._against(wish)
        return odds

    def _against(self, wish: Wish) -> set[int]:
        """Objects that a word for a shape hardly fits; all where it is in doubt which things a row counts."""
        like, hardly = vocabulary().like, numbers.LEAST_CHANCE
        chances = [
            (k, sum(p * like[key].get(s, 0.0) for s, p in look.shapes.items()))
            for k, look in self._looks.items()
            if look.shapes is not None and not self.named[k]
            for key, _ in wish.shapes
        ]
        if (
            wish.order is not None
            and wish.order.n > 1
            and any(hardly <= p < 1.0 - hardly for _, p in chances)
        ):
            return set(self.named)
        return {k for k, p in chances if p < hardly}

    def _odds(self, wish: Wish) -> Odds:
        base = self.weights["described" if wish.is_described else "related" if wish.relations else "any"]
        odds = {
            k: float(np.exp(base + sum(self.weights[name] * value for name, value in seen.items())))
            for k, seen in self._seen.items()
        }
        self._by_name(wish, odds)
        self._by_before(wish, odds)
        self._by_colour(wish, odds)
        self._by_noun(wish, odds)
        for word in wish.forms:
            forms = {k: FORMS[word](look.outline) for k, look in self._looks.items()}
            likely = {
                k: None if fits is None else (fits + numbers.LEAST_FORM) / numbers.USUAL_FORM
                for k, fits in forms.items()
            }
            power = self.weights["form"]
            self._by_measure(word, odds, {k: None if p is None else p**power for k, p in likely.items()})
        for other in wish.unlike:
            self.judged += 1
            apart = self._odds(other)
            most = max(apart.values()) or 1.0
            for k, value in apart.items():
                odds[k] *= 1.0 / (1.0 + value) if other.is_described else 1.0 - value / most
        for relation in wish.relations:
            self._by_relation(relation, odds)
        for word in wish.most:
            self._by_place_in_row(1, word, odds)
        if wish.order is not None:
            self._by_order(wish.order, odds)
        return odds

    @cached_property
    def _looks(self) -> dict[int, Appearance]:
        return {k: each for k, each in self._described.looks.items() if k in self.named}

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self.scene, {k: look.outline for k, look in self._looks.items()})

    @cached_property
    def _shown(self) -> dict[int, float]:
        """Share of each object that shows."""
        ids = self.scene.visible_ids
        if ids is None:
            return {}
        areas = np.bincount(ids.ravel(), minlength=max(self.scene.ids, default=0) + 1)
        return {
            o.id: 1.0 if o.amodal is None else float(areas[o.id] / max(1, o.amodal.pixels.sum()))
            for o in self.scene.objects
        }

    @cached_property
    def _seen(self) -> dict[int, dict[str, float]]:
        """What tells whether each object is a whole thing, and none of the furniture."""
        ids = self.scene.visible_ids
        if ids is None:
            return {k: {} for k in self.named}
        areas = np.maximum(np.bincount(ids.ravel(), minlength=max(self.scene.ids, default=0) + 1), 1)
        usual = float(np.median([areas[k] for k in self.named]))
        border = set(np.concatenate([ids[0], ids[-1], ids[:, 0], ids[:, -1]]).tolist())
        return {
            o.id: {
                "large": max(0.0, float(areas[o.id]) / ids.size - 0.1),
                "border": float(o.id in border),
                "score": 0.0 if o.score is None else float(np.log(max(o.score, 0.1) / numbers.USUAL_SCORE)),
                "fragment": min(0.0, float(np.log(areas[o.id] / usual))),
                "shown": float(np.log(self._shown[o.id] + numbers.LEAST_SHOWN)),
            }
            for o in self.scene.objects
            if o.id in self.named
        }

    def _by_name(self, wish: Wish, odds: Odds) -> None:
        """Words that are none of ours: printed on an object, or in the name that a person gave it."""
        for word in wish.names:
            shares = self._shares_printed((word,))
            if any(shares.values()):
                self._by_label(shares, odds)
            elif any(word in each for each in self.named.values()):
                self.judged += 1
                for k, called in self.named.items():
                    # An object without a name may well be one.
                    odds[k] *= numbers.CALLED if word in called else 0.0 if called else 0.5
            elif all(self.named.values()):
                raise RefusedError(f'No object is called "{word}".')
            else:
                self.unknown.append(word)

    def _by_label(self, shares: Mapping[int, float], odds: Odds) -> None:
        self.judged += 1
        for k in odds:
            odds[k] *= float(np.exp(self.weights["label"] * shares.get(k, 0.0) ** 2))

    def _shares_printed(self, words: tuple[str, ...]) -> dict[int, float]:
        """Share of words that are printed on each object that may be asked for.

        An object on which nothing is read may be of the same kind as one that looks like it.
        """
        read = {k: share_printed(words, each) for k, each in self._printed.items() if k in self.named}
        said = {k: share for k, share in read.items() if share > 0.0}
        for k in self._looks.keys() - read.keys() if said else ():
            alike = [share for j, share in said.items() if self._looks[k].is_like(self._looks[j])]
            read[k] = numbers.SAME_KIND * max(alike, default=0.0)
        return read

    def _by_before(self, wish: Wish, odds: Odds) -> None:
        """What was moved, "it", and "the other one"."""
        said = vocabulary().said
        if wish.moved:
            moved = [k for k in self.before.moved if k in odds]
            if not moved:
                raise RefusedError(said["nothing_moved"])
            self.judged += 1
            for k in odds:
                odds[k] *= numbers.CALLED * float(k == moved[-1])
        only = wish.pronouns and Wish(pronouns=wish.pronouns) == wish
        for key, word in wish.pronouns:
            if key == "this" and not only:
                continue  # "that one on the left" describes
            if key == "another" and self.before.last is None:
                continue
            if self.before.last is None or self.before.last not in odds:
                raise RefusedError(said["no_last"].format(word=word))
            self.judged += 1
            for k in odds:
                if key in ("other", "another"):
                    among = numbers.CALLED * (k in self.before.candidates) if self.before.candidates else 1.0
                    odds[k] *= among * (k != self.before.last)
                else:
                    odds[k] *= numbers.CALLED * float(k == self.before.last)

    def _by_colour(self, wish: Wish, odds: Odds) -> None:
        if not (wish.colours or wish.patterns):
            return
        if self.scene.visible_ids is None:
            self.unjudged.extend((*wish.colours, *wish.patterns))
            return
        self.judged += len(wish.colours) + len(wish.patterns)
        for k in odds:
            look, named = self._looks.get(k), vocabulary().keys_of(self.named[k], "colour")
            for colour in wish.colours:
                said, usual = look.said_chances[colour] if look is not None else (numbers.LEAST_SAID, 1.0)
                by_look = float(((said + numbers.LEAST_SAID) / usual) ** self.weights["colour"])
                fits = 0.0
                if look is not None:
                    fits = max(look.fits_colour(colour, len(wish.colours)), look.nearly_fits_colour(colour))
                by_look *= float((fits + numbers.LEAST_COLOUR_FIT) ** self.weights["colour_fits"])
                odds[k] *= numbers.CALLED if colour in named else by_look
            for pattern in wish.patterns:
                patterned = look is not None and (
                    look.striped if pattern == "striped" else not look.said_colours
                )
                odds[k] *= numbers.STRIPED[not patterned]

    def _by_noun(self, wish: Wish, odds: Odds) -> None:
        for key, word in (*wish.shapes, *wish.kinds):
            shares = self._shares_printed(own_words(word))
            said, is_shape = any(shares.values()), word in vocabulary().shape_words
            if not said and not is_shape and all(self.named.values()):
                raise RefusedError(f'No object is called "{word}".')
            if not said and not is_shape and not vocabulary().classes.get(word):
                self.narrow.append((key, word))
            usual = () if wish.colours else vocabulary().usual_colours.get(word, ())
            self._by_measure(word, odds, self._noun_odds(key, word, usual))
            if said:
                self._by_label(shares, odds)

    def _noun_odds(self, key: str, word: str, usual: tuple[str, ...]) -> dict[int, float | None]:
        """How much likelier a noun means each object than none in view; None where no class tells."""
        classes, weights = list(vocabulary().classes[word]), self.weights
        told = {k: each for k, each in self._described.classes.items() if k in self.named}
        more = {
            k: float(np.log(each[classes].mean() + LEAST_TOLD)) if classes else 0.0
            for k, each in told.items()
        }
        is_shape = word in vocabulary().shape_words
        kind = "shape" if is_shape else "kind"
        base, by_class, by_shape = (weights[f"{kind}{part}"] for part in ("", "_class", "_chance"))
        if not is_shape:
            base += 2.0 * weights["kind_best"] * max(more.values(), default=0.0)
        like = vocabulary().like[key]
        clear = any((each.shapes or {}).get(key, 0.0) >= 0.5 for each in self._looks.values())
        beside = numbers.BESIDE if clear else 1.0
        odds: dict[int, float | None] = {}
        for k, called in self.named.items():
            shapes = None if k not in self._looks else self._looks[k].shapes
            if named := vocabulary().keys_of(called, "shape") - {"thing"}:
                odds[k] = numbers.CALLED * max(like.get(other, 0.0) for other in named)
            elif k not in more or shapes is None:
                odds[k] = self._by_form(key, k)
            else:
                look = self._looks[k]
                p = sum(p * like.get(s, 0.0) * (1.0 if s == key else beside) for s, p in shapes.items())
                log_odds = base + by_class * more[k] + by_shape * np.log(p + numbers.LEAST_SHAPE)
                if not is_shape:
                    log_odds += weights["kind_clear"] * max(0.0, more[k] - numbers.CLEAR)
                    log_odds += weights["kind_said"] * float(self._described.said[k][classes].sum())
                chances = [look.said_chances[each] for each in usual]
                log_odds += weights["usual_colour"] * max(
                    (np.log(p + numbers.LEAST_SAID) - np.log(often) for p, often in chances), default=0.0
                )
                odds[k] = float(np.exp(log_odds)) * self._recognised(k)
        return odds

    def _recognised(self, obj: int) -> float:
        """How likely a person names the shape of an object: hardly where hardly anything of it shows."""
        return max(numbers.HIDDEN, ramp(self._shown.get(obj, 1.0), 0.0, numbers.RECOGNISED))

    def _by_form(self, key: str, obj: int) -> float | None:
        """How much likelier a word for a shape means an object by its outline; None where none tells."""
        form = FORMS.get(FORM_OF_SHAPE.get(key, ""))
        fits = None if form is None or obj not in self._looks else form(self._looks[obj].outline)
        return None if fits is None else fits / numbers.LEAST_FORM

    def _by_measure(self, word: str, odds: Odds, values: Mapping[int, float | None]) -> None:
        known = {k: value for k, value in values.items() if value is not None}
        if not known:
            self.unjudged.append(word)
            return
        self.judged += 1
        for k in odds:
            odds[k] *= known.get(k, 0.5)

    def _by_relation(self, relation: LayoutWish, odds: Odds) -> None:
        """Objects that lie so to the objects that the relation points to."""
        if self.scene.visible_ids is None or (relation.key in HEAPED and not self._layout.knows_hidden):
            self.unjudged.append(vocabulary().say("relation", relation.key))
            return
        self.judged += 1
        landmarks: dict[tuple[int, ...], float] = {(): 1.0}
        for other in relation.others:
            found = self._odds(other)
            total = 1.0 + sum(found.values())
            if total < 1.0 / (1.0 - LEAST_FIT):  # most likely none in view is pointed to
                raise RefusedError(
                    vocabulary().said["no_landmark"].format(words=self.words, other=relation.words)
                )
            landmarks = {
                (*ids, k): weight * value / total
                for ids, weight in landmarks.items()
                for k, value in found.items()
                if k not in ids and value > 0.02 * total
            }
        holds = {
            k: sum(w * self._layout.fit(relation.key, k, ids) for ids, w in landmarks.items()) for k in odds
        }
        shares = as_described(odds)
        best = max((holds[k] * shares[k] for k in odds), default=0.0)
        for k in odds:
            held = min(1.0, holds[k] / max(best, 1e-9))
            first = (holds[k] * shares[k] / max(best, 1e-9)) ** numbers.FIRST
            odds[k] *= float(np.exp(self.weights["relation_best"] * first))
            odds[k] *= (held + numbers.LEAST_HELD) ** self.weights["relation"]
        # Where what it points to is not there, no object is meant.
        sure = sum(landmarks.values()) ** self.weights["landmark"]
        total = sum(odds.values())
        for k in odds:
            odds[k] *= sure / (1.0 + (1.0 - sure) * total)

    def _by_place_in_row(self, n: int, word: str, odds: Odds) -> None:
        """The n-th of those that fit, where each fits with some probability."""
        # What hardly shows is hardly counted.
        shares = {k: share * self._recognised(k) for k, share in as_described(odds).items()}
        chances, counts = [], []
        # Where things hide others, the heap is meant, not the picture.
        heaped = (
            numbers.IN_HEAP if self._shown and min(self._shown[k] for k in odds) < numbers.HIDDEN_BY else 0.5
        )
        for sense, count in zip(TWO_SENSES.get(word, (word,)), (heaped, 1.0 - heaped), strict=False):
            values, scale = self._measured(sense)
            if values:
                chances.append({k: nth_chance(n, k, values, scale, shares) for k in values})
                counts.append(count)
        if not chances:
            self.unjudged.append(vocabulary().say("most", word))
            return
        self.judged += 1
        weight = self.weights["size" if word in SIZES else "place"]
        # Where a word is asked back, a place orders the candidates, no more.
        least = 0.5 if self.unknown or self.unjudged else 0.0
        for k in odds:
            chance = float(np.average([each.get(k, 0.0) for each in chances], weights=counts))
            held = ((chance + numbers.LEAST_PLACE) / (1.0 + numbers.LEAST_PLACE)) ** weight
            odds[k] *= least + (1.0 - least) * held

    def _measured(self, word: str) -> tuple[dict[int, float], float]:
        """The measure of a word, and the difference that tells two objects apart."""
        measure, tells_apart = MEASURES[word]
        values = {k: measure(look.outline) for k, look in self._looks.items()}
        known = {k: value for k, value in values.items() if value is not None}
        return known, max(tells_apart or 0.2 * abs(max(known.values(), default=0.0)), 1e-12)

    def _by_order(self, order: Order, odds: Odds) -> None:
        """The n-th in a row, or of those that the last question named."""
        shares = as_described(odds)
        if order.start is None:
            row = [k for k in self.before.candidates if shares.get(k, 0.0) >= PERHAPS]
            if not row:
                raise RefusedError(vocabulary().said["no_last"].format(word=f"number {order.n}"))
        else:
            row = [k for k, share in shares.items() if share >= PERHAPS]
        if len(row) < order.n:
            said = vocabulary().said["too_few"]
            raise RefusedError(said.format(words=self.words, n=order.n, count=len(row)))
        if order.start is not None:
            self._by_place_in_row(order.n, order.start, odds)
            return
        self.judged += 1
        for k in odds:
            odds[k] *= numbers.CALLED * float(k == row[order.n - 1])
