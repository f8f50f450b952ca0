"""Data sets of simulated scenes: planned from a seed, made by any number of processes, always the same bytes.

    DIR/manifest.json      settings, seeds, target and tier of each case, counts; written last
    DIR/scene_00000/ …     a scene folder each, with the truths of occlusion and sweep beside each other
    DIR/.making/           while it is made: the plan, and an entry for each finished scene

One case an image: each scene has one target, so that cases are independent and need no grouping.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import ValidationError

from cpor.errors import InputFileError, InvalidSettingError
from cpor.io.pool import Pool
from cpor.io.scene_folder import write_scene_folder
from cpor.io.whole_files import ResumableFolder, open_resumable, refuse_other, write_bytes
from cpor.scene import Scene, TrueRelations
from cpor.sim.camera.look import random_look
from cpor.sim.camera.sensor import photograph, sensor_preset
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.manifest import (
    MANIFEST,
    TIERS,
    CaseEntry,
    CasePlan,
    DatasetSettings,
    Manifest,
    Tier,
    encode_manifest,
    read_manifest,
)
from cpor.sim.physics.clutter import Heap, HeapSettings, make_heap, remove_blockers
from cpor.sim.physics.installed import versions
from cpor.sim.physics.true_relations import has_cycle, lift_relations, sweep_relations

_FILES = {
    "true_occlusion": "relations.json",
    "true_sweep": "relations_sweep.json",
    "true_lift": "relations_lift.json",
}

SplitName: TypeAlias = Literal["dev", "test"]
Progress: TypeAlias = Callable[[str, int, int], None]

SPLIT_SIZES: dict[SplitName, int] = {"dev": 550, "test": 1800}
"""Cases of the product's standard split, a third a tier; as many as UNOBench's synthetic test has."""

_SPLIT_SEEDS: dict[SplitName, int] = {"dev": 1_000_000, "test": 2_000_000}
# Seeds of other data sets begin here, far above those of the splits.
_OTHER_SEEDS = 2**40

MOST_SCENES = 1_000_000
"""More is a slip of the hand: it would take weeks and terabytes, and the plan alone fills the memory."""

_MAKING = ".making"


@dataclass(frozen=True)
class DatasetPlan:
    """What to make; `split` is `dev`, `test`, or such as `seed 7, all tiers`."""

    split: str
    settings: DatasetSettings
    cases: tuple[CasePlan, ...]


def plan_dataset(
    n_scenes: int, seed: int, tier: Tier | None = None, settings: DatasetSettings | None = None
) -> DatasetPlan:
    """A data set of one's own.

    Args:
        n_scenes: How many scenes; a larger data set begins with the scenes of a smaller one.
        seed: Other seeds give other scenes, and none gives one of the standard split.
        tier: Tier of every target; None: the three in turn.
        settings: Settings of every scene.
    """
    if not 1 <= n_scenes <= MOST_SCENES or seed < 0:
        raise InvalidSettingError(
            f"{n_scenes} scenes with seed {seed}; give at least 1 and at most {MOST_SCENES:,}, and no "
            "negative seed"
        )
    drawn = np.random.default_rng([seed, 0x5CE7E]).integers(_OTHER_SEEDS, 2**62, n_scenes).tolist()
    split = f"seed {seed}, {tier or 'all tiers'}"
    return DatasetPlan(split, settings or DatasetSettings(), _cases(drawn, tier))


def plan_split(name: SplitName, settings: DatasetSettings | None = None) -> DatasetPlan:
    """The standard split of the product: `dev` to fit and choose with, `test` to report from.

    No scene is in both, nor in a data set of one's own: their seeds differ.
    """
    first = _SPLIT_SEEDS[name]
    seeds = range(first, first + SPLIT_SIZES[name])
    return DatasetPlan(name, settings or DatasetSettings(), _cases(seeds, None))


def write_dataset(
    plan: DatasetPlan,
    out: Path,
    workers: int = 1,
    progress: Progress = lambda what, done, total: None,
    engine: str = "local",
) -> Manifest:
    """Make a data set; killed and called again, it goes on, and the bytes are those of an undisturbed run.

    Args:
        plan: What to make.
        out: Its folder; made, with its parents, if absent.
        workers: Number of worker processes. The bytes are the same for any number.
        progress: Told `(what, done, total)`.
        engine: `local`, or `ray`: on a cluster whose nodes all see `out`.

    Raises:
        InputFileError: The folder holds another data set or other files, or another process writes to it.
        SimulationError: A scene cannot be made.
    """
    pool = Pool(workers, engine)
    with open_resumable(out, f"{_MAKING}/plan.json", _MAKING) as folder:
        done = _begin(plan, folder)
        todo = [case for case in plan.cases if case.name not in done]
        if todo:  # by now all that the manifest says stands in .making too
            (out / MANIFEST).unlink(missing_ok=True)
        progress("scenes", len(done), len(plan.cases))
        make = partial(_write_case, settings=plan.settings, out=out)
        for case, entry in pool.do_all(make, todo):
            folder.keep(f"{case.name}.json", entry.model_dump_json().encode())
            done[case.name] = entry
            progress("scenes", len(done), len(plan.cases))
        manifest = _manifest(plan, [done[case.name] for case in plan.cases])
        folder.finish(MANIFEST, encode_manifest(manifest))
    return manifest


def _cases(seeds: Sequence[int], tier: Tier | None) -> tuple[CasePlan, ...]:
    return tuple(
        CasePlan(name=f"scene_{k:05d}", seed=seed, tier=tier or TIERS[k % len(TIERS)])
        for k, seed in enumerate(seeds)
    )


def _begin(plan: DatasetPlan, folder: ResumableFolder) -> dict[str, CaseEntry]:
    """What is finished already."""
    out = folder.path
    planned = {case.name for case in plan.cases}
    scenes = sorted(path.name for path in out.glob("scene_*"))
    if beyond := [name for name in scenes if name not in planned]:
        raise InputFileError(
            f"{out} holds scenes beyond the {len(planned)} asked for ({beyond[0]}); ask for as many with a "
            "larger --scenes, or choose another --out"
        )
    claim = _claim(plan.split, plan.settings, versions())
    if (out / MANIFEST).is_file():  # made already: a larger set begins with it
        old = read_manifest(out)
        refuse_other(out, _claim(old.split, old.settings, old.versions), claim)
        for known in old.cases:
            folder.keep(f"{known.name}.json", known.model_dump_json().encode())
        write_bytes(folder.claim_file, json.dumps(claim).encode())
    folder.claim(claim)
    return {name: entry for name in planned if (entry := _finished(folder, name)) is not None}


def _claim(split: str, settings: DatasetSettings, versions: dict[str, str]) -> dict[str, Any]:
    """What must be the same for a data set to be gone on with."""
    return {"split": split, "settings": settings.model_dump(mode="json"), "versions": versions}


def _finished(folder: ResumableFolder, name: str) -> CaseEntry | None:
    entry = folder.kept(f"{name}.json")
    if entry is None or not (folder.path / name / "rgb.png").is_file():
        return None
    try:
        return CaseEntry.model_validate_json(entry)
    except ValidationError:
        return None


def _manifest(plan: DatasetPlan, entries: list[CaseEntry]) -> Manifest:
    tiers = Counter(entry.tier for entry in entries)
    cyclic = Counter(name for entry in entries for name in entry.cyclic)
    files = sorted({name for entry in entries for name in entry.n_relations})
    return Manifest(
        split=plan.split,
        settings=plan.settings,
        versions=versions(),
        n_cases={tier: tiers[tier] for tier in TIERS},
        n_cyclic={name: cyclic[name] for name in files},
        cases=entries,
    )


def _write_case(case: CasePlan, settings: DatasetSettings, out: Path) -> CaseEntry:
    scene, entry = simulate_case(case, settings)
    write_scene_folder(scene, out / case.name, overwrite=True)
    return entry


def simulate_case(plan: CasePlan, settings: DatasetSettings) -> tuple[Scene, CaseEntry]:
    """One scene with its truths, and what the manifest says of it."""
    camera = overhead_camera(settings.width, settings.height)
    wanted = HeapSettings(settings.container, settings.density, plan.tier, camera=camera)
    heap = remove_blockers(make_heap(plan.seed, wanted), settings.removed)
    scene = photograph_heap(heap, settings)
    all_truths: dict[str, TrueRelations | None] = {name: getattr(scene, key) for key, name in _FILES.items()}
    truths = {name: truth for name, truth in all_truths.items() if truth is not None}
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
