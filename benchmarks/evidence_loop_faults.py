"""The loop with faults of camera, tracker and gripper on a table of boxes: what the runs say, and what is so.

Counts go to out/evidence/.

Run: python benchmarks/evidence_loop_faults.py [--runs 60]
"""

import sys
from collections import Counter
from pathlib import Path

from long_parts import Row, measure_parts

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.faulty_table import FAULTS, TARGET, is_false, is_wrong_unnoticed, run_with  # noqa: E402


def measure(fault: str, runs: int) -> list[Row]:
    """The counts of one fault, and how the runs ended."""
    ends: Counter[str] = Counter()
    false = wrong = unsafe = taken = blind = 0
    for seed in range(runs):
        table, result = run_with(fault, seed)
        ends[result.ended] += 1
        false += is_false(table, result)
        wrong += is_wrong_unnoticed(table, result)
        unsafe += table.log[-1] not in ("home", "stop")
        taken += TARGET in table.delivered
        blind += table.blind
    ended = ", ".join(f"{n} {end}" for end, n in ends.most_common())
    point = f"loop with fault: {fault.replace('_', ' ')}, {runs} runs"
    counts = {"false `retrieved`": false, "wrong objects unnoticed": wrong, "unsafe ends": unsafe}
    rows = [("safe", f"{point}: {what}", "0", str(count)) for what, count in counts.items()]
    told = f"{ended}; {taken} truly delivered; {blind} blind attempts"
    return [*rows, ("safe", f"{point}: ends", "reported", told)]


def measure_loop_faults(runs: int = 60) -> list[Row]:
    """Measure every fault, and no fault for comparison."""
    return [row for fault in ("none", *FAULTS) for row in measure(fault, runs)]


if __name__ == "__main__":
    measure_parts({"loop_faults": measure_loop_faults}, __doc__)
