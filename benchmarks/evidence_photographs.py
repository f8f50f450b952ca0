"""Labelled photographs with sensor depth (osd_learn): what our networks find there, and what is decided.

    python benchmarks/evidence_photographs.py

Masks: recall and precision at IoU .5, with depth and without; a mask on background is not held against the
segmenter, since only what lies on the table is labelled. Decisions: every labelled object is asked for, with
our masks and with true ones, by the bundled models; an action is wrong by what truly hides what. Two
photographs carry masks of others, which makes two or three of their targets wrong whatever is done. Figures
go to out/evidence/.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from evidence_page import Row
from harness import measure_parts, share
from harness import photographs as labelled_photographs
from scipy.optimize import linear_sum_assignment

from cpor.decision import Defer, Grasp
from cpor.infer.decide import decide_many
from cpor.learn.modes import MODES
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation, Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System
from cpor.truth import is_wrong, truth_of

MASKS: dict[str, Bundled] = {"our masks": "embedded", "true masks": "geometry"}


def count_masks(scene: Scene, observation: Observation, segmenter: OnnxSegmenter) -> Counter[str]:
    """Objects wanted, found, and masks on objects that are none."""
    found = segmenter.segment(observation)
    assert found.visible_ids is not None and scene.visible_ids is not None
    claimed = np.array([found.visible_ids.ravel() == k for k in found.ids], np.float32)
    true = np.array([scene.visible_ids.ravel() == k for k in scene.ids], np.float32)
    if not len(claimed):
        return Counter(wanted=len(true))
    shared = claimed @ true.T
    overlap = shared / (claimed.sum(1)[:, None] + true.sum(1)[None] - shared)
    rows, cols = linear_sum_assignment(-overlap)
    good = {int(i) for i, j in zip(rows, cols, strict=True) if overlap[i, j] >= 0.5}
    on_objects = shared.sum(1) > 0.5 * claimed.sum(1)
    false = sum(bool(on_objects[k]) for k in range(len(claimed)) if k not in good)
    return Counter(wanted=len(true), found=len(good), false=false, background=int((~on_objects).sum()))


def count_actions(scene: Scene, masks: str, system: System, model: FittedModel) -> Counter[str]:
    """What is done for each labelled target, forced to act and in each mode."""
    truth, pipeline = truth_of(scene), model.pipeline()
    seen, pairs = replace(scene, semantic_scores=None), truth.pairs
    find = {k: k for k in scene.ids}
    if masks == "our masks":
        view = system.look(scene.observation)
        seen = replace(view.scene, semantic_scores=system.believe(view).semantic)
        assert seen.visible_ids is not None and scene.visible_ids is not None
        known = Recognition.match(seen.ids, seen.visible_ids, truth.objects, scene.visible_ids)
        find, pairs = {k: known.find(k) for k in scene.ids}, known.translate(truth).pairs
    geometry = pipeline.measure(seen)
    beliefs = pipeline.combine(geometry, seen.semantic_scores)
    forced = replace(model.pipeline(tau=0.0), prior=model.p_unanswered, most_mu=1.0)
    certain = forced.combine(geometry, seen.semantic_scores)
    count: Counter[str] = Counter()
    for obj, target in find.items():
        obstructed = any(pair.blocked == obj for pair in truth.pairs)
        count.update(n=1, obstructed=obstructed)
        if target not in seen.ids:
            count["lost"] += 1
            continue
        posterior = forced.posterior(certain, target).with_prior(forced.prior)
        action = forced.settle(decide_many([posterior], tau=0.0)[0]).action
        wrong = isinstance(action, Defer) or is_wrong(action, target, pairs)
        count.update(right=not wrong, free=wrong and isinstance(action, Grasp) and obstructed)
        for mode in MODES:
            decision = model.pipeline(model.tau(mode)).decide(pipeline.posterior(beliefs, target))
            acts = not isinstance(decision.action, Defer)
            bad = acts and is_wrong(decision.action, target, pairs)
            count[f"{mode} acts"] += acts
            count[f"{mode} wrong"] += bad
            count[f"{mode} free"] += bad and isinstance(decision.action, Grasp)
    return count


def photographs() -> list[Row]:
    """Masks and decisions."""
    scenes = labelled_photographs(all_of_them=True)
    segmenter, system = OnnxSegmenter(), System()
    rows: list[Row] = []
    name = f"{len(scenes)} labelled photographs"
    for kind, asked in (("with depth", (".94", ".85")), ("without depth", (".80", ".70"))):
        total: Counter[str] = Counter()
        for scene in scenes:
            seen = scene.observation if kind == "with depth" else replace(scene.observation, depth=None)
            total += count_masks(scene, seen, segmenter)
        recall = share(total["found"], total["wanted"])
        precision = share(total["found"], total["found"] + total["false"])
        rows.append(("sees", f"{name}, {kind}: recall at IoU .5", f">= {asked[0]}", recall))
        rows.append(
            ("sees", f"{name}, {kind}: precision at IoU .5, masks on objects", f">= {asked[1]}",
             f"{precision}; {total['background']} masks on background are not counted")
        )  # fmt: skip
    for masks, bundled in MASKS.items():
        model = FittedModel.load(bundled_model(bundled))
        total = Counter()
        for scene in scenes:
            total += count_actions(scene, masks, system, model)
        right = share(total["right"], total["n"])
        asked = (">= 0.98", "<= 1") if masks == "our masks" else ("reported", "reported")
        rows.append(("decides", f"{name}, {masks}: forced first actions right by occlusion", asked[0], right))
        told = f"{total['free']} of {total['obstructed']}"
        rows.append(("safe", f"{name}, {masks}, forced: obstructed targets called free", asked[1], told))
        for mode in MODES:
            told = ", ".join(f"{total[f'{mode} {what}']} {what}" for what in ("acts", "wrong", "free"))
            rows.append(("safe", f"{name}, {masks}, {mode}: acts, wrong, obstructed called free", "reported",
                         f"{told} of {total['n']} targets ({total['lost']} not found)"))  # fmt: skip
    return rows


if __name__ == "__main__":
    measure_parts({"photographs": photographs}, __doc__)
