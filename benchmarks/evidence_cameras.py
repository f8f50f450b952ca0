"""Another camera than the tested one: is it noticed, so that nothing is promised?

    python benchmarks/evidence_cameras.py [--heaps 24]

Heaps of fresh seeds are photographed by the camera that the bundled model was tested with and by others, and
seen by our segmenter; `as_set_up` says which of them differ, as it does before a promise. Frames are kept in
out/cameras as they are measured, so a run that was stopped goes on. Figures go to out/evidence/.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from long_parts import Row, measure_parts

from cpor.errors import SimulationError
from cpor.gate.setup import setup_figures
from cpor.model import FittedModel, bundled_model
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.promise import differs_from_setup
from cpor.scene import Observation
from cpor.sim.camera.look import random_look
from cpor.sim.camera.photograph import photograph
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.camera.views import overhead_camera
from cpor.sim.physics.clutter import Heap, HeapSettings, make_heap

OUT = Path(__file__).resolve().parents[1] / "out"
CAMERAS: Mapping[str, dict[str, Any]] = {
    "as tested": {},
    "tilted by 10 degrees": {"tilt_deg": 10.0},
    "tilted by 35 degrees": {"tilt_deg": 35.0},
    "half again the field of view": {"fov_deg": 45.0},
    "half again the field of view, not calibrated": {"fov_deg": 45.0, "calibrated": False},
    "nearer, wider": {"fov_deg": 42.0, "distance": 0.45},
    "320 x 240": {"width": 320, "height": 240},
    "a perfect sensor": {"sensor": "none"},
    "a harsh sensor": {"sensor": "harsh"},
    **{f"the sensor {name}": {"sensor": name} for name in ("realsense", "phoxi", "kinect", "zed")},
}
TIERS = ("easy", "medium", "hard")
FIRST_SEED = 910_000_000
"""Far from those of the splits and of training."""

Figures = dict[str, float | None]


def figures_of(observation: Observation) -> Figures:
    """The set-up as our segmenter sees it."""
    found = setup_figures(SEGMENTER.segment(observation))
    return {name: None if np.isnan(value) else value for name, value in found.items()}


SEGMENTER = OnnxSegmenter()


def shoot(heap: Heap, sensor: str = "default", calibrated: bool = True, **camera: Any) -> Observation:
    """A heap as a camera sees it."""
    rng = np.random.default_rng((heap.seed, 0x100C))
    setup = overhead_camera(**camera)
    seen = photograph(heap.world, setup, random_look(rng), sensor_preset(sensor), rng).observation
    return seen if calibrated else replace(seen, camera=replace(seen.camera, intrinsics=None))


def photograph_heap(number: int) -> dict[str, Figures]:
    """A heap under every camera; nothing where none comes of its seed."""
    try:
        settings = HeapSettings(container="bin", density="dense", tier=TIERS[number % 3])
        heap = make_heap(FIRST_SEED + number, settings)
    except SimulationError:
        return {}
    return {name: figures_of(shoot(heap, **camera)) for name, camera in CAMERAS.items()}


def kept(count: int) -> Iterator[dict[str, Figures]]:
    """Every heap; those of an earlier run are read."""
    file = OUT / "cameras" / f"{SEGMENTER.fingerprint.partition('@')[2][:8]}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    done = [json.loads(line) for line in file.read_text().splitlines()]
    yield from done[:count]
    for number in range(len(done), count):
        made = photograph_heap(number)
        with file.open("a") as lines:
            lines.write(json.dumps(made) + "\n")
        yield made


def rows_of(heaps: list[dict[str, Figures]]) -> list[Row]:
    """How often each camera is told from the tested one, and by what."""
    model = FittedModel.load(bundled_model("embedded"))
    rows: list[Row] = []
    for camera in CAMERAS:
        seen = [heap[camera] for heap in heaps if heap]
        apart = [
            differs_from_setup(model, {name: np.nan if v is None else v for name, v in each.items()})
            for each in seen
        ]
        by = sorted({name for each in apart for name in each})
        n = sum(bool(each) for each in apart)
        asked, what = (
            ("at most 10 %", "doubted although")
            if camera == "as tested"
            else ("all", "noticed, so no promise")
        )
        says = f"{n} of {len(seen)}" + (f" (by {', '.join(by)})" if by else "")
        point = f"another camera {what}: {camera}, heaps of fresh seeds"
        rows.append(("safe", point, asked, says))
    return rows


def measure_cameras(heaps: int = 24) -> list[Row]:
    """Measure the rows."""
    return rows_of(list(kept(heaps)))


if __name__ == "__main__":
    measure_parts({"cameras": measure_cameras}, __doc__)
