"""Pictures of pairs to train the relation networks on, made on the CPU with the product's own code; no torch.

Two kinds of heaps: those `cpor simulate` makes (`catalogue_case`), photographed by the sensors of the
simulator, at first and after removals; and random heaps (`wide_heap`), which the training draws on the GPU
and hands back (`view_pairs`). Each view is seen with true masks, with degraded ones, or with those of our
segmenter. Depth shadows are filled as the product fills them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from scipy import ndimage

from cpor.errors import CporError, SimulationError
from cpor.evidence.learnt import RELATIONS
from cpor.evidence.pair_crops import CROP_SIZE, colour_crops, geometry_crops, near_pairs, unordered
from cpor.evidence.shadows import fill_shadows
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Scene
from cpor.sim.camera.look import random_look
from cpor.sim.camera.sensor import photograph, sensor_preset
from cpor.sim.camera.views import cast_views, overhead_camera
from cpor.sim.dataset.manifest import Tier
from cpor.sim.dataset.recognition import Recognition
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import Container, Density, HeapSettings, make_heap
from cpor.sim.physics.settle import settle_roughly
from cpor.sim.physics.true_relations import occlusion_relations, sweep_relations
from cpor.sim.physics.world import World
from training.config import HeapConfig
from training.heaps import PER_SHAPE, HeapArrays, settle_heap
from training.view_files import ANSWERS, as_seen, read_answers, read_views, write_views

MASKS = ("true", "degraded", "ours")
KINDS = ("catalogue, first look", "catalogue, later look", "catalogue, any camera", "wide")
FEWEST_LEFT = 3

SENSORS = ("default", "default", "default", "harsh", "realsense", "phoxi", "phoxi", "kinect", "zed")
"""Sensors of catalogue views, each as often as it stands here."""

SHADOWED = 0.5
"""Share of the wide views in which a projector or second camera aside leaves shadows."""

UNLIT = 0.33
"""Share of these in which the projector is the only light, so that its shadows are black."""

BASELINES_M = (0.03, 0.4)
"""How far aside it stands, where the focal length is the width of the picture. [m]"""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pictures of pairs with labels; masks of a picture are bits of one layer.

    Attributes:
        geometry: Depth, and the five masks as bits. Shape (n, 2, 96, 96), uint8.
        colour: Red, green, blue, and the two masks as bits. Shape (n, 4, 96, 96), uint8.
        label: Whether each relation holds, [pair, direction, RELATIONS]. Shape (n, 2, 3).
        masks: Index into MASKS. Shape (n,).
        kind: Index into KINDS. Shape (n,).
    """

    geometry: np.ndarray
    colour: np.ndarray
    label: np.ndarray
    masks: np.ndarray
    kind: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    @staticmethod
    def join(many: "list[Pairs]") -> "Pairs":
        """All of them; none at all is fine."""
        if not many:
            size = (CROP_SIZE, CROP_SIZE)
            return Pairs(
                np.zeros((0, 2, *size), np.uint8), np.zeros((0, 4, *size), np.uint8),
                np.zeros((0, 2, len(RELATIONS)), bool), np.zeros(0, np.uint8), np.zeros(0, np.uint8),
            )  # fmt: skip
        return Pairs(*(np.concatenate([getattr(each, f.name) for each in many]) for f in fields(Pairs)))


def cut(scene: Scene, masks: str, kind: int) -> Pairs:
    """Pictures and labels of all near pairs of a scene that has both truths."""
    assert scene.true_occlusion is not None and scene.true_sweep is not None
    assert scene.visible_ids is not None
    pairs = unordered(near_pairs(scene))
    depth = geometry_crops(fill_shadows(scene).holes, pairs)
    colour = colour_crops(scene.observation.rgb, scene.visible_ids, pairs)
    label = np.zeros((len(pairs), 2, len(RELATIONS)), bool)
    for k, (i, j) in enumerate(pairs):
        for d, pair in enumerate((BlockedBy(i, j), BlockedBy(j, i))):
            told = [pair in truth.pairs for truth in (scene.true_occlusion, scene.true_sweep)]
            label[k, d] = (*told, any(told))
    return Pairs(
        np.stack([depth[:, 0], _bits(depth[:, 1:])], 1),
        np.concatenate([colour[:, :3], _bits(colour[:, 3:])[:, None]], 1),
        label,
        np.full(len(pairs), MASKS.index(masks), np.uint8),
        np.full(len(pairs), kind, np.uint8),
    )


def _bits(layers: np.ndarray) -> np.ndarray:
    """Masks (n, k, s, s) as bits of one layer (n, s, s)."""
    weights = (1 << np.arange(layers.shape[1])).astype(np.uint8)
    return np.asarray((layers * weights[None, :, None, None]).sum(1, dtype=np.uint8))


def catalogue_case(seed: int, looks: int = 4, path: Path | None = None) -> Pairs:
    """Pairs of a heap as `cpor simulate` makes them, several looks at it, with true and degraded masks.

    Args:
        seed: Of everything; where no heap comes of it there are no pairs.
        looks: How many.
        path: Where the views are left for others (`write_views`).
    """
    rng = np.random.default_rng((seed, 0x9A125))
    scenes = list(catalogue_looks(seed, looks, rng))
    made = [cut(scene, "true", kind) for kind, scene in scenes]
    made += [cut(degrade(scene, rng), "degraded", kind) for kind, scene in scenes if rng.random() < 0.3]
    if path is not None and scenes:
        write_views(path, scenes)
    return Pairs.join(made)


def catalogue_looks(seed: int, looks: int, rng: np.random.Generator) -> Iterator[tuple[int, Scene]]:
    """Labelled photographs of one heap by the product's camera, and of what is left of it after removals."""
    tiers: tuple[Tier | None, ...] = (None, None, "hard")
    tier = tiers[int(rng.integers(3))]
    densities: tuple[Density, ...] = ("dense", "dense", "dense", "heaped", "loose")
    density = densities[int(rng.integers(5))]
    container: Container = "table" if rng.random() < 0.15 else "bin"
    try:
        heap = make_heap(seed, HeapSettings(container, density, tier, max_tries=60))
    except SimulationError:
        return
    for look in range(looks):
        kind = (0, 1, 2, 1)[look % 4]
        world = heap.world
        if kind == 1 or (kind == 2 and rng.random() < 0.5):
            world = _after_removals(world, rng)
        camera = overhead_camera()
        if kind == 2:
            camera = overhead_camera(
                tilt_deg=rng.uniform(0.0, 60.0),
                azimuth_deg=rng.uniform(0.0, 360.0),
                distance=rng.uniform(0.5, 0.95),
                fov_deg=rng.uniform(26.0, 42.0),
            )
        sensor = sensor_preset(SENSORS[int(rng.integers(len(SENSORS)))])
        views = cast_views(world, camera)
        scene = photograph(world, camera, random_look(rng), sensor, rng, views=views)
        occlusion, sweep = occlusion_relations(views), sweep_relations(world)
        yield kind, replace(scene, true_occlusion=occlusion, true_sweep=sweep)


def _after_removals(world: World, rng: np.random.Generator) -> World:
    """The world after some objects that lay free were taken away, at rest again."""
    left = sorted(world.objects)
    blocked_by = sweep_relations(world).pairs
    for _ in range(int(rng.integers(1, 6))):
        if len(left) <= FEWEST_LEFT:
            break
        free = [k for k in left if not any(p.blocked == k and p.blocker in left for p in blocked_by)]
        left.remove(int(rng.choice(free or left)))
    ids = dict(enumerate(left, start=1))
    after = build_world(
        {k: world.objects[obj] for k, obj in ids.items()},
        {k: world.pose(obj) for k, obj in ids.items()},
        world.bin,
    )
    settle_roughly(after)
    return after


def wide_heap(seed: int, config: HeapConfig | None = None) -> list[tuple[HeapArrays, list[tuple[int, int]]]]:
    """A random heap, and the same after removals, each with its sweep relations; empty where none settles."""
    rng = np.random.default_rng((seed, 0x71DE))
    try:
        heap, world = settle_heap(rng, config or HeapConfig())
    except (CporError, ValueError):
        return []  # MuJoCo refuses a degenerate hull with a ValueError
    swept = [(int(p.blocked), int(p.blocker)) for p in sweep_relations(world).pairs]
    here = [int(k) for k in np.unique(heap.objects) if k]
    made = [(heap, swept)]
    if len(here) > FEWEST_LEFT + 1:
        gone: list[int] = []
        for _ in range(int(rng.integers(1, min(6, len(here) - FEWEST_LEFT)))):
            left = [k for k in here if k not in gone]
            free = [k for k in left if not any(i == k and j in left for i, j in swept)]
            gone.append(int(rng.choice(free or left)))
        keep = ~np.isin(heap.objects, gone)
        fewer = {name: getattr(heap, name)[keep] for name in PER_SHAPE}
        left_over = [(i, j) for i, j in swept if i not in gone and j not in gone]
        made.append((replace(heap, **fewer, starts=np.array([0, int(keep.sum())])), left_over))
    return made


def view_pairs(path: str, masks: str, seed: int) -> Pairs:
    """Pairs of the views of a file.

    Args:
        path: As `training.view_files` has them.
        masks: "ours": what the segmenter left beside the file, which is deleted then. Else true masks for
            every second view, degraded ones for the others.
        seed: Of the degraded masks.
    """
    rng = np.random.default_rng((seed, 0xDE6))
    if masks == "ours":
        answers = Path(path).with_suffix(ANSWERS)
        found = read_answers(answers)
        answers.unlink()
        seen = ((kind, as_seen(scene, found[k])) for k, kind, scene in read_views(path))
        return Pairs.join([cut(_by_any_sensor(scene, kind, rng), masks, kind) for kind, scene in seen])
    made = []
    for _, kind, scene in read_views(path):
        shown = _by_any_sensor(scene, kind, rng)
        is_true = rng.random() < 0.5
        made.append(cut(shown, "true", kind) if is_true else cut(degrade(shown, rng), "degraded", kind))
    return Pairs.join(made)


def _by_any_sensor(scene: Scene, kind: int, rng: np.random.Generator) -> Scene:
    """A wide view with depth shadows on one side, or as it is; catalogue views come from such sensors."""
    depth, rgb = scene.observation.depth, scene.observation.rgb
    if depth is None or KINDS[kind] != "wide" or rng.random() > SHADOWED:
        return scene
    baseline = np.exp(rng.uniform(*np.log(BASELINES_M)))
    lost = in_shadow(depth, baseline * depth.shape[1], bool(rng.integers(2)), bool(rng.integers(2)))
    rgb = np.where(lost[..., None], 0, rgb).astype(np.uint8) if rng.random() < UNLIT else rgb
    unlit = replace(scene.observation, rgb=rgb, depth=np.where(lost, np.float32(np.nan), depth))
    return replace(scene, observation=unlit)


def in_shadow(depth: np.ndarray, k: float, beside: bool, after: bool) -> np.ndarray:
    """Where a surface nearer to the camera hides what it shows from a projector aside. Shape (h, w).

    Args:
        depth: NaN where there is no reading. Shape (h, w). [m]
        k: Baseline times focal length. [m px]
        beside: Whether shadows lie to the left or right, not above or below.
        after: Whether they lie to the right or below.
    """
    z = depth if beside else depth.T
    z = z if after else z[:, ::-1]
    place = np.where(np.isnan(z), -np.inf, np.arange(z.shape[1]) + k / z)
    lost: np.ndarray = place < np.maximum.accumulate(place, axis=1) - 1.0
    lost = lost if after else lost[:, ::-1]
    return lost if beside else lost.T


def degrade(scene: Scene, rng: np.random.Generator) -> Scene:
    """The scene with masks as a segmenter draws them: edges wander, objects merge, split and go missing.

    Hidden parts are shifted, too small, too large, or not seen at all. The truth follows by `Recognition`.
    """
    assert scene.visible_ids is not None and scene.true_occlusion and scene.true_sweep
    true = scene.visible_ids
    found = _wander(true, rng, 2.5 * rng.random())
    whole = {o.id: o.amodal.to_mask(true.shape) for o in scene.objects if o.amodal is not None}
    for first, second in _some_neighbours(scene, rng):
        found[found == second] = first
        whole[first] = whole[first] | whole[second]
    for k in [int(k) for k in np.unique(found) if k]:
        luck = rng.random()
        mask = found == k
        if luck < 0.03:
            found[mask] = 0
        elif luck < 0.08:
            y, x = np.nonzero(mask)
            angle = rng.uniform(0.0, np.pi)
            side = np.cos(angle) * (x - x.mean()) + np.sin(angle) * (y - y.mean()) > rng.normal(0.0, 5.0)
            new = int(found.max()) + 1
            found[y[side], x[side]] = new
            whole[new] = found == new
    objects = []
    for k in [int(k) for k in np.unique(found) if k]:
        seen = found == k
        objects.append(DetectedObject(k, MaskCrop.from_mask(seen | _blurred(whole[k], seen, rng))))
    ids = tuple(o.id for o in objects)
    known = Recognition.match(ids, found, scene.ids, true)
    return replace(
        scene,
        objects=tuple(objects),
        visible_ids=found,
        true_occlusion=known.translate(scene.true_occlusion),
        true_sweep=known.translate(scene.true_sweep),
    )


def _wander(ids: np.ndarray, rng: np.random.Generator, amount: float) -> np.ndarray:
    """Ids read from places that are a little off. [px]."""
    h, w = ids.shape
    rough = rng.normal(0.0, amount, (2, h // 16 + 2, w // 16 + 2))
    field = ndimage.zoom(rough, (1, 16, 16), order=1)[:, :h, :w]
    rows = np.clip(np.rint(np.arange(h)[:, None] + field[0]), 0, h - 1).astype(np.int64)
    cols = np.clip(np.rint(np.arange(w)[None] + field[1]), 0, w - 1).astype(np.int64)
    return np.ascontiguousarray(ids[rows, cols])


def _some_neighbours(scene: Scene, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """At most one pair of neighbours that the segmenter takes for one object."""
    if rng.random() < 0.25:
        near = unordered(near_pairs(scene, within=2))
        if near:
            yield near[int(rng.integers(len(near)))]


def _blurred(whole: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A hidden part that was guessed: not at all, shifted, smaller or larger."""
    luck = rng.random()
    if luck < 0.12:
        return seen
    shifted = np.roll(whole, rng.normal(0.0, 1.5, 2).round().astype(int).tolist(), (0, 1))
    if luck < 0.45:
        size = 2 * int(rng.integers(1, 4)) + 1
        change = ndimage.minimum_filter if luck < 0.3 else ndimage.maximum_filter
        return np.asarray(change(shifted.astype(np.uint8), size=size)) > 0
    return shifted
