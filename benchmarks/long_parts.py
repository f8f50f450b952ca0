"""The command line of all measurements: options from the functions that measure, rows printed and kept."""

import argparse
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from evidence_page import keep

Row = tuple[str, str, str, str]
"""Claim, point, asked, measured."""


def measure_parts(parts: Mapping[str, Callable[..., Iterable[Row]]], about: str | None) -> None:
    """Measure the parts asked for, and keep each as soon as it is there.

    The parameters of a part are its options: `scenes: int = 100` is `--scenes 100`, `write: bool = False` is
    `--write`, and one without a default is an argument. `--only NAME,NAME` chooses parts; `--dry` keeps
    nothing.

    Args:
        parts: What measures each part, by its name.
        about: What the script measures.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted = {name: inspect.signature(part).parameters for name, part in parts.items()}
    for name, option in {name: each for of_part in wanted.values() for name, each in of_part.items()}.items():
        flag, default = f"--{name.replace('_', '-')}", option.default
        if default is option.empty:
            parser.add_argument(name, type=Path)
        elif isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default, help=f"{default} by default")
    parser.add_argument("--only", default=",".join(parts), help="parts to measure, with commas between them")
    parser.add_argument("--dry", action="store_true", help="print the rows, keep nothing")
    asked: dict[str, Any] = vars(parser.parse_args())
    for name in asked["only"].split(","):
        rows = []
        for row in parts[name](**{option: asked[option] for option in wanted[name]}):
            print(" | ".join(row), flush=True)
            rows.append(row)
        if not asked["dry"]:
            keep({name: rows})
