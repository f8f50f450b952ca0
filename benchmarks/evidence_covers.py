"""What is noticed of thin and clear covers drawn onto frames, and what the search for their edges costs.

    python benchmarks/evidence_covers.py [--heaps 80]

Heaps of the test split and the photographs of osd_learn, as our segmenter and scorer see them: untouched, and
with a rod, a film or a clear sheet over one large object each. Every object of the untouched frames is asked
for, and each covered one. "Found": a line runs across the outline of the covered object. An action counts for
the thresholds of `cautious` and `balanced`, with the search as it is, without its rule for faint edges, and
without any. A grasp of a covered object is wrong. Scenes are kept in out/covers/ as they are decided; after a
change of networks or evidence remove it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from covers import KINDS, draw_cover
from evidence_gate import DATA, OUT
from evidence_merged import WRONG_MASKS
from long_parts import Row, measure_parts

from cpor.decision import Defer, Grasp
from cpor.evidence.crossing import crossed_objects
from cpor.infer.decide import decide_many
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.learn.modes import Mode, mode_tau
from cpor.model import FittedModel, bundled_model
from cpor.paper.perceived import PerceptionSettings, see
from cpor.scene import Scene
from cpor.sim.dataset.make import plan_split, simulate_case
from cpor.truth import TruthKind, is_wrong, truth_of

LARGE_PX = 1200
"""An object that shows less is not covered."""

SEARCHES = ("all", "lines", "none")
"""As it is; without faint edges; without any search."""

MODES: tuple[Mode, ...] = ("cautious", "balanced")


@cache
def model() -> FittedModel:
    """The bundled model."""
    return FittedModel.load(bundled_model())


def decide(scene: Scene, kind: TruthKind, targets: list[int]) -> list[dict[str, Any]]:
    """What each search finds of each target, and the letters of `judge` for each mode."""
    pipeline = model().pipeline()
    beliefs = pipeline.believe(scene)
    colours = scene.observation.rgb, scene.visible_ids, scene.ids
    crossed = {
        "all": crossed_objects(*colours, scene.observation.depth),
        "lines": crossed_objects(*colours),
        "none": np.zeros(len(scene.ids), np.bool_),
    }
    truth = truth_of(scene, kind).pairs
    found: list[dict[str, Any]] = [{} for _ in targets]
    for search, which in crossed.items():
        unseen = replace(beliefs.geometry.unseen, crossed=which)
        changed = pipeline.combine(replace(beliefs.geometry, unseen=unseen), scene.semantic_scores, {})
        posteriors = [pipeline.posterior(changed, target) for target in targets]
        for each, target in zip(found, targets, strict=True):
            each[search] = {"found": bool(which[scene.ids.index(target)])}
        for mode in MODES:
            decisions = decide_many(posteriors, tau=mode_tau(mode, model().promise.tau))
            for each, target, decision in zip(found, targets, decisions, strict=True):
                action = pipeline.settle(decision).action
                letter = "-" if isinstance(action, Defer) else "G" if isinstance(action, Grasp) else "R"
                wrong = letter != "-" and is_wrong(action, target, truth)
                each[search][mode] = letter + ("!" if wrong else "")
    return found


def decide_all(name: str, number: int, place: Path | None) -> dict[str, list[dict[str, Any]]]:
    """The targets of a frame untouched, and under each cover."""
    file = OUT / "covers" / f"{name}_{number:03d}.json"
    if file.is_file():
        kept: dict[str, list[dict[str, Any]]] = json.loads(file.read_text())
        return kept
    if place is None:
        plan = plan_split("test")
        scene = simulate_case(plan.cases[number], plan.settings)[0]
    else:
        scene = read_scene_folder(place)
        scene = replace(scene, true_sweep=scene.true_occlusion)  # no label says what hinders lifting
    rng = np.random.default_rng([number, len(name)])
    assert scene.visible_ids is not None
    settings = PerceptionSettings()
    seen, _ = see(scene, settings)
    kind: TruthKind = "any" if place is None else "occlusion"
    said = {"untouched": decide(seen, kind, list(seen.ids))}
    large = [each for each in scene.ids if (scene.visible_ids == each).sum() > LARGE_PX]
    for cover in KINDS:
        if not large:
            continue
        label = int(rng.choice(large))
        rgb = draw_cover(scene.observation.rgb, scene.visible_ids, label, cover, rng)
        seen, known = see(replace(scene, observation=replace(scene.observation, rgb=rgb)), settings)
        target = known.find(label)
        said[cover] = decide(seen, kind, [target]) if target in seen.ids else [{}]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(said))
    return said


def rows_of(name: str, frames: list[dict[str, list[dict[str, Any]]]]) -> Iterator[Row]:
    """What is found and done with each search."""
    for cover in ("untouched", *KINDS):
        cases = [each for frame in frames for each in frame.get(cover, ()) if each]
        lost = sum(not each for frame in frames for each in frame.get(cover, ()))
        told = []
        for search in SEARCHES:
            count: Counter[str] = Counter()
            for each in (case[search] for case in cases):
                count["found"] += each["found"]
                for mode in MODES:
                    count[mode] += each[mode] != "-"
                    count[f"{mode} grasps"] += each[mode][0] == "G"
                    count[f"{mode} right"] += each[mode] in ("G", "R")
            done = (
                f"{mode} acts {count[mode]}, right {count[f'{mode} right']}" if cover == "untouched"
                else f"{mode} grasps it {count[f'{mode} grasps']}"
                for mode in MODES
            )  # fmt: skip
            told.append(f"{search}: found {count['found']}, {', '.join(done)}")
        says = f"n {len(cases)}; {'; '.join(told)}" + (f"; without a mask {lost}" if lost else "")
        yield "safe", f"drawn covers, {name}: {cover}", "reported", says


def measure_covers(heaps: int = 80) -> list[Row]:
    """Photographs, then heaps."""
    folders = [f for f in list_scene_folders(DATA / "osd_learn") if f.name not in WRONG_MASKS]
    sets: dict[str, list[Path | None]] = {"osd_learn": [*folders], "test split": [None] * heaps}
    return [
        row
        for name, places in sets.items()
        for row in rows_of(name, [decide_all(name, number, place) for number, place in enumerate(places)])
    ]


if __name__ == "__main__":
    measure_parts({"covers": measure_covers}, __doc__)
