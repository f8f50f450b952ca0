"""A lab of one's own: what labels of 10, 25 and 50 photographs bring, and whether promises are kept there.

Two labs: the photographs of osd_learn, and the simulated lab of lab_scenes.py (camera leaning by 45 degrees,
worse sensor, no bin). Their scenes are looked at once, by our networks, and kept in out/lab_read. Then labs
are resampled: some scenes are labelled, and a model is fitted to them from the bundled one. Figures are of
the other scenes. A promise is about the lab, so whether it is kept is judged on every scene of the lab that
nothing was fitted to. Those it was tested on are among them, as they are in a lab: the others alone are worse
than the lab wherever the test was lucky, which breaks promises that hold. Rows go to out/evidence/.

Run lab_scenes.py first, then: python benchmarks/evidence_lab.py [--labs 200] [--only lab_osd,lab_simulated]
"""

import hashlib
import os
import pickle
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from long_parts import Row, measure_parts

import cpor
from cpor.apps.lab import see_labelled
from cpor.apps.label_queue import order_by_value
from cpor.decision import Defer
from cpor.errors import CporError
from cpor.fitting.from_prior import fit_models_from_prior
from cpor.fitting.labelled import LabelledScene
from cpor.fitting.moved_stages import choose_weight, move, pairs_of
from cpor.infer.decide import decide_many
from cpor.io.scene_folder import read_scene_folder
from cpor.learn.reliability import ece
from cpor.learn.scoring import nll
from cpor.model import FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.system import System
from cpor.truth import is_wrong

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")
READ = ROOT / "out" / "lab_read"
WEIGHTS = Path(cpor.__file__).parent / "perception" / "weights" / "checksums.json"
LABS = {"osd": DATA / "osd_learn", "simulated": ROOT / "out" / "lab"}
SIZES = (10, 25, 50)
ALPHAS, DELTA = (0.2, 0.3), 0.1
DRAWS = 8
MOST_TARGETS = 4
"""Objects asked for in each scene, drawn at random: dense heaps have up to twenty, and each costs time."""
MOST_OBJECTS = 14
"""Scenes in which more objects are found are left out: exact sums over these take seconds each."""
JUDGED = 40
"""Scenes that a fitted model is judged on at most, drawn at random from the others."""


def read_lab(name: str) -> list[LabelledScene]:
    """The scenes of a lab as our networks see them; kept, and looked at once."""
    prior = FittedModel.load(bundled_model("embedded"))
    system, raw = System(), Pipeline(measure=prior.pipeline().measure)
    # Other networks see other things.
    place = READ / hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()[:12]
    place.mkdir(parents=True, exist_ok=True)
    read = []
    for folder in sorted(path for path in LABS[name].iterdir() if (path / "rgb.png").is_file()):
        kept = place / f"{name}_{folder.name}.pkl"
        if not kept.is_file():
            seen, unlabelled = see_labelled(system, read_scene_folder(folder))
            kept.write_bytes(pickle.dumps(LabelledScene.read(folder.name, seen, raw, unlabelled=unlabelled)))
        read.append(pickle.loads(kept.read_bytes()))
    return [each for each in read if each.targets and len(each.beliefs.ids) <= MOST_OBJECTS]


def forced(pipeline: Pipeline, each: LabelledScene) -> tuple[LabelledScene, list[tuple[float, bool]]]:
    """A scene as a pipeline sees it; score (NaN: no answer) and error of its actions for some targets."""
    seen = each.believed_by(pipeline)
    rng = np.random.default_rng(zlib.crc32(each.name.encode()))
    targets = rng.permutation(seen.targets)[:MOST_TARGETS].tolist()
    posteriors = [pipeline.posterior(seen.beliefs, target) for target in targets]
    found = []
    for target, decision in zip(targets, decide_many(posteriors, tau=0.0), strict=True):
        settled = pipeline.settle(decision)
        acts = not isinstance(settled.action, Defer)
        score = settled.scores[settled.action.obj] if acts else np.nan
        found.append((score, is_wrong(settled.action, target, each.truth)))
    return seen, found


Judged = tuple[np.ndarray, np.ndarray, list[bool]]
"""Of one scene: probabilities of pairs, whether these are true, and whether first actions are right."""


def judge(pipeline: Pipeline, each: LabelledScene) -> Judged:
    """What a pipeline makes of a scene."""
    seen, found = forced(pipeline, each)
    return *pairs_of(seen), [not wrong and not np.isnan(score) for score, wrong in found]


def figures(scenes: Sequence[Judged]) -> tuple[float, float, float]:
    """Right first actions, NLL and calibration error of pairs."""
    p, label = (np.concatenate([each[k] for each in scenes]) for k in (0, 1))
    right = [each for _, _, some in scenes for each in some]
    return float(np.mean(right)), float(nll(p, label)), float(ece(p, label))


def true_risk(tau: float, scenes: Sequence[list[tuple[float, bool]]]) -> float | None:
    """Share of wrong actions above a threshold; each scene is asked for one object at random."""
    wrong, acted = 0.0, 0.0
    for found in scenes:
        acted += np.mean([score > tau for score, _ in found])
        wrong += np.mean([score > tau and error for score, error in found])
    return wrong / acted if acted else None


def keeps_promises(
    scenes: Sequence[LabelledScene], prior: FittedModel, n: int, labs: int
) -> dict[float, list[str]]:
    """What became of the promise of each resampled lab, for each error rate: kept, broken, none, refused."""
    rng = np.random.default_rng(1)
    became: dict[float, list[str]] = {alpha: [] for alpha in ALPHAS}
    for seed in range(labs):
        picked = [scenes[k] for k in rng.permutation(len(scenes))[:n]]
        try:
            models = fit_models_from_prior(picked, prior, ALPHAS, DELTA, seed)
        except CporError:
            for alpha in ALPHAS:
                became[alpha].append("refused")
            continue
        fitted_to, promised = models[0].parts["fit"], any(model.promise.tau is not None for model in models)
        rest = [each for each in scenes if each.name not in fitted_to] if promised else []
        found = [forced(models[0].pipeline(), each)[1] for each in rest]
        for alpha, model in zip(ALPHAS, models, strict=True):
            if model.promise.tau is None:
                became[alpha].append("none")
                continue
            risk = true_risk(model.promise.tau, found)
            became[alpha].append("kept" if risk is None or risk <= alpha else "broken")
        print(
            f"lab {seed + 1} of {labs}: " + ", ".join(f"{a:.0%} {became[a][-1]}" for a in ALPHAS), flush=True
        )
    return became


def measure(name: str, labs: int) -> Iterator[Row]:
    """The rows of one lab, as they come."""
    scenes = read_lab(name)
    prior = FittedModel.load(bundled_model("embedded"))
    simulated = f"a simulated lab of {len(scenes)} scenes, camera leaning by 45 degrees"
    words = {"osd": "osd_learn photographs", "simulated": simulated}[name]
    rng = np.random.default_rng(0)
    value = order_by_value([each.believed_by(prior.pipeline()).beliefs for each in scenes])
    before = [judge(prior.pipeline(), each) for each in scenes]

    def fit(part: Sequence[int]) -> Pipeline:
        picked = [scenes[k] for k in part]
        return move(prior.pipeline(), picked, choose_weight(prior, picked))

    for n in (n for n in SIZES if n < 0.8 * len(scenes)):
        own, bundled, chosen, drawn = [], [], [], []
        for _ in range(DRAWS):
            order = rng.permutation(len(scenes)).tolist()
            pipeline, rest = fit(order[:n]), order[n:][:JUDGED]
            own.append(figures([judge(pipeline, scenes[k]) for k in rest]))
            bundled.append(figures([before[k] for k in rest]))
            # By value: of a random half, the n that teach most; judged on the other half, as the drawn ones.
            half, test = order[: len(scenes) // 2], order[len(scenes) // 2 :][:JUDGED]
            if n < 0.7 * len(half):
                best = fit([k for k in value if k in half][:n])
                chosen.append(figures([judge(best, scenes[k]) for k in test]))
                drawn.append(figures([judge(pipeline, scenes[k]) for k in test]))
        (r0, l0, e0), (r1, l1, e1) = np.mean(bundled, axis=0), np.mean(own, axis=0)
        what = (
            f"{words}: calibration error with {n} labelled photographs ({len(own)} draws; bundled {e0:.3f})"
        )
        said = f"{e1:.3f}; NLL {l0:.3f} -> {l1:.3f}, right first actions {r0:.1%} -> {r1:.1%}"
        yield "calibrated", what, f"< {e0:.3f}", said
        if chosen:
            (rv, lv, _), (rd, ld, _) = np.mean(chosen, axis=0), np.mean(drawn, axis=0)
            what = f"{words}: NLL with {n} photographs chosen by value ({len(chosen)} draws; drawn {ld:.3f})"
            said = f"{lv:.3f}; right first actions {rv:.1%}, drawn {rd:.1%}"
            yield "calibrated", what, f"<= {ld:.3f}", said
    n = 50 if len(scenes) >= 90 else 25
    for alpha, became in keeps_promises(scenes, prior, n, labs).items():
        broken, kept = became.count("broken"), became.count("kept")
        what = f"{words}: promises of at most {alpha:.0%} wrong from {n} labels, {labs} resampled labs"
        said = f"{broken / labs:.1%} broken ({broken} of {labs}; promised and kept in {kept})"
        yield "calibrated", what, f"at most {DELTA:.0%} broken", said


def lab_osd(labs: int = 200) -> Iterator[Row]:
    """The photographs of osd_learn."""
    return measure("osd", labs)


def lab_simulated(labs: int = 200) -> Iterator[Row]:
    """The simulated lab."""
    return measure("simulated", labs)


if __name__ == "__main__":
    measure_parts({"lab_osd": lab_osd, "lab_simulated": lab_simulated}, __doc__)
