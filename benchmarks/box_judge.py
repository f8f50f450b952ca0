"""How good each combination of relation sources is, from kept `Facts`: see box_evaluate.py."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.errors import TooLargeError
from cpor.evidence.learnt import RELATIONS, GeometryKind
from cpor.fitting import FitSettings
from cpor.fitting.fit import fit_labelled, unanswered_rate
from cpor.fitting.labelled import LabelledScene, split
from cpor.fitting.stages import fit_calibration, fit_fusion, fit_unseen
from cpor.infer.decide import decide_many
from cpor.learn.modes import MODES
from cpor.learn.reliability import summarise_reliability
from cpor.learn.scoring import auroc
from cpor.model import FittedModel
from cpor.paper.methods import true_scores
from cpor.paper.paired import forced_action, map_scores, product_scores
from cpor.paper.perceived import SegmenterKind
from cpor.pipeline import UNSEEN, Pipeline
from cpor.relations import ObstructionPosterior
from cpor.truth import TruthKind, is_wrong, truth_of

if TYPE_CHECKING:
    from box_evaluate import Facts

TRUTHS: tuple[TruthKind, ...] = ("any", "occlusion")

SOURCES: dict[str, tuple[GeometryKind | None, bool]] = {
    "paper geometry": ("paper", False),
    "learnt geometry": ("learnt", False),
    "both geometries": ("both", False),
    "scorer": (None, True),
    "paper geometry + scorer": ("paper", True),
    "learnt geometry + scorer": ("learnt", True),
    "both geometries + scorer": ("both", True),
}
"""Whose geometry, and whether the scorer is asked."""

ALPHA = 0.05
"""Allowed rate of wrong actions that models are fitted for."""

REDRAWS = 100
"""Samples of the images from which the intervals of AUROC and ECE come."""

KEPT: dict[tuple[SegmenterKind, str], str] = {
    ("ours", "both geometries + scorer"): "embedded",
    ("given", "both geometries"): "geometry",
}
"""Models that come with the package."""


def judge(
    masks: SegmenterKind, source: str, known: list["Facts"], test: list["Facts"], later: list["Facts"]
) -> dict[str, Any]:
    """One combination: fitted on what is known, then decided on first looks and on later ones."""
    kind, asks = SOURCES[source]
    read = [each.read(kind, asks, Pipeline()) for each in known]
    kept = KEPT.get((masks, source))
    fresh = frozenset(each.name for each in read if each.name.startswith("fresh"))
    settings = FitSettings(alpha=ALPHA, geometry_kind=kind or "paper", truth="any", untouched=fresh)
    model = fit_labelled(read, settings).model if kept else None
    forced = replace(model.pipeline(tau=0.0), prior=model.p_unanswered) if model else _fit_pairs(read)
    forced = replace(forced, most_mu=1.0)
    # The classical segmenter's masks come in so many pieces that sums over all graphs take seconds a scene.
    row = decided(source, test, forced, model, compared=masks != "depth")
    if later:
        row["later"] = decided(source, later, forced, model)
    if model is not None:
        row["promise"] = {
            "alpha": ALPHA, "tau": model.promise.tau, "reason": model.promise.reason,
            "n": len(model.parts["promise"]),
        }  # fmt: skip
    return {"row": row, "model": model.to_json() if model else None, "kept": kept}


def decided(
    source: str, test: list["Facts"], forced: Pipeline, model: FittedModel | None, compared: bool = True
) -> dict[str, Any]:
    """First actions on cases and how good the probabilities are.

    Args:
        source: Name in SOURCES.
        test: The cases.
        forced: Acts on each.
        model: What each mode does is told of a model, which the product's own combinations have.
        compared: Whether the other two ways from the same probabilities are taken as well.
    """
    kind, asks = SOURCES[source]
    told = [each.read(kind, asks, forced) for each in test]
    cases = [(each, seen) for each, seen in zip(test, told, strict=True) if each.target in each.scene.ids]
    found = [each for each, _ in cases]
    posteriors = [forced.posterior(seen.beliefs, each.target) for each, seen in cases]
    filled = [each.with_prior(forced.prior) for each in posteriors]
    decisions = decide_many(filled, tau=0.0)
    actions: dict[str, list[Action | None]] = {"cpor": [forced.settle(each).action for each in decisions]}
    if compared:
        actions["no_acyclicity"] = [_best(each, product_scores) for each in filled]
        actions["single_map"] = [_best(each, map_scores) for each in filled]
    looked = [~np.isnan(each.beliefs.p_fused) & (each.beliefs.p_fused > 0.0) for each in told]
    p = [each.beliefs.p_fused[at] for each, at in zip(told, looked, strict=True)]
    label = [each.label[at] for each, at in zip(told, looked, strict=True)]
    row: dict[str, Any] = {
        "right": {
            truth: {name: _right(test, found, chosen, truth) for name, chosen in actions.items()}
            for truth in TRUTHS
        },
        "relations": _relations(p, label),
        "modes": {},
    }
    for mode in MODES if model is not None else ():
        acting = model.pipeline(model.tau(mode))
        done = [_act(acting, *each) for each in zip(posteriors, decisions, strict=True)]
        row["modes"][mode] = _count(found, done)
    return row


def _fit_pairs(read: list[LabelledScene]) -> Pipeline:
    """The stages up to fused probabilities, fitted as `cpor fit` does; nothing is promised."""
    parts = split(read, np.random.default_rng(0))
    fitted, _ = fit_calibration(Pipeline(), parts)
    fitted, _ = fit_unseen(fitted, parts)
    fitted, _ = fit_fusion(fitted, parts)
    return replace(fitted, tau=0.0, prior=unanswered_rate(read))


def _count(cases: list["Facts"], actions: Sequence[Action]) -> dict[str, int]:
    """What came of actions."""
    wrong = [
        is_wrong(action, each.target, truth_of(each.scene, "any").pairs)
        for action, each in zip(actions, cases, strict=True)
    ]
    return {
        "n": len(actions),
        "acted": sum(not isinstance(action, Defer) for action in actions),
        "wrong": sum(wrong),
        "obstructed_called_free": sum(
            isinstance(action, Grasp) and bad for action, bad in zip(actions, wrong, strict=True)
        ),
    }


def _act(acting: Pipeline, posterior: ObstructionPosterior, forced: Decision) -> Action:
    """What a mode does; the scores of a forced decision serve it where no answer was filled in for them."""
    if posterior.has_unanswered:
        return acting.decide(posterior).action
    action = acting.settle(forced).action
    if not isinstance(action, Defer) and forced.interval(action.obj)[0] <= acting.tau:
        return Defer("weak_evidence")
    return action


def _best(
    posterior: ObstructionPosterior, score: Callable[[ObstructionPosterior], np.ndarray]
) -> Action | None:
    """The action with the largest score; None where there is none, or where it cannot be summed."""
    try:
        action = forced_action(posterior, score(posterior))
    except TooLargeError:
        return None
    return None if action == Remove(UNSEEN) else action


def _right(
    test: list["Facts"], found: list["Facts"], actions: Sequence[Action | None], kind: TruthKind
) -> dict[str, str]:
    """One character a case and tier: 1 right, 0 wrong, not acted or not found."""
    good = {
        id(each): action is not None
        and not isinstance(action, Defer)
        and not is_wrong(action, each.target, truth_of(each.scene, kind).pairs)
        for each, action in zip(found, actions, strict=True)
    }
    told: dict[str, str] = {}
    for each in test:
        told[each.tier] = told.get(each.tier, "") + str(int(good.get(id(each), False)))
    return told


def with_true_relations(test: list["Facts"]) -> dict[str, str]:
    """First actions by the true relations among the objects that were found, judged as the others are."""
    found = [each for each in test if each.target in each.scene.ids]
    actions: list[Action | None] = []
    for each in found:
        ids = each.scene.ids
        scores = true_scores(ids, each.target, truth_of(each.scene, "any").pairs)
        known = ObstructionPosterior(ids, each.target, np.zeros((len(ids), len(ids))))
        actions.append(forced_action(known, scores))
    return _right(test, found, actions, "any")


def _relations(p: list[np.ndarray], label: list[np.ndarray]) -> dict[str, Any]:
    """AUROC and ECE of the pairs that were answered, with intervals by redrawing the images."""

    def figures(chosen: Sequence[int]) -> tuple[float, float]:
        scores, true = np.concatenate([p[k] for k in chosen]), np.concatenate([label[k] for k in chosen])
        return auroc(scores, true), float(summarise_reliability(scores, true).ece)

    rng = np.random.default_rng(0)
    drawn = [figures(rng.integers(len(p), size=len(p)).tolist()) for _ in range(REDRAWS)]
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    found = figures(range(len(p)))
    return {
        "auroc": (found[0], low[0], high[0]),
        "ece": (found[1], low[1], high[1]),
        "n": int(sum(each.size for each in p)),
    }


def raw_learnt(facts: list["Facts"]) -> dict[str, dict[str, float]]:
    """The network's own probabilities against the truth it was taught, before any fitting."""
    told = {}
    for k, kind in enumerate(RELATIONS):
        p, label = [], []
        for each in facts:
            truths = {"occlusion": each.scene.true_occlusion, "sweep": each.scene.true_sweep}
            wanted = [t for name, t in truths.items() if kind in ("either", name) and t is not None]
            ids = each.geometry["learnt"].ids
            for i, j in np.argwhere(~np.isnan(each.learnt[..., k])):
                p.append(1.0 / (1.0 + np.exp(-each.learnt[i, j, k])))
                label.append(any((ids[i], ids[j]) in truth.pairs for truth in wanted))
        scores, true = np.array(p), np.array(label, bool)
        ece = float(summarise_reliability(scores, true).ece)
        told[kind] = {"auroc": auroc(scores, true), "ece": ece, "n": float(true.size)}
    return told
