"""What pixels say of each object: its colours, its everyday shape, its outline."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage

from cpor.scene import Scene
from cpor.words.colours import COLOURS, colour_shares, estimate_gains, nearest_colours, said_chances
from cpor.words.layout import ramp
from cpor.words.outlines import Outline, measure_outlines, support_depth
from cpor.words.shapes import SHAPES, judge_shapes, object_pictures

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
    (found,) = describe_scenes([(scene, None)])
    return found


def describe_scenes(scenes: Sequence[tuple[Scene, Collection[int] | None]]) -> list[dict[int, Appearance]]:
    """How objects look in several scenes of one frame; the shape network runs once.

    Args:
        scenes: With masks, each with the objects to describe; None: all that show.
    """
    frame, _ = scenes[0]
    if frame.visible_ids is None or not frame.objects:
        return [{} for _ in scenes]
    rgb, ground = frame.observation.rgb, support_depth(frame)
    gains = estimate_gains(rgb)
    crops = [object_pictures(*each) for each in scenes]
    p = judge_shapes(np.concatenate([each[1] for each in crops]), np.concatenate([each[2] for each in crops]))
    ends = np.cumsum([len(labels) for labels, *_ in crops])
    described = []
    for (scene, only), (labels, *_), end in zip(scenes, crops, ends, strict=True):
        shapes = {} if p is None else dict(zip(labels, p[end - len(labels) : end], strict=True))
        described.append(_describe(scene, measure_outlines(scene, only, ground), gains, shapes))
    return described


def _describe(
    scene: Scene, outlines: Mapping[int, Outline], gains: np.ndarray, shapes: Mapping[int, np.ndarray]
) -> dict[int, Appearance]:
    rgb, ids = scene.observation.rgb, scene.visible_ids
    boxes = ndimage.find_objects(ids, max_label=scene.objects[-1].id)
    found = {}
    for k, outline in outlines.items():
        assert ids is not None
        box = boxes[k - 1]
        inner = interior(ids[box] == k)
        shares = colour_shares(rgb[box], inner, gains)
        two = sorted(shares, key=lambda key: -shares[key])[:2]
        striped = shares[two[1]] >= 0.2 and _takes_turns(rgb[box], inner, gains, two)
        p = _with_hole(shapes[k], outline) if k in shapes else None
        found[k] = Appearance(shares, striped, p, outline)
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
