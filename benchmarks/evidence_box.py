"""Keep what box_evaluate.py found: its results.json as rows in docs/evidence.json, part `box`.

Run: python benchmarks/evidence_box.py RESULTS.json, then python benchmarks/evidence_table.py --page
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_page import keep
from long_parts import Row

from cpor.viz.robot_table import METHOD_NAMES

RERUN = "python benchmarks/box_evaluate.py see --out DIR; python benchmarks/box_evaluate.py judge --facts DIR"


def rows_of(results: dict[str, Any]) -> Iterator[Row]:
    """Relations, first actions and what each mode does, by masks and by source of relations."""
    for masks, by_source in results.items():
        for source, row in by_source.items():
            if "first" not in row:  # the network before fitting, by kind of relation
                for kind, figures in row.items():
                    yield from _relations(f"{masks}, {source}, {kind}", figures)
                continue
            name = f"{masks}, {source}"
            yield from _relations(name, row["relations"])
            for method, by_tier in row["first"]["rsr"]["any"].items():
                share, (low, high) = by_tier["all"]
                tiers = ", ".join(f"{tier} {by_tier[tier][0]:.3f}" for tier in row["first"]["n"])
                told = f"{share:.3f} [{low:.3f}, {high:.3f}] of {row['n']} ({tiers})"
                yield ("decides", f"right first actions, {name}, {METHOD_NAMES[method]}", "", told)
            for alpha, promise in row["promise"].items():
                made = promise["tau"] is not None
                told = f"made, threshold {promise['tau']:.3f}" if made else f"not made: {promise['reason']}"
                yield ("calibrated", f"promise of at most {alpha} wrong, {name}", "", told)
            for alpha, by_mode in row["modes"].items():
                for mode, n in by_mode.items():
                    told = (
                        f"{n['obstructed_called_free']} of {n['n']}; acted {n['acted']}, wrong {n['wrong']}"
                    )
                    point = f"obstructed targets called free, {name}, mode {mode}, fitted for {alpha}"
                    yield ("safe", point, "", told)


def _relations(name: str, figures: dict[str, float]) -> Iterator[Row]:
    of = f"{figures['n']:.0f} pairs"
    yield ("sees", f"relation AUROC, {name}", "", f"{figures['auroc']:.3f} of {of}")
    yield ("calibrated", f"relation ECE, {name}", "", f"{figures['ece']:.3f} of {of}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    keep({"box": list(rows_of(json.loads(parser.parse_args().results.read_text())))}, rerun=RERUN)


if __name__ == "__main__":
    main()
