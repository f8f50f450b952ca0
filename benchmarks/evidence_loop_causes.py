"""How runs of the loop on the simulated arm end: rightly or wrongly `retrieved`, unconfirmed, asked.

Hours of one core in all. A scenario is a line of JSON in out/ as soon as it is over. The same command goes on
where it stopped, also with more scenarios; `--count` counts what there is.

Run: python benchmarks/evidence_loop_causes.py [--workers 2] [--per-tier 60] [--mode balanced] [--count]
"""

from collections.abc import Iterator
from dataclasses import replace

from evidence_page import Row
from harness import OUT, measure_parts, share

from cpor.io.pool import Pool
from cpor.model import FittedModel, bundled_model
from cpor.paper.robot_table import ScenarioRecord, read_records, run_robot_table
from cpor.paper.scenarios import ScenarioSettings
from cpor.sim.dataset.manifest import TIERS

ENDS = (
    "retrieved",
    "wrongly called retrieved",
    "out, unconfirmed",
    "not out, unconfirmed",
    "deferred",
    "other",
)


def deliveries(
    per_tier: int = 60, workers: int = 2, mode: str = "balanced", count: bool = False
) -> Iterator[Row]:
    """How runs with our networks end, by the robot's word and by the truth: without a person, then with one.

    Args:
        per_tier: Scenarios a tier.
        workers: Processes.
        mode: Risk setting of the runs without a person. Where a person can be asked, any score is acted on.
        count: Run nothing; count what a stopped run left in its file.
    """
    asks = ScenarioSettings(model=bundled_model("embedded"), tau=0.0, eyes="networks", person=True)
    alone = replace(asks, tau=FittedModel.load(asks.model).modes[mode].tau, person=False)
    for name, settings in ((f"mode {mode}, no person", alone), ("any score, a person is asked", asks)):
        file = OUT / f"deliveries_{'asked' if settings.person else mode}.jsonl"
        if count:
            records = read_records(file) if file.is_file() else []
        else:
            records = run_robot_table(file, settings, per_tier, ("cpor",), Pool(workers))
        for tier in ("all", *TIERS):
            found = [each for each in records if tier in ("all", each.tier)]
            ends = [_end(each) for each in found]
            told = [f"{end} {share(ends.count(end), len(ends))}" for end in ENDS]
            told.append(f"right {share(sum(each.success for each in found), len(found))}")
            point = f"runs with our networks, {name}, {tier}"
            yield Row("acts", point, "0 wrongly called retrieved", "; ".join(told))


def _end(record: ScenarioRecord) -> str:
    """How a run ended, by what the robot says and what is true."""
    if record.ended == "retrieved":
        return "retrieved" if record.retrieved else "wrongly called retrieved"
    if record.ended == "unconfirmed":
        return f"{'' if record.retrieved else 'not '}out, unconfirmed"
    return "deferred" if record.ended == "deferred" else "other"


if __name__ == "__main__":
    measure_parts({"deliveries": deliveries}, __doc__)
