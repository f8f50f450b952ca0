"""How well each object of a scene fits the words of a request."""

from collections.abc import Mapping

import numpy as np
from scipy import ndimage

from cpor.errors import list_labels
from cpor.perception.colours import colour_shares, estimate_gains
from cpor.perception.grounding_answers import (
    CLEAR_RATIO,
    LEAST_FIT,
    SAY_OTHERWISE,
    AmbiguousRequest,
    Candidate,
    Grounding,
    NotFound,
    weigh,
)
from cpor.perception.outlines import Outline, measure_outlines
from cpor.perception.request_words import EXTREMES, FORMS, Request, ramp
from cpor.scene import Scene

LEAST_SHOWN = 0.1
"""An object that fits worse is not shown where a word is asked back."""


class WordJudge:
    """Holds each word of a request against each object that may be asked for."""

    def __init__(
        self, scene: Scene, words: str, request: Request, called: Mapping[int, frozenset[str]]
    ) -> None:
        """Prepare.

        Args:
            scene: With visible masks or names.
            words: The request as it came.
            request: The same, taken apart.
            called: Words of the name of each object that may be asked for, by its id; empty for no name.
        """
        self.scene, self.words, self.request, self.called = scene, words, request, called
        needed = request.forms or request.extremes
        self.outlines: dict[int, Outline] = measure_outlines(scene) if needed else {}
        self.unknown: list[str] = []
        self.unjudged: list[str] = []
        self.judged = 0

    def answer(self) -> Grounding:
        """The object that all words together describe; a word that is not understood is asked back."""
        fit = dict.fromkeys(self.called, 1.0)
        absent = self._by_name(fit)
        if absent is not None:
            return NotFound(f'No object is called "{absent}". {self._names()}')
        self._by_colour(fit)
        self._by_form(fit)
        # The right one may fit the other words worse than one that the word not understood rules out.
        least = (
            LEAST_SHOWN if self.unknown or self.unjudged else max(LEAST_FIT, CLEAR_RATIO * max(fit.values()))
        )
        remaining = [k for k, value in fit.items() if value >= least]
        if remaining:
            for word in self.request.extremes:
                self._by_extreme(word, remaining, fit)
        ranked = tuple(Candidate(k, fit[k]) for k in sorted(fit, key=lambda k: (-fit[k], k)))
        if self.unknown or self.unjudged:
            return self._ask_back(tuple(each for each in ranked if each.id in remaining), ranked)
        if self.judged == 0:
            labels = list_labels(self.called)
            question = f'"{self.words}" fits every object: {labels}. Which one do you mean?'
            return AmbiguousRequest(ranked, question)
        return weigh(self.words, ranked)

    def _ask_back(self, candidates: tuple[Candidate, ...], ranked: tuple[Candidate, ...]) -> Grounding:
        said = []
        if self.unknown:
            said.append(f"I do not know the {_quoted(self.unknown)}.")
        if self.unjudged:
            scene = self.scene
            lacks = (
                "the objects have no masks" if scene.visible_ids is None
                else "it has no depth" if scene.observation.depth is None
                else "its depth shows no table"
            )  # fmt: skip
            said.append(f"I cannot judge the {_quoted(self.unjudged)} in this scene, because {lacks}.")
        if not candidates:
            return NotFound(" ".join([*said, f"No object fits the other words. {SAY_OTHERWISE}"]), ranked)
        return AmbiguousRequest(candidates, " ".join([*said, "Which object do you mean?"]))

    def _by_name(self, fit: dict[int, float]) -> str | None:
        """Judge names. Returns the first word that is no object's name where every object has one."""
        all_named = all(self.called.values())
        for word in self.request.names:
            if any(word in each for each in self.called.values()):
                self.judged += 1
                for k in fit:
                    # An object without a name may well be one.
                    fit[k] *= 1.0 if word in self.called[k] else 0.0 if self.called[k] else 0.5
            elif all_named:
                return word
            else:
                self.unknown.append(word)
        return None

    def _by_colour(self, fit: dict[int, float]) -> None:
        if not self.request.colours:
            return
        rgb, ids = self.scene.observation.rgb, self.scene.visible_ids
        if ids is None:
            self.unjudged.extend(self.request.colours)
            return
        gains = estimate_gains(rgb)
        self.judged += len(self.request.colours)
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
                self.unjudged.append(word)
                continue
            self.judged += 1
            for k, value in values.items():
                fit[k] *= 0.5 if value is None else value

    def _by_extreme(self, word: str, remaining: list[int], fit: dict[int, float]) -> None:
        """Of the objects that fit so far the one with the most stays whole, others by how close they come."""
        measure, tells_apart = EXTREMES[word]
        values = {k: measure(self.outlines[k]) if k in self.outlines else None for k in remaining}
        known = {k: value for k, value in values.items() if value is not None}
        if not known:
            self.unjudged.append(word)
            return
        self.judged += 1
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
        names = sorted({o.name for o in self.scene.objects if o.name and o.id in self.called})
        return f"The scene has: {list_labels(names)}."


def _quoted(words: list[str]) -> str:
    """`word "car"`, or `words "toy", "car"`; each once."""
    each = list(dict.fromkeys(words))
    return f"word{'s' if len(each) > 1 else ''} " + ", ".join(f'"{word}"' for word in each)
