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
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from evidence_page import PAGE, Row, find_old, hide, keep, read_figures, show, write_page

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"

LONG = {
    part: f"benchmarks/{script}.py"
    for script, parts in {
        "bench": "speed,growth",
        "bench_evidence": "geometry_speed",
        "bench_serve": "fleet",
        "docs_tried": "docs_tried",
        "evidence_covers": "covers",
        "evidence_fuzz": "fuzz",
        "evidence_gate": "gate,merged",
        "evidence_guarantees": "exact_sizes,equal,robust,plans_simulated",
        "evidence_gym": "gym",
        "evidence_hostile": "hostile",
        "evidence_loop_causes": "deliveries",
        "evidence_mcp": "mcp",
        "evidence_photographs": "photographs",
        "evidence_real_bins": "real_bins",
        "evidence_sensors": "sensors,first_actions",
        "evidence_words": "words",
    }.items()
    for part in parts.split(",")
}
"""Parts of a script of their own, which keeps the rows."""


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
                rows.setdefault(file, []).append(Row(*json.loads(entry.get("value", "[]"))))
    return rows


def frame_speed() -> list[Row]:
    """A frame of 640x480 to a decision, networks and kernels loaded; the process alone on its cores."""
    from cpor.io.scene_folder import list_scene_folders, read_scene_folder
    from cpor.perception.network_file import PACKAGED
    from cpor.sim.dataset.make import plan_split, write_dataset
    from cpor.system import System

    system, plan, folder = System(), plan_split("test"), OUT / "splits" / "timed"
    write_dataset(replace(plan, cases=plan.cases[: TIMED + 1]), folder, 2)
    totals: list[float] = []
    stages: dict[str, list[float]] = {}
    for path in list_scene_folders(folder):
        observation = read_scene_folder(path).observation
        began = time.perf_counter()
        view = system.look(observation)
        if not view.seen.ids:
            continue
        spent_in = dict(system.decide(view, view.seen.ids[0]).times_ms)
        totals.append(1e3 * (time.perf_counter() - began))
        for stage, spent in (spent_in | {"no stage": totals[-1] - sum(spent_in.values())}).items():
            stages.setdefault(stage, []).append(spent)
    del totals[0]  # the first one compiles
    each = ", ".join(f"{stage} {statistics.median(spent):.0f}" for stage, spent in stages.items())
    tenth = sorted(totals)[int(0.9 * len(totals))]
    told = f"{statistics.median(totals):.0f} ms (nine in ten below {tenth:.0f}); by stage: {each}"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    weights = sum(path.stat().st_size for path in PACKAGED.glob("*.onnx")) / 1e6
    point = f"640x480 RGB-D to decision, 2 cores, median of {len(totals)} test scenes"
    return [
        Row("fast", point, "<= 300 ms", told),
        Row("fast", "memory of the process that does so", "<= 1 GB", f"{memory:.2f} GB"),
        Row("fast", "weights of all our networks", "<= 40 MB", f"{weights:.1f} MB"),
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
        Row("fast", f"{what}, median of {RUNS}", asked, _time(command, is_first))
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
        Row("serves", "wheel, weights inside", "<= 45 MB", f"{wheel.stat().st_size / 1e6:.1f} MB"),
        Row("serves", "sdist", "", f"{sdist.stat().st_size / 1e6:.1f} MB"),
        Row("serves", "licences of what the wheel brings in", "listed", told),
        Row("serves", "packages under the GPL among them", "0", f"{len(strict)} {', '.join(strict)}".strip()),
        Row("serves", "packages without a licence among them", "0", str(licences["UNKNOWN"])),
    ]


RUNS, TIMED = 10, 60
"""Starts of each kind; first scenes of the test split, all tiers in turn, that a decision is timed on."""


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
    "frame_speed": frame_speed,
    "start": start,
    "release": release,
}
"""Parts that are measured here."""


if __name__ == "__main__":
    main()
