"""What each object is called on every surface: a short name that no other object of the scene has.

A name that a person gave wins, then what a model says it is, where one may be asked. Else it is colour, and
a noun that the noun classifier is sure of, or the everyday shape: "yellow banana", "red box". Objects that
would share a name are told apart by place, by size, or by their number in a row: "red box (left)".
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Float

from cpor.scene import Scene
from cpor.words.appearance import Appearance
from cpor.words.description import describe
from cpor.words.vocabulary import vocabulary

APART = 0.07
"""Objects whose centres lie this far apart, as a share of the image, are told apart by place."""

LARGER = 1.35
"""One object is the big one where its size is so many times that of the other."""

NOUN, NARROW = 0.9, 3
"""A noun narrower than a shape is said where the classifier gives its classes this probability together, and
they are at most so many. Chosen on dev, where 582 of 607 shapes of simulated things and 214 of 217 nouns of
photographed ones are right then."""

_AXES: tuple[tuple[str, tuple[str, str, str]], ...] = (
    ("x", ("left", "middle", "right")),
    ("y", ("back", "middle", "front")),
)


def name_objects(
    scene: Scene, kept: Mapping[int, str] | None = None, told: Mapping[int, str] | None = None
) -> Scene:
    """The scene with a name for each of its objects in `called`.

    Args:
        scene: With masks, where it has any. What its objects are called already they stay.
        kept: Names that objects had in an earlier look, by id; they stay too.
        told: What a model said that objects are, by id; in place of colour and shape.
    """
    told = told or {}
    had = {o.id: (kept or {}).get(o.id) or o.called for o in scene.objects}
    # A name that a person gave since wins.
    kept = {o.id: name for o in scene.objects if (name := had[o.id]) and name.startswith(o.name or "")}
    # Nothing has to be looked at where every name is given.
    looks = {} if all(o.name or o.id in kept for o in scene.objects) else describe(scene).looks
    inside = describe(scene).inside if looks else frozenset(scene.ids)
    plain = {}
    for o in scene.objects:
        if o.id not in kept:
            outside = "" if o.id in inside or o.name else f" ({vocabulary().said['outside']})"
            own = o.name or told.get(o.id)
            plain[o.id] = (own or _own_name(looks.get(o.id), describe(scene).said.get(o.id))) + outside
    names = _told_apart(kept, plain, looks)
    return replace(scene, objects=tuple(replace(o, called=names[o.id]) for o in scene.objects))


def _told_apart(
    kept: Mapping[int, str], plain: Mapping[int, str], looks: Mapping[int, Appearance]
) -> dict[int, str]:
    """All names, with marks or numbers where several objects would have one."""
    names = dict(kept)
    groups: dict[str, list[int]] = {}
    for k, name in plain.items():
        groups.setdefault(name, []).append(k)
    for name, members in groups.items():
        named = {members[0]: name}
        if len(members) > 1:
            shown = [k for k in members if k in looks]
            marks = dict(zip(shown, _tell_apart([looks[k] for k in shown]), strict=True))
            named = {k: f"{name} ({marks[k]})" if k in marks else name for k in members}
            if name.endswith(")"):  # what lies outside needs no more than a number
                named = dict.fromkeys(members, name)
        for k, wanted in named.items():
            names[k] = _not_taken(wanted, set(names.values()))
    return names


def _own_name(look: Appearance | None, said: Float[np.ndarray, "1000"] | None) -> str:
    """The name of an object by colour, and by the noun that its classes or its shape are said by."""
    voc = vocabulary()
    if look is None:
        return voc.say("shape", "thing")
    words = [voc.say("colour", key) for key in look.said_colours]
    # "striped red tube", "white and red cup", "colourful bag"
    if look.striped and words:
        colour = f"{voc.say('pattern', 'striped')} {words[0]}"
    else:
        colour = " and ".join(words) or voc.say("pattern", "colourful")
    return f"{colour} {_narrow_noun(said) or voc.say('shape', look.said_shape)}"


def _narrow_noun(said: Float[np.ndarray, "1000"] | None) -> str | None:
    """The noun of the likeliest narrow kind, where the classifier is sure of it."""
    if said is None:
        return None
    chances = {noun: float(said[list(classes)].sum()) for noun, classes in _narrow_kinds().items()}
    best = max(chances, key=lambda noun: chances[noun])
    return best if chances[best] >= NOUN else None


@cache
def _narrow_kinds() -> dict[str, tuple[int, ...]]:
    """The noun of each kind that few classes tell, with these; the fewest classes first."""
    narrow = {noun: each for noun, each in vocabulary().kinds.items() if 0 < len(each) <= NARROW}
    return dict(sorted(narrow.items(), key=lambda each: len(each[1])))


def _tell_apart(looks: Sequence[Appearance]) -> list[str]:
    """A mark for each of several objects of one name: a place, a size, or its number in a row."""
    if len(looks) < 2:
        return ["2"] * len(looks)
    voc = vocabulary()
    best: tuple[float, list[str]] = (APART, [])
    for axis, (low, middle, high) in _AXES:
        at = [float(getattr(look.outline, axis)) for look in looks]
        order = sorted(range(len(looks)), key=at.__getitem__)
        gap = min(at[b] - at[a] for a, b in itertools.pairwise(order))
        if gap > best[0] and len(looks) <= 3:
            keys = [low, high] if len(looks) == 2 else [low, middle, high]
            words = dict(zip(order, keys, strict=True))
            best = gap, [voc.say("most", words[k]) for k in range(len(looks))]
    if best[1]:
        return best[1]
    sizes = [look.outline.size for look in looks]
    if len(looks) == 2 and max(sizes) > LARGER * min(sizes):
        return [voc.say("most", "big" if size == max(sizes) else "small") for size in sizes]
    left = voc.say("most", "left")
    row = sorted(range(len(looks)), key=lambda k: looks[k].outline.x)
    return [f"{_th(row.index(k) + 1)} {voc.said['from']} {left}" for k in range(len(looks))]


def _th(n: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    ends = vocabulary().number_ends
    return f"{n}{ends[n - 1] if n <= len(ends) else ends[-1]}"


def _not_taken(name: str, taken: set[str]) -> str:
    """The name, with a number where another object has it already."""
    n, free = 2, name
    while free in taken:
        n, free = n + 1, f"{name} {n}"
    return free
