"""Masks dropped at random: obstructed targets called free, with the safety rules and without, by mode.

    python benchmarks/evidence_drops.py [--scenes 170] [--photographs 42]

On test scenes and osd_learn, with our masks and our scorer, and with true masks and geometry alone, each with
the bundled model fitted to it. Three of the objects that are left are asked for. What geometry and scorer say
of a pair is kept from the scene as it was; what speaks for unseen blockers is measured anew after each drop.
Without the rules: as if every hidden pixel had an owner and nothing contradicted anything. Figures go to
docs/evidence.json.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
from evidence_fuzz import Bases
from evidence_gate import DATA
from evidence_merged import WRONG_MASKS
from evidence_page import keep
from long_parts import Row

from cpor.data.scene_folder import read_scene_folder
from cpor.data.scene_set import list_scene_folders
from cpor.decision import Defer, Grasp
from cpor.evidence import GeometricEvidence, geometric_evidence
from cpor.fitting.labelled import drop_objects
from cpor.inference.decide import decide_many
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.risk.modes import MODES
from cpor.scene import BlockedBy, Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System
from cpor.truth import is_wrong, truth_of

RATES = (0.0, 0.1, 0.25, 0.5)
TARGETS = 3
MASKS: dict[str, Bundled] = {"our masks": "embedded", "true masks": "geometry"}
Count = Counter[tuple[str, str, float, str, str, str]]
"""By set, masks, rate, mode, rules off or on, and what is counted."""


class Seen(NamedTuple):
    """A scene and its truth."""

    scene: Scene
    truth: frozenset[BlockedBy]


def simulated(count: int, masks: str) -> Iterator[Seen]:
    """Test scenes."""
    bases = Bases(count)
    for number in range(count):
        scene = bases.scene(number, "true" if masks == "true masks" else "claimed")
        yield Seen(scene, truth_of(scene, "any").pairs)


def photographs(count: int, masks: str) -> Iterator[Seen]:
    """osd_learn, less the two with masks of others."""
    system = System()
    folders = [each for each in list_scene_folders(DATA / "osd_learn") if each.name not in WRONG_MASKS]
    for folder in folders[:count]:
        scene = read_scene_folder(folder)
        truth = truth_of(scene)
        if masks == "true masks":
            yield Seen(scene, truth.pairs)
            continue
        view = system.look(scene.observation)
        found = view.scene
        assert found.visible_ids is not None and scene.visible_ids is not None
        known = Recognition.match(found.ids, found.visible_ids, truth.objects, scene.visible_ids)
        scored = replace(found, semantic_scores=system.believe(view).semantic)
        yield Seen(scored, known.translate(truth).pairs)


def keep_some(geometry: GeometricEvidence, scene: Scene) -> GeometricEvidence:
    """What was measured, of the objects that are left; what is unseen is measured anew."""
    kept = [geometry.ids.index(label) for label in scene.ids]
    pairs = {
        each.name: getattr(geometry, each.name)[np.ix_(kept, kept)]
        for each in fields(geometry)
        if each.name not in ("ids", "unseen")
    }
    return replace(geometry, ids=scene.ids, unseen=geometric_evidence(scene).unseen, **pairs)


def measure(name: str, masks: str, scenes: Iterator[Seen], count: Count) -> None:
    """Count some targets of every scene at every rate."""
    model = FittedModel.load(bundled_model(MASKS[masks]))
    on = model.pipeline()
    rules = {"off": replace(on, most_disagreement=float("inf"), most_mu=1.0), "on": on}
    rng = np.random.default_rng(20261116)
    for scene, truth in scenes:
        given = scene if masks == "our masks" else replace(scene, semantic_scores=None)
        whole = on.measure(given)
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
                _count(count, (name, masks, rate, rule), posteriors, pipeline, truth, model)


def _count(
    count: Count,
    at: tuple[str, str, float, str],
    posteriors: list[ObstructionPosterior],
    pipeline: Pipeline,
    truth: frozenset[BlockedBy],
    model: FittedModel,
) -> None:
    name, masks, rate, rule = at
    for posterior, decision in zip(posteriors, decide_many(posteriors, tau=0.0), strict=True):
        action, target = pipeline.settle(decision).action, posterior.target
        assert isinstance(target, int)
        # Where it must act; a mode does the same if the least score exceeds its tau.
        least = 0.0 if isinstance(action, Defer) else decision.interval(action.obj)[0]
        wrong = is_wrong(action, target, truth)
        for mode in MODES:
            acts = least > model.tau(mode)
            key = name, masks, rate, mode, rule
            count[(*key, "n")] += 1
            count[(*key, "acts")] += acts
            count[(*key, "wrong")] += acts and wrong
            count[(*key, "free")] += acts and wrong and isinstance(action, Grasp)


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


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=170, help="test scenes")
    parser.add_argument("--photographs", type=int, default=42)
    asked = parser.parse_args()
    count: Count = Counter()
    for masks in MASKS:
        measure("osd_learn", masks, photographs(asked.photographs, masks), count)
        measure("test split", masks, simulated(asked.scenes, masks), count)
    rows = rows_of(count)
    for row in rows:
        print(" | ".join(row))
    keep({"drops": rows})


if __name__ == "__main__":
    main()
