"""Masks that hold two objects: how many a second look finds, and how many sound ones it doubts.

    python benchmarks/evidence_merged.py [--scenes 100]

Every object with a neighbour that obstructs it is merged with it, in true masks of the test split and of
osd_learn, less the two photographs with masks of others. Our own segmenter is the second look. How often its
own masks hold two true objects is counted too. Figures go to out/evidence/.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from evidence_fuzz import Bases
from evidence_gate import DATA
from fuzz_faults import Broken, merge_target
from long_parts import Row, measure_parts

from cpor.evidence.learnt import LearntGeometry
from cpor.evidence.merged import find_merged
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import BlockedBy, Scene
from cpor.truth import truth_of

WRONG_MASKS = ("learn25", "learn26")


def photographs() -> Iterable[tuple[Scene, Scene, frozenset[BlockedBy]]]:
    """Scene, second look, truth."""
    segmenter = OnnxSegmenter()
    for folder in list_scene_folders(DATA / "osd_learn"):
        if folder.name not in WRONG_MASKS:
            scene = read_scene_folder(folder)
            yield scene, segmenter.segment(scene.observation), truth_of(scene).pairs


def simulated(count: int) -> Iterable[tuple[Scene, Scene, frozenset[BlockedBy]]]:
    """The same of the test split."""
    bases = Bases(count)
    for number in range(count):
        scene = bases.scene(number, "true")
        yield scene, bases.scene(number, "claimed"), truth_of(scene, "any").pairs


def measure(name: str, cases: Iterable[tuple[Scene, Scene, frozenset[BlockedBy]]]) -> list[Row]:
    """Shares found and doubted."""
    geometry = LearntGeometry()
    sound = doubted = merged = found = own = own_merged = 0
    for scene, second, truth in cases:
        told = geometry(second)
        doubted += int(find_merged(scene, second, told).sum())
        sound += len(scene.ids)
        for label in scene.ids:
            broken = merge_target(Broken(scene, label, truth), only_blockers=True)
            if broken.scene is not scene:
                merged += 1
                found += bool(find_merged(broken.scene, second, told)[broken.scene.ids.index(label)])
        own += len(second.ids)
        own_merged += count_merged(second, scene)
    return [
        (
            "safe",
            f"targets merged with what obstructs them found by a second look, {name}",
            "reported",
            f"{found / max(merged, 1):.0%} ({found} of {merged})",
        ),
        (
            "safe",
            f"sound masks doubted by a second look, {name}",
            "at most 2 %",
            f"{doubted / sound:.1%} of {sound}",
        ),
        (
            "sees",
            f"masks of our segmenter that hold two true objects, {name}",
            "reported",
            f"{own_merged / max(own, 1):.1%} ({own_merged} of {own})",
        ),
    ]


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


def measure_merged(scenes: int = 100) -> list[Row]:
    """Measure the rows."""
    rows = measure("osd_learn", photographs()) if Path(DATA / "osd_learn").is_dir() else []
    rows += measure("test split", simulated(scenes))
    return rows


if __name__ == "__main__":
    measure_parts({"merged": measure_merged}, __doc__)
