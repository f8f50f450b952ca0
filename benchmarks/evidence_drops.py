"""Masks dropped at random: obstructed targets called free, with the safety rules and without, by mode.

    python benchmarks/evidence_drops.py [--scenes 500] [--photographs 42]

On test scenes and osd_learn, with our masks and our scorer, and with true masks and geometry alone, each with
the bundled model fitted to it. Three of the objects that are left are asked for. What geometry and scorer say
of a pair is kept from the scene as it was; what speaks for unseen blockers is measured anew after each drop.
Without the rules: as if every hidden pixel had an owner and nothing contradicted anything. Figures go to
out/evidence/. Scenes are kept in out/drops as they are counted, so a run that was stopped goes on.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evidence_fuzz import OUT, Bases
from evidence_gate import DATA
from evidence_merged import WRONG_MASKS
from long_parts import Row, measure_parts

from cpor.decision import Defer, Grasp
from cpor.evidence import GeometricEvidence, geometric_evidence
from cpor.fitting.labelled import drop_objects
from cpor.infer.decide import decide_many
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.learn.gated import Guard
from cpor.learn.modes import MODES
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.scene import BlockedBy, Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System
from cpor.truth import is_wrong, truth_of

RATES = (0.0, 0.1, 0.25, 0.5)
TARGETS = 3
MASKS: dict[str, Bundled] = {"our masks": "embedded", "true masks": "geometry"}
Count = Counter[tuple[str, str, float, str, str, str]]
"""By set, masks, rate, mode, rules off or on, and what is counted."""

Case = tuple[float, str, float, bool, bool]
"""Rate, rules off or on, least score of what is done where it must act; whether that is wrong, is a grasp."""


class Seen(NamedTuple):
    """A scene, its truth, and which labelled object each one is where that had to be told."""

    scene: Scene
    truth: frozenset[BlockedBy]
    owner: Mapping[int, int | None] = {}


def simulated(count: int, masks: str) -> Iterator[Callable[[], Seen]]:
    """Test scenes."""
    bases = Bases(count)

    def read(number: int) -> Seen:
        is_true = masks == "true masks"
        scene = bases.read(number) if is_true else bases.scene(number, "recorded")
        return Seen(scene, truth_of(scene, "any").pairs)

    return (partial(read, number) for number in range(count))


def photographs(count: int, masks: str) -> Iterator[Callable[[], Seen]]:
    """osd_learn, less the two with masks of others."""
    system = System()

    def read(folder: Path) -> Seen:
        scene = read_scene_folder(folder)
        truth = truth_of(scene)
        if masks == "true masks":
            return Seen(scene, truth.pairs)
        view = system.look(scene.observation)
        found = view.scene
        assert found.visible_ids is not None and scene.visible_ids is not None
        known = Recognition.match(found.ids, found.visible_ids, truth.objects, scene.visible_ids)
        scored = replace(found, semantic_scores=system.believe(view).semantic)
        return Seen(scored, known.translate(truth).pairs, known.owner)

    folders = [each for each in list_scene_folders(DATA / "osd_learn") if each.name not in WRONG_MASKS]
    return (partial(read, folder) for folder in folders[:count])


def keep_some(geometry: GeometricEvidence, scene: Scene) -> GeometricEvidence:
    """What was measured, of the objects that are left; what is unseen is measured anew."""
    kept = [geometry.ids.index(label) for label in scene.ids]
    pairs = {
        each.name: getattr(geometry, each.name)[np.ix_(kept, kept)]
        for each in fields(geometry)
        if each.name not in ("ids", "unseen")
    }
    return replace(geometry, ids=scene.ids, unseen=geometric_evidence(scene).unseen, **pairs)


def measure(name: str, masks: str, scenes: Iterator[Callable[[], Seen]], count: Count) -> None:
    """Count some targets of every scene at every rate; scenes of an earlier run are read."""
    model = FittedModel.load(bundled_model(MASKS[masks]))
    on = model.pipeline()
    rules = {"off": replace(on, guard=Guard(float("inf")), most_mu=1.0), "on": on}
    made = hashlib.blake2b(bundled_model(MASKS[masks]).read_bytes(), digest_size=4).hexdigest()
    file = OUT / "drops" / f"{name}_{masks}_{made}.jsonl".replace(" ", "_")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    done: list[list[Case]] = [json.loads(line) for line in file.read_text().splitlines()]
    for number, read in enumerate(scenes):
        if number == len(done):
            done.append(drop(read(), masks, on, rules, np.random.default_rng([20261116, number])))
            with file.open("a") as lines:
                lines.write(json.dumps(done[-1]) + "\n")
        for rate, rule, least, wrong, grasps in done[number]:
            for mode in MODES:
                acts = least > model.tau(mode)
                key = name, masks, rate, mode, rule
                count[(*key, "n")] += 1
                count[(*key, "acts")] += acts
                count[(*key, "wrong")] += acts and wrong
                count[(*key, "free")] += acts and wrong and grasps


def drop(
    seen: Seen, masks: str, on: Pipeline, rules: dict[str, Pipeline], rng: np.random.Generator
) -> list[Case]:
    """One scene at every rate, with the rules and without."""
    given = seen.scene if masks == "our masks" else replace(seen.scene, semantic_scores=None)
    whole = on.measure(given)
    cases: list[Case] = []
    for rate in RATES:
        left = drop_objects(given, [label for label in given.ids if rng.random() < rate])
        if not left.ids:
            continue
        geometry = keep_some(whole, left)
        targets = rng.permutation(left.ids)[:TARGETS].tolist()
        for rule, pipeline in rules.items():
            beliefs = pipeline.combine(geometry, left.semantic_scores)
            if rule == "off":
                beliefs = replace(beliefs, p_unseen=np.zeros(len(left.ids)))
            posteriors = [pipeline.posterior(beliefs, target) for target in targets]
            for target, decision in zip(targets, decide_many(posteriors, tau=0.0), strict=True):
                action = pipeline.settle(decision).action
                # Where it must act; a mode does the same if the least score exceeds its tau.
                least = 0.0 if isinstance(action, Defer) else decision.interval(action.obj)[0]
                wrong = is_wrong(action, target, seen.truth)
                cases.append((rate, rule, least, wrong, isinstance(action, Grasp)))
    return cases


def rows_of(count: Count) -> list[Row]:
    """Before and after."""
    rows: list[Row] = []
    for name, masks, rate, mode in dict.fromkeys(key[:4] for key in count):

        def say(rule: str, at: tuple[str, str, float, str] = (name, masks, rate, mode)) -> str:
            n, acts, wrong, free = (count[(*at, rule, what)] for what in ("n", "acts", "wrong", "free"))
            return f"{free} ({free / n:.1%}) of {n}, acts on {acts / n:.1%}, wrong {wrong / n:.1%}"

        point = f"obstructed called free, {rate:.0%} of masks dropped, {mode}, {name}, {masks}"
        rows.append(("safe", point, "reported", f"{say('on')}; without the rules {say('off')}"))
    return rows


def drops(whose: str, scenes: int, wanted: int) -> list[Row]:
    """The rows for one kind of masks."""
    count: Count = Counter()
    measure("osd_learn", whose, photographs(wanted, whose), count)
    measure("test split", whose, simulated(scenes, whose), count)
    return rows_of(count)


def drops_of_our_masks(scenes: int = 500, photographs: int = 42) -> list[Row]:
    """Our masks and our scorer."""
    return drops("our masks", scenes, photographs)


def drops_of_true_masks(scenes: int = 500, photographs: int = 42) -> list[Row]:
    """True masks and geometry alone."""
    return drops("true masks", scenes, photographs)


if __name__ == "__main__":
    measure_parts({"drops": drops_of_our_masks, "drops_true_masks": drops_of_true_masks}, __doc__)
