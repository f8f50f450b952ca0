"""Fit calibration, fusion and a promised error rate to labelled scenes, then decide with the model.

The scenes are drawn here so that the example runs anywhere; yours come from
`cpor.io.scene_folder.read_scene_folder`.
"""

import numpy as np

import cpor
from cpor.fitting import FitSettings, fit_model
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene, SemanticScores, TrueRelations


def draw_scene(rng: np.random.Generator, size: int = 120, n: int = 5) -> Scene:
    """Discs dropped on a table one after another; a noisy scorer that claims too much."""
    rows, cols = np.indices((size, size))
    depth = np.full((size, size), 0.8)
    visible = np.zeros((size, size), np.int32)
    masks = []
    for k in range(1, n + 1):
        row, col = rng.uniform(0.25 * size, 0.75 * size, 2)
        mask = np.hypot(rows - row, cols - col) < rng.uniform(14, 26)
        masks.append(mask)
        depth[mask] = depth[mask].min() - 0.03
        visible[mask] = k
    truth = {
        BlockedBy(i, j)
        for i in range(1, n + 1)
        for j in range(1, n + 1)
        if i != j and (visible[masks[i - 1]] == j).mean() > 0.05
    }
    scores = {}
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            if i != j and (masks[i - 1] & masks[j - 1]).any():
                logit = 3.0 * ((i, j) in truth) - 1.0 + rng.standard_normal()
                scores[BlockedBy(i, j)] = float(1.0 / (1.0 + np.exp(-logit)))
    photograph = rng.integers(60, 220, (n + 1, 3), np.uint8)[visible]
    noisy = (depth + rng.normal(0.0, 0.002, depth.shape)).astype(np.float32)
    return Scene(
        Observation(photograph, noisy),
        tuple(DetectedObject(k + 1, MaskCrop.from_mask(mask)) for k, mask in enumerate(masks)),
        visible,
        true_occlusion=TrueRelations(frozenset(range(1, n + 1)), frozenset(truth)),
        semantic_scores=SemanticScores(scores, "noisy"),
    )


def main() -> None:
    """Fit on 200 scenes and decide a new one."""
    rng = np.random.default_rng(1)
    scenes = [(f"scene {k}", draw_scene(rng)) for k in range(200)]
    report = fit_model(scenes, FitSettings(alpha=0.1, delta=0.1))
    for stage in report.reliability:
        print(f"{stage.name:28} ECE {stage.summary.ece:.3f}  NLL {stage.summary.nll:.3f}")
    promise = report.model.promise
    print("promise:", promise.reason, f"(acts on {promise.coverage:.0%})" if promise.promised else "")

    system = cpor.System(model=report.model)
    answer = system.decide(system.look(draw_scene(rng)), 2)
    print(answer.action, "right with", answer.p_success)
    print(*answer.notes, sep="\n")


if __name__ == "__main__":
    main()
