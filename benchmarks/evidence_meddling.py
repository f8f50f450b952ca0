"""Targets that fall back into the heap, and people who meddle before a motion: what the loop believes.

Run: PYTHONPATH=tests python benchmarks/evidence_meddling.py [--drops 500] [--meddlings 300] [--out FILE]
"""

import argparse
import json
from pathlib import Path

from support.meddling import MEDDLINGS, drop, meddle

from cpor.experiments.runs.report import wilson_interval


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drops", type=int, default=500)
    parser.add_argument("--meddlings", type=int, default=300)
    parser.add_argument("--first", type=int, default=10_000, help="Seed of the first case.")
    parser.add_argument("--out", type=Path, default=Path("out/evidence/meddling.json"))
    asked = parser.parse_args()
    false, ended = [], dict[str, int]()
    for seed in range(asked.first, asked.first + asked.drops):
        _, result, shown = drop(seed)
        ended[result.ended] = ended.get(result.ended, 0) + 1
        if result.retrieved:
            false.append((seed, shown))
    wrong, noticed = [], dict.fromkeys(MEDDLINGS, 0)
    each = -(-asked.meddlings // len(MEDDLINGS))
    for kind in MEDDLINGS:
        for seed in range(asked.first, asked.first + each):
            table, result = meddle(kind, seed)
            noticed[kind] += any("not sent" in n for c in result.cycles for n in c.notes)
            if set(table.taken) - {1}:
                wrong.append((kind, seed))
    told = {
        "drops": asked.drops,
        "called retrieved, seed and pixels of the target that show": false,
        "false retrieved, 95 %": wilson_interval(len(false), asked.drops),
        "ended": ended,
        "meddlings": each * len(MEDDLINGS),
        "wrong object": wrong,
        "wrong object, 95 %": wilson_interval(len(wrong), each * len(MEDDLINGS)),
        "noticed before the motion": {kind: f"{n} of {each}" for kind, n in noticed.items()},
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
