"""The long measurements on the simulator: heaps, first decisions on the test split, the robot table.

Hours of one core in all, so each part keeps what is done and goes on where it stopped. Figures go to
out/evidence_sim.json, from where evidence_table.py takes them.

Run: python benchmarks/evidence_sim.py [--workers 2] [--only heaps,decisions,robot]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cpor.experiments.first_decisions import LabelledCase, measure_first_decisions
from cpor.experiments.robot_table import RobotRow, run_robot_table, summarise
from cpor.experiments.scenarios import ScenarioSettings, fitted_pipeline
from cpor.model import bundled_model
from cpor.sim.dataset import plan_split, read_split, write_dataset
from cpor.viz.robot_table import METHOD_NAMES, TRUTH_NAMES

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"

Row = tuple[str, str, str, str]

ASKED = {
    "cpor": {"easy": ">= 80 %", "medium": ">= 70 %", "hard": ">= 55 %"},
    "oracle": {"easy": "> 90 %", "medium": "> 85 %", "hard": "> 75 %"},
}


def heaps(workers: int) -> list[Row]:
    file = OUT / "bench_sim.json"
    if not file.is_file():
        run = [
            sys.executable,
            str(ROOT / "benchmarks" / "bench_sim.py"),
            "--scenes",
            "200",
            "--json",
            str(file),
        ]
        subprocess.run(run, cwd=ROOT, check=True)
    content = json.loads(file.read_text())
    n, found = content["scenes"], content["figures"]
    return [
        ("D", f"{n} dense scenes settled, most drift in the next second", "settled", _mm(found["drift_mm"])),
        ("D", f"{n} dense scenes, deepest penetration", "< 1 mm", _mm(found["penetration_mm"])),
        (
            "D",
            f"scene with camera, occlusion and sweep truth, {n} scenes, one core",
            "median 1 s",
            f"median {found['seconds']['median']:.2f} s, most {found['seconds']['most']:.2f} s",
        ),
        (
            "D",
            f"relations a scene, occlusion / sweep; cyclic truths ({n} dense scenes)",
            "",
            f"{found['occlusions']['mean']:.1f} / {found['sweeps']['mean']:.1f}; "
            f"{found['cyclic_occlusion']['mean']:.1%} / {found['cyclic_sweep']['mean']:.1%}",
        ),
    ]


def decisions(workers: int) -> list[Row]:
    folder = OUT / "splits" / "test"
    write_dataset(plan_split("test"), folder, workers, None)
    cases = (LabelledCase(*case) for case in read_split(folder))
    pipeline = fitted_pipeline(bundled_model(), 0.0)
    found = measure_first_decisions(cases, pipeline, np.random.default_rng(0))
    rows = []
    for kind, by_method in found.rsr.items():
        for method, by_tier in by_method.items():
            share, ci = by_tier["all"]
            tiers = " / ".join(f"{by_tier[tier][0]:.3f}" for tier in found.n)
            point = (
                f"right first actions by {TRUTH_NAMES[kind]}, {METHOD_NAMES[method]} ({' / '.join(found.n)})"
            )
            rows.append(("D", point, "", f"{share:.3f} [{ci.low:.3f}, {ci.high:.3f}] (by tier {tiers})"))
        for method, paired in found.paired[kind].items():
            point = f"CPOR against {METHOD_NAMES[method]} by {TRUTH_NAMES[kind]}, {paired.n} cases"
            change = f"{paired.delta:+.4f} [{paired.ci.low:+.4f}, {paired.ci.high:+.4f}]"
            rows.append(("D", point, "", f"{paired.corrections} : {paired.regressions}, {change}"))
    return rows


def robot(workers: int) -> list[Row]:
    file, settings = OUT / "robot_table.jsonl", ScenarioSettings(model=bundled_model())
    rng = np.random.default_rng(0)
    paper = summarise(run_robot_table(file, settings, 15, workers=workers), rng)
    rows = [row for method, found in paper.items() for row in _success(METHOD_NAMES[method], found)]
    more = summarise(run_robot_table(file, settings, 60, ("cpor", "oracle"), workers), rng)
    for method, asked in ASKED.items():
        for tier, least in asked.items():
            rate = more[method].retrieved[tier]
            shown = f"{rate.share:.1%} [{rate.ci.low:.3f}, {rate.ci.high:.3f}] of {rate.n}"
            rows.append(("D", f"retrieved, {METHOD_NAMES[method]}, {tier}", least, shown))
        rows += _success(METHOD_NAMES[method], more[method])
    return rows


def _success(name: str, row: RobotRow) -> list[Row]:
    n = row.success["all"].n
    tiers = " / ".join(f"{row.success[t].share:.1%}" for t in ("easy", "medium", "hard"))
    ci = row.success["all"].ci
    causes = ", ".join(f"{count} {cause}" for cause, count in sorted(row.causes.items())) or "none"
    share = f"{row.success['all'].share:.1%} [{ci.low:.3f}, {ci.high:.3f}] ({tiers})"
    rows = [("D", f"robot table, {n} scenarios, success of {name}", "", f"{share}; failures: {causes}")]
    if row.paired is not None:
        change = f"{row.paired.delta:+.3f} [{row.paired.ci.low:+.3f}, {row.paired.ci.high:+.3f}]"
        rows.append(
            (
                "D",
                f"robot table, {row.paired.n} scenarios, CPOR against {name}",
                "",
                f"{row.paired.corrections} : {row.paired.regressions}, {change}",
            )
        )
    return rows


def _mm(figure: dict[str, float]) -> str:
    return f"{figure['most']:.2f} mm (median {figure['median']:.2f})"


PARTS: dict[str, Callable[[int], list[Row]]] = {"heaps": heaps, "decisions": decisions, "robot": robot}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS), help="parts to measure, with commas between them")
    asked = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    file = OUT / "evidence_sim.json"
    found = json.loads(file.read_text()) if file.is_file() else {}
    for name in asked.only.split(","):
        found[name] = PARTS[name](asked.workers)
        file.write_text(json.dumps(found, indent=1))
        for row in found[name]:
            print(" | ".join(row))


if __name__ == "__main__":
    main()
