"""Decisions on new scenes for a drift check: one random target each."""

from collections.abc import Iterable

import numpy as np

from cpor.errors import SceneFileError
from cpor.model import FittedModel
from cpor.pipeline import PipelineResult
from cpor.scene import Scene


def decide_random_targets(
    model: FittedModel, scenes: Iterable[tuple[str, Scene]], rng: np.random.Generator
) -> list[PipelineResult | None]:
    """What a model says of each scene for one random target, whatever the threshold; None for an empty scene.

    Args:
        model: The model.
        scenes: Names and scenes with masks, and with scores where the model was fitted to some.
        rng: Draws the targets.
    """
    pipeline = model.pipeline(tau=0.0)
    results = []
    for name, scene in scenes:
        if scene.visible_ids is None:
            raise SceneFileError(f"{name} has no instances.png; the drift test needs scenes with masks")
        results.append(pipeline.run(scene, int(rng.choice(scene.ids))) if scene.ids else None)
    return results
