"""Heaps to order: objects dropped into a bin or onto a table, with a target buried as deep as asked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import mujoco
import numpy as np
from jaxtyping import Float

from cpor.errors import InvalidSettingError, SimulationError
from cpor.scene import TrueRelations
from cpor.sim.camera.views import CameraSetup, Views, cast_views, overhead_camera
from cpor.sim.dataset.manifest import Tier
from cpor.sim.objects.catalogue import bounds, catalogue, rotation
from cpor.sim.objects.solids import ObjectModel
from cpor.sim.physics.build import build_world
from cpor.sim.physics.settle import drift, settle, settle_roughly
from cpor.sim.physics.true_relations import occlusion_relations, sweep_relations, tier_of, union
from cpor.sim.physics.world import HEAP_CENTRE, Bin, World
from cpor.truth import right_actions

Container: TypeAlias = Literal["bin", "table"]
Density: TypeAlias = Literal["loose", "dense", "heaped"]

MAX_DRIFT = 0.001
"""Nothing moves farther than this in the second after a heap has come to rest. [m]"""

QUIET_DRIFT = 2e-5
"""A heap in which nothing moved farther than this in the first half of that second is not watched any longer:
in the other half, drift grew by less than 20 times in every heap looked at. [m]"""

MAX_PENETRATION = 0.001
"""A heap with a deeper overlap is dropped again. [m]"""

FALL_SPEED = 1.5
"""Nothing falls faster: at this speed a step of the physics is 3 mm, less than the wall of a mug. [m/s]"""

LANDED_SPEED = 0.25
"""When all are slower, the funnel is taken away. [m/s]"""

MAX_DROP_STEPS = 900

SLIPPERY = 0.4
"""Share of its friction an object has while it falls: heaps get lower, and rest safely with all of it."""

PLACES_TRIED = 6
"""Places thrown for an object above the heap, of which the lowest is taken: a lower stack falls sooner."""

MAX_TIDYINGS = 3
"""How often what fell out is taken off, or a restless heap gets more time, before it is given up."""

GAP = 0.002
"""Between two objects before they fall. [m]"""

MIN_VISIBLE_PX, MIN_VISIBLE_SHARE = 150, 0.08
"""A target shows so many pixels at 640 x 480, in proportion elsewhere, and this share of its own pixels."""

TABLE_REACH = 0.17
"""How far from the middle an object may end up on a bare table. [m]"""


CROWDS: Mapping[Density, tuple[tuple[int, int], Bin, tuple[float, float]]] = {
    "loose": ((6, 8), Bin((0.26, 0.21)), (0.24, 0.19)),
    "dense": ((9, 12), Bin((0.22, 0.18), height=0.06), (0.20, 0.16)),
    "heaped": ((13, 16), Bin((0.23, 0.19), height=0.07), (0.21, 0.17)),
}
"""Fewest and most objects; the bin; inner size of what they fall through, gone when they come to rest. [m]"""


@dataclass(frozen=True)
class HeapSettings:
    """What kind of heap to make.

    Attributes:
        container: A bin, or the bare table.
        density: How crowded.
        tier: How deep the target must be buried, by occlusion; None takes any target that can be seen.
        objects: What to draw from; None for the whole catalogue.
        count: How many objects; None draws from the range of the density.
        camera: From where tiers and visibility are judged; None for the usual camera overhead.
        max_tries: Heaps to make before giving up.
    """

    container: Container = "bin"
    density: Density = "dense"
    tier: Tier | None = None
    objects: tuple[ObjectModel, ...] | None = None
    count: int | None = None
    camera: CameraSetup | None = None
    max_tries: int = 200

    def __post_init__(self) -> None:
        if self.density not in CROWDS:
            raise InvalidSettingError(f"unknown density {self.density!r}; one of: {', '.join(CROWDS)}")
        if self.container not in ("bin", "table"):
            raise InvalidSettingError(f"unknown container {self.container!r}; one of: bin, table")
        if self.tier not in (None, "easy", "medium", "hard"):
            raise InvalidSettingError(f"unknown tier {self.tier!r}; one of: easy, medium, hard, None")
        if self.count is not None and not 1 <= self.count <= len(self.choice):
            raise InvalidSettingError(f"count is {self.count}; it must lie within 1 and {len(self.choice)}")
        if self.max_tries < 1:
            raise InvalidSettingError(f"max_tries is {self.max_tries}; it must be at least 1")

    @property
    def choice(self) -> tuple[ObjectModel, ...]:
        """The objects to draw from."""
        return catalogue() if self.objects is None else self.objects


@dataclass(frozen=True, eq=False)
class Heap:
    """A heap at rest and the object asked for.

    Attributes:
        world: The heap; its state is the caller's to change.
        target: Object to retrieve.
        tier: How deep it is buried.
        seed: From which all of it follows.
        settings: What was asked for.
        camera: From where the tier was judged.
        tries: Heaps made until one was right.
        views: What the camera sees, without noise.
        occlusion: Which objects hide which, from there.
        penetration_m: Deepest overlap in the heap. [m]
    """

    world: World
    target: int
    tier: Tier
    seed: int
    settings: HeapSettings
    camera: CameraSetup
    tries: int
    views: Views
    occlusion: TrueRelations
    penetration_m: float

    @property
    def target_name(self) -> str:
        """What the target is called."""
        return self.world.objects[self.target].name


def make_heap(seed: int, settings: HeapSettings) -> Heap:
    """The heap of a seed: the same bytes wherever and whenever it is made."""
    if seed < 0:
        raise InvalidSettingError(f"seed is {seed}; it must be 0 or more")
    camera = settings.camera if settings.camera is not None else overhead_camera()
    for attempt in range(settings.max_tries):
        rng = np.random.default_rng((seed, attempt))
        dropped = drop_heap(rng, settings)
        if dropped is None:
            continue
        world, depth = dropped
        views = cast_views(world, camera)
        truth = occlusion_relations(views)
        targets = list(_targets(world, views, truth, settings))
        # Watched for another second: a heap may rest for a moment and fall after all.
        if targets and drift(world, quiet_m=QUIET_DRIFT) < MAX_DRIFT:
            target = int(rng.choice(targets))
            tier, tries = tier_of(target, truth), attempt + 1
            return Heap(world, target, tier, seed, settings, camera, tries, views, truth, depth)
    asked = f"{settings.tier or 'visible'} target in a {settings.density} {settings.container}"
    raise SimulationError(
        f"no {asked} within {settings.max_tries} heaps of seed {seed}; take a denser heap or another seed"
    )


def remove_blockers(heap: Heap, count: int) -> Heap:
    """The heap after so many blockers of its target were taken out in a right order, at rest again.

    Fewer are taken where the target lies free before, where the truth knows no right next one, or where the
    rest would not come to rest. Objects are counted anew from 1.
    """
    rng = np.random.default_rng((heap.seed, 0x4E30))
    for _ in range(count):
        truth = union((heap.occlusion, sweep_relations(heap.world)))
        next_ones = sorted(right_actions(heap.target, truth) - {heap.target})
        if not next_ones:
            break
        taken = int(rng.choice(next_ones))
        kept = [obj for obj in heap.world.objects if obj != taken]
        world, target = _keep(heap.world, kept), kept.index(heap.target) + 1
        still, depth = settle(world)
        if not still or len(_inside(world)) < len(kept) or drift(world, quiet_m=QUIET_DRIFT) >= MAX_DRIFT:
            break
        views = cast_views(world, heap.camera)
        occlusion = occlusion_relations(views)
        if target not in occlusion.objects or not (views.visible_ids == target).any():
            break
        heap = replace(heap, world=world, target=target, tier=tier_of(target, occlusion))
        heap = replace(heap, views=views, occlusion=occlusion, penetration_m=depth)
    return heap


def drop_heap(rng: np.random.Generator, settings: HeapSettings) -> tuple[World, float] | None:
    """One heap at rest and its deepest overlap in metres; None where too much fell out, or did not rest.

    What falls beside the bin, or rolls away over the table, is taken off before the rest is settled.
    """
    (few, many), bin, funnel = CROWDS[settings.density]
    if settings.count is not None:
        few = many = settings.count
    count = min(int(rng.integers(min(few + 1, many), many + 1)), len(settings.choice))
    drawn = rng.choice(len(settings.choice), count, replace=False)
    objects = {k: settings.choice[int(n)] for k, n in enumerate(drawn, start=1)}
    poses = _stack(rng, objects, funnel)
    top = max(float(pose[2]) for pose in poses.values())
    falling = build_world(objects, poses, Bin(funnel, height=top + 0.2))
    falling.model.geom_friction[:, 0] *= SLIPPERY
    _fall(falling)
    place = bin if settings.container == "bin" else None
    loose = build_world(objects, falling.poses(), place)
    loose.model.geom_friction[:, 0] *= SLIPPERY
    settle_roughly(loose)
    for _ in range(MAX_TIDYINGS):
        inside = _inside(loose)
        if len(inside) < min(few, count):
            return None
        world = _keep(loose, inside)
        still, depth = settle(world)
        if still and len(_inside(world)) == len(inside):
            return (world, depth) if depth < MAX_PENETRATION else None
        loose = world
    return None


def _keep(world: World, kept: list[int]) -> World:
    """The world with these objects only, counted anew from 1."""
    ids = dict(enumerate(kept, start=1))
    objects = {k: world.objects[obj] for k, obj in ids.items()}
    return build_world(objects, {k: world.pose(obj) for k, obj in ids.items()}, world.bin)


def _stack(
    rng: np.random.Generator, objects: Mapping[int, ObjectModel], inner: tuple[float, float]
) -> dict[int, Float[np.ndarray, " 7"]]:
    """Poses above each other inside the walls, as low as a few throws of the dice allow, not touching."""
    poses: dict[int, Float[np.ndarray, " 7"]] = {}
    floor = np.array(HEAP_CENTRE) - np.array(inner) / 2
    boxes = np.empty((0, 2, 3))
    for obj, model in objects.items():
        quaternion, low, high = _lie_down(rng, model, inner)
        size = high - low
        corners = floor + (np.array(inner) - size[:2]) * rng.uniform(size=(PLACES_TRIED, 2))
        heights = [_first_free(corner, size, boxes) for corner in corners]
        best = int(np.argmin(heights))
        corner = np.array((*corners[best], heights[best]))
        boxes = np.concatenate((boxes, np.stack((corner, corner + size + GAP))[None]))
        poses[obj] = np.concatenate((corner - low, quaternion))
    return poses


def _first_free(corner: np.ndarray, size: np.ndarray, boxes: np.ndarray) -> float:
    """Height above every box that shares ground with one of this size at this corner. [m]."""
    over = (corner < boxes[:, 1, :2]).all(axis=1) & (corner + size[:2] + GAP > boxes[:, 0, :2]).all(axis=1)
    return float(boxes[over, 1, 2].max(initial=0.01))


def _lie_down(
    rng: np.random.Generator, model: ObjectModel, inner: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random turn in which the object fits between the walls, the flatter of two such; and its box."""
    box = bounds(model)
    corners = np.array([[box[a, 0], box[b, 1], box[c, 2]] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    fits: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []
    for tries in range(60):
        quaternion = rng.normal(size=4)
        quaternion /= np.linalg.norm(quaternion)
        turned = corners @ rotation(quaternion).T
        low, high = turned.min(axis=0), turned.max(axis=0)
        if (high - low)[:2].max() < min(inner) or tries == 59:
            fits.append((float(high[2] - low[2]), quaternion, low, high))
        if len(fits) == 2:
            break
    return min(fits, key=lambda fit: fit[0])[1:]


def _fall(world: World) -> None:
    """Lets the stack fall, no faster than the walls of a mug can stop, until all have landed."""
    model, data = world.model, world.data
    # While things still fall, the costly step that keeps heaps from creeping is of no use.
    noslip, model.opt.noslip_iterations = model.opt.noslip_iterations, 0
    first = [model.body_dofadr[body] for body in world.body_of.values()]
    dofs = np.add.outer(np.array(first, dtype=int), np.arange(3))
    data.qvel[dofs[:, 2]] = -FALL_SPEED
    highest = max(float(world.pose(obj)[2]) for obj in world.objects)
    least_steps = int(0.6 * highest / (FALL_SPEED * model.opt.timestep))
    for step in range(MAX_DROP_STEPS):
        mujoco.mj_step(model, data)
        speeds = data.qvel[dofs]
        fastest = float(np.abs(speeds).max())
        if step > least_steps and fastest < LANDED_SPEED:
            break
        if fastest > FALL_SPEED:
            data.qvel[dofs] = np.clip(speeds, -FALL_SPEED, FALL_SPEED)
    model.opt.noslip_iterations = noslip


def _inside(world: World) -> list[int]:
    """The objects with their centre of mass in the bin, or near the middle of the table."""
    offsets = world.data.xipos[list(world.body_of.values()), :2] - np.array(HEAP_CENTRE)
    if world.bin is None:
        within = np.linalg.norm(offsets, axis=1) < TABLE_REACH
    else:
        within = (np.abs(offsets) < np.array(world.bin.inner) / 2).all(axis=1)
    return [obj for obj, here in zip(world.objects, within, strict=True) if here]


def _targets(world: World, views: Views, truth: TrueRelations, settings: HeapSettings) -> Iterator[int]:
    """The objects one can ask for: they show enough of themselves and lie as deep as wanted."""
    shown = np.bincount(views.visible_ids.reshape(-1), minlength=max(world.objects) + 1)
    pixels = MIN_VISIBLE_PX * views.visible_ids.size / (640 * 480)
    for obj in sorted(truth.objects):
        whole = int(views.amodal[obj].pixels.sum())
        seen_enough = shown[obj] >= max(pixels, MIN_VISIBLE_SHARE * whole)
        if seen_enough and settings.tier in (None, tier_of(obj, truth)):
            yield obj
