"""What is still done on inputs with a fault: acts, promises, wrong actions, with `cpor.System` to decide.

    python benchmarks/evidence_gate_acts.py [--simulated 60] [--photographs 44]

Every fault of gate_faults.py is put into photographs of osd_learn and test scenes with their true masks,
handed out by a segmenter that says that it is the tested one: nothing is caught by its name. Two objects of
each scene are asked for, obstructed ones first, in mode `cautious`. Scenes are kept in out/gate_acts.jsonl as
they are decided, so a run that was stopped goes on. Counts go to out/evidence/.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
from evidence_fuzz import Bases, decide
from evidence_gate import DATA, OUT
from evidence_merged import WRONG_MASKS
from fuzz_faults import Broken
from gate_faults import FAULTS, Faulty
from long_parts import Row, measure_parts

from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.scene import Scene
from cpor.truth import truth_of

NEVER = ("zero depth", "constant depth", "unit x10", "unit x0.1", "unit x1000")
"""Faults under which nothing may be done."""

UNTOUCHED = "untouched"
TARGETS = 2


def decide_scene(scene: Scene, other: Scene | None, number: int) -> dict[str, str]:
    """Letters of `evidence_fuzz.say` for each fault, one a target."""
    truth = truth_of(scene, "occlusion" if scene.true_sweep is None else "any").pairs
    obstructed = {blocked for blocked, _ in truth}
    targets = sorted(scene.ids, key=lambda label: (label not in obstructed, label))[:TARGETS]
    said = {}
    for k, (name, fault) in enumerate({UNTOUCHED: None, **FAULTS}.items()):
        rng = np.random.default_rng([number, k])
        faulty = Faulty(scene) if fault is None else fault(scene, other, rng)
        if faulty is None:
            continue
        moved = (faulty.masks_given and name != "masks merged") or faulty.previous is not None
        broken = Broken(faulty.scene, targets[0], truth, moved, faulty.previous)
        letters = decide("claimed", broken, scene, targets)
        said[name] = " ".join(each["cautious"] for each in letters.values())
    return said


def read(name: str, most: int) -> Iterator[Scene]:
    """The scenes of a set, with true masks and relations."""
    if name == "osd_learn":
        yield from (
            read_scene_folder(f) for f in list_scene_folders(DATA / name) if f.name not in WRONG_MASKS
        )
    else:
        folder = Bases(most).folder
        yield from (read_scene_folder(folder / f"scene_{number:05d}") for number in range(most))


def run(name: str, most: int) -> Iterator[dict[str, str]]:
    """Scene after scene of a set; those of an earlier run are read."""
    file = OUT / "gate_acts.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    done = {tuple(key): said for key, said in map(json.loads, file.read_text().splitlines())}
    group = list(islice(read(name, most), most))
    for number, scene in enumerate(group):
        if (name, number) not in done:
            alike = [s for s in group if s is not scene and s.observation.shape == scene.observation.shape]
            said = decide_scene(scene, alike[number % len(alike)] if alike else None, number)
            with file.open("a") as lines:
                lines.write(json.dumps([[name, number], said]) + "\n")
            done[name, number] = said
        yield done[name, number]


def rows_of(name: str, scenes: Iterator[dict[str, str]]) -> list[Row]:
    """Nothing is done under NEVER; the rest is reported."""
    count: Counter[tuple[str, str]] = Counter()
    for scene in scenes:
        for fault, letters in scene.items():
            for letter in letters.split():
                count[fault, "n"] += 1
                count[fault, "acts"] += letter != "-"
                count[fault, "wrong"] += letter[0] in "GR"
                count[fault, "promised"] += letter[-1] == "*"
                count[fault, "broken"] += letter in ("G*", "R*")
    rows: list[Row] = []
    for fault in dict.fromkeys(fault for fault, _ in count):
        acts, wrong, promised, broken, n = (
            count[fault, what] for what in ("acts", "wrong", "promised", "broken", "n")
        )
        says = f"{acts} of {n}; wrong {wrong}, promised {promised}, promised and wrong {broken}"
        rows.append(("safe", f"still acting, {name}: {fault}", "0" if fault in NEVER else "reported", says))
    return rows


def measure_gate_acts(simulated: int = 60, photographs: int = 44) -> list[Row]:
    """Measure the rows."""
    rows = rows_of("osd_learn", run("osd_learn", photographs))
    rows += rows_of("test split", run("test split", simulated))
    return rows


if __name__ == "__main__":
    measure_parts({"gate_acts": measure_gate_acts}, __doc__)
