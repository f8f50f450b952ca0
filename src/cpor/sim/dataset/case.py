"""One scene of a data set, from its seed: heap, photograph and the truths about it."""

from dataclasses import replace

import numpy as np

from cpor.scene import Scene, TrueRelations
from cpor.sim.camera.look import random_look
from cpor.sim.camera.photograph import photograph
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.manifest import CaseEntry, CasePlan, DatasetSettings
from cpor.sim.physics.clutter import Heap, HeapSettings, make_heap, remove_blockers
from cpor.sim.physics.true_relations import has_cycle, lift_relations, sweep_relations

_FILES = {
    "true_occlusion": "relations.json",
    "true_sweep": "relations_sweep.json",
    "true_lift": "relations_lift.json",
}


def simulate_case(plan: CasePlan, settings: DatasetSettings) -> tuple[Scene, CaseEntry]:
    """One scene with its truths, and what the manifest says of it.

    Raises:
        SimulationError: No heap as asked comes of the seed.
    """
    heap = make_heap(
        plan.seed,
        HeapSettings(
            container=settings.container,
            density=settings.density,
            tier=plan.tier,
            camera=overhead_camera(settings.width, settings.height),
        ),
    )
    heap = remove_blockers(heap, settings.removed)
    scene = photograph_heap(heap, settings)
    truths: dict[str, TrueRelations] = {
        name: truth for key, name in _FILES.items() if (truth := getattr(scene, key)) is not None
    }
    entry = CaseEntry(
        name=plan.name,
        seed=heap.seed,
        target=heap.target,
        request=scene.request or "",
        tier=heap.tier,
        n_objects=len(heap.world.objects),
        n_relations={name: len(truth.pairs) for name, truth in truths.items()},
        cyclic=[name for name, truth in truths.items() if has_cycle(truth)],
    )
    return scene, entry


def photograph_heap(heap: Heap, settings: DatasetSettings) -> Scene:
    """What the camera sees of a heap, in a light of its own, with the truths that were asked for."""
    rng = np.random.default_rng((heap.seed, 0x100C))
    look, sensor = random_look(rng), sensor_preset(settings.sensor)
    scene = photograph(heap.world, heap.camera, look, sensor, rng, views=heap.views)
    return replace(
        scene,
        request=f"the {heap.target_name}",
        true_occlusion=heap.occlusion,
        true_sweep=sweep_relations(heap.world),
        true_lift=lift_relations(heap.world) if settings.lift else None,
    )
