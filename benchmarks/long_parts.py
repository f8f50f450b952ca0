"""Long measurements in parts, each kept in one file of figures as soon as it is there."""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

Row = tuple[str, str, str, str]
"""Part, point, asked, measured."""


def measure_parts(parts: Mapping[str, Callable[[int], list[Row]]], file: Path, about: str) -> None:
    """The command line of a script with such parts: `--workers 2 --only NAME,NAME`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default=",".join(parts), help="parts to measure, with commas between them")
    asked = parser.parse_args()
    file.parent.mkdir(exist_ok=True)
    for name in asked.only.split(","):
        rows = parts[name](asked.workers)
        found = json.loads(file.read_text()) if file.is_file() else {}
        file.write_text(json.dumps(found | {name: rows}, indent=1))
        for row in rows:
            print(" | ".join(row))
