"""Earn the promise of the bundled models again, on fresh scenes and for every kind of cases.

Simulates heaps of a seed of their own, a third of them untouched and the others after up to three removals.
Our networks and true masks show each, and the promise is tested for free and buried targets in untouched and
in worked heaps, each by itself. The stages of the models stay as they are. What was measured is kept, so a
stopped run goes on. `--write` writes the model files and prints their digests for `cpor.model`.

Run: python benchmarks/promise_strata.py --out DIR [--scenes 1200] [--write]
"""

import argparse
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from evidence_page import Row, keep
from scipy.special import betaincinv

from cpor.errors import SimulationError
from cpor.experiments.perceived import PerceptionSettings, see
from cpor.fitting import FitSettings
from cpor.fitting.fit import promise_by_stratum
from cpor.fitting.labelled import LabelledScene
from cpor.model import BUNDLED_DIGESTS, FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.case import photograph_heap
from cpor.sim.dataset.make import DatasetSettings, plan_dataset
from cpor.sim.physics.clutter import HeapSettings, make_heap, remove_blockers

SEED = 20261201
"""Of scenes that nothing was trained, fitted or chosen on."""

DELTA = 0.1
"""One minus the confidence."""

LOOKS = 2
"""The first 986 scenes were tested for 5 % in every kind before, and did not support it."""


def removed(number: int) -> int:
    """How many blockers to take away before the look, if the target has so many."""
    return 1 + number // 3 % 3 if number % 3 else 0


def measured(number: int, seed: int, tier: Any, out: Path) -> dict[str, Any] | None:
    """A case as both models read it, and how many objects were taken out; None where no heap comes of it."""
    path = out / f"{number:05d}.pkl"
    if path.is_file():
        kept: dict[str, Any] | None = pickle.loads(path.read_bytes())
        return kept
    settings, found = DatasetSettings(removed=removed(number)), None
    try:
        camera = overhead_camera(settings.width, settings.height)
        whole = make_heap(seed, HeapSettings(container="bin", density="dense", tier=tier, camera=camera))
        heap = remove_blockers(whole, settings.removed)
    except SimulationError:
        heap = None
    if heap is not None:
        scene = photograph_heap(heap, settings)
        found = {"gone": len(whole.world.objects) - len(heap.world.objects)}
        seen, _ = see(scene, PerceptionSettings(segmenter="ours"))
        for kind, shown in (("embedded", seen), ("geometry", replace(scene, semantic_scores=None))):
            raw = Pipeline(measure=FittedModel.load(bundled_model(kind)).pipeline().measure)
            found[kind] = (
                LabelledScene.read(f"promise {number:05d}", shown, raw, "any") if shown.ids else None
            )
    path.write_bytes(pickle.dumps(found))
    return found


def rows_of(kind: str, model: FittedModel) -> Iterator[Row]:
    """What is promised, and the errors of each kind of cases with exact intervals."""
    promise = model.promise
    masks = {"embedded": "our masks", "geometry": "true masks"}[kind]
    told = (
        f"at most {promise.alpha} wrong above {promise.tau:.3f}"
        if promise.tau is not None
        else f"not made: {promise.reason}"
    )
    yield Row(
        "calibrated", f"promise for every kind of cases, {masks}", "made",
        f"{told}; acts on {promise.n_executed} of {promise.n}",
    )  # fmt: skip
    for name, (n, acted, wrong) in promise.strata.items():
        low = float(betaincinv(wrong, acted - wrong + 1, 0.025)) if wrong else 0.0
        high = float(betaincinv(wrong + 1, acted - wrong, 0.975)) if wrong < acted else 1.0
        said = f"{wrong} of {acted}, {wrong / max(acted, 1):.3f} [{low:.3f}, {high:.3f}]; {n} cases"
        yield Row(
            "calibrated", f"wrong actions under the promise, {masks}, {name}", f"<= {promise.alpha}", said
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scenes", type=int, default=1200)
    parser.add_argument("--write", action="store_true", help="write the models of the package")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    cases = plan_dataset(asked.scenes, SEED).cases
    known = [found for k, case in enumerate(cases) if (found := measured(k, case.seed, case.tier, asked.out))]
    rows: list[Row] = []
    for kind in BUNDLED_DIGESTS:
        read = [found[kind] for found in known if found[kind] is not None]
        worked = {found[kind].name for found in known if found["gone"] and found[kind] is not None}
        settings = FitSettings(delta=DELTA)
        model = promise_by_stratum(FittedModel.load(bundled_model(kind)), read, settings, worked, LOOKS)
        rows += rows_of(kind, model)
        if asked.write:
            model.model_copy(update={"seal": None}).save(bundled_model(kind))
            print(kind, model.digest)
    for row in rows:
        print(" | ".join(row))
    keep({"promise_strata": rows})


if __name__ == "__main__":
    main()
