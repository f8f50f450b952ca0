"""Keep what box_evaluate.py found: its results.json as rows in out/evidence/, part `box`.

Run: python benchmarks/evidence_box.py RESULTS.json, then python benchmarks/evidence_table.py --page
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_page import Row, keep

from cpor.paper.means import WilsonRate

METHODS = {
    "cpor": "summed over acyclic graphs",
    "no_acyclicity": "summed over all graphs",
    "single_map": "likeliest graph alone",
    "truth": "summed over acyclic graphs",
}

ASKED = {
    ("our masks", "both geometries + scorer"): (">= 0.90", ">= 0.97"),
    ("true masks", "both geometries"): (">= 0.965", ">= 0.995"),
}
"""What is asked of the product's own combinations: first actions right and relation AUROC; ECE <= 0.02."""


def rows_of(results: dict[str, Any]) -> Iterator[Row]:
    """Relations, first actions and what each mode does, by masks and by source of relations."""
    for masks, by_source in results.items():
        for source, row in by_source.items():
            if "right" not in row:  # the network before fitting, by kind of relation
                for kind, n in row.items():
                    told = f"{n['auroc']:.4f}, ECE {n['ece']:.4f} of {n['n']:.0f} pairs"
                    yield Row("sees", f"relation AUROC, {masks}, {source}, {kind}", "reported", told)
                continue
            asked = ASKED.get((masks, source), ("reported", "reported"))
            yield from _looks(f"{masks}, {source}", row, asked)
            if "later" in row:
                yield from _looks(
                    f"after up to 3 removals, {masks}, {source}", row["later"], ("reported", "reported")
                )
            if "promise" in row:
                promise = row["promise"]
                made = promise["tau"] is not None
                told = f"made, threshold {promise['tau']:.3f}" if made else f"not made: {promise['reason']}"
                point = f"promise of at most {promise['alpha']} wrong, tested on {promise['n']} scenes"
                yield Row("calibrated", f"{point}, {masks}, {source}", "reported", told)


def _looks(name: str, row: dict[str, Any], asked: tuple[str, str]) -> Iterator[Row]:
    """First actions, relations and modes on one set of cases."""
    for truth, by_method in row["right"].items():
        yield from _first(name, truth, by_method, asked[0] if truth == "any" else "reported")
    if "relations" not in row:
        return
    n, ece = row["relations"], "<= 0.02" if asked[1] != "reported" else "reported"
    yield Row("sees", f"relation AUROC, {name}", asked[1], _of(n["auroc"], n["n"]))
    yield Row("calibrated", f"relation ECE, {name}", ece, _of(n["ece"], n["n"]))
    for mode, n in row["modes"].items():
        told = f"{n['obstructed_called_free']} of {n['n']}; acted {n['acted']}, wrong {n['wrong']}"
        yield Row("safe", f"obstructed targets called free, {name}, mode {mode}", "reported", told)


def _first(name: str, truth: str, by_method: dict[str, dict[str, str]], asked: str) -> Iterator[Row]:
    """Shares of right first actions with Wilson intervals, and where each way differs from ours."""
    judged = "occlusion or sweep" if truth == "any" else "occlusion alone"
    whole = {method: "".join(by_tier.values()) for method, by_tier in by_method.items()}
    for method, by_tier in by_method.items():
        rate = WilsonRate.of([c == "1" for c in whole[method]])
        tiers = ", ".join(f"{tier} {each.count('1') / len(each):.3f}" for tier, each in by_tier.items())
        told = f"{rate.share:.3f} [{rate.ci[0]:.3f}, {rate.ci[1]:.3f}] of {rate.n} ({tiers})"
        if method not in ("cpor", "truth"):
            pairs = list(zip(whole["cpor"], whole[method], strict=True))
            ours, theirs = pairs.count(("1", "0")), pairs.count(("0", "1"))
            told += f"; the acyclic sum alone is right in {ours}, this alone in {theirs}"
        wanted = asked if method == "cpor" else "reported"
        yield Row("decides", f"right first actions by {judged}, {name}, {METHODS[method]}", wanted, told)


def _of(figures: list[float], n: int) -> str:
    return f"{figures[0]:.4f} [{figures[1]:.4f}, {figures[2]:.4f}] of {n} pairs"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    keep({"box": list(rows_of(json.loads(parser.parse_args().results.read_text())))})


if __name__ == "__main__":
    main()
