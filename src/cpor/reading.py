"""What the commands read: a scene file or a scene folder, a model, a folder of labelled scenes.

The stages behind a scene folder load only where one is read: a scene file needs none of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpor.data.scene_file import read_scene_file
from cpor.decision import Decision
from cpor.errors import InvalidSettingError, SceneFileError, list_labels, say_known
from cpor.inference.decide import MethodChoice, decide
from cpor.relations import ObstructionPosterior
from cpor.scene import Scene

if TYPE_CHECKING:
    import numpy as np

    from cpor.model import FittedModel
    from cpor.pipeline import Pipeline, PipelineResult

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class DecideSettings:
    """How to decide, as the command line says it; see `cpor.decide`."""

    method: MethodChoice = "auto"
    deadline_ms: float | None = None
    require_certificate: bool = False
    prior: float | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A decision and what a person should know about it.

    Attributes:
        decision: The decision.
        p_success: How often actions with its score succeed; None where unknown.
        tau_success: The success rate above which it acts; None where the score decides.
        promise: The promised error rate and its confidence; None where nothing is promised.
        notes: Where the probabilities come from, and what is promised.
    """

    decision: Decision
    p_success: float | None = None
    tau_success: float | None = None
    promise: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, and by what.

    Attributes:
        posterior: Objects, target and relation probabilities.
        tau: The threshold.
        scene: What the probabilities came from; None for a scene file, as are the next two.
        pipeline: The stages.
        model: The fitted model; None where the stages are unfitted.
        asked: What asking a scorer took; None where nobody was asked.
        asked_all: Whether every pair was asked about, as the model's promise supposes.
    """

    posterior: ObstructionPosterior
    tau: float
    scene: Scene | None = None
    pipeline: "Pipeline | None" = None
    model: "FittedModel | None" = None
    asked: str | None = None
    asked_all: bool = True

    def answer(self, settings: DecideSettings) -> Answer:
        """Decide."""
        deadline, proven = settings.deadline_ms, settings.require_certificate
        if self.pipeline is None or self.scene is None:
            scores = self.posterior
            return Answer(decide(scores, self.tau, settings.method, deadline, proven, prior=settings.prior))
        pipeline = replace(self.pipeline, method=settings.method, prior=settings.prior)
        decision = pipeline.decide(self.posterior, deadline, proven)
        notes = [*([self.asked] if self.asked else []), *_notes(self.scene)]
        promise = None
        if self.model is None:
            notes.append("Not calibrated: give --model to get probabilities that mean what they say.")
        else:
            plain = deadline is None and not proven
            reason = self.model.reason_not_covered(self.scene, pipeline, plain)
            if reason is None and not self.asked_all:
                reason = "it was tested with every pair asked about"
            kept = self.model.promise
            promise = None if reason else (kept.alpha, 1.0 - kept.delta)
            notes.append(
                f"No error rate is promised: {reason}."
                if reason
                else f"Promised: at most {kept.alpha:.0%} of the actions taken are wrong "
                f"(confidence {1 - kept.delta:.0%}, scenes like those it was fitted to)."
            )
        rate = pipeline.success_rate(decision)
        return Answer(decision, rate, pipeline.tau_success, promise, tuple(notes))


@dataclass(frozen=True)
class Asking:
    """Whom to ask, and how much.

    Attributes:
        scorer: Name or file of a scorer; see `cpor scorers`.
        most_questions: Ask only what matters, and no more than this; None asks about every pair that touches.
        seed: Of the answers drawn to tell what matters.
    """

    scorer: str
    most_questions: int | None = None
    seed: int = 0


def read_question(
    path: Path,
    target: int | None,
    model_file: Path | None,
    tau: float | None = None,
    asking: Asking | None = None,
) -> Question:
    """Read a scene file with probabilities, or a scene folder with masks and run the stages on it.

    Args:
        path: Scene file or folder.
        target: Id of the object asked for, in a folder.
        model_file: Fitted model; unfitted stages where None.
        tau: Act above this score; the model's promise, or 0.5, where None.
        asking: A scorer to ask, in a folder; the folder's own scores count where None.
    """
    if path.is_dir():
        return _read_folder(path, target, model_file, tau, asking)
    if target is not None or model_file is not None or asking is not None:
        raise InvalidSettingError(
            f"--target, --model and --scorer go with a scene folder; {path} is not one, and a scene file "
            "names its target and its probabilities itself"
        )
    return Question(read_scene_file(path), 0.5 if tau is None else tau)


def _read_folder(
    path: Path, target: int | None, model_file: Path | None, tau: float | None, asking: Asking | None
) -> Question:
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
    said, asked_all = None, True
    if asking is not None:
        scene, said, asked_all = _ask(scene, target, pipeline, asking)
    posterior = pipeline.posterior(pipeline.believe(scene), target)
    return Question(posterior, pipeline.tau, scene, pipeline, model, said, asked_all)


def _ask(scene: Scene, target: int, pipeline: "Pipeline", asking: Asking) -> tuple[Scene, str, bool]:
    """The scene with what a scorer said of it, a note on what that took, and whether all was asked."""
    import numpy as np

    from cpor.asking import AskingSettings, ask_scene
    from cpor.semantics.registry import load_scorer
    from cpor.semantics.vlm import pairs_to_ask

    scorer = load_scorer(asking.scorer)
    pairs = pairs_to_ask(scene)
    if asking.most_questions is None:
        scored = scorer.score(scene, pairs)
        note = f"{scorer.name} answered {len(pairs) - len(scored.unanswered)} of {len(pairs)} questions."
        if scored.problems:
            note += f" Trouble: {scored.problems[0]}."
        return replace(scene, semantic_scores=scored.semantic_scores()), note, True
    if target not in scene.ids:
        raise InvalidSettingError(f"unknown object {target}; {say_known(target, scene.ids)}")
    settings = AskingSettings(most_questions=asking.most_questions)
    rng = np.random.default_rng(asking.seed)
    asked, scores = ask_scene(pipeline, scene, target, scorer, pairs, rng, settings)
    note = (
        f"{scorer.name} was asked {len(asked.answers)} of the {asked.relevant} questions that could matter; "
        f"the others would change the action with probability {asked.p_change:.2f}."
    )
    return replace(scene, semantic_scores=scores), note, len(asked.answers) == len(pairs)


def _notes(scene: Scene) -> list[str]:
    notes = []
    if scene.observation.depth is None:
        notes.append("No depth: pairs that touch have no geometric answer.")
    if scene.semantic_scores is None:
        notes.append("No semantic scores: geometry decides alone.")
    return notes


def list_scene_folders(folder: Path) -> list[Path]:
    """The scene folders right below a folder, by name."""
    if not folder.is_dir():
        raise SceneFileError(f"{folder} is not a folder; give one that holds scene folders")
    found = sorted(path for path in folder.iterdir() if (path / "rgb.png").is_file())
    if not found:
        raise SceneFileError(f"{folder} holds no scene folders; each has at least an rgb.png")
    return found


def read_scenes(folder: Path, progress: Progress) -> Iterator[tuple[str, Scene]]:
    """Names and scenes of a folder, one by one."""
    from cpor.data.scene_folder import read_scene_folder

    paths = list_scene_folders(folder)
    for k, path in enumerate(paths):
        yield path.name, read_scene_folder(path)
        progress("reading", k + 1, len(paths))


def run_on_random_targets(
    folder: Path, model_file: Path, rng: "np.random.Generator", progress: Progress
) -> tuple["FittedModel", "list[PipelineResult | None]"]:
    """The model, and what it says of each scene for one random target with tau 0; None for an empty scene."""
    from cpor.model import FittedModel

    model = FittedModel.load(model_file)
    pipeline = model.pipeline(tau=0.0)
    results = []
    for name, scene in read_scenes(folder, progress):
        if scene.visible_ids is None:
            raise SceneFileError(f"{name} has no instances.png; drift is told from scenes with masks")
        results.append(pipeline.run(scene, int(rng.choice(scene.ids))) if scene.ids else None)
    return model, results
