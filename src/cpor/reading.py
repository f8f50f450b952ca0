"""What the commands read: a scene file or a scene folder, a model, a folder of labelled scenes.

The stages behind a scene folder load only where one is read: a scene file needs none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpor.data.scene_file import read_scene_file
from cpor.decision import Decision
from cpor.errors import InvalidSettingError, SceneFileError, list_labels
from cpor.inference.decide import MethodChoice, decide
from cpor.relations import ObstructionPosterior
from cpor.scene import Scene

if TYPE_CHECKING:
    import numpy as np

    from cpor.model import FittedModel
    from cpor.pipeline import Pipeline, PipelineResult

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, and by what.

    Attributes:
        posterior: Objects, target and relation probabilities.
        tau: The threshold.
        pipeline: The stages the probabilities came from; None for a scene file.
        notes: What a person should know about where the probabilities come from.
    """

    posterior: ObstructionPosterior
    tau: float
    pipeline: "Pipeline | None"
    notes: tuple[str, ...] = ()

    def decide(
        self,
        method: MethodChoice,
        deadline_ms: float | None,
        require_certificate: bool,
        prior: float | None,
    ) -> tuple[Decision, float | None]:
        """The decision, and how often actions with its score succeed where that is known."""
        if self.pipeline is None:
            scene = self.posterior
            return decide(scene, self.tau, method, deadline_ms, require_certificate, prior=prior), None
        from dataclasses import replace

        pipeline = replace(self.pipeline, method=method, prior=prior)
        decision = pipeline.decide(self.posterior, deadline_ms, require_certificate)
        return decision, pipeline.success_rate(decision)


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
    if path.is_dir():
        return _read_folder(path, target, model_file, tau)
    if target is not None or model_file is not None:
        raise InvalidSettingError(
            f"--target and --model go with a scene folder; {path} is not one, and a scene file names its "
            "target and its probabilities itself"
        )
    return Question(read_scene_file(path), 0.5 if tau is None else tau, None)


def _read_folder(path: Path, target: int | None, model_file: Path | None, tau: float | None) -> Question:
    from cpor.data.scene_folder import read_scene_folder
    from cpor.model import FittedModel
    from cpor.pipeline import Pipeline

    scene = read_scene_folder(path)
    if scene.visible_ids is None:
        raise SceneFileError(f"{path} has no instances.png; a decision from a folder needs masks")
    if target is None:
        raise InvalidSettingError(f"give --target; {path} has the objects: {list_labels(scene.ids)}")
    model = FittedModel.load(model_file) if model_file else None
    pipeline = model.pipeline(tau) if model else Pipeline(tau=0.5 if tau is None else tau)
    beliefs = pipeline.believe(scene)
    notes = _notes(scene, model, pipeline)
    return Question(pipeline.posterior(beliefs, target), pipeline.tau, pipeline, notes)


def _notes(scene: Scene, model: "FittedModel | None", pipeline: "Pipeline") -> tuple[str, ...]:
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


def read_scenes(folder: Path, progress: Progress) -> dict[str, Scene]:
    """The scenes of a folder, by name."""
    from cpor.data.scene_folder import read_scene_folder

    scenes = {}
    paths = list_scene_folders(folder)
    for k, path in enumerate(paths):
        scenes[path.name] = read_scene_folder(path)
        progress("reading", k + 1, len(paths))
    return scenes


def run_on_random_targets(
    folder: Path, model_file: Path, rng: "np.random.Generator", progress: Progress
) -> tuple["FittedModel", "list[PipelineResult]"]:
    """The model, and what it says of each scene of a folder for one random target with tau 0."""
    from cpor.model import FittedModel

    model = FittedModel.load(model_file)
    pipeline = model.pipeline(tau=0.0)
    results = []
    scenes = read_scenes(folder, progress)
    for k, scene in enumerate(scenes.values()):
        if scene.ids:
            results.append(pipeline.run(scene, int(rng.choice(scene.ids))))
        progress("deciding", k + 1, len(scenes))
    if not results:
        raise SceneFileError(f"no scene of {folder} has an object")
    return model, results
