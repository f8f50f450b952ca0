"""The long measurements on the simulator: heaps, decisions and asking on the splits.

Hours of one core in all, so each part keeps what is done and goes on where it stopped. Figures go to
out/evidence/.

Run: python benchmarks/evidence_sim.py [--workers 2] [--only heaps,decisions,asking]
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from long_parts import Row, measure_parts

from cpor.asking import AskingSettings
from cpor.fitting import FitSettings, fit_model
from cpor.model import FittedModel, bundled_model
from cpor.paper.active_asking import answer_spread, case_of_scene, measure_active_asking
from cpor.paper.first_decisions import LabelledCase, forced_systems, measure_first_decisions
from cpor.semantics.embedded import EmbeddedScorer
from cpor.semantics.scorer import score_scene
from cpor.sim.dataset.make import SplitCase, SplitName, plan_split, read_manifest, read_split, write_dataset
from cpor.viz.tables import METHOD_NAMES, TRUTH_NAMES

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out"

ASKING_FIT, ASKING_TEST = 240, 600
"""Scenes of the splits, evenly spaced, that active asking is fitted to and measured on."""

ASKING_TAU = 0.3
"""As the demo acts."""


def heaps(workers: int = 2) -> list[Row]:
    file = OUT / "bench_sim.json"
    if not file.is_file():
        run = [
            sys.executable,
            str(ROOT / "benchmarks" / "bench_sim.py"),
            "--scenes",
            "200",
            "--json",
            str(file),
        ]
        subprocess.run(run, cwd=ROOT, check=True)
    content = json.loads(file.read_text())
    n, found = content["scenes"], content["figures"]
    return [
        (
            "acts",
            f"{n} dense scenes settled, most drift in the next second",
            "reported",
            _mm(found["drift_mm"]),
        ),
        ("acts", f"{n} dense scenes, deepest penetration", "< 1 mm", _mm(found["penetration_mm"])),
        (
            "fast",
            f"scene with camera, occlusion and sweep truth, {n} scenes, one core",
            "median <= 1 s",
            f"median {found['seconds']['median']:.2f} s, most {found['seconds']['most']:.2f} s",
        ),
        (
            "acts",
            f"relations a scene, occlusion / sweep; cyclic truths ({n} dense scenes)",
            "",
            f"{found['occlusions']['mean']:.1f} / {found['sweeps']['mean']:.1f}; "
            f"{found['cyclic_occlusion']['mean']:.1%} / {found['cyclic_sweep']['mean']:.1%}",
        ),
    ]


def decisions(workers: int = 2) -> list[Row]:
    folder = OUT / "splits" / "test"
    write_dataset(plan_split("test"), folder, workers)
    cases = (LabelledCase(*case) for case in read_split(folder))
    model = FittedModel.load(bundled_model())
    systems = forced_systems(model, scored=False, prior=model.p_unanswered)
    found = measure_first_decisions(cases, systems, np.random.default_rng(0))
    rows = []
    for kind, by_method in found.rsr.items():
        for method, by_tier in by_method.items():
            share, ci = by_tier["all"]
            tiers = " / ".join(f"{by_tier[tier][0]:.3f}" for tier in found.n)
            point = (
                f"right first actions by {TRUTH_NAMES[kind]}, {METHOD_NAMES[method]} ({' / '.join(found.n)})"
            )
            rows.append(
                ("decides", point, "", f"{share:.3f} [{ci.low:.3f}, {ci.high:.3f}] (by tier {tiers})")
            )
        for method, paired in found.paired[kind].items():
            point = f"CPOR against {METHOD_NAMES[method]} by {TRUTH_NAMES[kind]}, {paired.n} cases"
            change = f"{paired.delta:+.4f} [{paired.ci.low:+.4f}, {paired.ci.high:+.4f}]"
            rows.append(("decides", point, "", f"{paired.corrections} : {paired.regressions}, {change}"))
    return rows


def asking(workers: int = 2) -> list[Row]:
    """Active asking on the test split: given masks, the embedded scorer in the VLM's place."""
    scorer, rng = EmbeddedScorer(), np.random.default_rng(0)

    def scored(split: SplitName, n: int) -> Iterator[SplitCase]:
        write_dataset(plan_split(split), OUT / "splits" / split, workers, lambda what, done, total: None)
        cases = list(read_manifest(OUT / "splits" / split).cases)
        chosen = {cases[k].name for k in np.linspace(0, len(cases) - 1, n).astype(int)}
        for case in read_split(OUT / "splits" / split):
            if case.name in chosen:
                scores = score_scene(scorer, case.scene)
                yield case._replace(scene=replace(case.scene, semantic_scores=scores))

    dev = list(scored("dev", ASKING_FIT))
    model = fit_model(((c.name, c.scene) for c in dev), FitSettings(alpha=0.2, truth="any")).model
    pipeline = model.pipeline(ASKING_TAU, fill_missing=True)
    spread = answer_spread(case_of_scene(pipeline, c.scene, c.target) for c in dev)
    test = (case_of_scene(pipeline, c.scene, c.target) for c in scored("test", ASKING_TEST))
    found = measure_active_asking(test, rng, AskingSettings(answer_spread=spread))
    of = f"of {found.scenes} test scenes, spread {spread:.2f} from {len(dev)} dev scenes"
    return [
        (
            "asks",
            f"active asking, the same decision as asking all, {of}",
            ">= 97 %",
            f"{found.same_rate:.1%}",
        ),
        ("asks", "active asking, questions of those that can matter", "<= 50 %", f"{found.share_asked:.1%}"),
        ("asks", "active asking, coverage", ">= 80 %", f"{found.coverage:.1%}"),
        (
            "asks",
            "active asking, proven not to depend on the rest",
            "",
            f"{found.certain / found.scenes:.1%}",
        ),
    ]


def _mm(figure: dict[str, float]) -> str:
    return f"{figure['most']:.2f} mm (median {figure['median']:.2f})"


PARTS: dict[str, Callable[..., list[Row]]] = {
    "heaps": heaps,
    "decisions": decisions,
    "asking": asking,
}


if __name__ == "__main__":
    measure_parts(PARTS, __doc__)
