"""Earn the promise of the bundled models again, on fresh scenes and for every kind of cases.

Simulates heaps of a seed of their own, a third of them untouched and the others after up to three removals.
Our networks and true masks show each, and the promise is tested for free and buried targets in untouched and
in worked heaps, each by itself. The stages of the models stay as they are. What was measured is kept, so a
stopped run goes on; after a change of networks or evidence it needs another folder. `--write` writes the
model files and prints their digests for `cpor.model`.

Run: python benchmarks/promise_strata.py --out DIR [--scenes 1200] [--workers 2] [--write]
"""

import argparse
import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from evidence_page import Row, keep
from scipy.special import betaincinv

from cpor.errors import SimulationError
from cpor.fitting import FitSettings
from cpor.fitting.fit import promise_by_stratum
from cpor.fitting.labelled import LabelledScene
from cpor.io.pool import Pool
from cpor.io.whole_files import write_bytes
from cpor.model import BUNDLED_DIGESTS, Bundled, FittedModel, bundled_model
from cpor.paper.perceived import PerceptionSettings, see
from cpor.pipeline import Pipeline
from cpor.scene import Scene
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.make import photograph_heap, plan_dataset
from cpor.sim.dataset.manifest import CasePlan, DatasetSettings
from cpor.sim.physics.clutter import HeapSettings, make_heap, remove_blockers
from cpor.sources import fingerprint

SEED = 20261122
"""Of scenes that nothing was trained, fitted or chosen on; the model of true masks was tested on 20261121."""

DELTA = 0.1
"""One minus the confidence."""


def removed(number: int) -> int:
    """How many blockers to take away before the look, if the target has so many."""
    return 1 + number // 3 % 3 if number % 3 else 0


@cache
def measuring(kind: Bundled) -> Pipeline:
    """The stage of a model that measures, without those that judge what was measured."""
    return Pipeline(measure=FittedModel.load(bundled_model(kind)).pipeline().measure)


def photographed(out: Path, numbered: tuple[int, CasePlan]) -> tuple[Scene, int] | None:
    """A case's scene, and how many objects were taken out before; None where no heap comes of it."""
    number, case = numbered
    path, settings = out / f"{number:05d}.scene.pkl", DatasetSettings(removed=removed(number))
    if path.is_file():
        kept: tuple[Scene, int] | None = pickle.loads(path.read_bytes())
        return kept
    camera = overhead_camera(settings.width, settings.height)
    made = None
    try:
        whole = make_heap(
            case.seed, HeapSettings(container="bin", density="dense", tier=case.tier, camera=camera)
        )
        heap = remove_blockers(whole, settings.removed)
        made = photograph_heap(heap, settings), len(whole.world.objects) - len(heap.world.objects)
    except SimulationError:
        pass
    write_bytes(path, pickle.dumps(made))
    return made


def measured(out: Path, numbered: tuple[int, CasePlan]) -> dict[str, Any] | None:
    """A case as both models read it, and how many objects were taken out; None where no heap comes of it."""
    number, _ = numbered
    path = out / f"{number:05d}.pkl"
    if path.is_file():
        kept: dict[str, Any] | None = pickle.loads(path.read_bytes())
        return kept
    found = None
    if (made := photographed(out, numbered)) is not None:
        scene, gone = made
        found = {"gone": gone}
        seen, _ = see(scene, PerceptionSettings(segmenter="ours"))
        for kind, shown in (("embedded", seen), ("geometry", replace(scene, semantic_scores=None))):
            found[kind] = (
                LabelledScene.read(f"promise {number:05d}", shown, measuring(kind), "any")
                if shown.ids
                else None
            )
    write_bytes(path, pickle.dumps(found))
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
        said = f"{wrong / max(acted, 1):.3f} [{low:.3f}, {high:.3f}] ({wrong} of {acted}; {n} cases)"
        yield Row(
            "calibrated", f"wrong actions under the promise, {masks}, {name}", f"<= {promise.alpha}", said
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scenes", type=int, default=1200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the models of the package")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    cases = list(enumerate(plan_dataset(asked.scenes, SEED).cases))
    made = dict(Pool(asked.workers).do_all(partial(measured, asked.out), cases))
    known = [found for case in cases if (found := made[case])]
    rows: list[Row] = []
    for kind in BUNDLED_DIGESTS:
        read = [found[kind] for found in known if found[kind] is not None]
        worked = {found[kind].name for found in known if found["gone"] and found[kind] is not None}
        settings = FitSettings(delta=DELTA)
        model = promise_by_stratum(FittedModel.load(bundled_model(kind)), read, settings, worked)
        rows += rows_of(kind, model)
        if asked.write:
            geometry = fingerprint(measuring(kind).measure)
            model = model.model_copy(update={"seal": None, "geometry_weights": geometry})
            model.save(bundled_model(kind))
            print(kind, model.digest)
    for row in rows:
        print(" | ".join(row))
    keep({"promise_strata": rows})


if __name__ == "__main__":
    main()
