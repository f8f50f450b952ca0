"""The promise under another camera than the tested one: is it withdrawn, and if not, is it kept?

    python benchmarks/evidence_cameras.py [--heaps 60] [--draws 200]

Heaps of fresh seeds are photographed by the tested camera and by others, seen by our networks, and decided by
`System` for the target and two more objects. Then thresholds are chosen and tested on cases of the tested
camera drawn anew, as `cpor fit` does, and each promise is held against the promised cases of every camera.
Frames are kept in out/cameras as they are decided, so a run that was stopped goes on. Figures go to
docs/evidence.json.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import keep
from long_parts import Row

from cpor.decision import Defer
from cpor.errors import SimulationError
from cpor.experiments.perceived import PerceptionSettings, see
from cpor.gate.setup import setup_figures
from cpor.model import FittedModel, bundled_model
from cpor.risk.control import control_risk
from cpor.risk.tau_grid import choose_tau_grid
from cpor.scene import Scene
from cpor.sim.camera.look import random_look
from cpor.sim.camera.photograph import photograph
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.camera.views import cast_views, overhead_camera
from cpor.sim.physics.clutter import Heap, HeapSettings, make_heap
from cpor.sim.physics.truth import occlusion_relations, sweep_relations
from cpor.system import System
from cpor.truth import is_wrong, truth_of

OUT = Path(__file__).resolve().parents[1] / "out"
CAMERAS: Mapping[str, dict[str, Any]] = {
    "as tested": {},
    "tilted by 15 degrees": {"tilt_deg": 15.0},
    "tilted by 35 degrees": {"tilt_deg": 35.0},
    "half again the field of view": {"fov_deg": 45.0},
    "nearer, wider": {"fov_deg": 42.0, "distance": 0.45},
    "320 x 240": {"width": 320, "height": 240},
    "a perfect sensor": {"sensor": "none"},
    "a harsh sensor": {"sensor": "harsh"},
}
TIERS = ("easy", "medium", "hard")
FIRST_SEED = 910_000_000
"""Far from those of the splits and of training."""


def shoot(heap: Heap, sensor: str = "default", **camera: Any) -> Scene:
    """A heap as a camera sees it, with the truth from there."""
    setup = overhead_camera(**camera)
    views = cast_views(heap.world, setup)
    rng = np.random.default_rng((heap.seed, 0x100C))
    scene = photograph(heap.world, setup, random_look(rng), sensor_preset(sensor), rng, views)
    return replace(scene, true_occlusion=occlusion_relations(views), true_sweep=sweep_relations(heap.world))


def decide(scene: Scene, target: int, rng: np.random.Generator) -> dict[str, Any]:
    """The forced action for some objects: its least score, whether it is wrong, whether all is measured."""
    seen, known = see(scene, PerceptionSettings())
    system = System()
    view = system.look(seen)
    outlook = system.outlook(view)
    truth = truth_of(seen, "any").pairs
    asked = [known.find(target), *rng.permutation(seen.ids).tolist()]
    said = []
    for label in list(dict.fromkeys(each for each in asked if each in seen.ids))[:3]:
        answer = system.decide(view, label, tau=0.0)
        action, decision = answer.action, answer.decision
        measured = all(check.state == "pass" for check in answer.checks if check.name == "measured")
        assert decision is not None and action is not None
        least = 0.0 if isinstance(action, Defer) else decision.interval(action.obj)[0]
        said.append([least, is_wrong(action, label, truth), measured])
    return {
        "promised": outlook.promise is not None,
        "why": outlook.notes[-1],
        "figures": {name: None if np.isnan(v) else v for name, v in setup_figures(view.scene).items()},
        "cases": said,
    }


def run(heaps: int) -> Iterator[dict[str, dict[str, Any]]]:
    """Each heap under every camera; those of an earlier run are read."""
    made = hashlib.blake2b(bundled_model("embedded").read_bytes(), digest_size=4).hexdigest()
    file = OUT / "cameras" / f"{made}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    done = [json.loads(line) for line in file.read_text().splitlines()]
    yield from done[:heaps]
    for number in range(len(done), heaps):
        rng = np.random.default_rng([20261116, number])
        try:
            settings = HeapSettings(container="bin", density="dense", tier=TIERS[number % 3])
            heap = make_heap(FIRST_SEED + number, settings)
        except SimulationError:
            said = {}
        else:
            said = {name: decide(shoot(heap, **camera), heap.target, rng) for name, camera in CAMERAS.items()}
        with file.open("a") as lines:
            lines.write(json.dumps(said) + "\n")
        yield said


def rows_of(heaps: list[dict[str, dict[str, Any]]], draws: int) -> list[Row]:
    """How often each camera is promised, and how often what was promised is broken there."""
    model = FittedModel.load(bundled_model("embedded"))
    tau, alpha, delta = model.promise.tau, model.promise.alpha, model.promise.delta
    frames = {name: [heap[name] for heap in heaps if name in heap] for name in CAMERAS}
    tested = frames["as tested"]
    rng = np.random.default_rng(20261116)
    n = len(tested)
    # One case a scene, as in the test of a promise.
    chosen = [frame["cases"][0] for frame in tested if frame["cases"]]
    score, wrong = np.array([c[0] for c in chosen]), np.array([bool(c[1]) for c in chosen])
    taus = []
    for _ in range(draws):
        first, second = (rng.integers(len(chosen), size=size) for size in (200, 300))
        grid = choose_tau_grid(score[first], wrong[first], alpha, delta, n_calibration=300)
        taus.append(control_risk(score[second], wrong[second], alpha, delta, grid).tau)
    rows: list[Row] = []
    for name, seen in frames.items():
        promised = [frame for frame in seen if frame["promised"]]
        cases = [case for frame in promised for case in frame["cases"] if case[2]]
        acts = [case for case in cases if tau is not None and case[0] > tau]
        bad = sum(bool(case[1]) for case in acts)
        broken = [each for each in taus if each is not None and _rate(cases, each) > alpha]
        asked = "reported" if name == "as tested" else "0"
        says = f"{len(promised)} of {len(seen)} frames"
        if cases:
            says += f"; {bad} of {len(acts)} promised actions wrong; promise of {draws} draws broken by "
            says += f"{len(broken)} of {sum(each is not None for each in taus)}"
        rows.append(("safe", f"promised with another camera: {name}, {n} fresh heaps", asked, says))
    return rows


def _rate(cases: list[Any], tau: float) -> float:
    acted = [bool(case[1]) for case in cases if case[0] > tau]
    return float(np.mean(acted)) if acted else 0.0


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heaps", type=int, default=60)
    parser.add_argument("--draws", type=int, default=200)
    asked = parser.parse_args()
    rows = rows_of(list(run(asked.heaps)), asked.draws)
    for row in rows:
        print(" | ".join(row))
    keep({"cameras": rows})


if __name__ == "__main__":
    main()
