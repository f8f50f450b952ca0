"""What the commands read: a scene file or a scene folder, a model, a folder of labelled scenes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cpor.data.scene_file import read_scene_file
from cpor.data.scene_folder import read_scene_folder
from cpor.errors import InvalidSettingError, SceneFileError, list_labels
from cpor.model import FittedModel
from cpor.pipeline import Pipeline, PipelineResult
from cpor.relations import ObstructionPosterior
from cpor.scene import Scene

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, and from what.

    Attributes:
        posterior: Objects, target and relation probabilities.
        pipeline: The stages that decide.
        notes: What a person should know about where the probabilities come from.
    """

    posterior: ObstructionPosterior
    pipeline: Pipeline
    notes: tuple[str, ...] = ()


def read_question(
    path: Path, target: int | None, model_file: Path | None, tau: float | None = None
) -> Question:
    """Read a scene file with probabilities, or a scene folder with masks and run the stages on it.

    Args:
        path: Scene file or folder.
        target: Id of the object asked for, in a folder.
        model_file: Fitted model; unfitted stages where None.
        tau: Act above this score; the model's promise, or 0.5, where None.
    """
    if not path.is_dir():
        if target is not None or model_file is not None:
            raise InvalidSettingError(
                f"--target and --model go with a scene folder; {path} is not one, and a scene file names its "
                "target and its probabilities itself"
            )
        return Question(read_scene_file(path), Pipeline(tau=0.5 if tau is None else tau))
    scene = read_scene_folder(path)
    if scene.visible_ids is None:
        raise SceneFileError(f"{path} has no instances.png; a decision from a folder needs masks")
    if target is None:
        raise InvalidSettingError(f"give --target; {path} has the objects: {list_labels(scene.ids)}")
    model = FittedModel.load(model_file) if model_file else None
    pipeline = model.pipeline(tau) if model else Pipeline(tau=0.5 if tau is None else tau)
    beliefs = pipeline.believe(scene)
    return Question(pipeline.posterior(beliefs, target), pipeline, _notes(scene, model, pipeline))


def _notes(scene: Scene, model: FittedModel | None, pipeline: Pipeline) -> tuple[str, ...]:
    notes = []
    if scene.observation.depth is None:
        notes.append("No depth: pairs that touch have no geometric answer.")
    if scene.semantic_scores is None:
        notes.append("No semantic scores: geometry decides alone.")
    if model is None:
        notes.append("Not calibrated: give --model to get probabilities that mean what they say.")
    elif not model.promise.promised:
        notes.append(f"No error rate is promised: {model.promise.reason}.")
    elif pipeline.tau_success is None and pipeline.tau != model.promise.tau:
        notes.append("No error rate is promised for a tau of your own.")
    else:
        notes.append(
            f"Promised: at most {model.promise.alpha:.0%} of the actions taken are wrong "
            f"(confidence {1 - model.promise.delta:.0%}, scenes like those it was fitted to)."
        )
    return tuple(notes)


def list_scene_folders(folder: Path) -> list[Path]:
    """The scene folders right below a folder, by name."""
    if not folder.is_dir():
        raise SceneFileError(f"{folder} is not a folder; give one that holds scene folders")
    found = sorted(path for path in folder.iterdir() if (path / "rgb.png").is_file())
    if not found:
        raise SceneFileError(f"{folder} holds no scene folders; each has at least an rgb.png")
    return found


def read_labelled_scenes(folder: Path, progress: Progress) -> dict[str, Scene]:
    """The scenes of a folder whose true relations and masks are given; others are an error."""
    scenes = {}
    paths = list_scene_folders(folder)
    for k, path in enumerate(paths):
        scenes[path.name] = read_scene_folder(path)
        progress("reading", k + 1, len(paths))
    return scenes


def run_on_random_targets(
    folder: Path, model_file: Path, seed: int, progress: Progress
) -> tuple[FittedModel, list[PipelineResult], np.random.Generator]:
    """The model, and what it says of each scene of a folder for one random target with tau 0."""
    model = FittedModel.load(model_file)
    pipeline = model.pipeline(tau=0.0)
    rng = np.random.default_rng(seed)
    results = []
    paths = list_scene_folders(folder)
    for k, path in enumerate(paths):
        scene = read_scene_folder(path)
        if scene.ids:
            results.append(pipeline.run(scene, int(rng.choice(scene.ids))))
        progress("deciding", k + 1, len(paths))
    if not results:
        raise SceneFileError(f"no scene of {folder} has an object")
    return model, results, rng
