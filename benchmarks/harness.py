"""What the measurements share: places, labelled scenes, kept lines, shares, and one command line for all."""

import argparse
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evidence_page import Row, keep

from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.paper.means import wilson_interval
from cpor.scene import Scene

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")

WRONG_MASKS = ("learn25", "learn26")
"""Photographs of osd_learn with masks of others: see docs/gate.md."""


def photographs(all_of_them: bool = False) -> list[Scene]:
    """The labelled photographs of osd_learn, by default less those with masks of others."""
    folders = list_scene_folders(DATA / "osd_learn")
    return [read_scene_folder(each) for each in folders if all_of_them or each.name not in WRONG_MASKS]


def share(hits: int, n: int) -> str:
    """A share with its 95 % interval (Wilson)."""
    low, high = wilson_interval(hits, n)
    return f"{hits / n:.3f} [{low:.3f}, {high:.3f}] ({hits} of {n})" if n else "nothing counted"


def kept_lines(path: Path, made: Iterable[Any]) -> Iterator[Any]:
    """What is made, each as a JSON line of a file; lines that are there are read, and not made again.

    Args:
        path: The file.
        made: Each item is a function that makes one record.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    done = path.read_text().splitlines() if path.is_file() else []
    for k, make in enumerate(made):
        if k == len(done):
            done.append(json.dumps(make()))
            with path.open("a") as file:
                file.write(done[-1] + "\n")
        yield json.loads(done[k])


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
            rows.append(Row(*row))
        if not asked["dry"]:
            keep({name: rows})
