"""What unseen blockers and contradictory sources cost and save, on a folder of labelled scenes.

    python benchmarks/evidence_unseen.py [SCENES] --model MODEL.json --truth any --masks-dropped 0 0.25

Some objects of each scene are targets. Each is decided by the stages as they are, and as if every hidden
pixel had an owner and no contradiction were too large ("before"). "Acted" is the share of targets it acts
on, "wrong" and "free" the share of all targets with a wrong action, or with an obstructed target called
free. The row `blockers` drops the masks of everything that truly obstructs the target directly; `hidden`
and `cut` are targets of which nothing can be promised: listed without a visible pixel, or cut by the
image border. Figures go to out/evidence/.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evidence_page import keep
from long_parts import Row

from cpor.decision import Defer, Grasp
from cpor.evidence import GeometricEvidence
from cpor.fitting.labelled import drop_objects
from cpor.io.scene_folder import read_scene_folder
from cpor.learn.gated import Guard
from cpor.model import FittedModel, bundled_model
from cpor.paper_model import nothing_unseen
from cpor.pipeline import Pipeline
from cpor.scene import BlockedBy, Observation, Scene
from cpor.sim.dataset.make import plan_split, write_dataset
from cpor.truth import is_wrong, parse_truth, truth_of


class Case(NamedTuple):
    """A scene, its target and the truth."""

    scene: Scene
    target: int
    truth: frozenset[BlockedBy]


def before(pipeline: Pipeline) -> Pipeline:
    """The same stages as if every hidden pixel had an owner and nothing contradicted anything."""

    def measure(scene: Scene) -> GeometricEvidence:
        geometry = pipeline.measure(scene)
        return replace(geometry, unseen=nothing_unseen(len(geometry.ids)))

    return replace(pipeline, measure=measure, calibrate_unseen=None, guard=Guard(float("inf")), most_mu=1.0)


def read_cases(folder: Path, kind: str, most: int, targets: int, rng: np.random.Generator) -> list[Case]:
    """Some targets of each scene."""
    cases = []
    places = sorted(each for each in folder.iterdir() if (each / "instances.png").is_file())
    for place in places[:most]:
        scene = read_scene_folder(place)
        truth = truth_of(scene, parse_truth(kind)).pairs
        chosen = rng.permutation(scene.ids)[:targets].tolist()
        cases += [Case(scene, target, truth) for target in chosen]
    return cases


def drop_some(cases: list[Case], rate: float, rng: np.random.Generator) -> Iterator[Case]:
    """Masks dropped at random, never the target's."""
    for case in cases:
        gone = [label for label in case.scene.ids if label != case.target and rng.random() < rate]
        yield case._replace(scene=drop_objects(case.scene, gone))


def drop_blockers(cases: list[Case]) -> Iterator[Case]:
    """Nobody segmented what obstructs the target directly; targets that nothing obstructs are left out."""
    for case in cases:
        gone = [j for i, j in case.truth if i == case.target and j in case.scene.ids]
        if gone:
            yield case._replace(scene=drop_objects(case.scene, gone))


def hide(cases: list[Case]) -> Iterator[Case]:
    """The target is listed and shows no pixel."""
    for case in cases:
        visible = np.where(case.scene.visible_ids == case.target, 0, case.scene.visible_ids)
        yield case._replace(scene=replace(case.scene, visible_ids=visible.astype(np.int32)))


def cut(cases: list[Case]) -> Iterator[Case]:
    """The image ends in the middle of the target."""
    for case in cases:
        scene = case.scene
        columns = np.flatnonzero((scene.visible_ids == case.target).any(axis=0))
        if columns.size < 4:
            continue
        first = int(columns[columns.size // 2])
        seen = scene.observation
        depth = None if seen.depth is None else np.ascontiguousarray(seen.depth[:, first:])
        frame = Observation(np.ascontiguousarray(seen.rgb[:, first:]), depth)
        objects = []
        for each in scene.objects:
            mask = None if each.amodal is None else each.amodal.to_mask(seen.shape)[:, first:]
            crop = None if mask is None else type(each.amodal).from_mask(np.ascontiguousarray(mask))
            objects.append(replace(each, amodal=crop))
        visible = np.ascontiguousarray(scene.visible_ids[:, first:])
        yield case._replace(
            scene=replace(scene, observation=frame, objects=tuple(objects), visible_ids=visible, points={})
        )


def measure(name: str, cases: list[Case], stages: dict[str, Pipeline]) -> list[Row]:
    """One line and row for each pipeline."""
    rows: list[Row] = []
    for stage, pipeline in stages.items():
        acted = wrong = free = right = 0
        why: dict[str, int] = {}
        for case in cases:
            action = pipeline.run(case.scene, case.target).decision.action
            if isinstance(action, Defer):
                why[action.reason] = why.get(action.reason, 0) + 1
                continue
            acted += 1
            bad = is_wrong(action, case.target, case.truth)
            wrong += bad
            right += not bad
            free += bad and isinstance(action, Grasp)
        n = max(len(cases), 1)
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(why.items()))
        print(
            f"{name:<18} {stage:<14} n {len(cases):>4}  acted {acted / n:6.1%}  right {right / n:6.1%}  "
            f"wrong {wrong / n:6.1%}  free {free:>3} ({free / n:.1%})  deferred: {reasons or 'never'}",
            flush=True,
        )
        point = f"obstructed targets called free, {name}, {stage}"
        told = f"{free / n:.1%} ({free} of {len(cases)}); wrong {wrong / n:.1%}, acted on {acted / n:.1%}"
        rows.append(("safe", point, "reported", told))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenes", type=Path, nargs="?", help="Folder of labelled scenes; the test split.")
    parser.add_argument("--model", type=Path, default=bundled_model(), help="Fitted model file.")
    parser.add_argument("--truth", default="any", help="occlusion, sweep or any.")
    parser.add_argument("--masks-dropped", type=float, nargs="*", default=[0.0, 0.1, 0.25, 0.5])
    parser.add_argument("--most", type=int, default=60, help="Largest number of scenes.")
    parser.add_argument("--targets", type=int, default=2, help="Targets of each scene.")
    parser.add_argument("--seed", type=int, default=0, help="Random seed for targets and dropped masks.")
    given = parser.parse_args()
    model = FittedModel.load(given.model)
    if given.scenes is None:
        given.scenes = Path(__file__).resolve().parents[1] / "out" / "splits" / "test"
        write_dataset(plan_split("test"), given.scenes, 2)
    stages = {}
    for policy, tau in (("tau 0.5", 0.5), ("policy", None)):
        pipeline = model.pipeline(tau)
        stages |= {f"{policy} before": before(pipeline), f"{policy} now": pipeline}
    rng = np.random.default_rng(given.seed)
    cases = read_cases(given.scenes, given.truth, given.most, given.targets, rng)
    rows: list[Row] = []
    for rate in given.masks_dropped:
        rows += measure(f"masks dropped {rate:.0%}", list(drop_some(cases, rate, rng)), stages)
    rows += measure("blockers", list(drop_blockers(cases)), stages)
    rows += measure("hidden", list(hide(cases)), stages)
    rows += measure("cut", list(cut(cases)), stages)
    keep({"unseen": rows})


if __name__ == "__main__":
    main()
