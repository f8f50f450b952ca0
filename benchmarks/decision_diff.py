"""Compare the decisions of two checkouts, target by target: what a change of the code leaves as it is.

    python benchmarks/decision_diff.py BEFORE [AFTER] [--keep FOLDER]

BEFORE and AFTER are checkouts; AFTER is this one by default. Each decides for every object of photographs
in osd_learn (`CPOR_DATA`), of the simulated scenes in examples/ and of simulated heaps, by id and words, and
follows an object through two frames. Actions, promises, thresholds, checks and names must be equal, scores
to 1e-9; else the exit code is 1. FOLDER keeps what each checkout decided, by its commit.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")
HEAPS = 18
"""Simulated heaps of the test split, beside the scenes of examples/."""

SCORE_TOLERANCE = 1e-9

RECORD = """
import json, sys
from pathlib import Path
import numpy as np
import cpor
from cpor.io.scene_folder import read_scene_folder
from cpor.sim.dataset.make import simulate_case
from cpor.sim.dataset.make import plan_split
from cpor.sim.dataset.manifest import DatasetSettings
out, data, scenes, heaps = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
system, said = cpor.System(), {}
def say(a):
    return {
        "action": str(a.action), "scores": {str(k): float(v) for k, v in a.scores.items()}, "tau": a.tau,
        "promise": None if a.promise is None else [a.promise.alpha, a.promise.confidence],
        "p_success": a.p_success,
        "checks": [[c.name, c.state] for c in a.checks], "names": {str(k): v for k, v in a.names.items()},
        "question": a.question,
    }
def keep(name, picture):
    view = system.look(picture)
    for o in view.scene.objects:
        said[f"{name} {o.id}"] = say(system.decide(view, o.id))
        if o.called:
            said[f"{name} {o.id} by words"] = say(system.decide(view, o.called))
def moved(frame):
    return cpor.Observation(*(np.roll(each, 12, 1) for each in (frame.rgb, frame.depth)), frame.camera)
for folder in sorted(data.glob("osd_learn/*/")) + sorted(scenes.glob("scene_*/")):
    scene = read_scene_folder(folder)
    keep(folder.name, scene)
    for n, a in enumerate(system.follow([scene.observation, moved(scene.observation)], 1)):
        said[f"{folder.name} followed {n}"] = say(a)
for number, case in enumerate(plan_split("test").cases[:heaps]):
    keep(f"heap {number}", simulate_case(case, DatasetSettings())[0].observation)
out.write_text(json.dumps(said))
"""


Said = dict[str, dict[str, object]]
"""Decisions of one checkout, by scene and target."""


def record(tree: Path, folder: Path) -> Said:
    """Every decision of a checkout; read from `folder` where its commit is there."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(tree), *words], capture_output=True, text=True, check=True
        ).stdout

    is_changed = bool(git("status", "--porcelain", "src"))
    kept = folder / f"{git('rev-parse', 'HEAD').strip()}{'+' * is_changed}.json"
    if is_changed or not kept.is_file():
        asked = [str(kept), str(DATA), str(tree / "examples" / "scenes" / "sim"), str(HEAPS)]
        environment = os.environ | {"PYTHONPATH": str(tree / "src")}
        subprocess.run([sys.executable, "-c", RECORD, *asked], cwd=tree, env=environment, check=True)
    found: Said = json.loads(kept.read_text(encoding="utf-8"))
    return found


def differs(a: dict[str, object], b: dict[str, object]) -> list[str]:
    """What is not the same about two decisions."""
    said = [f"{name} {a[name]} -> {b[name]}" for name in a if name != "scores" and a[name] != b[name]]
    p, q = a["scores"], b["scores"]
    assert isinstance(p, dict) and isinstance(q, dict)
    far = p.keys() != q.keys() or any(abs(p[label] - q[label]) > SCORE_TOLERANCE for label in p)
    return [*said, f"scores {p} -> {q}"] if far else said


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "decisions")
    asked = parser.parse_args()
    asked.keep.mkdir(parents=True, exist_ok=True)
    before, after = (record(tree.resolve(), asked.keep) for tree in (asked.before, asked.after))
    found = {name: differs(before[name], after[name]) for name in before.keys() & after.keys()}
    found |= {name: ["decided by one checkout only"] for name in before.keys() ^ after.keys()}
    for name in sorted(filter(found.get, found)):
        print("\n".join(f"{name}: {each}" for each in found[name]))
    print(f"{len(before)} decisions before, {len(after)} after, {sum(map(bool, found.values()))} differ")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
