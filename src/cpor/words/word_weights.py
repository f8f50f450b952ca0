"""Numbers by which words are judged: weights that `benchmarks/fit_words.py` fits, and constants."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

Odds: TypeAlias = dict[int, float]
"""How much likelier each object is meant than none in view."""

FILE = Path(__file__).with_name("word_weights.json")

WEIGHTS = (
    *("described", "related", "any", "colour", "colour_fits", "usual_colour"),
    *("shape", "shape_class", "shape_chance"),
    *("kind", "kind_class", "kind_chance", "kind_best", "kind_clear", "kind_said", "label", "form"),
    *("large", "border", "score", "fragment", "shown"),
    *("relation", "relation_best", "landmark", "place", "size", "share"),
)
"""Names of the weights.

- described, related, any: What every object has, where words tell its colour or what it is; where they only
  tell how it lies to another; and where they do neither.
- colour, colour_fits, usual_colour: Log of how much likelier than usual a colour is said; log of how well
  it fits; log of how much likelier than usual one is said that such a thing has.
- shape, shape_class, shape_chance: For a word for a shape: what every object has besides; log of how much
  more than usual is said of its classes; log of its probability.
- kind, kind_class, kind_chance, kind_best: The same for a narrower noun; and log of how much more is said of
  its classes for the object for which most is said.
- kind_clear, kind_said: By how much the log of what is said of its classes is over that of what is said
  clearly; probability of its classes.
- label: Square of the share of the words of a noun, or of a word that is not ours, that are printed.
- form: Log of how well an outline fits a word for a form.
- large, border: Share of the image over a tenth; touching its border: furniture.
- score, fragment, shown: Log of the score of its detection by a usual one; log of its area by a usual one
  where it is smaller; log of the share of it that shows: a fragment of a thing is hardly asked for.
- relation, relation_best, landmark: Log of how well a relation holds, by the best of the objects; how well it
  does, for objects that fit as well; log of the probability that what it points to is there.
- place, size: Log of the probability that an object has a place in a row, or the most of it; the same where
  sizes are compared.
- share: Log of the share that an object has in the odds of all: people choose words that fit one thing.
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


BESIDE = 0.25
"""How much less an object fits a word for a shape like its own, where another is of that very shape."""

RECOGNISED, HIDDEN = 0.2, 0.4
"""Share that shows from which an object's shape is recognised; how well a shape fits one that hides."""

CALLED = 30.0
"""How much likelier an object is meant that has the name, or by whose name the word holds."""

LEAST_SHAPE, LEAST_FORM, LEAST_HELD, LEAST_SAID = 1e-2, 0.02, 2e-3, 0.01
"""Added to probabilities of a shape and of a colour word, and to how well a form and a relation hold."""

USUAL_FORM = 0.25
"""How well a word for a form fits a usual object."""

FIRST = 4.0
"""Power of how near to the best an object comes, of all that fit and lie so."""

LEAST_PLACE = 1e-3
"""Added to the probability of a place."""

LEAST_SHARE = 0.02
"""Added to the share of the odds."""

USUAL_SCORE, LEAST_SHOWN = 0.9, 0.1
"""Score by which usual things are detected; added to the share of an object that shows."""

LEAST_CHANCE = 0.2
"""A word for a shape hardly fits an object below this probability."""

LEAST_COLOUR_FIT = 0.05
"""Added to how well a word for a colour fits."""

IN_HEAP, HIDDEN_BY = 0.8, 0.8
"""Probability that "top" is that of a heap, where less than such a share of some object shows."""

CLEAR = 2.0
"""Log of how much more than usual is said of the classes of a noun, from which it is said clearly."""

SAME_KIND = 0.95
"""Share of the words on one object that are held to be on another that looks like it."""

STRIPED = (3.0, 0.3)
"""How much likelier an object is meant by a word for a pattern that it has, and that it has not."""


def as_described(odds: Odds) -> dict[int, float]:
    """Probability that each object is as described, by its odds."""
    return {k: value / (1.0 + value) for k, value in odds.items()}


def probabilities(odds: Odds, weights: Mapping[str, float]) -> dict[int, float]:
    """Probability that each object is meant; the rest is that none is."""
    total = max(sum(odds.values()), 1e-12)
    weighed = {k: value * (value / total + LEAST_SHARE) ** weights["share"] for k, value in odds.items()}
    total = 1.0 + sum(weighed.values())
    return {k: value / total for k, value in weighed.items()}
