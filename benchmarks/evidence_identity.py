"""Ids and beliefs over time: the loop with our networks, second looks with new noise, stale beliefs.

Runs are kept, one JSON a line, in out/ and not run again. Counts go to out/evidence/.

Run: nice python benchmarks/evidence_identity.py [--runs 60] [--cases 200] [--only PART] [--workers 2]
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from long_parts import Row, measure_parts

from cpor.decision import Action, Defer
from cpor.errors import SimulationError
from cpor.io.pool import Pool
from cpor.learn.reliability import debiased_ece, ece
from cpor.paper.scenarios import Person
from cpor.perception.mask_selection import MaskSettings
from cpor.robot.cycle import Cycle, as_recorded
from cpor.scene import BlockedBy
from cpor.sim.camera.photograph import photograph
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.dataset.manifest import TIERS
from cpor.sim.dataset.recognition import Recognition, Verdict
from cpor.sim.staged_run import DemoSettings, Stage, demonstrate, set_stage
from cpor.system import System
from cpor.tracking.memory import Memory
from cpor.truth import is_wrong

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.stale_beliefs import INJECTIONS, inject  # noqa: E402

RUNS = ROOT / "out" / "identity_runs.jsonl"
FIRST_SEED = 4_200_000
"""Of runs that nothing was learnt from."""

TOLD = ("looks", "objects", "kept", "shows", "lost", "swapped", "merged")


class Observer:
    """Counts, by the simulator's truth, what becomes of ids; and decides again with a second look."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage, self.system = stage, System()
        self.rng = np.random.default_rng((seed, 0x1D))
        self.last: dict[int, int] = {}  # the id that each true object had
        self.counted: set[int] = set()
        self.found = False  # whether the target was found in an earlier look
        self.told = dict.fromkeys(TOLD, 0)
        self.actions: list[tuple[str, str]] = []
        self.pairs: list[tuple[float, float, bool]] = []

    def look(self, cycle: Cycle) -> None:
        """Take note of a cycle before anything moves in it."""
        if cycle.index in self.counted or cycle.scene.visible_ids is None:
            return
        self.counted.add(cycle.index)
        known = self.stage.recognise(cycle.scene)
        for obj, k in known.largest.items():
            if obj in self.last:
                self.told["objects"] += 1
                stays = known.owner.get(self.last[obj]) == obj
                self.told["kept"] += stays
                if stays:
                    continue
            self.last[obj] = k
        self.told["looks"] += 1
        target = self.stage.heap.target
        shown = self.stage.robot.views_of(cycle.scene.observation).visible_ids == target
        most = int(np.bincount(cycle.scene.visible_ids[shown]).argmax()) if shown.any() else 0
        if self.found and shown.mean() >= MaskSettings().least_area:
            self.told["shows"] += 1
            self.told["lost"] += cycle.target is None
        self.found = self.found or cycle.target is not None
        if cycle.target is not None and known.owner.get(cycle.target) != target:
            self.told["merged" if cycle.target == most else "swapped"] += 1
        if cycle.target is not None and not self.actions:
            self.look_twice(cycle)

    def look_twice(self, cycle: Cycle) -> None:
        """The first action with a second look alone, and with both."""
        stage, target = self.stage, cycle.target
        memory = Memory().carry_to(replace(cycle.scene, semantic_scores=None, sources=None))
        assert memory.frame is not None
        view = self.system.look(memory.frame)
        memory = memory.learn(self.system.believe(view).beliefs)
        views = stage.robot.views_of(cycle.scene.observation)
        sensor = sensor_preset("default")
        seen = photograph(stage.world, stage.heap.camera, stage.look, sensor, self.rng, views=views)
        memory = memory.carry_to(stage.segmenter.segment(as_recorded(seen.observation)))
        assert memory.frame is not None and memory.frame.visible_ids is not None
        if target not in memory.known:
            return
        known = Recognition.match(
            memory.frame.ids, memory.frame.visible_ids, stage.world.objects, views.visible_ids
        )
        truth = stage.truth()
        said = []
        for known_before in (None, memory):
            view = replace(self.system.look(memory.frame), memory=known_before)
            action = self.system.decide(view, target).action
            said.append(self.judge(action, known, truth))
        self.actions.append((said[0], said[1]))
        assert view.beliefs is not None
        beliefs = view.beliefs
        alone = beliefs.p_fused if beliefs.p_look is None else beliefs.p_look
        for r, i in enumerate(beliefs.ids):
            for c, j in enumerate(beliefs.ids):
                a, b = known.owner[i], known.owner[j]
                if a is not None and b is not None and a != b and beliefs.p_fused[r, c] > 0.0:
                    pair = float(beliefs.p_fused[r, c]), float(alone[r, c]), BlockedBy(a, b) in truth
                    self.pairs.append(pair)

    def judge(self, action: Action | None, known: Recognition, truth: frozenset[BlockedBy]) -> str:
        """What the truth says of an action in a scene in which these are known."""
        if action is None or isinstance(action, Defer):
            return "deferred"
        obj = known.owner.get(int(action.obj))  # type: ignore[call-overload]
        wrong = obj is None or is_wrong(type(action)(obj), self.stage.heap.target, truth)
        return "wrong" if wrong else "right"


def run(seed: int) -> dict[str, Any] | None:
    """One run of the loop; None where no heap came of it."""
    settings = DemoSettings(tier=TIERS[(seed - FIRST_SEED) % len(TIERS)])
    try:
        stage = set_stage(seed, settings)
    except SimulationError:
        return None
    observer = Observer(stage, seed)

    def over(cycle: Cycle, verdict: Verdict | None) -> None:
        if cycle.attempt == "none":
            observer.look(cycle)

    done = demonstrate(stage, settings, on_decision=observer.look, on_cycle=over, ask=Person(stage))
    return {
        "seed": seed,
        **done.to_json(),
        **observer.told,
        "found": observer.found,
        "twice": observer.actions,
        "pairs": observer.pairs,
    }


def measure_runs(runs: int = 60, workers: int = 1) -> list[Row]:
    """Runs that are missing are run; rows of all."""
    return run_rows(kept_records(RUNS, FIRST_SEED, runs, run, workers))


def run_rows(records: list[dict[str, Any]]) -> list[Row]:
    """What the runs say."""
    total = {key: sum(r[key] for r in records) for key in TOLD}
    here = f"{len(records)} runs of the loop with our networks, a person is asked"
    pointed = sum(r["pointed"] == 0 for r in records)
    again = sum(r["pointed"] for r in records)  # somebody pointed: the loop alone had lost it
    kept, lost = _share(total["kept"], total["objects"]), _share(total["lost"] + again, total["shows"])
    rows: list[Row] = [
        ("acts", f"{here}: objects that kept their id, a look", ">= 97 %", kept),
        ("acts", f"{here}: later looks in which the target shows and is not found", "<= 1 %", lost),
        ("safe", f"{here}: looks with another object as the target", "0", str(total["swapped"])),
        ("acts", f"{here}: looks in which the target's mask shows more of another", "", str(total["merged"])),
        ("acts", f"{here}: target never found", "", str(sum(not r["found"] for r in records))),
        ("acts", f"{here}: nobody had to point again", ">= 95 %", _share(pointed, len(records))),
    ]
    twice = [tuple(pair) for r in records for pair in r["twice"]]
    for name, k in (("a second look alone", 0), ("both looks, filtered", 1)):
        said = [pair[k] for pair in twice]
        told = ", ".join(f"{said.count(word)} {word}" for word in ("right", "wrong", "deferred"))
        rows.append(("decides", f"first action by {name}, {len(twice)} heaps", "", told))
    pairs = np.array([pair for r in records for pair in r["pairs"]], dtype=np.float64).reshape(-1, 3)
    for name, k, asked in (("of two looks, filtered", 0, "<= 0.02"), ("of the second look alone", 1, "")):
        if len(pairs):
            errors = [how(pairs[:, k], pairs[:, 2]) for how in (ece, debiased_ece)]
            told = f"{errors[0]:.3f}; {errors[1]:.3f} without the bias of few pairs"
            rows.append(("decides", f"ECE of probabilities {name}, {len(pairs)} pairs", asked, told))
    return rows


def kept_records(
    path: Path,
    first_seed: int,
    count: int,
    measure: Callable[[int], dict[str, Any] | None],
    workers: int = 1,
) -> list[dict[str, Any]]:
    """Records of a file, one JSON a line; those that are missing are measured first, by some processes."""
    path.parent.mkdir(exist_ok=True)
    lines = path.read_text().splitlines() if path.is_file() else []
    there = {record["seed"]: record for record in map(json.loads, lines)}
    missing = [seed for seed in range(first_seed, first_seed + count) if seed not in there]
    for seed, record in Pool(workers).do_all(measure, missing):
        if record is None:
            continue
        there[seed] = record
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print({key: record[key] for key in record if key != "pairs"}, flush=True)
    return [there[seed] for seed in sorted(there)]


def measure_stale(cases: int = 200) -> list[Row]:
    """What is changed behind the camera's back between two looks."""
    rows: list[Row] = []
    for kind in INJECTIONS:
        told = [inject(kind, seed) for seed in range(cases // len(INJECTIONS))]
        stale = sum(each.acts_free and each.obstructed for each in told)
        alone = sum(each.acts_free_alone and each.obstructed for each in told)
        obstructed = sum(each.obstructed for each in told)
        known = sum(each.recognised for each in told)
        point = f"stale beliefs, {kind}: {len(told)} cases, target obstructed in {obstructed}: grasped"
        rows.append(("safe", point, "0", f"{stale} ({alone} by the last look alone; recognised in {known})"))
    told = [inject("nothing", seed) for seed in range(20)]
    free = sum(each.acts_free for each in told)
    rows.append(("safe", "stale beliefs, nothing changed: 20 cases, target free: grasped", "20", str(free)))
    return rows


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} ({part} of {whole})" if whole else "none"


if __name__ == "__main__":
    measure_parts({"identity_stale": measure_stale, "identity_runs": measure_runs}, __doc__)
