"""How well each object of a scene fits the words of a request."""

import numpy as np
from scipy import ndimage

from cpor.errors import list_labels
from cpor.perception.colours import colour_shares, estimate_gains
from cpor.perception.grounding_answers import (
    CLEAR_RATIO,
    LEAST_FIT,
    AmbiguousRequest,
    Candidate,
    Grounding,
    NotFound,
    weigh,
)
from cpor.perception.outlines import Outline, measure_outlines
from cpor.perception.request_words import EXTREMES, FORMS, Request, ramp
from cpor.scene import Scene


class WordJudge:
    """Holds each word of a request against each object."""

    def __init__(self, scene: Scene, words: str, request: Request, called: dict[int, frozenset[str]]) -> None:
        self.scene, self.words, self.request, self.called = scene, words, request, called
        needed = request.forms or request.extremes
        self.outlines: dict[int, Outline] = measure_outlines(scene) if needed else {}
        self.unchecked: list[str] = []
        self.checked = 0

    def answer(self) -> Grounding:
        """The object that all words together describe."""
        fit = dict.fromkeys(self.scene.ids, 1.0)
        absent = self._by_name(fit)
        self._by_colour(fit)
        self._by_form(fit)
        best = max(fit.values())
        remaining = [k for k, value in fit.items() if value >= max(LEAST_FIT, CLEAR_RATIO * best)]
        if remaining:
            for word in self.request.extremes:
                self._by_extreme(word, remaining, fit)
        ranked = tuple(Candidate(k, fit[k]) for k in sorted(fit, key=lambda k: (-fit[k], k)))
        unchecked = tuple(dict.fromkeys(self.unchecked))
        if absent:
            return NotFound(
                f"“{self.words}”: no object is called {absent!r}; {self._names()}", ranked, unchecked
            )
        if self.checked == 0:
            why = f"cannot tell what {_quoted(unchecked)} is" if unchecked else "it fits every object"
            question = f"“{self.words}”: {why}; which of {list_labels(self.scene.ids)} is meant?"
            return AmbiguousRequest(ranked, question, unchecked)
        return weigh(self.words, ranked, unchecked)

    def _by_name(self, fit: dict[int, float]) -> str | None:
        """Names; the first word that is nobody's name although everything has one comes back."""
        all_named = all(self.called.values())
        for word in self.request.names:
            if any(word in each for each in self.called.values()):
                self.checked += 1
                for k in fit:
                    # An object without a name may well be one.
                    fit[k] *= 1.0 if word in self.called[k] else 0.0 if self.called[k] else 0.5
            elif all_named:
                return word
            else:
                self.unchecked.append(word)
        return None

    def _by_colour(self, fit: dict[int, float]) -> None:
        if not self.request.colours:
            return
        rgb, ids = self.scene.observation.rgb, self.scene.visible_ids
        if ids is None:
            self.unchecked.extend(self.request.colours)
            return
        gains = estimate_gains(rgb)
        self.checked += len(self.request.colours)
        boxes = ndimage.find_objects(ids, max_label=self.scene.objects[-1].id)
        for k in fit:
            box = boxes[k - 1] or np.s_[:0, :0]
            shares = colour_shares(rgb[box], ids[box] == k, gains)
            for colour in self.request.colours:
                fit[k] *= 1.0 if colour in self.called[k] else ramp(shares[colour], 0.08, 0.45)

    def _by_form(self, fit: dict[int, float]) -> None:
        for word in self.request.forms:
            values = {k: FORMS[word](self.outlines[k]) if k in self.outlines else None for k in fit}
            if all(value is None for value in values.values()):
                self.unchecked.append(word)
                continue
            self.checked += 1
            for k, value in values.items():
                fit[k] *= 0.5 if value is None else value

    def _by_extreme(self, word: str, remaining: list[int], fit: dict[int, float]) -> None:
        """Of the objects that fit so far the one with the most stays whole, others by how close they come."""
        measure, tells_apart = EXTREMES[word]
        values = {k: measure(self.outlines[k]) if k in self.outlines else None for k in remaining}
        known = {k: value for k, value in values.items() if value is not None}
        if not known:
            self.unchecked.append(word)
            return
        self.checked += 1
        most = max(known.values())
        scale = tells_apart or 0.2 * abs(most)
        for k in fit:
            if k in known:
                fit[k] *= float(np.exp(-(most - known[k]) / max(scale, 1e-12)))
            elif k not in remaining:
                fit[k] = 0.0
            else:
                fit[k] *= 0.5

    def _names(self) -> str:
        names = sorted({o.name for o in self.scene.objects if o.name})
        return f"the scene has: {list_labels(names)}"


def _quoted(words: tuple[str, ...]) -> str:
    return " ".join(repr(word) for word in words)
