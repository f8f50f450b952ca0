"""What pixels say of each object: its colours, its everyday shape, its outline.

The shape network learnt from simulated scenes, where it is right; on photographs it is often sure and wrong.
So three sources tell the shape: network, outline, and noun classifier. Their weights are fitted on objects of
photographs that were judged by eye, and of simulated scenes, by `benchmarks/fit_words.py`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage

from cpor.scene import Scene
from cpor.words.colours import COLOURS, colour_shares, estimate_gains, nearest_colours, said_chances
from cpor.words.outlines import Outline, measure_outlines, ramp
from cpor.words.shapes import SHAPES, judge_shapes, object_pictures
from cpor.words.vocabulary import vocabulary

SURE = 0.7
"""A shape word is said of an object where its probability is at least this; else it is a thing."""

SECOND_COLOUR = 0.27
"""Share of pixels from which a second colour is said too."""

ADJACENT: Mapping[str, tuple[str, ...]] = {
    "red": ("orange", "pink", "brown"),
    "orange": ("red", "yellow", "brown"),
    "yellow": ("orange", "green", "beige"),
    "green": ("yellow", "cyan"),
    "cyan": ("green", "blue"),
    "blue": ("cyan", "purple"),
    "purple": ("blue", "pink"),
    "pink": ("purple", "red"),
}
"""Clear colours, and the words that shades of each may fall on."""

SAID = 0.8
"""How well a colour word fits at least that we would say of the object."""

NOT_SAID, SHADE = 0.6, 0.4
"""How much less one fits that we would not say; and one that may be a shade of what we would say, such as
the brown in the shadow of an orange."""

IN_LIGHT: Mapping[str, tuple[str, ...]] = {
    "white": ("grey", "beige"),
    "grey": ("white", "black"),
    "black": ("grey",),
    "brown": ("beige",),
    "beige": ("brown", "white"),
}
"""Colours without a clear hue, and what each may look like in more or less light."""

NEARLY = 0.3
"""How well a colour word fits where what we would say is only in another light; two thirds of it where it
is a neighbouring hue."""

UNKNOWN_THING = 0.8
"""An object is surely none of the shapes where the probability of a thing is at least this."""

SOLID, SOLID_RING = 0.05, 0.1
"""Where the middle of an object is nearer than its rim by this much (`Outline.bulge`), it is so much less
likely a ring."""

ALIKE, ALIKE_SIZE = 0.9, 1.6
"""Things of one kind share so much of their colours, and one is at most so many times as long."""

_STRIPES = 3
"""Patches that each of two colours must come in for an object to be striped."""


@dataclass(frozen=True)
class Appearance:
    """How one object looks.

    Attributes:
        colours: Share of its pixels that each colour word fits.
        striped: Whether two colours take turns on it.
        shapes: Probability of each of `SHAPES`; None where it was not judged.
        outline: Its size, form and place.
    """

    colours: Mapping[str, float]
    striped: bool
    shapes: Mapping[str, float] | None
    outline: Outline

    def is_like(self, other: "Appearance") -> bool:
        """Whether both may be things of one kind: of like colours and sizes."""
        alike = sum((p * other.colours[key]) ** 0.5 for key, p in self.colours.items())
        sizes = self.outline.size, other.outline.size
        return alike > ALIKE and max(sizes) < ALIKE_SIZE * min(sizes)

    @cached_property
    def said_chances(self) -> dict[str, tuple[float, float]]:
        """Probability that a person says each colour word of it, and how often it is said of any object."""
        return said_chances(self.colours)

    @cached_property
    def said_colours(self) -> tuple[str, ...]:
        """The colour words that we say: one, two, or none where there are more."""
        shares = self.colours
        clear = max(ADJACENT, key=lambda key: shares[key])
        others = [key for key in ADJACENT if shares[key] >= 0.08 and key not in (clear, *ADJACENT[clear])]
        if len(others) >= 2 and max(shares.values()) < 0.4:
            return ()
        # Shades of one paint fall on neighbouring words.
        whole = {
            key: own + 0.6 * sum(min(own, shares[other]) for other in ADJACENT.get(key, ()))
            for key, own in shares.items()
        }
        first = max(whole, key=lambda key: whole[key])
        rest = [key for key in whole if key != first and key not in ADJACENT.get(first, ())]
        second = max(rest, key=lambda key: whole[key])
        if {first, second} == {"white", "grey"} and whole["white"] >= SECOND_COLOUR:
            return ("white",)  # what lies in its own shade
        if whole[second] >= SECOND_COLOUR and whole[second] > 0.55 * whole[first]:
            return first, second
        return (first,)

    def fits_colour(self, word: str, words: int = 1) -> float:
        """How well a colour word fits, in [0, 1], where `words` of them share the pixels."""
        share, said = self.colours[word], self.said_colours
        by_share = ramp(share, 0.08, 0.45 / words)
        if word in said:
            return max(SAID, by_share)
        if not said:
            return by_share
        fits = by_share * (SHADE if any(word in ADJACENT.get(key, ()) for key in said) else NOT_SAID)
        if word in ADJACENT:  # a clear colour among the first of many, as on printed boxes
            most = max(self.colours.values())
            fits = max(fits, NOT_SAID * ramp(share / most, 0.6, 1.0) * ramp(share, 0.08, 0.14))
        return fits

    def nearly_fits_colour(self, word: str) -> float:
        """How well a colour word fits where it fits no object better, in [0, 1]."""
        if any(key in IN_LIGHT.get(word, ()) for key in self.said_colours):
            return NEARLY
        hues = {key for key, near in ADJACENT.items() if word in near}.union(ADJACENT.get(word, ()))
        return 2.0 / 3.0 * NEARLY * (not hues.isdisjoint(self.said_colours))

    @property
    def has_unknown_shape(self) -> bool:
        """Whether it may be of any shape, for all that we know."""
        return self.said_shape == "thing" and (self.shapes or {}).get("thing", 0.0) < UNKNOWN_THING

    @property
    def said_shape(self) -> str:
        """The shape word that we say."""
        if self.shapes is None:
            return "thing"
        best = max(self.shapes, key=lambda key: self.shapes[key])  # type: ignore[index]
        return best if self.shapes[best] >= SURE else "thing"


def describe_objects(scene: Scene) -> dict[int, Appearance]:
    """How the objects that show look, by id."""
    rgb, ids = scene.observation.rgb, scene.visible_ids
    if ids is None or not scene.objects:
        return {}
    labels, pictures, sizes = object_pictures(scene)
    p = judge_shapes(pictures, sizes)
    shapes = {} if p is None else dict(zip(labels, p, strict=True))
    gains = estimate_gains(rgb)
    boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    found = {}
    for k, outline in measure_outlines(scene).items():
        box = boxes[k - 1]
        inner = interior(ids[box] == k)
        shares = colour_shares(rgb[box], inner, gains)
        two = sorted(shares, key=lambda key: -shares[key])[:2]
        striped = shares[two[1]] >= 0.2 and _takes_turns(rgb[box], inner, gains, two)
        chances = _with_hole(shapes[k], outline) if k in shapes else None
        found[k] = Appearance(shares, striped, chances, outline)
    return found


def _with_hole(chances: Float[np.ndarray, " shapes"], outline: Outline) -> dict[str, float]:
    """Probability of each shape, by that of the network: a ring has a hole, and a biscuit tin has none."""
    p = dict(zip(SHAPES, chances.tolist(), strict=True))
    if outline.bulge is not None and outline.bulge > SOLID:
        p["ring"] *= SOLID_RING
    total = sum(p.values())
    return {word: value / total for word, value in p.items()}


def interior(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """A mask without its rim, which takes on the colours of its neighbours; the mask where little is left."""
    inner = np.asarray(ndimage.binary_erosion(mask, iterations=2))
    return inner if inner.sum() >= max(30, 0.3 * mask.sum()) else mask


def _takes_turns(
    rgb: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"], gains: np.ndarray, two: list[str]
) -> bool:
    """Whether each of two colours comes in several patches of some size; every second pixel tells."""
    rgb, mask = rgb[::2, ::2], mask[::2, ::2]
    words = np.full(mask.shape, -1)
    words[mask] = nearest_colours(rgb[mask], gains)
    for key in two:
        patches, count = ndimage.label(words == list(COLOURS).index(key))
        sizes = np.bincount(patches.ravel())[1:] if count else np.zeros(0)
        if (sizes >= max(6, 0.02 * mask.sum())).sum() < _STRIPES:
            return False
    return True


SHAPES_FILE = Path(__file__).with_name("shape_weights.json")

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
    data: Mapping[str, list[float]] = json.loads(SHAPES_FILE.read_text())
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
