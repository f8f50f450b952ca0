"""Rerun every measurement that a promise of ours rests on, and write the table docs/evidence.md.

The tests note figures as they check them (fixture `evidence`), the benchmarks print theirs to JSON; this
collects both. Run on a quiet machine: python benchmarks/evidence_table.py
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"


class Row(NamedTuple):
    """One figure beside the one asked for."""

    part: str
    point: str
    asked: str
    measured: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep-speed", action="store_true", help="take the speed figures of the last run")
    parser.add_argument("--keep-long", action="store_true", help="take the last long figures")
    asked = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    if not asked.keep_long:
        run("benchmarks/evidence_sim.py")
        run("benchmarks/evidence_perception.py")
    if not asked.keep_speed:
        run("benchmarks/bench.py", "--out", str(OUT / "bench.json"))
        run("benchmarks/bench_evidence.py", "--json", str(OUT / "bench_evidence.json"))
        run("benchmarks/bench_serve.py", "--json", str(OUT / "bench_serve.json"))
    rows = run_tests() + read_benchmarks() + read_service() + read_long() + time_start()
    write_table(sorted(rows, key=lambda row: row.part))


def run(*command: str) -> None:
    print("$", " ".join(command), flush=True)
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)


def run_tests() -> list[Row]:
    """The whole test suite, slow tests included; a failed test stops here."""
    report = OUT / "tests.xml"
    run("-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", f"--junitxml={report}")
    return [
        Row(*json.loads(entry.get("value", "[]")))
        for entry in ElementTree.parse(report).iter("property")
        if entry.get("name") == "evidence"
    ]


def read_benchmarks() -> list[Row]:
    """Speed against peers, growth, deadlines, geometric evidence."""
    speed = json.loads((OUT / "bench.json").read_text())
    rows = [
        Row("A", f"speed over {speed['scenes']['source']}: {name}", "", _way(way))
        for name, way in speed["scenes"]["ways"].items()
    ]
    rows += [
        Row("A", f"speed: {asked['what']}", str(asked["asked"]), f"{asked['measured']}")
        for asked in speed["scenes"]["asked"]
    ]
    rows += _growth(speed["growth"])
    for case in json.loads((OUT / "bench_evidence.json").read_text())["results"]:
        size = f"{case['objects']} objects at {case['width']}x{case['height']}"
        asked = f"{case['asked_ms']} ms" if case["asked_ms"] else ""
        rows.append(Row("B", f"all geometric evidence, {size}, median", asked, f"{case['median_ms']:.1f} ms"))
    return rows


def read_service() -> list[Row]:
    """The service under load."""
    found = json.loads((OUT / "bench_serve.json").read_text())
    decide, clients, mutated, memory = (found[k] for k in ("decide", "clients", "mutated", "memory"))
    statuses = ", ".join(f"{count} with {status}" for status, count in sorted(mutated["statuses"].items()))
    own = f"{clients['their_own']} of {clients['uploads']} got their own result, {clients['seconds']} s"
    return [
        Row(
            "G",
            f"decisions from probabilities, {decide['objects']} objects, {decide['requests']} requests",
            "200 a second, p99 < 100 ms",
            f"{decide['rate']:.0f} a second, median {decide['p50_ms']:.1f} ms, p99 {decide['p99_ms']:.1f} ms",
        ),
        Row("G", f"{clients['clients']} clients uploading at once", "none lost or mixed up", own),
        Row("G", f"{mutated['sent']} mutated uploads", "clear 4xx, no 500", statuses),
        Row(
            "G",
            "memory of the service and its workers at their most, pages shared by several counted once",
            "< 2 GB",
            f"{memory['peak_pss_mb'] / 1024:.2f} GB; alive afterwards: {'yes' if found['alive'] else 'no'}",
        ),
    ]


def read_long() -> list[Row]:
    """What the long measurements found: the simulator's, and those of our networks."""
    files = (OUT / "evidence_sim.json", OUT / "evidence_perception.json")
    return [Row(*row) for file in files for rows in json.loads(file.read_text()).values() for row in rows]


def _way(way: dict[str, Any]) -> str:
    return f"mean {way['mean_ms']:.4g} ms, max {way['max_ms']:.4g} ms ({way['scenes']} scenes)"


def _growth(growth: dict[str, Any]) -> list[Row]:
    rows = []
    for key, value in growth.items():
        if isinstance(value, list):
            for entry in value:
                said = ", ".join(f"{name} {_short(number)}" for name, number in entry.items())
                rows.append(Row("A", f"growth, {key}", "", said))
        elif isinstance(value, dict):
            rows.append(
                Row("A", f"growth, {key}", "", ", ".join(f"{k} {_short(v)}" for k, v in value.items()))
            )
    return rows


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def time_start() -> list[Row]:
    """Cold starts, after a first run has filled the compilation cache."""
    scene = "examples/scenes/heap.json"
    decide = ["-c", "from cpor.cli.app import main; main()", "decide", scene]
    return [
        Row("A", "import cpor, median of 5", "< 0.5 s", f"{_time(['-c', 'import cpor']):.2f} s"),
        Row("A", "cpor decide, cold, median of 5", "< 1.5 s", f"{_time(decide):.2f} s"),
        Row("A", "cpor decide --json, cold, median of 5", "< 1.5 s", f"{_time([*decide, '--json']):.2f} s"),
    ]


def _time(arguments: list[str]) -> float:
    times = []
    for _ in range(6):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def write_table(rows: list[Row]) -> None:
    lines = [
        "# Evidence",
        "",
        "What `make evidence` measured on its last run: every figure beside the one asked for. Times are of",
        "one machine with 2 cores; ratios travel better than times.",
        "",
    ]
    for part in sorted({row.part for row in rows}):
        lines += [f"## Part {part}", "", "| point | asked | measured |", "|---|---|---|"]
        lines += [f"| {row.point} | {row.asked} | {row.measured} |" for row in rows if row.part == part]
        lines.append("")
    path = ROOT / "docs" / "evidence.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)} ({len(rows)} figures)")


if __name__ == "__main__":
    main()
