"""Speed of inference against its peers, in one run: time a scene, and growth with the scene.

Run: python benchmarks/bench.py [--quick] [--only scenes|growth] [--out FILE.json]
"""

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import growth
import per_scene
from rich.console import Console
from scenes import load_scenes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="slow peers on every twentieth scene only")
    parser.add_argument("--only", choices=("scenes", "growth"), help="one of the two parts")
    parser.add_argument("--out", type=Path, help="also write the figures here, as JSON")
    options = parser.parse_args()
    console = Console(width=max(118, Console().width))
    figures: dict[str, Any] = {"machine": describe_machine()}
    console.print(", ".join(f"{name} {value}" for name, value in figures["machine"].items()), highlight=False)

    if options.only != "growth":
        source, scenes = load_scenes()
        timings, gap = per_scene.measure(scenes, options.quick, console)
        per_scene.show(source, timings, gap, console)
        figures["scenes"] = {
            "source": source,
            "largest_disagreement": gap,
            "ways": {name: timing.as_json() for name, timing in timings.items()},
            "asked": [target._asdict() for target in per_scene.targets(timings)],
        }
    if options.only != "scenes":
        figures["growth"] = growth.measure(console)
        growth.show(figures["growth"], console)
    if options.out is not None:
        write_atomically(options.out, json.dumps(figures, indent=2) + "\n")


def describe_machine() -> dict[str, str]:
    """What the figures depend on."""
    packages = {name: version(name) for name in ("numba", "numpy", "highspy", "problog", "pysdd")}
    cpus = str(os.cpu_count())
    return {"machine": platform.machine(), "cpus": cpus, "python": platform.python_version(), **packages}


def write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    main()
