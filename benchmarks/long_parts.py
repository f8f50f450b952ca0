"""Long measurements in parts, each kept as soon as it is there."""

import argparse
from collections.abc import Callable, Mapping

from evidence_page import keep

Row = tuple[str, str, str, str]
"""Claim, point, asked, measured."""


def measure_parts(parts: Mapping[str, Callable[[int], list[Row]]], about: str) -> None:
    """The command line of a script with such parts: `--workers 2 --only NAME,NAME`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default=",".join(parts), help="parts to measure, with commas between them")
    asked = parser.parse_args()
    for name in asked.only.split(","):
        rows = parts[name](asked.workers)
        keep({name: rows})
        for row in rows:
            print(" | ".join(row))
