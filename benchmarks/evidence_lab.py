"""A lab of one's own: what labels of 10, 25 and 50 photographs bring, and whether promises are kept there.

Two labs: the photographs of osd_learn, and the simulated lab of lab_scenes.py (camera leaning by 45 degrees,
worse sensor, no bin). Their scenes are looked at once, by our networks, and kept in out/lab_read. Then labs
are resampled: some scenes are labelled, a model is fitted to them from the bundled one, and the others are
what comes after. Rows go to docs/evidence.json.

Run lab_scenes.py first, then: python benchmarks/evidence_lab.py [--labs 200] [--only osd,simulated]
"""

import argparse
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from evidence_page import keep
from long_parts import Row

from cpor.apps.lab import see_labelled
from cpor.data.scene_folder import read_scene_folder
from cpor.decision import Defer
from cpor.errors import CporError
from cpor.fitting import FitSettings
from cpor.fitting.from_prior import LabReport, choose_weight, fit_from_prior, move
from cpor.fitting.label_order import order_by_value
from cpor.fitting.labelled import LabelledScene
from cpor.inference.decide import decide_many
from cpor.metrics import nll
from cpor.metrics.reliability import ece
from cpor.model import FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.system import System
from cpor.truth import is_wrong

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")
READ = ROOT / "out" / "lab_read"
LABS = {"osd": DATA / "osd_learn", "simulated": ROOT / "out" / "lab"}
SIZES = (10, 25, 50)
ALPHA, DELTA = 0.2, 0.1
DRAWS = 8


def read_lab(name: str) -> list[LabelledScene]:
    """The scenes of a lab as our networks see them; kept, and looked at once."""
    prior = FittedModel.load(bundled_model("embedded"))
    system, raw = System(), Pipeline(measure=prior.pipeline().measure)
    READ.mkdir(parents=True, exist_ok=True)
    read = []
    for folder in sorted(path for path in LABS[name].iterdir() if (path / "rgb.png").is_file()):
        kept = READ / f"{name}_{folder.name}.pkl"
        if not kept.is_file():
            seen = see_labelled(system, read_scene_folder(folder))
            kept.write_bytes(pickle.dumps(LabelledScene.read(folder.name, seen, raw)))
        read.append(pickle.loads(kept.read_bytes()))
    return [each for each in read if each.beliefs.ids]


def after(pipeline: Pipeline, scenes: Sequence[LabelledScene]) -> tuple[float, float, float]:
    """Right first actions over all targets, NLL and calibration error of pairs, on scenes that come after."""
    right, p, label = [], [], []
    for each in scenes:
        beliefs = each.believed_by(pipeline).beliefs
        there = ~np.isnan(beliefs.p_fused) & (beliefs.p_fused > 0.0)
        p.append(beliefs.p_fused[there])
        label.append(each.label[there])
        posteriors = [pipeline.posterior(beliefs, target) for target in beliefs.ids]
        for target, decision in zip(beliefs.ids, decide_many(posteriors, tau=0.0), strict=True):
            action = pipeline.settle(decision).action
            right.append(not isinstance(action, Defer) and not is_wrong(action, target, each.truth))
    p, label = np.concatenate(p), np.concatenate(label)
    return float(np.mean(right)), float(nll(p, label)), float(ece(p, label))


def true_risk(report: LabReport, scenes: Sequence[LabelledScene]) -> float | None:
    """Share of wrong actions above the promised threshold, over all targets of scenes that come after."""
    pipeline, tau = report.model.pipeline(), report.model.promise.tau
    assert tau is not None
    wrong, acted = 0.0, 0.0
    for each in scenes:
        beliefs = each.believed_by(pipeline).beliefs
        posteriors = [pipeline.posterior(beliefs, target) for target in beliefs.ids]
        for target, decision in zip(beliefs.ids, decide_many(posteriors, tau=0.0), strict=True):
            action = pipeline.settle(decision).action
            if not isinstance(action, Defer) and decision.scores[action.obj] > tau:
                acted += 1.0 / len(beliefs.ids)  # each scene is asked for one object at random
                wrong += is_wrong(action, target, each.truth) / len(beliefs.ids)
    return wrong / acted if acted else None


def measure(name: str, labs: int) -> list[Row]:
    """The rows of one lab."""
    scenes = read_lab(name)
    prior = FittedModel.load(bundled_model("embedded"))
    words = {"osd": "osd_learn photographs", "simulated": "a simulated lab, camera leaning by 45 degrees"}[
        name
    ]
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    value = order_by_value([each.believed_by(prior.pipeline()).beliefs for each in scenes])
    for n in (n for n in SIZES if n < 0.8 * len(scenes)):
        own, bundled, chosen, drawn = [], [], [], []
        for _ in range(DRAWS):
            order = rng.permutation(len(scenes))
            picked, rest = [scenes[k] for k in order[:n]], [scenes[k] for k in order[n:]]
            pipeline = move(prior.pipeline(), picked, choose_weight(prior, picked))
            own.append(after(pipeline, rest))
            bundled.append(after(prior.pipeline(), rest))
            # By value: of a random half, the n that teach most; judged on the other half, as the drawn ones.
            half = order[: len(scenes) // 2]
            if n < 0.7 * half.size:
                test = [scenes[k] for k in order[len(scenes) // 2 :]]
                best = [k for k in value if k in set(half.tolist())][:n]
                for found, ids in ((chosen, best), (drawn, half[:n])):
                    part = [scenes[k] for k in ids]
                    found.append(after(move(prior.pipeline(), part, choose_weight(prior, part)), test))
        (r0, l0, e0), (r1, l1, e1) = np.mean(bundled, axis=0), np.mean(own, axis=0)
        what = (
            f"{words}: calibration error with {n} labelled photographs ({len(own)} draws; bundled {e0:.3f})"
        )
        said = f"{e1:.3f}; NLL {l0:.3f} -> {l1:.3f}, right first actions {r0:.1%} -> {r1:.1%}"
        rows.append(("calibrated", what, f"< {e0:.3f}", said))
        if chosen:
            (rv, lv, _), (rd, ld, _) = np.mean(chosen, axis=0), np.mean(drawn, axis=0)
            what = f"{words}: NLL with {n} photographs chosen by value ({len(chosen)} draws; drawn {ld:.3f})"
            said = f"{lv:.3f}; right first actions {rv:.1%}, drawn {rd:.1%}"
            rows.append(("calibrated", what, f"<= {ld:.3f}", said))
    n = 50 if len(scenes) >= 90 else 25
    kept, promised, failed = 0, 0, 0
    for seed in range(labs):
        order = rng.permutation(len(scenes))
        picked, rest = [scenes[k] for k in order[:n]], [scenes[k] for k in order[n:]]
        try:
            report = fit_from_prior(picked, prior, FitSettings(ALPHA, DELTA, seed))
        except CporError:
            failed += 1
            continue
        if report.model.promise.tau is None:
            continue
        promised += 1
        risk = true_risk(report, rest)
        kept += risk is None or risk <= ALPHA
    broken = promised - kept
    what = f"{words}: promises of at most {ALPHA:.0%} wrong from {n} labelled photographs, resampled labs"
    said = f"{broken / labs:.1%} broken ({broken} of {labs} labs; promised in {promised}, {failed} refused)"
    rows.append(("calibrated", what, f"at most {DELTA:.0%}", said))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labs", type=int, default=200)
    parser.add_argument("--only", default="osd,simulated")
    asked = parser.parse_args()
    rows = []
    for name in asked.only.split(","):
        found = measure(name, asked.labs)
        keep({f"lab_{name}": found})
        rows += found
    for row in rows:
        print(" | ".join(row))


if __name__ == "__main__":
    main()
