"""Safety counted on what the networks saw of the dev and test splits, without seeing it again.

    python benchmarks/box_evaluate.py see --out FACTS       once, on a large machine
    python benchmarks/evidence_facts.py FACTS [--only forged,cost,refits] [--fits 200]

forged   every reply about an obstructed target is forged to "free": who is grasped, and by whose fault
cost     what the rules for unseen blockers and contradictions cost on clean scenes
refits   thresholds chosen and tested on scenes drawn anew: how many promises are broken

The models are the bundled ones; "refits" leaves their calibration and fusion as they are.
Figures go to out/evidence/.
"""

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from box_evaluate import Facts
from long_parts import Row, measure_parts

from cpor.decision import Action, Defer, Grasp
from cpor.evidence.learnt import GeometryKind
from cpor.fitting.stages import outcomes
from cpor.infer.decide import decide_many
from cpor.learn.control import control_risk
from cpor.learn.gated import Guard
from cpor.learn.modes import MODES
from cpor.learn.tau_grid import choose_tau_grid
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.promise import make_promise
from cpor.scene import BlockedBy, SemanticScores, Sources
from cpor.truth import is_wrong, truth_of

FORGED = 0.001
"""What a forged reply says."""

N_SELECTION, N_PROMISE = 200, 300
"""Scenes that taus are chosen and tested on."""


def read_facts(folder: Path, split: str, masks: str, most: int) -> list[Facts]:
    """The first cases of a split, by name."""
    packed = [each for path in sorted(folder.glob(f"{split}_{masks}_*.facts")) for each in _unpickle(path)]
    cases: list[Facts] = [pickle.loads(zlib.decompress(each)) for each in packed]
    return sorted(cases, key=lambda each: str(each.scene.request))[:most]


def _unpickle(path: Path) -> list[bytes]:
    content: list[bytes] = pickle.loads(path.read_bytes())
    return content


def stages(kind: Bundled) -> tuple[FittedModel, Pipeline]:
    """A bundled model and its pipeline."""
    model = FittedModel.load(bundled_model(kind))
    return model, model.pipeline()


def act_all(
    pipeline: Pipeline, cases: list[Facts], semantics: list[SemanticScores | None], kind: GeometryKind
) -> list[tuple[Action, float]]:
    """What is done where it must act, and the least score of that; a mode does it if that exceeds its tau."""
    told = [pipeline.combine(each.evidence(kind), said) for each, said in zip(cases, semantics, strict=True)]
    posteriors = [pipeline.posterior(beliefs, each.target) for beliefs, each in zip(told, cases, strict=True)]
    forced = [pipeline.settle(decision) for decision in decide_many(posteriors, tau=0.0)]
    return [(d.action, 0.0 if isinstance(d.action, Defer) else d.interval(d.action.obj)[0]) for d in forced]


def unguarded(pipeline: Pipeline) -> Pipeline:
    """Without the rules for contradictions; unseen blockers are left out by `without_unseen`."""
    return replace(pipeline, guard=Guard(float("inf")), most_mu=1.0)


class _NoUnseen(Pipeline):
    """As if every hidden pixel had an owner."""

    def combine(self, *given, **named):  # type: ignore[no-untyped-def]
        beliefs = super().combine(*given, **named)
        return replace(beliefs, p_unseen=np.zeros(len(beliefs.ids)))


def without_unseen(pipeline: Pipeline) -> Pipeline:
    """The same stages as if every hidden pixel had an owner."""
    return _NoUnseen(**{name: getattr(pipeline, name) for name in Pipeline.__dataclass_fields__})


def _found(facts: list[Facts]) -> Iterator[tuple[Facts, frozenset[BlockedBy]]]:
    for each in facts:
        if each.target in each.scene.ids:
            yield each, truth_of(each.scene, "any").pairs


def forged(folder: Path, most: int = 1800) -> list[Row]:
    """Grasps of obstructed targets with true replies, forged ones, and none."""
    model, pipeline = stages("embedded")
    found = _found(read_facts(folder, "test", "ours", most))
    cases = [each for each, truth in found if any(blocked == each.target for blocked, _ in truth)]
    true = [each.semantic for each in cases]
    lies = [_forge(each.semantic, each.target) for each in cases]
    grasped = {}
    for how, semantics in (("true", true), ("forged", lies), ("none", [None] * len(cases))):
        for k, (action, least) in enumerate(act_all(pipeline, cases, [*semantics], model.geometry_kind)):
            for mode in MODES:
                at = grasped.setdefault((how, mode), set())
                at |= {k} if isinstance(action, Grasp) and least > model.tau(mode) else set()
    rows: list[Row] = []
    for mode in MODES:
        told, lied, none = (grasped[how, mode] for how in ("true", "forged", "none"))
        says = (
            f"{len(lied)} of {len(cases)} (true replies {len(told)}, geometry alone {len(none)}; of the "
            f"{len(lied)}, {len(lied & none)} by geometry alone too, {len(lied - none - told)} by neither)"
        )
        rows.append(("safe", f"replies forged to free, obstructed targets grasped, {mode}", "reported", says))
    return rows


def _forge(said: SemanticScores, target: int) -> SemanticScores:
    return SemanticScores(
        {k: FORGED if k.blocked == target else p for k, p in said.scores.items()}, said.scorer
    )


def cost(folder: Path, most: int = 1800) -> list[Row]:
    """Clean test cases, with and without each rule."""
    rows: list[Row] = []
    kinds: tuple[tuple[str, Bundled], ...] = (("ours", "embedded"), ("given", "geometry"))
    for masks, bundled in kinds:
        model, pipeline = stages(bundled)
        rules = {
            "off": without_unseen(unguarded(pipeline)),
            "unseen blockers alone": unguarded(pipeline),
            "contradictions alone": without_unseen(pipeline),
            "on": pipeline,
        }
        found = list(_found(read_facts(folder, "test", masks, most)))
        cases = [each for each, _ in found]
        semantics = [each.semantic if bundled == "embedded" else None for each in cases]
        told = {rule: act_all(stage, cases, semantics, model.geometry_kind) for rule, stage in rules.items()}
        n, whose = len(cases), {"ours": "our masks", "given": "true masks"}[masks]
        for mode in MODES:
            acts, says = {}, []
            for rule, done in told.items():
                acted = [
                    (d, *case)
                    for (d, least), case in zip(done, found, strict=True)
                    if least > model.tau(mode)
                ]
                wrong = [d for d, each, truth in acted if is_wrong(d, each.target, truth)]
                free = sum(isinstance(d, Grasp) for d in wrong)
                acts[rule] = len(acted)
                right = (len(acted) - len(wrong)) / n
                says.append(f"{rule}: {len(acted) / n:.1%}, right {right:.1%}, obstructed called free {free}")
            lost = f"{100.0 * (acts['off'] - acts['on']) / n:.1f} points ({'; '.join(says)}; n {n})"
            asked = "below 3" if mode == "balanced" else "reported"
            rows.append(
                ("safe", f"coverage that the rules cost, clean test scenes, {mode}, {whose}", asked, lost)
            )
    return rows


def refits(folder: Path, most: int = 1800, fits: int = 200) -> list[Row]:
    """Promises made from scenes drawn with replacement from test cases, against the error rate on them all.

    So the test cases are the world, and what a promise says of it is known exactly.
    """
    model, pipeline = stages("embedded")
    rng = np.random.default_rng(20261116)
    read = [
        each.read(model.geometry_kind, True, pipeline) for each in read_facts(folder, "test", "ours", most)
    ]
    read = [each for each in read if each.beliefs.ids]
    targets = {each.name: int(rng.choice(each.beliefs.ids)) for each in read}
    posteriors = [pipeline.posterior(each.beliefs, targets[each.name]) for each in read]
    forced = [pipeline.settle(decision) for decision in decide_many(posteriors, tau=0.0)]
    score, wrong = outcomes(forced, read, targets)
    levels = model.promise.alpha, model.promise.delta
    rates, coverage, broken, exchanged = [], [], 0, 0
    for _ in range(fits):
        chosen, tested = (rng.integers(len(read), size=n) for n in (N_SELECTION, N_PROMISE))
        grid = choose_tau_grid(score[chosen], wrong[chosen], *levels, n_calibration=N_PROMISE)
        promise = control_risk(score[tested], wrong[tested], *levels, grid)
        exchanged += promised_exchanged(model.model_copy(update={"promise": promise}))
        if promise.tau is not None:
            acted = score > promise.tau
            rates.append(float(wrong[acted].mean()))
            coverage.append(float(acted.mean()))
            broken += rates[-1] > levels[0]
    says = (
        f"{broken / fits:.1%} ({broken} of {fits}, {len(rates)} promised; error on all {len(read)}: mean "
        f"{np.mean(rates):.1%}, largest {max(rates):.1%}; acts on {np.mean(coverage):.0%})"
    )
    drawn = f"{N_SELECTION} + {N_PROMISE} test scenes drawn anew"
    point = f"broken promises of {levels[0]:.0%}, thresholds chosen and tested on {drawn}"
    apart = "promises made although segmenter, scorer or geometry were exchanged"
    return [
        ("calibrated", point, f"at most {levels[1]:.0%}", says),
        ("safe", apart, "0", f"{exchanged} of {3 * fits}"),
    ]


def promised_exchanged(model: FittedModel) -> int:
    """Promises made with one of the three parts exchanged; with none exchanged there must be one."""
    tested = model.tested_with
    assert tested is not None
    made = Sources("", "", tested.segmenter, "", tested.scorer, frozenset(("masks", "scores")))
    measured = {"geometry": model.geometry_weights}
    own, _ = make_promise(model, made, measured, (), True)
    assert (own is not None) == (model.promise.tau is not None)
    others = (
        (replace(made, segmenter="another @0"), measured),
        (replace(made, scorer="another @0"), measured),
        (made, {"geometry": "another"}),
    )
    return sum(make_promise(model, sources, weights, (), True)[0] is not None for sources, weights in others)


PARTS = {"forged": forged, "cost": cost, "refits": refits}


if __name__ == "__main__":
    measure_parts(PARTS, __doc__)
