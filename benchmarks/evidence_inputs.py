"""Inputs as people have them: one frame in many forms, broken forms, two files and a point, the doctor.

Run: PYTHONPATH=tests:src:. python benchmarks/evidence_inputs.py [--only input_forms,doctor_clean]
"""

import hashlib
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gate_faults import FAULTS
from long_parts import Row, measure_parts
from support.broken_forms import HELD, REFUSED
from support.data import DATA
from support.input_forms import EXACT, LOSSY, Form, Shot, in_folder

from cpor.apps.doctor import FOR_A_PROMISE, Examined, examine
from cpor.decision import Defer
from cpor.errors import CporError
from cpor.io.frame_files import list_inputs, read_input
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.perception.object_list import list_objects
from cpor.scene import Observation, Scene
from cpor.system import System

ROOT = Path(__file__).resolve().parents[1]
FRAME, PHOTOGRAPHS = "osd_learn/learn30", 12
"""The frame of the many forms, and how many photographs get each fault."""

MISLABELLED = ("learn25", "learn26")
"""Photographs of osd_learn with masks of others: see docs/gate.md. A complaint about them is right."""

REMEDIES = {
    "zero depth": ("depth_coverage", "Record depth again"),
    "constant depth": ("depth_variation", "Record the frame again"),
    "unit x10": (("depth_range", "depth_coverage"), '"depth_unit_m": 0.001'),
    "unit x0.1": (("depth_range", "depth_coverage"), '"depth_unit_m": 0.001'),
    "unit x1000": (("depth_range", "depth_coverage"), '"depth_unit_m": 0.001'),
    "depth shifted 20 px": ("depth_fits_picture", "depth_camera"),
    "depth of another frame": ("depth_fits_picture", "aligned"),
    "50 % holes": ("depth_coverage", "emitter"),
    "BGR": ("channels", "bgr[:, :, ::-1]"),
    "black": ("exposure", "exposure"),
    "over-exposed": ("exposure", "exposure"),
    "previous frame again": ("fresh", "cpor doctor realsense"),
    "masks shifted 30 px": ("masks_fit_picture", "cpor perceive"),
    "ids shifted 30 px": ("visible_inside_amodal", "amodal.npz"),
    "masks of another frame": ("masks_fit_picture", "cpor perceive"),
}
"""The check that must find a fault, and words of its remedy. For merged masks there is none."""


def shot_of(seen: Observation) -> Shot:
    """A frame in whole millimetres."""
    assert seen.depth is not None
    mm = np.rint(np.nan_to_num(seen.depth) * 1000).astype(np.uint16)
    return Shot(np.array(seen.rgb), mm, tuple(seen.camera.intrinsics or (525.0, 525.0, 319.5, 239.5)))


def digest(seen: Observation) -> bytes:
    """Of what a decision depends on."""
    parts = (
        seen.rgb.tobytes(),
        np.nan_to_num(seen.depth).round(6).tobytes(),
        repr(seen.camera.intrinsics).encode(),
    )
    return hashlib.sha256(b"".join(parts)).digest()


class Said(NamedTuple):
    """Kind of action, the place of what is acted on, number of objects, whether a promise is made."""

    kind: str
    place: tuple[int, ...]
    objects: int
    promised: bool

    def like(self, other: "Said") -> bool:
        """The same action, on what lies at most 12 px apart."""
        apart = max((abs(a - b) for a, b in zip(self.place, other.place, strict=False)), default=0)
        return self.kind == other.kind and apart <= 12


class Decider:
    """Decides on forms of one frame; the very same frame is decided on once."""

    def __init__(self, folder: Path) -> None:
        self.system = System()
        scene = read_scene_folder(folder)
        self.shot = shot_of(scene.observation)
        whole = [each for each in list_objects(scene) if each["point"]]
        self.point = tuple(whole[0]["point"] or ())
        self.known: dict[bytes, Said] = {}

    def answer(self, form: Form) -> Said:
        """What is said of a form of the frame; a warning on the way is an error."""
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("error")
            scene, _ = read_input(*form(Path(name), self.shot))
        key = digest(scene.observation)
        if key not in self.known:
            view = self.system.look(scene)
            answer = self.system.decide(view, self.point)
            action = answer.action
            places = {each["id"]: each["point"] for each in view.objects}
            place = None if action is None or isinstance(action, Defer) else places.get(int(action.obj))
            kind = type(action).__name__
            self.known[key] = Said(kind, tuple(place or ()), len(places), answer.promise is not None)
        return self.known[key]


def input_forms() -> list[Row]:
    decider = Decider(DATA / FRAME)
    wanted = decider.answer(EXACT["two PNG"])
    print("two PNG:", wanted)
    same = alike = 0
    for name, form in (EXACT | LOSSY).items():
        said = decider.answer(form)
        same += name in EXACT and said == wanted
        alike += name in LOSSY and said.like(wanted)
        if said != wanted:
            print(f"{name}: {said}")
    exact = "one frame in lossless forms of files and folders: same answer"
    lossy = "one frame in forms that lose a little: same action on the same object"
    return [
        ("decides", exact, "all", f"{same} of {len(EXACT)}"),
        ("decides", lossy, "all", f"{alike} of {len(LOSSY)}"),
    ]


def input_broken() -> list[Row]:
    decider = Decider(DATA / FRAME)
    wanted = decider.answer(EXACT["two PNG"])
    refused = held = wrong = 0
    for name, form in (REFUSED | HELD).items():
        try:
            said = decider.answer(form)
        except CporError as error:
            refused += "\n" not in str(error)
            continue
        acts = said.kind not in ("Defer", "NoneType")
        held += not acts
        wrong += acts and not said.like(wanted)
        print(f"{name}: {said}")
    count = len(REFUSED) + len(HELD)
    point = f"{count} broken forms of one frame"
    return [
        ("safe", f"{point}: refused in one line, or not acted on", "all", f"{refused + held} of {count}"),
        ("safe", f"{point}: another action than that of the whole frame", "0", str(wrong)),
    ]


def input_point() -> list[Row]:
    """Two files and a point in a true mask."""
    system = System()
    rows: list[Row] = []
    for name in ("osd_learn", "real_rgbd"):
        wall, cpu, answered, acted, complaints, asked = [], [], 0, 0, 0, 0
        for folder in sorted((DATA / name).glob("*/")):
            scene = read_scene_folder(folder)
            points = [each["point"] for each in list_objects(scene) if each["point"]]
            point = (
                points[0] if points else [scene.observation.shape[1] // 2, scene.observation.shape[0] // 2]
            )
            start, busy = time.perf_counter(), time.process_time()
            view = system.look(folder / "rgb.png", folder / "depth.png")
            answer = system.decide(view, tuple(point))
            if asked:  # the first one reads the networks
                wall.append(time.perf_counter() - start)
                cpu.append(time.process_time() - busy)
            asked += 1
            answered += answer.action is not None
            acted += answer.action is not None and not isinstance(answer.action, Defer)
            bad = [c.name for c in answer.checks if c.state != "pass" and c.name not in FOR_A_PROMISE]
            complaints += bool(bad)
            if bad or answer.action is None:
                print(folder.name, bad, answer.question)
        point_of = f"cpor decide RGB DEPTH --point, {name}"
        rows += [
            ("decides", f"{point_of}: answered", "all", f"{answered} of {asked}"),
            ("decides", f"{point_of}: acted", "reported", f"{acted} of {asked}"),
            ("safe", f"{point_of}: complaints about the input", "at most 2 %", f"{complaints} of {asked}"),
            ("fast", f"{point_of}: warm, median", "< 3 s", _seconds(wall)),
            ("fast", f"{point_of}: warm, median of the processor's time", "< 3 s", _seconds(cpu)),
        ]
    return rows


def _seconds(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s, most {max(times):.2f} s"


def write_fault(name: str, scene: Scene, other: Scene, folder: Path, rng: np.random.Generator) -> int | None:
    """A faulty frame as files; which frame of the folder it is."""
    unit = {"unit x10": 0.01, "unit x0.1": 0.0001, "unit x1000": 1.0}.get(name)
    if unit is not None:
        words = f'{{"depth_unit_m": {unit}}}'
        in_folder("rgb.png", "depth.png", ("camera.json", lambda _: words))(
            folder, shot_of(scene.observation)
        )
        return None
    if name == "previous frame again":
        in_folder("color_{}.png", "depth_{}.png", count=2)(folder, shot_of(scene.observation))
        return 1
    fault = FAULTS[name](scene, other, rng)
    assert fault is not None
    write_scene_folder(replace(fault.scene, sources=None), folder)
    return None


def doctor_faults() -> list[Row]:
    given, bare = System(segmenter="given", scorer="none"), None
    scenes = [
        read_scene_folder(path)
        for path in sorted((DATA / "osd_learn").glob("*/"))
        if path.name not in MISLABELLED
    ][:: 42 // PHOTOGRAPHS][:PHOTOGRAPHS]
    rows: list[Row] = []
    for number, (name, (check, words)) in enumerate(REMEDIES.items()):
        found = remedied = 0
        for k, scene in enumerate(scenes):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "frame"
                rng = np.random.default_rng([k, number])
                frame = write_fault(name, scene, scenes[(k + 1) % len(scenes)], folder, rng)
                before = read_input(folder, frame=0)[0].observation if frame else None
                system = given if (folder / "instances.png").is_file() else bare
                said = examine(system, folder, frame=frame, previous=before)
            wanted = (check,) if isinstance(check, str) else check
            hits = [each for each in said.findings if each.check.name in wanted]
            found += bool(said.findings)
            remedied += any(words in each.fix for each in hits)
        total = len(scenes)
        rows.append(("safe", f"doctor, {name}: complains", "reported", f"{found} of {total}"))
        rows.append(("safe", f"doctor, {name}: named with the right remedy", "all", f"{remedied} of {total}"))
        print(rows[-1], flush=True)
    return rows


def doctor_clean() -> list[Row]:
    """Folders as they are: masks as given, else found by our segmenter."""
    given, own = System(segmenter="given", scorer="none"), System(scorer="none")
    sets: dict[str, Callable[[], list[Path]]] = {
        "osd_learn, less 2 with masks of others": lambda: [
            path for path in sorted((DATA / "osd_learn").glob("*/")) if path.name not in MISLABELLED
        ],
        "real_rgbd": lambda: sorted((DATA / "real_rgbd").glob("*/")),
        "raw_frames": lambda: sorted((DATA / "raw_frames").glob("*/")),
        "simulated examples": lambda: sorted((ROOT / "examples" / "scenes" / "sim").glob("*/")),
    }
    rows: list[Row] = []
    complaints = total = 0
    for name, folders in sets.items():
        said: list[Examined] = []
        for folder in folders():
            system = given if (folder / "instances.png").is_file() else own
            said += [examine(system, path, frame=frame) for path, frame in list_inputs(folder)]
        bad = [each for each in said if each.state != "pass"]
        for each in bad:
            print(name, each.name, each.error, [(f.check.name, f.check.says) for f in each.findings])
        complaints, total = complaints + len(bad), total + len(said)
        rows.append(
            ("safe", f"doctor, clean data: complaints, {name}", "at most 2 %", f"{len(bad)} of {len(said)}")
        )
        print(rows[-1], flush=True)
    share = f"{complaints / total:.1%} ({complaints} of {total})"
    return [*rows, ("safe", "doctor, clean data: complaints, all", "at most 2 %", share)]


PARTS = {
    "input_forms": input_forms,
    "input_broken": input_broken,
    "input_point": input_point,
    "doctor_faults": doctor_faults,
    "doctor_clean": doctor_clean,
}

if __name__ == "__main__":
    measure_parts(PARTS, __doc__ or "")
