"""Whether the gate finds what is wrong with an input, and leaves alone what is not.

Every fault of gate_faults.py is put into photographs and simulated scenes. Caught: a check doubts or fails.
Masks are those that our segmenter finds in the faulty frame, unless the fault is in the masks. Shares go to
out/evidence/, the counts behind them to out/evidence_gate.json.

Run: python benchmarks/evidence_gate.py [--simulated 200] [--sets osd_learn,real_rgbd,simulated]
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import keep
from gate_faults import FAULTS, Faulty
from long_parts import Row

from cpor.gate.check import Check
from cpor.gate.frame import check_frame
from cpor.gate.masks import check_masks
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Scene
from cpor.sim.dataset.make import plan_dataset, write_dataset
from cpor.sim.dataset.manifest import DatasetSettings

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")
OUT = ROOT / "out"

KINDS = {
    "bin": (0.5, 9201, DatasetSettings()),
    "table": (0.3, 9202, DatasetSettings(container="table", density="loose")),
    "heaped": (0.2, 9203, DatasetSettings(density="heaped")),
}
"""Share of the simulated scenes, seed and settings of each kind. No threshold was chosen on these seeds."""

UNTOUCHED, GIVEN = "untouched", "untouched, masks as given"


@dataclass
class Tally:
    """One fault in one set. `by_frame`: caught without masks."""

    n: int = 0
    by_frame: int = 0
    doubted: int = 0
    failed: int = 0
    checks: dict[str, int] = field(default_factory=dict)

    @property
    def caught(self) -> int:
        """Doubted or failed."""
        return self.doubted + self.failed

    def count(self, frame: Sequence[Check], masks: Sequence[Check]) -> None:
        """Add a case."""
        bad = [check for check in (*frame, *masks) if check.state != "pass"]
        self.n += 1
        self.by_frame += any(check.state != "pass" for check in frame)
        self.failed += any(check.state == "fail" for check in bad)
        self.doubted += bool(bad) and all(check.state == "doubt" for check in bad)
        for check in bad:
            self.checks[check.name] = self.checks.get(check.name, 0) + 1


class Bench:
    """Tallies of one set of scenes."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.times_ms: dict[str, list[float]] = {"check_frame": [], "check_masks": []}
        self._segmenter = OnnxSegmenter()

    def add(self, scenes: Sequence[Scene]) -> None:
        """Untouched and with every fault."""
        for k, scene in enumerate(scenes):
            alike = [s for s in scenes if s is not scene and s.observation.shape == scene.observation.shape]
            other = alike[k % len(alike)] if alike else None
            found = self._segmenter.segment(scene.observation)
            before = other.observation if other else None
            self._count(UNTOUCHED, Faulty(found, before, masks_given=True), timed=True)
            if scene.visible_ids is not None:
                self._count(GIVEN, Faulty(scene, before, masks_given=True))
            masked = scene if scene.visible_ids is not None else found
            if other is not None and other.visible_ids is None:
                other = self._segmenter.segment(other.observation)
            for number, (name, fault) in enumerate(FAULTS.items()):
                if faulty := fault(masked, other, np.random.default_rng([k, number])):
                    self._count(name, faulty)

    def _count(self, name: str, faulty: Faulty, timed: bool = False) -> None:
        tally = self.tallies.setdefault(name, Tally())
        start = time.perf_counter()
        frame = check_frame(faulty.scene.observation, faulty.previous)
        middle = time.perf_counter()
        masks: tuple[Check, ...] = ()
        if faulty.masks_given:
            masks = check_masks(faulty.scene)
        elif all(check.state == "pass" for check in frame):  # masks change nothing where it is caught already
            masks = check_masks(self._segmenter.segment(faulty.scene.observation))
        if timed:
            self.times_ms["check_frame"].append(1e3 * (middle - start))
            self.times_ms["check_masks"].append(1e3 * (time.perf_counter() - middle))
        tally.count(frame, masks)


def read_set(name: str, simulated: int) -> list[list[Scene]]:
    """Scenes in groups, each of one camera as far as is known: another frame comes from the same group."""
    if name != "simulated":
        return [[read_scene_folder(path) for path in list_scene_folders(DATA / name)]]
    groups = []
    for kind, (share, seed, settings) in KINDS.items():
        folder = OUT / "gate_scenes" / kind
        write_dataset(plan_dataset(max(2, round(share * simulated)), seed, None, settings), folder)
        scenes = [read_scene_folder(path) for path in list_scene_folders(folder)]
        groups.append(scenes)
    return groups


def measure(sets: Sequence[str], simulated: int) -> dict[str, object]:
    """Tallies and times by set."""
    figures: dict[str, object] = {}
    for name in sets:
        bench = Bench()
        for scenes in read_set(name, simulated):
            bench.add(scenes)
        _print(name, bench)
        times = {key: round(statistics.median(each), 2) for key, each in bench.times_ms.items()}
        faults = {key: asdict(tally) | {"caught": tally.caught} for key, tally in bench.tallies.items()}
        figures[name] = {"faults": faults, "median_ms": times}
    return figures


def _print(name: str, bench: Bench) -> None:
    print(f"\n{name}\n{'':28} {'n':>4} {'caught':>7} {'failed':>7} {'frame':>7}  checks")
    for fault, tally in bench.tallies.items():
        shares = " ".join(f"{count / tally.n:7.1%}" for count in (tally.caught, tally.failed, tally.by_frame))
        checks = ", ".join(f"{key} {count}" for key, count in sorted(tally.checks.items()))
        print(f"{fault:28} {tally.n:4} {shares}  {checks}")


def rows_of(figures: dict[str, Any]) -> list[Row]:
    """Untouched frames may raise at most 2 % false alarms; faults: the share caught."""
    rows: list[Row] = []
    for name, found in figures.items():
        for fault, tally in found["faults"].items():
            told = f"{tally['caught'] / tally['n']:.1%} ({tally['caught']} of {tally['n']})"
            if fault in (UNTOUCHED, GIVEN):
                rows.append(("safe", f"false alarms of the gate, {name}, {fault}", "at most 2 %", told))
            else:
                rows.append(("safe", f"caught by the gate, {name}: {fault}", "reported", told))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", type=int, default=200, help="number of simulated scenes")
    parser.add_argument("--sets", default="osd_learn,real_rgbd,simulated", help="names with commas between")
    asked = parser.parse_args()
    figures = measure(asked.sets.split(","), asked.simulated)
    OUT.mkdir(exist_ok=True)
    file = OUT / "evidence_gate.json"
    there = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(there | figures, indent=1))
    keep({"gate": rows_of(there | figures)})


if __name__ == "__main__":
    main()
