"""Targets that fall back into the heap, and people who meddle before a motion: what the loop believes.

Run: PYTHONPATH=tests python benchmarks/evidence_meddling.py [--drops 500] [--meddlings 300] [--dry]
"""

from collections import Counter

from long_parts import Row, measure_parts
from support.meddling import DROPS, MEDDLINGS, drop, meddle

from cpor.paper.runs.report import wilson_interval


def share(n: int, of: int) -> str:
    """A count with its 95 % interval in percent."""
    low, high = wilson_interval(n, of)
    return f"{n} of {of} [{100 * low:.1f}, {100 * high:.1f}] %"


def rows_of_drops(count: int, first: int) -> list[Row]:
    """The rows of targets that fall back: anywhere, into their own place, under another object's mask."""
    ended, false = Counter[str](), 0
    for seed in range(first, first + count):
        result = drop(seed)[1]
        ended[result.ended] += 1
        false += result.retrieved
    kinds = ", ".join(DROPS)
    then = ", ".join(f"{name} {n}" for name, n in ended.items())
    point = f"made-up robot says done, the target fell back ({kinds})"
    return [("safe", f"{point}: called retrieved", "0", f"{share(false, count)}; ended: {then}")]


def rows_of_meddlings(count: int, first: int) -> list[Row]:
    """The rows of a meddler, or a bumped camera, between the look that is decided on and the motion."""
    each = -(-count // len(MEDDLINGS))
    wrong, noticed = 0, Counter[str]()
    for kind in MEDDLINGS:
        for seed in range(first, first + each):
            table, result = meddle(kind, seed)
            noticed[kind] += any("not sent" in n for c in result.cycles for n in c.notes)
            wrong += bool(set(table.taken) - {1})
    total = each * len(MEDDLINGS)
    by_kind = ", ".join(f"{kind} {noticed[kind]}" for kind in MEDDLINGS)
    point = "made-up robot, something changes between look and motion"
    return [
        ("safe", f"{point}: runs that took another object", "0", share(wrong, total)),
        ("safe", f"{point}: noticed before the motion, of {each} each", str(each), by_kind),
    ]


def measure_meddling(drops: int = 500, meddlings: int = 300, first: int = 10_000) -> list[Row]:
    """Measure the rows."""
    return rows_of_drops(drops, first) + rows_of_meddlings(meddlings, first)


if __name__ == "__main__":
    measure_parts({"meddling": measure_meddling}, __doc__)
