"""Which everyday shape each object has, by all that tells: shape network, outline, and noun classifier.

The shape network learnt from simulated scenes, where it is right; on photographs it is often sure and wrong.
The weights are fitted on objects of photographs that were judged by eye, and of simulated scenes, by
`benchmarks/fit_words.py`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from cpor.words.appearance import Appearance
from cpor.words.layout import ramp
from cpor.words.outlines import Outline
from cpor.words.shapes import SHAPES
from cpor.words.vocabulary import vocabulary

FILE = Path(__file__).with_name("shape_weights.json")

_LEAST = 1e-2
"""Added to what is said of a shape and of its classes."""

SURE_VIEW = (0.75, 0.9)
"""Mean probability that the shape network gives the likeliest shape of each object of a view, up to which it
counts as unsure of what it sees, and from which it counts as sure."""

TRUSTED = 0.5, 0.65
"""Where it is sure: weights of the log of what all sources tell, and of what the network alone tells.
Chosen on held-back dev objects."""

_MOST = 6.0
"""No factor counts for more than this."""


@dataclass(frozen=True, eq=False)
class ShapeWeights:
    """Weights of a multinomial logistic regression.

    Attributes:
        own: What each factor of an object tells of each shape. Shape (43, 19).
        base: How often each shape is said. Shape (19,).
        shared: What the network's probability of a shape, its classes, and those of its kinds tell of that
            very shape. Shape (3,).
    """

    own: Float[np.ndarray, "factors shapes"]
    base: Float[np.ndarray, " shapes"]
    shared: Float[np.ndarray, "3"]

    def chances(
        self, own: Float[np.ndarray, " factors"], shared: Float[np.ndarray, "shapes 3"]
    ) -> np.ndarray:
        """Probability of each shape. Shape (19,)."""
        scores = own @ self.own + self.base + shared @ self.shared
        p = np.exp(scores - scores.max())
        return np.asarray(p / p.sum())


def shape_factors(
    look: Appearance, told: Float[np.ndarray, "1000"]
) -> tuple[Float[np.ndarray, "43"], Float[np.ndarray, "19 3"]]:
    """What tells the shape of an object: of any shape, and of each.

    Args:
        look: With probabilities of the shape network.
        told: How much more than usual each class is said of it; see `judge_classes`.
    """
    assert look.shapes is not None
    network = np.log(np.array([look.shapes[word] for word in SHAPES]) + _LEAST)
    of_word, of_kinds = (
        np.array([np.log(told[each].mean() + _LEAST) if each else 0.0 for each in some])
        for some in _classes()
    )
    own = np.concatenate([network, _measures(look.outline), of_word[:-1]])  # a thing has no classes
    shared = np.stack([network, of_word, of_kinds], axis=1)
    return np.clip(own, -_MOST, _MOST), np.clip(shared, -_MOST, _MOST)


def _measures(outline: Outline) -> Float[np.ndarray, "6"]:
    """The outline, each number about as large as its neighbours; usual ones where it is not known."""
    height = 0.05 if outline.height is None else outline.height
    bulge = 0.1 if outline.bulge is None else outline.bulge
    in_metres = outline.size < 3.0
    return np.array([
        3.0 * np.log(outline.elongation), 10.0 * outline.roundness - 6.0, 10.0 * outline.rectangularity - 8.0,
        20.0 * height - 1.0, 5.0 * bulge, 3.0 * np.log(max(outline.size, 1e-3)) + 6.0 if in_metres else 0.0,
    ])  # fmt: skip


def how_sure(looks: Iterable[Appearance]) -> float:
    """How sure the shape network is of what it sees in a view, in [0, 1]."""
    known = [max(look.shapes.values()) for look in looks if look.shapes]
    return ramp(sum(known) / len(known), *SURE_VIEW) if known else 1.0


def recognise(
    look: Appearance, told: Float[np.ndarray, "1000"], sure: float, weights: ShapeWeights
) -> dict[str, float]:
    """Probability of each of `SHAPES` for an object that the shape network has judged.

    Args:
        look: With probabilities of the shape network.
        told: How much more than usual each class is said of it.
        sure: How sure the shape network is of the whole view.
        weights: As fitted.
    """
    assert look.shapes is not None
    by_all, by_network = TRUSTED
    own, shared = shape_factors(look, told)
    scores = (1.0 - (1.0 - by_all) * sure) * np.log(weights.chances(own, shared) + 1e-6)
    scores += by_network * sure * np.log(np.array([look.shapes[word] for word in SHAPES]) + _LEAST)
    p = np.exp(scores - scores.max())
    return dict(zip(SHAPES, (p / p.sum()).tolist(), strict=True))


@cache
def fitted_shapes() -> ShapeWeights:
    """The weights of the package."""
    data: Mapping[str, list[float]] = json.loads(FILE.read_text())
    return ShapeWeights(*(np.array(data[key]) for key in ("own", "base", "shared")))


@cache
def _classes() -> tuple[list[list[int]], list[list[int]]]:
    """Classes of the first word of each shape, and of all words of it and of its kinds."""
    voc = vocabulary()
    of_word = [list(voc.classes[voc.say("shape", shape)]) for shape in SHAPES]
    of_kinds: dict[str, set[int]] = {shape: set() for shape in SHAPES}
    for phrase, meanings in voc.phrases.items():
        for each in meanings:
            if each.kind in ("shape", "kind") and each.key in of_kinds:
                of_kinds[each.key].update(voc.classes.get(" ".join(phrase), ()))
    return of_word, [sorted(of_kinds[shape]) for shape in SHAPES]
