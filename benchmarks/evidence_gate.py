"""What the gate finds wrong with an input, and what a second look finds wrong with masks.

    python benchmarks/evidence_gate.py [--simulated 200] [--scenes 100] [--only gate,merged]

gate     Every fault of `faults.GATE_FAULTS` is put into photographs and simulated scenes. Caught: a check
         doubts or fails. Masks are those that our segmenter finds in the faulty frame, unless the fault is in
         the masks.
merged   Masks that hold two objects, made of every object and a neighbour that obstructs it: how many our
         segmenter finds as a second look, and how many sound masks it doubts. How often its own masks hold
         two true objects is counted too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from evidence_fuzz import Bases
from evidence_page import Row
from faults import GATE_FAULTS, IN_MASKS, Broken, merge_target
from harness import DATA, OUT, measure_parts, photographs

from cpor.evidence.learnt import LearntGeometry
from cpor.evidence.merged import find_merged
from cpor.gate.frame import check_frame
from cpor.gate.masks import check_masks
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation, Scene
from cpor.sim.dataset.make import plan_dataset, write_dataset
from cpor.sim.dataset.manifest import DatasetSettings
from cpor.truth import truth_of

KINDS = {
    "bins": (0.5, 9201, DatasetSettings()),
    "tables": (0.3, 9202, DatasetSettings(container="table", density="loose")),
    "heaped bins": (0.2, 9203, DatasetSettings(density="heaped")),
}
"""Share of the simulated scenes, seed and settings of each kind. No threshold was chosen on these seeds."""

UNTOUCHED, GIVEN = "untouched", "untouched, masks as given"


def read_sets(simulated: int) -> Iterator[tuple[str, list[Scene]]]:
    """Sets of scenes, each of one camera as far as is known: another frame comes from the same set."""
    for name in ("osd_learn", "real_rgbd"):
        yield name, [read_scene_folder(path) for path in list_scene_folders(DATA / name)]
    for kind, (part, seed, settings) in KINDS.items():
        folder = OUT / "gate_scenes" / kind.replace(" ", "_")
        write_dataset(plan_dataset(max(2, round(part * simulated)), seed, None, settings), folder)
        yield kind, [read_scene_folder(path) for path in list_scene_folders(folder)]


def check(
    segmenter: OnnxSegmenter, scene: Scene, previous: Observation | None, masks_given: bool
) -> tuple[str, str]:
    """How bad an input is (pass, doubt or fail), and the checks that say so."""
    checks = list(check_frame(scene.observation, previous))
    if masks_given:
        checks += check_masks(scene)
    elif all(each.state == "pass" for each in checks):  # masks change nothing where it is caught already
        checks += check_masks(segmenter.segment(scene.observation))
    states = [each.state for each in checks]
    bad = " ".join(sorted({each.name for each in checks if each.state != "pass"}))
    return next(state for state in ("fail", "doubt", "pass") if state in (*states, "pass")), bad


def check_set(scenes: Sequence[Scene], segmenter: OnnxSegmenter) -> Iterator[tuple[str, str, str]]:
    """Fault, state and checks of every scene, untouched and with every fault."""
    for k, scene in enumerate(scenes):
        alike = [s for s in scenes if s is not scene and s.observation.shape == scene.observation.shape]
        other = alike[k % len(alike)] if alike else None
        before = other.observation if other else None
        found = segmenter.segment(scene.observation)
        yield UNTOUCHED, *check(segmenter, found, before, masks_given=True)
        if scene.visible_ids is not None:
            yield GIVEN, *check(segmenter, scene, before, masks_given=True)
        whole = Broken(scene if scene.visible_ids is not None else found, None, frozenset())
        if other is None:
            other = Scene(Observation(np.zeros((1, 1, 3), np.uint8)), ())  # no fault can be made of it
        elif other.visible_ids is None:
            other = segmenter.segment(other.observation)
        for number, (name, (fault, amount)) in enumerate(GATE_FAULTS.items()):
            broken = fault(whole, other, amount, np.random.default_rng([k, number]))
            changed = (
                broken.scene.observation is not whole.scene.observation or broken.scene is not whole.scene
            )
            if changed or broken.previous is not None:
                yield name, *check(segmenter, broken.scene, broken.previous, name in IN_MASKS)


def measure_gate(simulated: int = 200) -> Iterator[Row]:
    """Untouched frames may raise at most 2 % false alarms; faults: the share caught."""
    segmenter = OnnxSegmenter()
    for name, scenes in read_sets(simulated):
        states: dict[str, Counter[str]] = {}
        checks: dict[str, Counter[str]] = {}
        for fault, state, bad in check_set(scenes, segmenter):
            states.setdefault(fault, Counter())[state] += 1
            checks.setdefault(fault, Counter()).update(bad.split())
        for fault, count in states.items():
            caught, n = count["doubt"] + count["fail"], count.total()
            by = ", ".join(f"{each} {k}" for each, k in checks[fault].most_common())
            said = f"{caught / n:.1%} ({caught} of {n}; failed {count['fail']}{f'; {by}' if by else ''})"
            if fault in (UNTOUCHED, GIVEN):
                yield Row("safe", f"false alarms of the gate, {name}, {fault}", "at most 2 %", said)
            else:
                yield Row("safe", f"caught by the gate, {name}: {fault}", "reported", said)


def second_looks(scenes: int) -> Iterator[tuple[str, Iterable[tuple[Scene, Scene]]]]:
    """Sets of scenes with true masks, each with what our segmenter finds."""
    segmenter, bases = OnnxSegmenter(), Bases(scenes)
    yield "osd_learn", ((scene, segmenter.segment(scene.observation)) for scene in photographs())
    yield "test split", ((bases.scene(k, "true"), bases.scene(k, "claimed")) for k in range(scenes))


def measure_merged(scenes: int = 100) -> Iterator[Row]:
    """Shares of merged masks found and of sound ones doubted."""
    geometry = LearntGeometry()
    for name, cases in second_looks(scenes):
        count: Counter[str] = Counter()
        for scene, second in cases:
            truth = truth_of(scene, "occlusion" if scene.true_sweep is None else "any").pairs
            told = geometry(second)
            count.update(sound=len(scene.ids), doubted=int(find_merged(scene, second, told).sum()))
            for label in scene.ids:
                broken = merge_target(Broken(scene, label, truth), only_blockers=True).scene
                if broken is not scene:
                    is_found = find_merged(broken, second, told)[broken.ids.index(label)]
                    count.update(merged=1, found=int(is_found))
            count.update(own=len(second.ids), own_merged=count_merged(second, scene))
        for claim, what, part, whole, asked in (
            ("safe", "targets merged with what obstructs them found by a second look", "found", "merged", ""),
            ("safe", "sound masks doubted by a second look", "doubted", "sound", "at most 2 %"),
            ("sees", "masks of our segmenter that hold two true objects", "own_merged", "own", ""),
        ):  # fmt: skip
            n = count[whole]
            yield Row(
                claim, f"{what}, {name}", asked, f"{count[part] / max(n, 1):.1%} ({count[part]} of {n})"
            )


def count_merged(found: Scene, true: Scene) -> int:
    """Found masks of which two true objects take a twentieth each, with half of what shows of them."""
    assert found.visible_ids is not None and true.visible_ids is not None
    shown = np.bincount(true.visible_ids.reshape(-1))
    count = 0
    for label in found.ids:
        mask = found.visible_ids == label
        taken = np.bincount(true.visible_ids[mask], minlength=shown.size)
        inside = (taken >= 0.5 * np.maximum(shown, 1)) & (taken >= 0.05 * mask.sum())
        count += int(inside[1:].sum() >= 2)
    return count


if __name__ == "__main__":
    measure_parts({"gate": measure_gate, "merged": measure_merged}, __doc__)
