"""A lab of one's own: scenes that a person labelled, as the machine sees them, and the model fitted to them.

A promise is about what the machine will see, so its own masks and scores are fitted to and tested. What the
person labelled says what is true of them.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from cpor.corrections.history import BY_HAND
from cpor.errors import InvalidSettingError, SceneFileError
from cpor.fitting import FitSettings
from cpor.fitting.from_prior import LabReport, fit_from_prior
from cpor.fitting.labelled import LabelledScene
from cpor.io.whole_files import parse_strict, read_bytes, write_text
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.scene import Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System

QUEUE = "queue.json"
"""Beside labelled scenes: which were drawn at random, and which were chosen for what they teach."""


def is_labelled_by_hand(scene: Scene) -> bool:
    """Whether a person gave the masks of a scene."""
    return scene.sources is not None and scene.sources.segmenter == BY_HAND


def see_labelled(system: System, scene: Scene) -> tuple[Scene, frozenset[int]]:
    """A scene that a person labelled, as the machine sees it, and which objects the person did not label.

    It has masks and scores of the machine, and what the person said is translated to them.
    """
    if scene.visible_ids is None or scene.true_occlusion is None:
        raise InvalidSettingError("a labelled scene has masks and relations.json; label it first")
    view = system.look(scene.observation)
    found = view.scene
    assert found.visible_ids is not None
    objects = scene.true_occlusion.objects | {*scene.ids}
    known = Recognition.match(found.ids, found.visible_ids, objects, scene.visible_ids)
    believed = system.believe(view)
    seen = replace(
        found,
        true_occlusion=known.translate(scene.true_occlusion),
        semantic_scores=believed.semantic,
        sources=believed.sources,
    )
    return seen, frozenset(k for k, owner in known.owner.items() if owner is None)


def fit_lab(
    scenes: Iterable[tuple[str, Scene]],
    prior: FittedModel,
    settings: FitSettings,
    drawn: set[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> LabReport:
    """Fit a model to the labelled scenes of a lab, starting from another.

    Scenes that a person labelled are looked at first. `drawn` names those drawn at random; None: all were.
    """
    system, stages = System(), prior.pipeline()
    raw = Pipeline(measure=stages.measure, sources=stages.sources)
    read = []
    for name, scene in scenes:
        by_hand = is_labelled_by_hand(scene)
        seen, unlabelled = see_labelled(system, scene) if by_hand else (scene, frozenset[int]())
        read.append(LabelledScene.read(name, seen, raw, settings.truth, unlabelled))
    return fit_from_prior(read, prior, settings, drawn, progress)


def read_why(folder: Path) -> dict[str, str] | None:
    """Why each scene of a labelled folder is there: `drawn` at random, or for its `value`; None: not said."""
    path = folder / QUEUE
    if not path.is_file():
        return None
    try:
        return {str(name): str(why) for name, why in parse_strict(read_bytes(path)).items()}
    except (SceneFileError, AttributeError):
        raise SceneFileError(f"{path} is damaged; delete it and plan the queue again") from None


def write_why(folder: Path, why: dict[str, str]) -> None:
    """Keep why each scene is to be labelled."""
    write_text(folder / QUEUE, json.dumps(why, indent=1) + "\n")
