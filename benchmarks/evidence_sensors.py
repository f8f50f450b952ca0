"""Other cameras, same heaps: how sure and how right the first action is by sensor.

    python benchmarks/evidence_sensors.py [--cases 60] [--workers 2]

Each case of a seed of its own is photographed by every sensor of the simulator; `cpor.System` sees the
picture and its depth, nothing else. Cases are written to `out/evidence/sensors/` as they are decided; the
same command goes on where it stopped. A changed product needs another `--name`. Figures go to out/evidence/.
"""

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from evidence_first_actions import decide_case, share
from evidence_page import MEASURED, Row
from long_parts import measure_parts

from cpor.io.pool import Pool
from cpor.io.whole_files import write_bytes
from cpor.sim.dataset.make import DatasetSettings, plan_dataset
from cpor.sim.dataset.manifest import CasePlan

SENSORS = ("none", "default", "realsense", "phoxi", "kinect", "zed")
SEED = 20261120
"""Of heaps that nothing was trained, fitted or chosen on."""


def decide_by_sensor(out: Path, case: CasePlan) -> dict[str, list[dict[str, Any]]]:
    """A case under every sensor; empty lists where no heap comes of its seed."""
    path = out / f"{case.name}.json"
    if path.is_file():
        kept: dict[str, list[dict[str, Any]]] = json.loads(path.read_bytes())
        return kept
    found = {sensor: decide_case(DatasetSettings(sensor=sensor), case) for sensor in SENSORS}
    write_bytes(path, json.dumps(found).encode())
    return found


def rows_of(cases: list[dict[str, list[dict[str, Any]]]]) -> Iterator[Row]:
    """The table, a row for each sensor and question. A target that was not found counts as asked for."""
    for sensor in SENSORS:
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


def measure_sensors(cases: int = 60, workers: int = 2, name: str = "today") -> list[Row]:
    """Measure the rows."""
    out = MEASURED / "sensors" / name
    out.mkdir(parents=True, exist_ok=True)
    planned = plan_dataset(cases, SEED).cases
    decided = Pool(workers).do_all(partial(decide_by_sensor, out), planned)
    return list(rows_of([found for _, found in decided]))


if __name__ == "__main__":
    measure_parts({"sensors": measure_sensors}, __doc__)
