"""Heaps for training: random objects dropped into random bins, kept as plain arrays of convex shapes.

A heap is settled once by the physics and then pictured from many sides with many looks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import mujoco
import numpy as np

from cpor.errors import InvalidSettingError
from cpor.sim.camera.views import Geometry, gather_geometry
from cpor.sim.objects.catalogue import catalogue
from cpor.sim.objects.solids import ObjectModel
from cpor.sim.physics.build import TRAY_HALF, compile_world, make_spec
from cpor.sim.physics.settle import settle_roughly
from cpor.sim.physics.world import DELIVERY, DISCARD, HEAP_CENTRE, Bin, World
from training.bins import mould
from training.config import HeapConfig
from training.pieces import roles
from training.shapes import package, random_object, stackable

_ARENA_BYTES = 96 * 1024 * 1024

OVERLAP = 0.62
"""Packages closer than this share of the sum of their half diagonals are taken to overlap."""

PER_SHAPE = (
    "kinds", "positions", "rotations", "sizes", "boxes", "objects", "roles", "looks", "plane_ranges",
)  # fmt: skip
"""Fields of `HeapArrays` with one row a shape."""


@dataclass(frozen=True, eq=False)
class HeapArrays:
    """Heaps one after the other; heap h has the shapes `starts[h]` up to `starts[h + 1]`.

    Attributes:
        kinds: MuJoCo's numbers: 2 sphere, 3 capsule, 4 ellipsoid, 5 cylinder, 6 box, 7 hull. Shape (g,).
        positions: Around the middle of the heap, the table at z = 0. Shape (g, 3). [m]
        rotations: From the frame of the shape to the world. Shape (g, 3, 3).
        sizes: As MuJoCo has them. Shape (g, 3). [m]
        boxes: Centre and half size of the box around each, in its frame. Shape (g, 6). [m]
        objects: Object it belongs to, 1 to n, 0 for the bin. Shape (g,).
        roles: Which of its object's materials it has, as `training.pieces` numbers them. Shape (g,).
        looks: Shapes with the same number look alike, as like things do; 0 for the bin. Shape (g,).
        plane_ranges: First and end plane of hulls. Shape (g, 2).
        planes: Outward normal and offset. Shape (p, 4).
        starts: First shape of each heap, and the end. Shape (heaps + 1,).
        radii: How far the heap reaches from its middle. Shape (heaps,). [m]
        bins: Inner length and width of the bin, zeros on a bare table. Shape (heaps, 2). [m]
    """

    kinds: np.ndarray
    positions: np.ndarray
    rotations: np.ndarray
    sizes: np.ndarray
    boxes: np.ndarray
    objects: np.ndarray
    roles: np.ndarray
    looks: np.ndarray
    plane_ranges: np.ndarray
    planes: np.ndarray
    starts: np.ndarray
    radii: np.ndarray
    bins: np.ndarray

    def __len__(self) -> int:
        return len(self.radii)


def make_heap_arrays(rng: np.random.Generator, config: HeapConfig) -> HeapArrays:
    """One random heap, settled."""
    return settle_heap(rng, config)[0]


def settle_heap(rng: np.random.Generator, config: HeapConfig) -> tuple[HeapArrays, World]:
    """One random heap, settled, and its world, whose object ids are those of the arrays."""
    if rng.random() < config.package_share:
        return _settle_packages(rng, config)
    on_table = rng.random() < config.table_share
    objects, likes, stacks = _cast(rng, config)
    # Room according to what lies there: from things side by side to things in two layers.
    footprint = sum(0.35 * _reach(model) ** 2 for model in objects.values())
    side = float(
        np.clip(
            np.sqrt(footprint / np.exp(rng.uniform(np.log(0.5), np.log(2.2)))),
            0.12 if on_table else 0.17,
            0.42,
        )
    )
    slim = rng.uniform(0.6, 1.0)
    area = np.array([side / np.sqrt(slim), side * np.sqrt(slim)])
    bin = None
    if not on_table:
        bin = Bin(
            (float(area[0]), float(area[1])), float(rng.uniform(0.02, 0.14)), float(rng.uniform(0.002, 0.014))
        )
    poses = _drop_poses(rng, objects, area, on_table and rng.random() < 0.3)
    _put_stacks(rng, poses, stacks, area)
    world = _let_fall(objects, poses, bin, config)
    heap = pack(gather_geometry(world), float(0.5 * np.linalg.norm(area)), bin, objects, likes)
    if rng.random() < config.tray_share:
        return _with_mouldings(heap, rng, bin), world
    return _with_mouldings(_without_trays(heap), rng, bin), world


def _let_fall(
    objects: dict[int, ObjectModel], poses: dict[int, np.ndarray], bin: Bin | None, config: HeapConfig
) -> World:
    """The world with its objects let go from these poses, settled."""
    spec = make_spec(objects, bin)
    # Heaps of wires have more contacts than the usual memory holds.
    spec.memory = _ARENA_BYTES
    world = compile_world(spec, objects, poses, bin, arm=False)
    world.model.opt.timestep = config.timestep_s
    settle_roughly(world, config.settle_steps)
    return world


def _settle_packages(rng: np.random.Generator, config: HeapConfig) -> tuple[HeapArrays, World]:
    """Packages and cans on a table, most of them upright: before, beside and across each other."""
    count = int(rng.integers(2, 10))
    objects: dict[int, ObjectModel] = {}
    likes: dict[int, int] = {}
    for k in range(1, count + 1):
        if k > 1 and rng.random() < config.like_share:
            other = int(rng.integers(1, k))
            objects[k], likes[k] = objects[other], likes[other]
        else:
            objects[k], likes[k] = package(rng, f"thing {k}"), k
    world = _let_fall(objects, _package_poses(rng, objects), None, config)
    heap = pack(gather_geometry(world), 0.3, None, objects, likes)
    return _without_trays(heap), world


def _package_poses(rng: np.random.Generator, objects: dict[int, ObjectModel]) -> dict[int, np.ndarray]:
    """Each on the table or on what stands there already, on any side, turned mostly like the others."""
    poses: dict[int, np.ndarray] = {}
    towards = rng.uniform(0.0, 2.0 * np.pi)
    spread = rng.uniform(0.02, 0.1)
    placed: list[tuple[np.ndarray, float, float]] = []

    def tops_below(at: np.ndarray, reach: float) -> list[float]:
        """Heights of what stands where an object of this half width would stand. [m]."""
        return [top for other, wide, top in placed if np.linalg.norm(other - at) < OVERLAP * (wide + reach)]

    for k, model in objects.items():
        side, half = _on_a_side(rng, model.parts[0].size)
        turn = towards + (rng.integers(2) * 0.5 * np.pi if rng.random() < 0.8 else rng.uniform(0, 6.3))
        turn += rng.normal(0.0, 0.15)
        about = np.array([[np.cos(turn), -np.sin(turn), 0.0], [np.sin(turn), np.cos(turn), 0.0], [0, 0, 1.0]])
        reach = float(np.hypot(half[0], half[1]))
        at = rng.normal(0.0, spread, 2)
        level = max(tops_below(at, reach), default=0.0)
        if level > 0.0 and rng.random() < 0.6:
            # Beside rather than on top: pushed out until it stands on the table.
            way = rng.normal(size=2)
            way /= np.linalg.norm(way)
            while tops_below(at, reach):
                at = at + 0.01 * way
            level = 0.0
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, (about @ side).ravel())
        place = [HEAP_CENTRE[0] + at[0], HEAP_CENTRE[1] + at[1], level + half[2] + 0.001]
        poses[k] = np.concatenate([place, quaternion])
        placed.append((at, reach, level + 2.0 * float(half[2])))
    return poses


def _on_a_side(rng: np.random.Generator, size: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rotation of a box or cylinder onto a side, mostly upright, and its half extents then."""
    if len(size) != 3:
        return np.eye(3), np.array([size[0], size[0], size[1]])
    half = np.array(size)
    order = rng.permutation(3) if rng.random() < 0.3 else np.argsort(half)[[1, 0, 2]]
    side = np.eye(3)[order]
    if np.linalg.det(side) < 0:
        side[0] *= -1.0
    return side, half[order]


def _cast(
    rng: np.random.Generator, config: HeapConfig
) -> tuple[dict[int, ObjectModel], dict[int, int], list[tuple[list[int], float]]]:
    """Objects by id, of which other one each looks like, and stacks: ids from below and the height of one."""
    count = int(rng.integers(config.min_objects, config.max_objects + 1))
    objects: dict[int, ObjectModel] = {}
    likes: dict[int, int] = {}
    stacks: list[tuple[list[int], float]] = []
    known = catalogue() if rng.random() < config.catalogue_share else ()
    scale = float(np.exp(rng.uniform(np.log(0.7), np.log(1.3))))
    piled = rng.random() < config.stack_share
    while len(objects) < count:
        k = len(objects) + 1
        size = float(np.exp(rng.uniform(np.log(0.045), np.log(0.2)))) * scale
        if piled and len(stacks) < 3 and count - len(objects) >= 2:
            model, height = stackable(rng, f"thing {k}", max(size, 0.05))
            ids = list(range(k, k + min(int(rng.integers(2, 6)), count - len(objects))))
            stacks.append((ids, height))
            alike = rng.random() < 0.75
            for i in ids:
                objects[i], likes[i] = model, k if alike else i
        elif objects and rng.random() < config.like_share:
            other = int(rng.integers(1, k))
            objects[k], likes[k] = objects[other], likes[other]
        elif known and rng.random() < 0.5:
            objects[k], likes[k] = known[int(rng.integers(len(known)))], k
        else:
            objects[k], likes[k] = random_object(rng, f"thing {k}", size), k
    return objects, likes, stacks


def _put_stacks(
    rng: np.random.Generator,
    poses: dict[int, np.ndarray],
    stacks: list[tuple[list[int], float]],
    area: np.ndarray,
) -> None:
    """Stands stacks upright, a little untidy; what else falls there comes later, from above."""
    for ids, height in stacks:
        at = np.array(HEAP_CENTRE) + rng.uniform(-0.3, 0.3, 2) * area
        turn = rng.uniform(0.0, 2.0 * np.pi)
        for level, k in enumerate(ids):
            turn += rng.normal(0.0, 0.1)
            quaternion = [np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)]
            place = [*(at + rng.normal(0.0, 0.002, 2)), (level + 0.5) * (height + 0.001)]
            poses[k] = np.array(place + quaternion)


def _drop_poses(
    rng: np.random.Generator, objects: dict[int, ObjectModel], area: np.ndarray, upright_all: bool
) -> dict[int, np.ndarray]:
    """Where each object begins to fall: layers above each other, or upright and close to the table."""
    poses: dict[int, np.ndarray] = {}
    level = 0.0
    for k, model in objects.items():
        reach = _reach(model)
        at = rng.uniform(-0.5, 0.5, 2) * np.maximum(area - 0.6 * reach, 0.03)
        if upright_all or rng.random() < 0.4:
            # As made: bags, tools and plates lie flat, bottles and cans stand.
            turn = rng.uniform(0.0, 2.0 * np.pi)
            quaternion = np.array([np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)])
        else:
            quaternion = rng.normal(size=4)
            quaternion /= np.linalg.norm(quaternion)
        height = level + 0.5 * reach + 0.005
        level += reach * (0.22 if len(objects) > 6 else 0.5) * (0.3 if upright_all else 1.0)
        poses[k] = np.concatenate([[HEAP_CENTRE[0] + at[0], HEAP_CENTRE[1] + at[1], height], quaternion])
    return poses


def _reach(model: ObjectModel) -> float:
    """About the largest extent of an object. [m]."""
    far = 0.0
    for part in model.parts:
        own = float(np.abs(part.vertices).max()) if part.vertices else float(max(part.size))
        far = max(far, float(np.linalg.norm(part.position)) + own)
    return 2.0 * far


def pack(
    g: Geometry, radius: float, bin: Bin | None, objects: Mapping[int, ObjectModel], likes: Mapping[int, int]
) -> HeapArrays:
    """A settled heap as arrays.

    Args:
        g: Its geoms; those of an object follow each other in the order of its parts.
        radius: How far it may reach from its middle. [m]
        bin: None on a bare table.
        objects: By id.
        likes: Of which object each has the looks.
    """
    middle = np.array([HEAP_CENTRE[0], HEAP_CENTRE[1], 0.0])
    positions = g.positions - middle
    role, look = np.zeros(len(g.kinds), dtype=np.uint8), np.zeros(len(g.kinds), dtype=np.uint8)
    for k, model in objects.items():
        role[g.objects == k], look[g.objects == k] = roles(model), likes[k]
    # The table is drawn as a plane; what fell off it or rolled far away is left out.
    keep = (positions[:, 2] > -0.02) & (np.linalg.norm(positions[:, :2], axis=1) < 0.8)
    far = np.linalg.norm(positions[keep & (g.objects > 0), :2], axis=1)
    if bin is None and len(far):
        radius = float(np.clip(np.quantile(far, 0.9) + 0.04, 0.08, 0.4))
    return HeapArrays(
        kinds=g.kinds[keep].astype(np.uint8),
        positions=positions[keep].astype(np.float32),
        rotations=g.rotations[keep].astype(np.float32),
        sizes=g.sizes[keep].astype(np.float32),
        boxes=g.aabbs[keep].astype(np.float32),
        objects=g.objects[keep].astype(np.uint8),
        roles=role[keep],
        looks=look[keep],
        plane_ranges=g.plane_range[keep].astype(np.int64),
        planes=g.planes.astype(np.float32),
        starts=np.array([0, int(keep.sum())]),
        radii=np.array([radius], dtype=np.float32),
        bins=np.array([bin.inner if bin else (0.0, 0.0)], dtype=np.float32),
    )


def _without_trays(heap: HeapArrays) -> HeapArrays:
    """Without the two frames that the product's table has: most tables have none."""
    trays = np.array([DISCARD, DELIVERY]) - np.array(HEAP_CENTRE)
    away = np.abs(heap.positions[:, None, :2] - trays[None]).max(axis=2).min(axis=1)
    keep = (heap.objects > 0) | (away > TRAY_HALF + 0.02)
    chosen = {name: getattr(heap, name)[keep] for name in PER_SHAPE}
    return replace(heap, **chosen, starts=np.array([0, int(keep.sum())]))


def _with_mouldings(heap: HeapArrays, rng: np.random.Generator, bin: Bin | None) -> HeapArrays:
    """With what the bin has beyond its walls."""
    made = mould(rng, bin) if bin is not None else []
    if not made:
        return heap
    n = len(made)
    added = {
        "kinds": np.array([m.kind for m in made]),
        "positions": np.array([m.at for m in made]),
        "rotations": np.array([m.rotation for m in made]),
        "sizes": np.array([m.size for m in made]),
        "boxes": np.array([(0.0, 0.0, 0.0, *m.half) for m in made]),
        "objects": np.zeros(n),
        "roles": np.array([m.role for m in made]),
        "looks": np.zeros(n),
        "plane_ranges": np.zeros((n, 2)),
    }
    both = {
        name: np.concatenate([getattr(heap, name), added[name].astype(getattr(heap, name).dtype)])
        for name in PER_SHAPE
    }
    return replace(heap, **both, starts=np.array([0, len(both["kinds"])]))


def join(heaps: Iterable[HeapArrays]) -> HeapArrays:
    """Many heaps as one."""
    many = list(heaps)
    if not many:
        raise InvalidSettingError("there are no heaps to join; let make_data run longer")
    planes = np.cumsum([0] + [len(h.planes) for h in many])
    shapes = np.cumsum([0] + [len(h.kinds) for h in many])
    plain = (*PER_SHAPE[:-1], "planes", "radii", "bins")
    joined = {name: np.concatenate([getattr(h, name) for h in many]) for name in plain}
    ranges = [h.plane_ranges + first for h, first in zip(many, planes, strict=False)]
    starts = [h.starts[:-1] + first for h, first in zip(many, shapes, strict=False)]
    return HeapArrays(
        **joined, plane_ranges=np.concatenate(ranges), starts=np.concatenate([*starts, shapes[-1:]])
    )


def write_heaps(heaps: HeapArrays, path: Path) -> None:
    """Writes heaps to a file, whole or not at all."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, **{f.name: getattr(heaps, f.name) for f in fields(heaps)})
    part.replace(path)


def read_heaps(folder: Path) -> HeapArrays:
    """All heaps of a folder, in the order of the names of the files.

    Raises:
        InvalidSettingError: The folder holds none.
    """
    files = sorted(folder.glob("heaps_*.npz"))
    if not files:
        raise InvalidSettingError(
            f"no heaps_*.npz in {folder}; make some: python -m training.make_data --out {folder}"
        )
    loaded = []
    for path in files:
        with np.load(path) as arrays:
            loaded.append(HeapArrays(**{f.name: arrays[f.name] for f in fields(HeapArrays)}))
    return join(loaded)
