"""First actions through the front door: pictures in, one decision a case and mode out, judged by the truth.

    python benchmarks/evidence_sensors.py --only sensors [--cases 60]          every sensor of the simulator
    python benchmarks/evidence_sensors.py --only first_actions [--cases 1800]  the test split

`cpor.System` sees the picture and its depth, nothing else. The likeliest action is right if no true blocker
is left in its way, by occlusion or sweep. Cases are kept in `out/evidence/` as they are decided; the same
command goes on where it stopped. A changed product needs another `--name`.
"""

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from evidence_page import MEASURED, Row
from harness import measure_parts, share

import cpor
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import SimulationError
from cpor.io.pool import Pool
from cpor.io.whole_files import write_bytes
from cpor.learn.modes import MODES
from cpor.scene import Scene
from cpor.sim.dataset.make import plan_dataset, plan_split, simulate_case
from cpor.sim.dataset.manifest import CasePlan, DatasetSettings
from cpor.sim.dataset.recognition import Recognition
from cpor.truth import is_wrong, truth_of

SENSORS = ("none", "default", "realsense", "phoxi", "kinect", "zed")
SEED = 20261120
"""Seed of heaps that nothing was trained, fitted or chosen on."""


@cache
def system() -> cpor.System:
    """The product as it comes."""
    return cpor.System()


def decide_targets(scene: Scene, targets: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """One record for each target: the likeliest action and that of each mode, judged by the truth."""
    truth = truth_of(scene, "occlusion" if scene.true_sweep is None else "any")
    view = system().look(scene.observation)
    seen = view.seen
    found: dict[int, int] = {}
    pairs = truth.pairs
    if seen.visible_ids is not None and seen.ids:
        assert scene.visible_ids is not None
        known = Recognition.match(seen.ids, seen.visible_ids, truth.objects, scene.visible_ids)
        found, pairs = {target: known.find(target) for target in targets}, known.translate(truth).pairs
    for target in targets:
        here = found.get(target)
        if here is None or here not in seen.ids:
            yield {"found": False}
            continue
        record: dict[str, Any] = {"found": True, "modes": {}}
        for mode in MODES:
            answer = system().decide(view, here, mode=mode)
            assert answer.action is not None
            wrong = not isinstance(answer.action, Defer) and is_wrong(answer.action, here, pairs)
            acts = not isinstance(answer.action, Defer)
            record["modes"][mode] = ["wrong" if wrong else "right" if acts else "asks", bool(answer.promise)]
            scores = {obj: score for obj, score in answer.scores.items() if obj in seen.ids}
            likeliest = max(scores, key=lambda obj: (scores[obj], obj == here))
            action = Grasp(likeliest) if likeliest == here else Remove(likeliest)
            record["likeliest"] = not is_wrong(action, here, pairs)
            record["mu"] = None if answer.decision is None else answer.decision.mu_target
        yield record


def decide_case(settings: DatasetSettings, case: CasePlan) -> list[dict[str, Any]]:
    """A simulated case; none where it cannot be made."""
    try:
        scene, entry = simulate_case(case, settings)
    except SimulationError:
        return []
    return [record | {"tier": str(entry.tier)} for record in decide_targets(scene, (entry.target,))]


def decide_by_sensor(out: Path, sensors: tuple[str, ...], case: CasePlan) -> dict[str, list[dict[str, Any]]]:
    """A case under every sensor; empty lists where no heap comes of its seed."""
    path = out / f"{case.name}.json"
    if path.is_file():
        kept: dict[str, list[dict[str, Any]]] = json.loads(path.read_bytes())
        return kept
    found = {sensor: decide_case(DatasetSettings(sensor=sensor), case) for sensor in sensors}
    write_bytes(path, json.dumps(found).encode())
    return found


def rows_of(cases: list[dict[str, list[dict[str, Any]]]], sensors: tuple[str, ...]) -> Iterator[Row]:
    """The table, a row for each sensor and question. A target that was not found counts as asked for."""
    for sensor in sensors:
        records = [record for case in cases for record in case[sensor]]
        n, name = len(records), f"sensor {sensor}, {len(records)} heaps"
        right = sum(record.get("likeliest", False) for record in records)
        yield Row("decides", f"likeliest first action right, {name}", ">= 0.90", share(right, n))
        balanced, cautious = (
            Counter(record["modes"][mode][0] if record["found"] else "asks" for record in records)
            for mode in ("balanced", "cautious")
        )
        yield Row("decides", f"balanced asks, {name}", "<= 0.05", share(balanced["asks"], n))
        yield Row("decides", f"balanced right, {name}", "reported", share(balanced["right"], n))
        yield Row("safe", f"balanced wrong, {name}", "reported", share(balanced["wrong"], n))
        acts = cautious["right"] + cautious["wrong"]
        yield Row("decides", f"cautious acts, {name}", ">= 0.75", share(acts, n))
        promised = sum(record["found"] and record["modes"]["cautious"][1] for record in records)
        told = f"{share(cautious['wrong'], acts)}; a promise was given in {promised} of {n}"
        yield Row("safe", f"wrong among cautious actions, {name}", "reported", told)
        mu = [record["mu"] for record in records if record.get("mu") is not None]
        told = f"{statistics.mean(mu):.3f}, median {statistics.median(mu):.3f}" if mu else "nothing counted"
        yield Row("decides", f"mean contradictory belief, {name}", "reported", told)


def decide_all(
    plans: tuple[CasePlan, ...], sensors: tuple[str, ...], workers: int, name: str
) -> list[dict[str, list[dict[str, Any]]]]:
    """Every case under some sensors."""
    out = MEASURED / name
    out.mkdir(parents=True, exist_ok=True)
    decided = Pool(workers).do_all(partial(decide_by_sensor, out, sensors), plans)
    return [found for _, found in decided]


def measure_sensors(cases: int = 60, workers: int = 2, name: str = "today") -> Iterator[Row]:
    """The same heaps under every sensor."""
    plans = plan_dataset(cases, SEED).cases
    return rows_of(decide_all(plans, SENSORS, workers, f"sensors/{name}"), SENSORS)


def measure_first_actions(cases: int = 60, workers: int = 2, name: str = "today") -> Iterator[Row]:
    """The first cases of the test split, by tier and over all."""
    found = decide_all(plan_split("test").cases[:cases], ("default",), workers, f"first_actions/{name}")
    records = [record for case in found for record in case["default"]]
    for tier in sorted({record["tier"] for record in records}):
        some = [record.get("likeliest", False) for record in records if record["tier"] == tier]
        yield Row(
            "decides", f"likeliest first action right, test split, {tier}", "", share(sum(some), len(some))
        )
    is_found = sum(record["found"] for record in records)
    yield Row(
        "sees", f"target found, {len(records)} cases of the test split", "", share(is_found, len(records))
    )
    for row in rows_of(found, ("default",)):
        yield row._replace(point=f"test split, {row.point}")


if __name__ == "__main__":
    measure_parts({"sensors": measure_sensors, "first_actions": measure_first_actions}, __doc__)
