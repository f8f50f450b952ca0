"""Rerun the measurements that our claims rest on, and write docs/evidence.md.

The tests note figures as they check them (fixture `evidence`), the benchmarks keep or print theirs. All rows
go to out/evidence/, those of the page to docs/evidence.json, as soon as a part is measured. Long parts go on
where they stopped. Run on a quiet machine:

    python benchmarks/evidence_table.py                     everything: tests, times, long parts
    python benchmarks/evidence_table.py --only gate         one part; also tests, or a file of tests
    python benchmarks/evidence_table.py --page              only the page; names the rows that are too old
    python benchmarks/evidence_table.py --show PART POINT   put a measured row on the page
    python benchmarks/evidence_table.py --hide POINT        take a row off the page
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from evidence_page import PAGE, find_old, hide, keep, read_figures, show, write_page
from long_parts import Row

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"

SIM, PERCEPTION = "benchmarks/evidence_sim.py", "benchmarks/evidence_perception.py"
LOOP, IDENTITY = "benchmarks/evidence_loop_causes.py", "benchmarks/evidence_identity.py"

INPUTS = "benchmarks/evidence_inputs.py"
GUARANTEES = "benchmarks/evidence_guarantees.py"
BELIEFS = "benchmarks/evidence_beliefs.py"
LAB, ACCESS = "benchmarks/evidence_lab.py", "benchmarks/evidence_access.py"
LONG = {
    "heaps": SIM,
    "decisions": SIM,
    "asking": SIM,
    "robot": LOOP,
    "masks": PERCEPTION,
    "chain": PERCEPTION,
    "others": PERCEPTION,
    "frame_speed": PERCEPTION,
    "robot_networks": LOOP,
    "loop_causes": LOOP,
    "deliveries": LOOP,
    "identity_runs": IDENTITY,
    "identity_stale": IDENTITY,
    "looking_again": "benchmarks/evidence_looking_again.py",
    "loop_faults": "benchmarks/evidence_loop_faults.py",
    "gate": "benchmarks/evidence_gate.py",
    "lab_osd": LAB,
    "lab_simulated": LAB,
    "access_pages": ACCESS,
    "access_queue": ACCESS,
    "access_site": ACCESS,
    "access_first_screen": ACCESS,
    "docs_tried": "benchmarks/docs_tried.py",
    "input_forms": INPUTS,
    "input_broken": INPUTS,
    "input_point": INPUTS,
    "doctor_faults": INPUTS,
    "doctor_clean": INPUTS,
    "bridges": "benchmarks/evidence_bridges.py",
    "ros2": "benchmarks/evidence_ros2.py",
    "hostile": "benchmarks/evidence_hostile.py",
    "mcp": "benchmarks/evidence_mcp.py",
    "gym": "benchmarks/evidence_gym.py",
    "power_cuts": "benchmarks/evidence_power_cuts.py",
    "meddling": "benchmarks/evidence_meddling.py",
    "words": "benchmarks/evidence_words.py",
    "covers": "benchmarks/evidence_covers.py",
    "fuzz": "benchmarks/evidence_fuzz.py",
    "drops": "benchmarks/evidence_drops.py",
    "drops_true_masks": "benchmarks/evidence_drops.py",
    "photographs": "benchmarks/evidence_photographs.py",
    "real_bins": "benchmarks/evidence_real_bins.py",
    "pointing": "benchmarks/evidence_pointing.py",
    "hidden_parts": "benchmarks/evidence_hidden_parts.py",
    "cameras": "benchmarks/evidence_cameras.py",
    "sensors": "benchmarks/evidence_sensors.py",
    "merged": "benchmarks/evidence_merged.py",
    "gate_acts": "benchmarks/evidence_gate_acts.py",
    "exact_sizes": GUARANTEES,
    "equal": GUARANTEES,
    "robust": GUARANTEES,
    "plans": GUARANTEES,
    "cycles": GUARANTEES,
    "coverage": BELIEFS,
    "plans_simulated": BELIEFS,
    "cycles_simulated": BELIEFS,
    "first_actions": "benchmarks/evidence_first_actions.py",
}
"""Long parts: the script, which keeps its rows itself."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="parts to measure, with commas between them")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--show", nargs=2, metavar=("PART", "POINT"), help="put a measured row on the page")
    parser.add_argument("--hide", metavar="POINT", help="take a row off the page")
    asked = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    if asked.show:
        show(*asked.show)
    elif asked.hide:
        hide(asked.hide)
    elif not asked.page:
        for name in asked.only.split(",") if asked.only else ("tests", *SHORT, *LONG):
            measure(name)
    figures = read_figures()
    PAGE.write_text(write_page(figures), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} ({len(figures)} figures)")
    for old in find_old(figures):
        print(f"too old, since the product decides otherwise now: {old.row.point} ({old.part}, {old.date})")


def measure(name: str) -> None:
    """Measure a part and keep it."""
    if name in LONG:
        run(LONG[name], *(("--only", name) if list(LONG.values()).count(LONG[name]) > 1 else ()))
    elif name in SHORT:
        keep({name: SHORT[name]()})
    elif name.startswith("tests"):
        keep(run_tests(name))
    else:
        known = ", ".join(("tests", *SHORT, *LONG))
        raise SystemExit(f"no part {name!r}; the parts are: {known}, and files of tests")


def run(*command: str, **variables: str) -> None:
    print("$", " ".join(command), flush=True)
    found = os.pathsep.join(filter(None, (str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": found} | variables  # the benchmarks use oracles of the tests
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, env=environment)


def run_tests(path: str) -> dict[str, list[Row]]:
    """Rows by file of tests, slow tests included; a failed test stops here. Skipped files keep their rows.

    Samples have their full size here; `make test` takes a part of each (tests/support/sizes.py).
    """
    report = OUT / "tests.xml"
    tests = ("-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", f"--junitxml={report}", path)
    run(*tests, CPOR_EVIDENCE="1")
    return read_tests(report)


def read_tests(report: Path) -> dict[str, list[Row]]:
    """What tests noted, from pytest's report."""
    rows: dict[str, list[Row]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        for entry in case.iter("property"):
            if entry.get("name") == "evidence":
                rows.setdefault(file, []).append(tuple(json.loads(entry.get("value", "[]"))))
    return rows


def speed() -> list[Row]:
    """Inference against its peers, and growth with the scene."""
    run("benchmarks/bench.py", "--out", str(OUT / "bench.json"))
    found = json.loads((OUT / "bench.json").read_text())
    scenes = found["scenes"]
    rows: list[Row] = [
        ("fast", f"speed: {asked['what']}", str(asked["asked"]), str(asked["measured"]))
        for asked in scenes["asked"]
    ]
    for name, way in scenes["ways"].items():
        told = f"mean {way['mean_ms']:.4g} ms, most {way['max_ms']:.4g} ms ({way['scenes']} scenes)"
        rows.append(("fast", f"speed over {scenes['source']}: {name}", "", told))
    return rows + growth_rows(found["growth"])


def growth_rows(growth: dict[str, Any]) -> list[Row]:
    """Growth with the scene, in words."""
    rows: list[Row] = []
    for size in growth["sizes"]:
        peer = size["problog_ms"]
        told = f"{size['ours_ms']:.4g} ms, most {size['ours_max_ms']:.4g} ms; "
        told += f"{_bounded(size['epsilon'])}; "
        told += f"ProbLog {peer if isinstance(peer, str) else f'{peer:.4g} ms'}"
        rows.append(("fast", f"growth: {size['family']} scene of {size['objects']} objects", "", told))
    memory = growth["memory_mb"]
    told = f"{memory['increase']:.4g} MB more, {memory['whole_process']:.4g} MB the whole process"
    rows.append(("fast", f"growth: memory, {memory['objects']} objects", "", told))
    for scene in growth["forty"]:
        point = f"growth: 40 objects, {scene['candidates']}, scene {scene['seed']}"
        told = f"{scene['auto_ms']:.4g} ms, {_bounded(scene['epsilon'])}"
        rows.append(("fast", point, "", told))
        told = f"{scene['deadline_median_ms']:.4g} ms, most {scene['deadline_max_ms']:.4g} ms, "
        rows.append(("fast", f"{point}, with a deadline", "", told + _bounded(scene["deadline_epsilon"])))
    return rows


def _bounded(epsilon: float) -> str:
    return "exact" if epsilon == 0 else f"scores known up to {epsilon:.3g}"


def geometry_speed() -> list[Row]:
    """All geometric evidence of a scene."""
    file = OUT / "bench_evidence.json"
    run("benchmarks/bench_evidence.py", "--json", str(file))
    rows: list[Row] = []
    for case in json.loads(file.read_text())["results"]:
        point = (
            f"all geometric evidence, {case['objects']} objects at {case['width']}x{case['height']}, median"
        )
        asked = f"<= {case['asked_ms']:g} ms" if case["asked_ms"] else ""
        rows.append(("fast", point, asked, f"{case['median_ms']:.1f} ms of one processor"))
    return rows


def service() -> list[Row]:
    """The service under load."""
    run("benchmarks/bench_serve.py", "--json", str(OUT / "bench_serve.json"))
    found = json.loads((OUT / "bench_serve.json").read_text())
    decide, clients, mutated, memory = (found[k] for k in ("decide", "clients", "mutated", "memory"))
    point = f"decisions from probabilities, {decide['objects']} objects, {decide['requests']} requests"
    own = f"{clients['their_own']} of {clients['uploads']} got their own result, {clients['seconds']} s"
    statuses = mutated["statuses"]
    broken = sum(count for status, count in statuses.items() if int(status) >= 500)
    told = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
    size = f"{memory['peak_pss_mb'] / 1024:.2f} GB"
    return [
        ("serves", f"{point}, rate", ">= 200 a second", f"{decide['rate']:.0f} a second"),
        ("serves", f"{point}, median", "", f"{decide['p50_ms']:.1f} ms"),
        ("serves", f"{point}, 99th percentile", "< 100 ms", f"{decide['p99_ms']:.1f} ms"),
        ("serves", f"{clients['clients']} clients uploading at once, none lost or mixed up", "all", own),
        ("serves", f"{mutated['sent']} mutated uploads, replies 500 and above", "0", f"{broken} ({told})"),
        ("serves", "most memory of service and workers, shared pages counted once", "< 2 GB", size),
        ("serves", "alive after all that", "yes", "yes" if found["alive"] else "no"),
    ]


def start() -> list[Row]:
    """Starts of the command line, 10 each: warm, and the very first with nothing compiled."""
    cpor = ["-c", "from cpor.cli.app import main; main()"]
    decide = [*cpor, "decide", "examples/scenes/heap.json"]
    photograph = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data") / "osd_learn" / "learn0"
    pictures = [*cpor, "decide", *(str(photograph / f"{each}.png") for each in ("rgb", "depth"))]
    timed = (
        ("import cpor", "< 0.5 s", ["-c", "import cpor"], False),
        ("cpor --help", "< 0.4 s", [*cpor, "--help"], False),
        ("cpor decide scene.json, 6 objects", "< 1 s", decide, False),
        ("cpor decide scene.json --json, 6 objects", "< 1 s", [*decide, "--json"], False),
        ("the same, the very first time (nothing compiled)", "< 6 s", decide, True),
        ("cpor decide RGB DEPTH --point", "< 3 s", [*pictures, "--point", "320,240"], False),
    )
    return [
        ("fast", f"{what}, median of {RUNS}", asked, _time(command, is_first))
        for what, asked, command, is_first in timed
    ]


def release() -> list[Row]:
    """What `make dist` made: sizes, and the licences of all that is installed with the wheel."""
    (wheel,), (sdist,) = (list((ROOT / "dist").glob(f"*.{kind}")) for kind in ("whl", "tar.gz"))
    lines = (ROOT / "dist" / "licences.md").read_text(encoding="utf-8").splitlines()[2:]
    licences = Counter(line.split("|")[3].strip() for line in lines)
    strict = [line.split("|")[1].strip() for line in lines if re.search(r"(?<!L)GPL", line.split("|")[3])]
    listed = ", ".join(f"{name} {count}" for name, count in licences.most_common(6))
    told = f"{sum(licences.values())} packages, all with a licence named: {listed}, ..."
    return [
        ("serves", "wheel, weights inside", "<= 45 MB", f"{wheel.stat().st_size / 1e6:.1f} MB"),
        ("serves", "sdist", "", f"{sdist.stat().st_size / 1e6:.1f} MB"),
        ("serves", "licences of what the wheel brings in", "listed", told),
        ("serves", "packages under the GPL among them", "0", f"{len(strict)} {', '.join(strict)}".strip()),
        ("serves", "packages without a licence among them", "0", str(licences["UNKNOWN"])),
    ]


RUNS = 10
"""Starts of each kind."""


def _time(arguments: list[str], is_first: bool) -> str:
    """Medians by the clock and of the processor, with how busy the machine was."""
    wall, own = [], []
    for run_number in range(RUNS + 1):
        with tempfile.TemporaryDirectory() as empty:
            environment = os.environ | ({"NUMBA_CACHE_DIR": empty} if is_first else {})
            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, *arguments]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if run_number:  # the first fills caches
            wall.append(time.perf_counter() - began)
            own.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    said = f"{statistics.median(wall):.2f} s (most {max(wall):.2f}), processor {statistics.median(own):.2f} s"
    return f"{said}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


SHORT: dict[str, Callable[[], list[Row]]] = {
    "speed": speed,
    "geometry_speed": geometry_speed,
    "service": service,
    "start": start,
    "release": release,
}
"""Parts of minutes, turned into rows here."""


if __name__ == "__main__":
    main()
