"""Candidates with coverage, plans and cycles, on simulated scenes and photographs with true relations.

    python benchmarks/evidence_beliefs.py [--only coverage,plans_simulated,cycles_simulated]

Masks are the true ones, beliefs those of the bundled geometry model. It makes simulated scenes in
out/coverage_set and goes on with those that are there; photographs are those of osd_learn. The released logs
hold neither masks nor distances: nothing can be added to their candidates. Figures go to docs/evidence.json.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evidence_gate import DATA
from long_parts import Row, measure_parts

from cpor import Defer, decide, plan
from cpor.evidence.geometry import PairState, geometric_evidence
from cpor.evidence.nearness import nearness
from cpor.infer.robust import allow_cycles
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.learn.coverage import CandidateCoverage, CoverageCase
from cpor.learn.reliability import summarise_reliability
from cpor.model import FittedModel, bundled_model
from cpor.pipeline import PairBeliefs, Pipeline
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy
from cpor.sim.dataset.make import DatasetSettings, plan_dataset, write_dataset
from cpor.truth import TruthKind, is_wrong, truth_of

FOLDER, SCENES, SEED = Path("out/coverage_set"), 150, 77
ALPHA, REDRAWS = 0.1, 200


class Case(NamedTuple):
    """A scene, what is believed of it, and what is true."""

    ids: tuple[int, ...]
    beliefs: PairBeliefs
    truth: frozenset[BlockedBy]
    ours: CoverageCase
    paper: np.ndarray


@cache
def geometry_pipeline() -> Pipeline:
    return FittedModel.load(bundled_model("geometry")).pipeline(tau=0.9)


def read_case(folder: Path, kind: TruthKind) -> Case:
    scene = replace(read_scene_folder(folder), semantic_scores=None)
    pairs = frozenset(truth_of(scene, kind).pairs)
    place = {label: k for k, label in enumerate(scene.ids)}
    label = np.zeros((len(place),) * 2, bool)
    for blocked, blocker in pairs:
        if blocked in place and blocker in place:
            label[place[blocked], place[blocker]] = True
    beliefs = geometry_pipeline().believe(scene)
    paper = geometric_evidence(scene).state != PairState.NO_CONTACT
    ours = CoverageCase(nearness(scene), label, beliefs.p_fused != 0.0)
    return Case(scene.ids, beliefs, pairs, ours, paper)


@cache
def simulated() -> Sequence[Case]:
    write_dataset(plan_dataset(SCENES, SEED, settings=DatasetSettings(width=320, height=240)), FOLDER)
    return [read_case(folder, "any") for folder in list_scene_folders(FOLDER)]


@cache
def photographs() -> Sequence[Case]:
    return [read_case(folder, "occlusion") for folder in list_scene_folders(DATA / "osd_learn")]


def coverage() -> list[Row]:
    """Recall and size of candidate sets: the paper's rule, ours, with coverage; what it does to decisions."""
    rows: list[Row] = []
    for name, cases in (("simulated scenes", simulated()), ("photographs", photographs())):
        rows += describe_rules(f"{len(cases)} {name}", cases) + redraw(f"{len(cases)} {name}", cases)
    return rows


def describe_rules(name: str, cases: Sequence[Case]) -> list[Row]:
    true, rows = sum(int(case.ours.label.sum()) for case in cases), list[Row]()
    rules = {
        "the paper's rule": [c.paper for c in cases],
        "our network": [c.ours.is_candidate for c in cases],
    }
    for rule, masks in rules.items():
        kept = sum(int((c.ours.label & mine).sum()) for c, mine in zip(cases, masks, strict=True))
        whole = np.mean([not (c.ours.label & ~mine).any() for c, mine in zip(cases, masks, strict=True)])
        size = np.mean([mine.sum() - np.trace(mine) for mine in masks])
        point = f"candidates of {rule}, {name}: recall of {true}, scenes with all, pairs a scene"
        rows.append(("decides", point, "reported", f"{kept / true:.3f}, {whole:.3f}, {size:.1f}"))
    return rows


def redraw(name: str, cases: Sequence[Case]) -> list[Row]:
    """Fits to half of the scenes, judged on the other half."""
    rng = np.random.default_rng(23)
    covered, sizes, leaks = [], [], []
    for _ in range(REDRAWS):
        order = rng.permutation(len(cases))
        fitted = CandidateCoverage.fit([cases[k].ours for k in order[: len(order) // 2]], ALPHA)
        rest = [cases[k].ours for k in order[len(order) // 2 :]]
        least = -np.inf if fitted.least is None else fitted.least
        covered.append(np.mean([case.farthest >= least for case in rest]))
        sizes.append(np.mean([fitted.added(case.nearness, case.is_candidate).sum() for case in rest]))
        leaks.append(fitted.leak)
    told = f"{np.mean(covered):.3f}; {np.mean(sizes):.2f} pairs added a scene, leak {np.mean(leaks):.4f}"
    point = f"candidates with coverage {1 - ALPHA:g}, {REDRAWS} splits of {name}: scenes with all"
    fitted = CandidateCoverage.fit([case.ours for case in cases[::2]], ALPHA)
    acted, pipeline = Counter[str](), geometry_pipeline()
    for case in cases[1::2]:
        p, unseen = fitted.apply(case.beliefs.p_fused, case.beliefs.p_unseen, case.ours.nearness)
        wider = replace(case.beliefs, p_fused=p, p_unseen=unseen)
        for target in case.ids:
            acted["n"] += 1
            for when, beliefs in (("before", case.beliefs), ("after", wider)):
                action = pipeline.decide(pipeline.posterior(beliefs, target)).action
                if not isinstance(action, Defer):
                    acted[when] += 1
                    acted[f"{when}, wrong"] += is_wrong(action, target, case.truth)
    said = f"{acted['before']} / {acted['after']} of {acted['n']}, "
    said += f"wrong {acted['before, wrong']} / {acted['after, wrong']}"
    return [
        ("calibrated", point, f">= {1 - ALPHA:g}", told),
        ("decides", f"acts above 0.9 before / with coverage, {name}", "reported", said),
    ]


def asked_for(cases: Sequence[Case], each: int) -> Iterator[tuple[Case, int, ObstructionPosterior]]:
    """Some targets of every scene, drawn at random."""
    rng, pipeline = np.random.default_rng(29), geometry_pipeline()
    for case in cases:
        for target in rng.permutation(case.ids)[:each].tolist():
            yield case, target, pipeline.posterior(case.beliefs, target)


def plans_simulated() -> list[Row]:
    """Predicted validity of plans against the true relations, carried out with eyes closed."""
    predicted, realised, steps = [], [], []
    for case, target, posterior in asked_for(simulated(), 2):
        found = plan(posterior, 4, cost_removal=0.02)
        gone, valid = set[object](), True
        order = [*(step.obj for step in found.steps), target]
        for obj in order:
            valid &= not any(blocker not in gone for blocked, blocker in case.truth if blocked == obj)
            gone.add(obj)
        predicted.append(found.p_valid)
        realised.append(valid)
        steps.append(len(order) - 1)
    p, came = np.array(predicted), np.array(realised)
    summary = summarise_reliability(p, came)
    spread = 1.96 * np.sqrt((p * (1.0 - p)).sum()) / len(p)
    name = f"{len(p)} plans of {np.mean(steps):.1f} removals, {len(simulated())} simulated scenes"
    return [
        ("calibrated", f"{name}: predicted against realised validity", "reported",
         f"{p.mean():.3f} against {came.mean():.3f} (95 % of samples within {spread:.3f})"),
        ("calibrated", f"{name}: calibration error, 10 bins", "reported", f"{summary.ece:.3f}"),
    ]  # fmt: skip


def cycles_simulated() -> list[Row]:
    """Actions where graphs with a cycle keep some of their probability, against the true relations."""
    acted, n, cyclic = Counter[str](), 0, 0
    for case, target, posterior in asked_for(simulated(), 100):
        decision = decide(posterior, 0.9)
        inside = has_cycle(target, case.truth)
        n, cyclic = n + 1, cyclic + inside
        for weight in (0.0, 0.2, 1.0):
            action = allow_cycles(decision, weight).action
            if not isinstance(action, Defer):
                wrong = is_wrong(action, target, case.truth)
                acted.update({f"{weight:g}": 1, f"{weight:g} wrong": wrong, f"{weight:g} in a cycle": inside})
    scenes = f"{n} targets, {len(simulated())} simulated scenes"
    rows: list[Row] = [("decides", f"{scenes}: true relations hold a cycle below the target", "reported",
                        f"{cyclic / n:.3f} ({cyclic})")]  # fmt: skip
    for kept in ("0", "0.2", "1"):
        told = f"{acted[kept]} of {n}, {acted[f'{kept} wrong']} wrong, "
        told += f"{acted[f'{kept} in a cycle']} with a cycle"
        point = f"{scenes}, cycles keep {kept} of their probability: acts above 0.9"
        rows.append(("decides", point, "reported", told))
    return rows


def has_cycle(target: int, truth: frozenset[BlockedBy]) -> bool:
    """Whether what has to go before the target holds a cycle."""
    reached, todo = {target}, [target]
    while todo:
        here = todo.pop()
        new = {blocker for blocked, blocker in truth if blocked == here} - reached
        reached |= new
        todo += new
    left = {pair for pair in truth if pair[0] in reached and pair[1] in reached}
    while True:
        inside = {pair for pair in left if any(pair[1] == other[0] for other in left)}
        if inside == left:
            return bool(left)
        left = inside


PARTS = {"coverage": coverage, "plans_simulated": plans_simulated, "cycles_simulated": cycles_simulated}

if __name__ == "__main__":
    measure_parts(PARTS, __doc__)
