"""Pictures of objects whose everyday shape is known, to train the shape network on; no torch.

Heaps of the catalogue and of random objects in the product's own light and camera, seen with true masks, with
degraded ones, and with those of our segmenter.
"""

import colorsys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np

from cpor.errors import CporError, SimulationError
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Scene, TrueRelations
from cpor.sim.camera.look import random_look
from cpor.sim.camera.sensor import photograph, sensor_preset
from cpor.sim.camera.views import CameraSetup, overhead_camera
from cpor.sim.objects import model_parts as piece
from cpor.sim.objects.catalogue import SHAPE_WORDS, catalogue, scaled
from cpor.sim.objects.solids import Colour, ObjectModel, Part, Pattern, Surface
from cpor.sim.physics.build import compile_world, make_spec
from cpor.sim.physics.clutter import Container, Density, HeapSettings, make_heap
from cpor.sim.physics.settle import settle_roughly
from cpor.sim.physics.world import Bin, World
from cpor.words.shapes import PICTURE_SIZE, SHAPES, object_pictures
from training import shapes
from training.heaps import _drop_poses, _reach
from training.packs import blister, bottle, coil, flat_bag, spool
from training.pieces import MAIN, METAL, SECOND, rod
from training.relation_data import degrade
from training.tools import scissors, tool

VIEWS = 5
"""Pictures of each heap, each with colours, camera and masks of its own."""

MASKS = ("true", "degraded", "ours")

LEAST_PX = 50
"""Objects that show less are not learnt from. [px]"""

LEAST_IOU = 0.5
"""A degraded mask is of the object that it overlaps at least so well."""

Maker = Callable[[np.random.Generator, float], list[Part]]


@dataclass(frozen=True, eq=False)
class ShapeCrops:
    """Pictures of objects, and what they are.

    Attributes:
        crops: Pictures as `packed` leaves them. Shape (n, 5, p, p), uint8.
        sizes: As `object_pictures` has them. Shape (n, 4).
        words: Which of `SHAPES` a person may use. Shape (n, shapes).
        labels: Index of the usual word. Shape (n,).
        masks: Index into `MASKS`. Shape (n,).
        usual: Whether it is a heap, its colours and its camera as `cpor simulate` has them. Shape (n,).
    """

    crops: np.ndarray
    sizes: np.ndarray
    words: np.ndarray
    labels: np.ndarray
    masks: np.ndarray
    usual: np.ndarray

    @staticmethod
    def join(many: "list[ShapeCrops]") -> "ShapeCrops":
        """All of them; none at all is fine."""
        if not many:
            return ShapeCrops(
                np.zeros((0, 5, PICTURE_SIZE, PICTURE_SIZE), np.uint8), np.zeros((0, 4), np.float32),
                np.zeros((0, len(SHAPES)), bool), np.zeros(0, np.int64), np.zeros(0, np.uint8),
                np.zeros(0, bool),
            )  # fmt: skip
        return ShapeCrops(
            *(np.concatenate([getattr(each, f.name) for each in many]) for f in fields(ShapeCrops))
        )


def _vessel(low: float, high: float, flare: float, bottom: bool, handle: float = 0.0) -> Maker:
    """Round vessels whose height by width lies between `low` and `high`."""

    def make(rng: np.random.Generator, size: float) -> list[Part]:
        ratio = rng.uniform(low, high)
        top = size if ratio < 1.0 else size / ratio
        height, wall = ratio * top, rng.uniform(0.003, 0.006)
        lower = top * rng.uniform(flare, 1.0) if rng.random() < 0.6 or flare < 0.7 else top
        made = [*piece.ring(lower, top, wall, height, MAIN, sides=int(rng.integers(8, 13)))]
        if bottom:
            made.append(piece.cylinder(0.95 * lower, 0.006, MAIN, (0, 0, 0.003 - height / 2)))
        if rng.random() < handle:
            out = 0.5 * top + rng.uniform(0.012, 0.022)
            made.append(piece.box((0.008, 0.010, 0.6 * height), MAIN, (out, 0, 0)))
            for z in (-0.3, 0.3):
                length = out - 0.45 * top
                made.append(piece.box((length, 0.01, 0.01), MAIN, (out - length / 2, 0, z * height)))
        return made

    return make


def _flat_box(rng: np.random.Generator, size: float) -> list[Part]:
    size = max(size, 0.08)
    half = 0.5 * size * np.array([1.0, rng.uniform(0.6, 0.85), rng.uniform(0.07, 0.18)])
    pages = piece.box((1.9 * half[0], 1.96 * half[1], 1.6 * half[2]), SECOND)
    return [piece.box(tuple(2 * half), MAIN), *([pages] if rng.random() < 0.5 else [])]


def _thick_box(rng: np.random.Generator, size: float) -> list[Part]:
    edges = size * np.array([1.0, rng.uniform(0.35, 1.0), rng.uniform(0.22, 0.9)])
    made = [piece.box(tuple(edges), MAIN)]
    if rng.random() < 0.2:  # a lid or a band of another colour
        made.append(piece.box((1.01 * edges[0], 1.01 * edges[1], 0.3 * edges[2]), SECOND))
    return made


def _block(rng: np.random.Generator, size: float) -> list[Part]:
    size = min(size, 0.11)
    if rng.random() < 0.2:
        return [piece.box((s := rng.uniform(0.03, 0.05), s, s), MAIN)]
    return (shapes._prism if rng.random() < 0.35 else shapes._blocky)(rng, size)


def _disc(rng: np.random.Generator, size: float) -> list[Part]:
    size = max(size, 0.09)
    if rng.random() < 0.5:
        return [piece.cylinder(size, rng.uniform(0.003, 0.012), MAIN)]
    foot = rng.uniform(0.5, 0.75) * size
    height = rng.uniform(0.06, 0.14) * size
    return [*piece.ring(foot, size, 0.004, height, MAIN, sides=12), piece.cylinder(foot, 0.006, MAIN)]


def _card(rng: np.random.Generator, size: float) -> list[Part]:
    return [piece.box((size, size * rng.uniform(0.5, 0.8), rng.uniform(0.0025, 0.006)), MAIN)]


def _can(rng: np.random.Generator, size: float) -> list[Part]:
    across = min(size, 0.1) * rng.uniform(0.45, 1.0)
    length = across * rng.uniform(0.55, 1.9)
    made = [piece.cylinder(across, length, MAIN)]
    if rng.random() < 0.6:
        cap = METAL if rng.random() < 0.5 else SECOND
        made.append(piece.cylinder(across * rng.uniform(0.9, 1.04), length * rng.uniform(1.02, 1.1), cap))
    return made


def _ball(rng: np.random.Generator, size: float) -> list[Part]:
    across = min(size, 0.1) * rng.uniform(0.5, 1.0)
    if rng.random() < 0.6:
        return [piece.ellipsoid((across, across, across), MAIN)]
    return [piece.ellipsoid(tuple(across * rng.uniform(0.85, 1.0, 3)), MAIN)]


def _pen(rng: np.random.Generator, size: float) -> list[Part]:
    length, thick = rng.uniform(0.09, 0.17), rng.uniform(0.007, 0.014)
    made = [piece.cylinder(thick, length, MAIN, turn=piece.LYING_X)]
    if rng.random() < 0.7:
        cap = rng.uniform(0.15, 0.4) * length
        made.append(piece.cylinder(1.15 * thick, cap, SECOND, (0.5 * (length - cap), 0, 0), piece.LYING_X))
    if rng.random() < 0.6:
        tip = rod(np.array([-0.5 * length, 0, 0]), np.array([-0.57 * length, 0, 0]), 0.25 * thick, SECOND)
        made.append(tip)
    return made


def _tube(rng: np.random.Generator, size: float) -> list[Part]:
    """A long round thing: closed as a roll of card, or open as a pipe."""
    size = max(size, 0.08)
    across = size * rng.uniform(0.14, 0.36)
    if rng.random() < 0.5:
        return [*piece.ring(across, across, 0.004, size, MAIN, sides=10)]
    made = [piece.cylinder(across, size, MAIN)]
    if rng.random() < 0.6:
        cap = size * rng.uniform(0.05, 0.15)
        made.append(piece.cylinder(1.03 * across, cap, SECOND, (0, 0, 0.5 * size)))
    return made


def _ring(rng: np.random.Generator, size: float) -> list[Part]:
    if rng.random() < 0.5:
        return _vessel(0.12, 0.5, 1.0, False)(rng, size)
    wall, height = size * rng.uniform(0.1, 0.25), size * rng.uniform(0.1, 0.5)
    return [*piece.ring(size, size, wall, height, MAIN, sides=12)]


def _fruit(rng: np.random.Generator, size: float) -> list[Part]:
    """An object of the catalogue's produce, in another size, its colours a little off."""
    produce = [each for each in catalogue() if each.category == "produce"]
    model = produce[int(rng.integers(len(produce)))]
    return list(scaled(model, rng.uniform(0.75, 1.35)).parts)


def _odd(rng: np.random.Generator, size: float) -> list[Part]:
    return (shapes._figure, shapes._stone, spool, blister)[int(rng.integers(4))](rng, size)


MAKERS: tuple[tuple[str, Maker, float], ...] = (
    ("box", _thick_box, 2.5),
    ("book", _flat_box, 1.2),
    ("block", _block, 1.5),
    ("can", _can, 1.8),
    ("bottle", bottle, 1.5),
    ("cup", _vessel(0.75, 1.35, 0.7, True, 0.55), 1.5),
    ("bowl", _vessel(0.3, 0.6, 0.45, True), 1.2),
    ("plate", _disc, 1.0),
    ("ball", _ball, 1.2),
    ("fruit", _fruit, 1.5),
    ("tool", tool, 1.6),
    ("tool", scissors, 0.5),
    ("pen", _pen, 1.0),
    ("tube", _tube, 1.0),
    ("ring", _ring, 1.0),
    ("bag", flat_bag, 0.7),
    ("bag", shapes._bag, 0.6),
    ("card", _card, 0.7),
    ("cable", coil, 0.6),
    ("cable", shapes._wire, 0.5),
    ("vehicle", shapes._vehicle, 0.9),
    ("thing", _odd, 1.0),
)
"""A word, who makes such objects, and how often."""


def labelled_object(rng: np.random.Generator, name: str) -> ObjectModel:
    """A random object whose category is the word for its shape."""
    weights = np.array([weight for *_, weight in MAKERS])
    word, make, _ = MAKERS[int(rng.choice(len(MAKERS), p=weights / weights.sum()))]
    size = float(np.exp(rng.uniform(np.log(0.05), np.log(0.19))))
    return ObjectModel(name, word, tuple(make(rng, size)), 0.1)


def shape_words(model: ObjectModel) -> tuple[str, ...]:
    """The words for an object of ours or of the catalogue, the usual one first."""
    return SHAPE_WORDS.get(model.name, (model.category,))


def random_world(rng: np.random.Generator) -> World:
    """Random objects and some of the catalogue, settled in a bin or on a table."""
    known = catalogue()
    objects = {
        k: known[int(rng.integers(len(known)))]
        if rng.random() < 0.2
        else labelled_object(rng, f"random object {k}")
        for k in range(1, int(rng.integers(5, 15)))
    }
    footprint = sum(0.35 * _reach(model) ** 2 for model in objects.values())
    side = float(np.clip(np.sqrt(footprint / rng.uniform(0.6, 1.8)), 0.17, 0.42))
    on_table = rng.random() < 0.5
    bin = None if on_table else Bin((side, side), float(rng.uniform(0.02, 0.1)), 0.008)
    area = np.array([side, side])
    poses = _drop_poses(rng, objects, area, on_table and rng.random() < 0.5)
    spec = make_spec(objects, bin)
    spec.memory = 96 * 1024 * 1024
    world = compile_world(spec, objects, poses, bin, arm=False)
    world.model.opt.timestep = 0.004
    settle_roughly(world, 350)
    return world


def catalogue_world(rng: np.random.Generator, seed: int) -> World:
    """A heap as `cpor simulate` makes them."""
    density: Density = ("dense", "heaped", "loose")[int(rng.choice(3, p=(0.6, 0.2, 0.2)))]
    container: Container = "table" if rng.random() < 0.15 else "bin"
    return make_heap(seed, HeapSettings(container, density, None, max_tries=20)).world


def repainted(rng: np.random.Generator, model: ObjectModel) -> ObjectModel:
    """The object in random colours and patterns; produce stays as it grew."""
    new: dict[Surface, Surface] = {}
    for part in model.parts:
        old = part.surface
        if old in new:
            continue
        if shape_words(model)[0] == "fruit":
            factor = rng.uniform(0.85, 1.15, 3)
            colours = [tuple(np.clip(np.array(c) * factor, 0, 1)) for c in (old.colour, old.second)]
            new[old] = replace(old, colour=colours[0], second=colours[1])
        elif old == METAL or old.shine >= 0.7:
            new[old] = replace(METAL, colour=(float(g := rng.uniform(0.2, 0.6)), float(g), float(g)))
        else:
            patterns: tuple[Pattern, ...] = ("plain", "stripes", "checker", "speckle", "label", "grain")
            pattern = patterns[int(rng.choice(6, p=(0.5, 0.1, 0.06, 0.12, 0.16, 0.06)))]
            shine = float(rng.uniform(0.0, 0.5))
            scale = float(np.exp(rng.uniform(np.log(0.003), np.log(0.06))))
            new[old] = Surface(_paint(rng), _paint(rng), pattern, scale, shine)
    return replace(model, parts=tuple(replace(part, surface=new[part.surface]) for part in model.parts))


def _paint(rng: np.random.Generator) -> Colour:
    """A paint in linear light: mostly clear colours, some greys."""
    saturation = 0.0 if rng.random() < 0.25 else rng.uniform(0.3, 1.0)
    value = rng.uniform(0.1, 1.0)
    r, g, b = colorsys.hsv_to_rgb(rng.random(), saturation, value)
    return (r**2.2, g**2.2, b**2.2)


def _any_camera(rng: np.random.Generator) -> CameraSetup:
    return overhead_camera(
        tilt_deg=rng.uniform(0.0, 60.0) * rng.random(),
        azimuth_deg=rng.uniform(0.0, 360.0),
        distance=rng.uniform(0.5, 1.1),
        fov_deg=rng.uniform(26.0, 48.0),
    )


def draw(seed: int, ours: bool = True) -> ShapeCrops:
    """All pictures of one heap, with masks of our segmenter too; none where no heap comes of the seed."""
    rng = np.random.default_rng((seed, 0x54A9E))
    of_catalogue = rng.random() < 0.5
    try:
        world = catalogue_world(rng, seed) if of_catalogue else random_world(rng)
    except (CporError, SimulationError, ValueError):  # MuJoCo refuses a degenerate hull with a ValueError
        return ShapeCrops.join([])
    made = []
    for _ in range(VIEWS):
        as_made = rng.random() < 0.65
        painted = {
            k: each if as_made and each.name in SHAPE_WORDS else repainted(rng, each)
            for k, each in world.objects.items()
        }
        usual_camera = rng.random() < 0.4
        sensor = sensor_preset("harsh" if rng.random() < 0.2 else "default")
        camera = overhead_camera() if usual_camera else _any_camera(rng)
        scene = photograph(replace(world, objects=painted), camera, random_look(rng), sensor, rng)
        true, words = scene.visible_ids, {k: shape_words(each) for k, each in world.objects.items()}
        assert true is not None
        usual = of_catalogue and as_made and usual_camera
        if rng.random() < 0.5:
            made.append(_label(scene, true, words, "true", usual))
        else:
            nothing = TrueRelations(frozenset(scene.ids), frozenset())
            rough = degrade(replace(scene, true_occlusion=nothing, true_sweep=nothing), rng)
            made.append(_label(rough, true, words, "degraded", usual))
        if ours and rng.random() < 0.5:
            made.append(_label(_segmenter().segment(scene.observation), true, words, "ours", usual))
    return ShapeCrops.join(made)


@cache
def _segmenter() -> OnnxSegmenter:
    return OnnxSegmenter()


def _label(
    scene: Scene, true: np.ndarray, words: dict[int, tuple[str, ...]], masks: str, usual: bool
) -> ShapeCrops:
    """Pictures of the objects that show enough and are surely one object, with the words for them."""
    ids, crops, sizes = object_pictures(scene)
    keep: list[int] = []
    said: list[list[int]] = []
    for k, obj in enumerate(ids):
        seen = scene.visible_ids == obj
        if int(np.sum(seen)) < LEAST_PX:
            continue
        counts = np.bincount(true[seen])
        best = int(counts[1:].argmax()) + 1 if len(counts) > 1 else 0
        if best and counts[best] > LEAST_IOU * (seen | (true == best)).sum():
            keep.append(k)
            said.append([SHAPES.index(word) for word in words[best]])
    labels = np.array([each[0] for each in said], np.int64)
    may_be = np.zeros((len(keep), len(SHAPES)), bool)
    for row, each in zip(may_be, said, strict=True):
        row[each] = True
    kind = np.full(len(keep), MASKS.index(masks), np.uint8)
    return ShapeCrops(packed(crops[keep]), sizes[keep], may_be, labels, kind, np.full(len(keep), usual))


def packed(crops: np.ndarray) -> np.ndarray:
    """Pictures with their three masks as bits of one layer. Shape (n, 5, p, p), uint8."""
    bits = crops[:, 3] | crops[:, 4] << 1 | crops[:, 6] << 2
    return np.concatenate([crops[:, :3], crops[:, 5:6], bits[:, None]], axis=1)
