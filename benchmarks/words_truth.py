"""Simulated scenes with the true colour and shape of each object, and requests whose meaning is known."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cpor.scene import Scene
from cpor.sim.camera.look import random_look
from cpor.sim.camera.sensor import photograph, sensor_preset
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.make import SplitName, plan_split
from cpor.sim.dataset.manifest import CasePlan
from cpor.sim.objects import model_parts as palette
from cpor.sim.objects.catalogue import SHAPE_WORDS
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.words.vocabulary import vocabulary

PALETTE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("RED", ("red",)),
    ("ORANGE", ("orange",)),
    ("YELLOW", ("yellow",)),
    ("GREEN", ("green",)),
    ("LIME", ("green", "yellow")),
    ("TURQUOISE", ("cyan",)),
    ("BLUE", ("blue",)),
    ("PURPLE", ("purple",)),
    ("PINK", ("pink",)),
    ("BROWN", ("brown",)),
    ("WOOD", ("brown", "beige")),
    ("WHITE", ("white",)),
    ("CREAM", ("beige", "white")),
    ("GREY", ("grey",)),
    ("STEEL", ("grey",)),
    ("BLACK", ("black",)),
)
"""Colours of the catalogue, and the words a person may use for each."""

LEAST_SHARE = 0.2
"""A colour counts as one of an object where it covers this much of what shows."""

PATTERN = 0.4
"""Share of a part that the second colour of its pattern covers, about."""

LEAST_IOU = 0.5

LEAST_SHOWN = 100
"""A person overlooks what shows less. [px]"""


@dataclass(frozen=True)
class TrueLook:
    """What is true of one object that shows.

    Attributes:
        name: In the catalogue.
        colours: Share of what shows that has each colour word; of a pattern, both colours.
        shapes: Words for its shape, the usual one first.
        x, y: Centre as a share of the image.
        area: Of its true outline, hidden parts included. [px]
        shown: Pixels that show.
    """

    name: str
    colours: dict[str, float]
    shapes: tuple[str, ...]
    x: float
    y: float
    area: int
    shown: int

    @cached_property
    def main(self) -> tuple[str, ...]:
        """Words for its main colour."""
        most = max(self.colours.values())
        return tuple(key for key, share in self.colours.items() if share >= 0.9 * most)

    def has(self, colour: str, share: float = LEAST_SHARE) -> bool:
        """Whether a colour word is true of it."""
        return self.colours.get(colour, 0.0) >= share

    def is_clearly(self, colour: str) -> bool:
        """Whether everybody would use a colour word: not "yellow" of lime, which most people call green."""
        share = self.colours.get(colour, 0.0)
        return share >= 0.6 and next(key for key, each in self.colours.items() if each == share) == colour


@dataclass(frozen=True, eq=False)
class LabelledView:
    """A frame, and what is true of its objects, by their true ids."""

    name: str
    frame: Scene
    true_ids: np.ndarray
    looks: dict[int, TrueLook]

    @property
    def shown(self) -> dict[int, TrueLook]:
        """What is true of the objects that a person sees, by their true ids, whether our masks have them."""
        return {k: look for k, look in self.looks.items() if look.shown >= LEAST_SHOWN}

    def owners(self, seen: Scene) -> dict[int, int]:
        """The true object that most of each of our masks shows; 0: the background."""
        return {k: int(np.bincount(self.true_ids[seen.visible_ids == k]).argmax()) for k in seen.ids}

    def matched(self, seen: Scene) -> dict[int, TrueLook]:
        """What is true of each object of a scene that surely is one of ours."""
        found = {}
        for obj in seen.ids:
            mask = seen.visible_ids == obj
            counts = np.bincount(self.true_ids[mask], minlength=1)
            best = int(counts[1:].argmax()) + 1 if len(counts) > 1 else 0
            if best and counts[best] > LEAST_IOU * (mask | (self.true_ids == best)).sum():
                found[obj] = self.looks[best]
        return found


def some_cases(split: SplitName, count: int) -> tuple[CasePlan, ...]:
    """Some scenes of a split, drawn once for all."""
    cases = plan_split(split).cases
    return tuple(cases[k] for k in np.random.default_rng(0).permutation(len(cases))[:count])


def labelled_view(plan: CasePlan) -> LabelledView:
    """The scene of a plan as `cpor simulate` photographs it, and what is true of it."""
    heap = make_heap(plan.seed, HeapSettings(tier=plan.tier, camera=overhead_camera(640, 480)))
    rng = np.random.default_rng((heap.seed, 0x100C))
    look = random_look(rng)
    scene = photograph(heap.world, heap.camera, look, sensor_preset("default"), rng, views=heap.views)
    words = _geom_words(heap.world)
    ids, geoms = heap.views.visible_ids, heap.views.geoms
    looks = {}
    for o in scene.objects:
        model = heap.world.objects[o.id]
        rows, cols = np.nonzero(ids == o.id)
        if len(rows) == 0:
            continue
        counts = np.bincount(geoms[rows, cols], minlength=len(words)) / len(rows)
        colours: dict[str, float] = {}
        for share, said in zip(counts, words, strict=True):
            for key, part in said.items():
                if share > 0:
                    colours[key] = colours.get(key, 0.0) + part * float(share)
        looks[o.id] = TrueLook(
            model.name,
            colours,
            SHAPE_WORDS[model.name],
            (cols.mean() + 0.5) / ids.shape[1],
            (rows.mean() + 0.5) / ids.shape[0],
            0 if o.amodal is None else int(o.amodal.pixels.sum()),
            len(rows),
        )
    return LabelledView(plan.name, Scene(scene.observation), np.asarray(ids), looks)


def _geom_words(world: object) -> list[dict[str, float]]:
    """How much each colour word is true of each geom, table and bin without any."""
    model = world.model  # type: ignore[attr-defined]
    words: list[dict[str, float]] = [{} for _ in range(model.ngeom)]
    for obj, thing in world.objects.items():  # type: ignore[attr-defined]
        first = int(model.body_geomadr[world.body_of[obj]])  # type: ignore[attr-defined]
        for k, part in enumerate(thing.parts):
            surface = part.surface
            words[first + k] = dict.fromkeys(_words_of(surface.colour), 1.0)
            if surface.pattern != "plain":
                for key in _words_of(surface.second):
                    words[first + k].setdefault(key, PATTERN)
    return words


def _words_of(colour: tuple[float, float, float]) -> tuple[str, ...]:
    """Words for the nearest colour of the palette, compared as people see them."""
    here = np.cbrt(np.array(colour))
    away = [np.linalg.norm(here - np.cbrt(np.array(getattr(palette, name)))) for name, _ in PALETTE]
    return PALETTE[int(np.argmin(away))][1]


@dataclass(frozen=True)
class Asked:
    """A request, and what is right: one object; to ask (several fit); or not to act (none fits)."""

    family: str
    words: str
    right: int | None
    may_be: frozenset[int] = frozenset()


Maker = Callable[[dict[int, TrueLook], np.random.Generator], Asked | None]


def _one(looks: dict[int, TrueLook], fits: Callable[[TrueLook], bool]) -> int | None:
    meant = [k for k, look in looks.items() if fits(look)]
    return meant[0] if len(meant) == 1 else None


def _say(kind: str, key: str) -> str:
    return vocabulary().say(kind, key)  # type: ignore[arg-type]


def _clear(look: TrueLook) -> bool:
    """Whether enough shows for a person to name it."""
    return look.shown >= 400 and look.shown >= 0.35 * look.area


def _described(looks: dict[int, TrueLook], k: int, colour: bool, shape: bool) -> str | None:
    """Words for colour and shape that are true of one object alone."""
    look = looks[k]
    if not _clear(look) or (shape and look.shapes[0] == "thing"):
        return None
    key, word = look.main[0], look.shapes[0]
    if _one(looks, lambda o: (not colour or o.has(key, 0.1)) and (not shape or word in o.shapes)) != k:
        return None
    said = [_say("colour", key)] if colour else []
    return " ".join([*said, _say("shape", word) if shape else "one"])


def _shuffled(looks: dict[int, TrueLook], rng: np.random.Generator) -> list[int]:
    return [int(k) for k in rng.permutation(list(looks))]


def _plain(colour: bool, shape: bool, family: str) -> Maker:
    def make(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
        for k in _shuffled(looks, rng):
            if said := _described(looks, k, colour, shape):
                return Asked(family, f"the {said}", k)
        return None

    return make


def _groups(looks: dict[int, TrueLook], rng: np.random.Generator) -> list[tuple[str, list[int]]]:
    """Words that are true of several objects, clearly so of each; everything last."""
    found = []
    for key in dict(PALETTE).values():
        members = [k for k, o in looks.items() if o.has(key[0], 0.1)]
        if len(members) >= 2 and all(looks[k].is_clearly(key[0]) and _clear(looks[k]) for k in members):
            found.append((f"{_say('colour', key[0])} one", members))
    for key in ("tool", "vehicle", "fruit", "block", "box", "cup", "can"):
        members = [k for k, o in looks.items() if key in o.shapes]
        if len(members) >= 2 and all(looks[k].shapes[0] == key and _clear(looks[k]) for k in members):
            found.append((_say("shape", key), members))
    rng.shuffle(found)  # type: ignore[arg-type]
    return found


def _place(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    sides = [("on the left", "x", -1.0), ("on the right", "x", 1.0)]
    sides += [("in the back", "y", -1.0), ("in front", "y", 1.0)]
    for said, members in _groups(looks, rng):
        for where, axis, sign in [sides[k] for k in rng.permutation(4)]:
            at = sorted(members, key=lambda k: -sign * getattr(looks[k], axis))
            if abs(getattr(looks[at[0]], axis) - getattr(looks[at[1]], axis)) > 0.1:
                return Asked("place", f"the {said} {where}", at[0])
    return None


def _size(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    for said, members in _groups(looks, rng):
        by_size = sorted(members, key=lambda k: looks[k].area)
        if looks[by_size[-1]].area > 1.7 * looks[by_size[-2]].area:
            return Asked("size", f"the biggest {said}", by_size[-1])
        if 1.7 * looks[by_size[0]].area < looks[by_size[1]].area:
            return Asked("size", f"the small {said}", by_size[0])
    return None


def _order(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    for said, members in _groups(looks, rng):
        row = sorted(members, key=lambda k: looks[k].x)
        gaps = np.diff([looks[k].x for k in row])
        if (gaps > 0.08).all():
            n = int(rng.integers(2, len(row) + 1))
            side, row = ("left", row) if rng.random() < 0.5 else ("right", row[::-1])
            ordinal = ("first", "second", "third", "fourth", "fifth", "sixth")[min(n, 6) - 1]
            return Asked("order", f"the {ordinal} {said} from the {side}", row[n - 1])
    return None


def _relation(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    ways = {"left of": (-1, 0), "right of": (1, 0), "behind": (0, -1), "in front of": (0, 1)}
    for k in _shuffled(looks, rng):
        said = _described(looks, k, True, True) or _described(looks, k, True, False)
        if said is None:
            continue
        for way in rng.permutation(list(ways)):
            along, here = np.array(ways[str(way)]), np.array([looks[k].x * 4 / 3, looks[k].y])
            away = {}
            for j, other in looks.items():
                step = np.array([other.x * 4 / 3, other.y]) - here
                far = float(np.linalg.norm(step))
                if j != k and step @ along > 0.35 * far:
                    away[j] = far, float(step @ along) / far
            near = sorted(away, key=lambda j: away[j][0])
            # As in all families: nobody asks for a thing of which hardly anything shows.
            if not near or not _clear(looks[near[0]]) or away[near[0]][1] < 0.85 or away[near[0]][0] > 0.35:
                continue
            if len(near) > 1 and away[near[1]][0] < 1.8 * away[near[0]][0]:
                continue
            return Asked("relation", f"the thing {way} the {said}", near[0])
    return None


def _negation(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    for said, members in _groups(looks, rng):
        if len(members) != 2:
            continue
        k, other = (int(each) for each in rng.permutation(members))
        if "one" not in said and not looks[k].has(looks[other].main[0], 0.1):
            return Asked("negation", f"the {said} that is not {_say('colour', looks[other].main[0])}", k)
        shape = looks[other].shapes[0]
        if "one" in said and shape != "thing" and shape not in looks[k].shapes:
            return Asked("negation", f"the {said}, not the {_say('shape', shape)}", k)
    return None


def _synonym(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    colours = {"red": "crimson", "purple": "violet", "grey": "silver", "cyan": "teal", "pink": "magenta"}
    colours |= {"yellow": "golden", "blue": "navy", "green": "emerald"}
    shapes = {"cup": "mug", "can": "tin", "box": "carton", "block": "brick", "fruit": "vegetable"}
    shapes |= {"bottle": "flask", "bowl": "dish", "tool": "instrument"}
    for k in _shuffled(looks, rng):
        look = looks[k]
        if look.main[0] in colours and _described(looks, k, True, False):
            return Asked("synonym", f"the {colours[look.main[0]]} one", k)
        if look.shapes[0] in shapes and _described(looks, k, True, True):
            colour = _say("colour", look.main[0])
            return Asked("synonym", f"the {colour} {shapes[look.shapes[0]]}", k)
    return None


def _ambiguous(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    for said, members in _groups(looks, rng):
        return Asked("ambiguous", f"the {said}", None, frozenset(members))
    return None


def _absent(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    if rng.random() < 0.5:
        free = [key for _, (key, *_) in PALETTE if not any(o.has(key, 0.02) for o in looks.values())]
        if free:
            return Asked("absent", f"the {_say('colour', str(rng.choice(free)))} one", None)
    words = ("bowl", "bottle", "cup", "plate", "book", "bag", "ring", "pen", "ball")
    free = [w for w in words if not any(w in o.shapes for o in looks.values())]
    return Asked("absent", f"the {_say('shape', str(rng.choice(free)))}", None) if free else None


def _unknown(looks: dict[int, TrueLook], rng: np.random.Generator) -> Asked | None:
    nouns = ("gizmo", "stapling machine", "padlock", "wallet", "compass", "sprocket", "kettle", "thermostat")
    keys = [o.main[0] for o in looks.values() if _clear(o)]
    if not keys:
        return None
    return Asked("unknown", f"the {_say('colour', str(rng.choice(keys)))} {rng.choice(nouns)}", None)


FAMILIES: dict[str, Maker] = {
    "colour": _plain(True, False, "colour"),
    "shape": _plain(False, True, "shape"),
    "both": _plain(True, True, "both"),
    "place": _place,
    "relation": _relation,
    "size": _size,
    "order": _order,
    "negation": _negation,
    "synonym": _synonym,
    "ambiguous": _ambiguous,
    "absent": _absent,
    "unknown": _unknown,
}


def nameless(scene: Scene) -> Scene:
    """The scene as a segmenter gives it."""
    return replace(scene, objects=tuple(replace(o, name=None, called=None) for o in scene.objects))
