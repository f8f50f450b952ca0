"""What the commands read: a scene file or a scene folder, a model, a folder of labelled scenes.

The stages behind a scene folder load only where one is read: a scene file needs none of them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpor.data.scene_file import read_scene_file
from cpor.decision import Decision
from cpor.errors import InvalidSettingError, SceneFileError, say_known
from cpor.inference.decide import MethodChoice, decide
from cpor.relations import ObstructionPosterior
from cpor.scene import PixelPoint, Scene

if TYPE_CHECKING:
    import numpy as np

    from cpor.model import FittedModel
    from cpor.perception.choice import SegmenterChoice
    from cpor.perception.grounding import AmbiguousRequest, NotFound
    from cpor.pipeline import Pipeline, PipelineResult
    from cpor.semantics.scorer import RelationScorer

Progress = Callable[[str, int, int], None]

NONE = "none"
"""In place of a scorer or a model: go without."""


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
        times_ms: Time of each stage; empty for a scene file. [ms]
        promise_in_words: What is promised, or why nothing is; empty for a scene file.
    """

    decision: Decision
    p_success: float | None = None
    tau_success: float | None = None
    promise: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    times_ms: Mapping[str, float] = field(default_factory=dict)
    promise_in_words: str = ""


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be decided, and by what.

    Attributes:
        posterior: Objects, target and relation probabilities.
        tau: The threshold.
        scene: What the probabilities came from; None for a scene file, as are the next two.
        pipeline: The stages.
        model: The fitted model; None where the stages are unfitted.
        said: What to know of masks, request and scores.
        asked_all: Whether every pair was asked about, as the model's promise supposes.
        masks: Whose masks the scene has.
        times_ms: Time of each stage so far. [ms]
    """

    posterior: ObstructionPosterior
    tau: float
    scene: Scene | None = None
    pipeline: "Pipeline | None" = None
    model: "FittedModel | None" = None
    said: tuple[str, ...] = ()
    asked_all: bool = True
    masks: str | None = None
    times_ms: Mapping[str, float] = field(default_factory=dict)

    def answer(self, settings: DecideSettings) -> Answer:
        """Decide."""
        deadline, proven = settings.deadline_ms, settings.require_certificate
        if self.pipeline is None or self.scene is None:
            scores = self.posterior
            return Answer(decide(scores, self.tau, settings.method, deadline, proven, prior=settings.prior))
        pipeline = replace(self.pipeline, method=settings.method, prior=settings.prior)
        start = time.perf_counter()
        decision = pipeline.decide(self.posterior, deadline, proven)
        times = {**self.times_ms, "decide": 1e3 * (time.perf_counter() - start)}
        plain = deadline is None and not proven
        promise, in_words = self._promise(self.scene, pipeline, plain)
        notes = (*self.said, *notes_on(self.scene), in_words)
        rate = pipeline.success_rate(decision)
        return Answer(decision, rate, pipeline.tau_success, promise, notes, times, in_words)

    def _promise(
        self, scene: Scene, pipeline: "Pipeline", plain: bool
    ) -> tuple[tuple[float, float] | None, str]:
        """The promised error rate and its confidence, or None; and the same in words."""
        if self.model is None:
            return None, "Not calibrated: give a --model to get probabilities that mean what they say."
        reason = self.model.reason_not_covered(scene, pipeline, plain, self.masks)
        if reason is None and not self.asked_all:
            reason = "it was tested with every pair asked about"
        if reason is not None:
            return None, f"No error rate is promised: {reason}."
        kept = self.model.promise
        return (kept.alpha, 1.0 - kept.delta), (
            f"Promised: at most {kept.alpha:.0%} of the actions taken are wrong "
            f"(confidence {1 - kept.delta:.0%}, scenes like those it was fitted to)."
        )


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


@dataclass(frozen=True)
class Request:
    """Which object is meant, in one way; in none: as the folder's request.txt says.

    Attributes:
        target: Its id.
        point: A pixel that shows it.
        words: What it looks like.
    """

    target: int | None = None
    point: PixelPoint | None = None
    words: str | None = None


@dataclass(frozen=True, eq=False)
class Unclear:
    """A request that means no object, or several: somebody has to say which.

    Attributes:
        scene: The objects there are.
        meant: What is unclear about it.
        said: What to know of masks and request.
    """

    scene: Scene
    meant: "AmbiguousRequest | NotFound"
    said: tuple[str, ...]

    @property
    def question(self) -> str:
        """What to ask."""
        from cpor.perception.grounding import AmbiguousRequest

        meant = self.meant
        if isinstance(meant, AmbiguousRequest):
            return meant.question
        return f"{meant.reason}; which object is meant?"

    @property
    def fit(self) -> dict[int, float]:
        """The objects that may be meant, the likeliest first, with how well each fits; none may be."""
        from cpor.perception.grounding import AmbiguousRequest

        meant = self.meant
        return {each.id: each.fit for each in meant.candidates} if isinstance(meant, AmbiguousRequest) else {}


def read_question(
    path: Path,
    request: Request,
    model: str | None = None,
    tau: float | None = None,
    asking: Asking | None = None,
    segmenter: "SegmenterChoice | None" = None,
) -> Question | Unclear:
    """Read a scene file with probabilities, or a scene folder and run the stages on it.

    Args:
        path: Scene file or folder.
        request: Which object of a folder is asked for.
        model: File of a fitted model, or `none`. None: the bundled one for what was seen and scored.
        tau: Act above this score; the model's promise, or 0.5, where None.
        asking: A scorer to ask about a folder. None: its own scores count, else our scorer's.
        segmenter: Whose masks count; None: the folder's own, else our segmenter's.
    """
    if path.is_dir():
        return _read_folder(path, request, model, tau, asking, segmenter)
    if request != Request() or any(each is not None for each in (model, asking, segmenter)):
        raise InvalidSettingError(
            "--target, --point, --request, --model, --scorer and --segmenter go with a scene folder; "
            f"{path} is not one, and a scene file names its target and its probabilities itself"
        )
    return Question(read_scene_file(path), 0.5 if tau is None else tau)


def _read_folder(
    path: Path,
    request: Request,
    model_choice: str | None,
    tau: float | None,
    asking: Asking | None,
    segmenter: "SegmenterChoice | None",
) -> Question | Unclear:
    from cpor.data.scene_folder import read_scene_folder
    from cpor.perception.choice import GIVEN, SegmenterChoice
    from cpor.perception.grounding import Found
    from cpor.pipeline import Pipeline, Stopwatch
    from cpor.semantics.grounder import ground_with

    watch = Stopwatch()
    given = read_scene_folder(path)
    if request == Request() and given.request is None:
        known = "" if given.visible_ids is None else f"; {say_known('', given.ids)}"
        raise InvalidSettingError(f"give --target, --point or --request; {path} has no request.txt{known}")
    watch.lap("read")
    scene, masks, spent = (segmenter or SegmenterChoice()).segment(given)
    watch.add(spent)
    said = [] if masks == GIVEN else [f"{len(scene.objects)} objects found by the segmenter {masks}."]
    if request == Request():
        said.append(f"Asked for, by request.txt: {given.request}.")
    scorer = None if asking is None else _choose_scorer(scene, asking)
    told = ground_with(scorer, scene, request.target, request.point, request.words)
    meant, said = told.meant, [*said, *told.notes]
    watch.lap("ground")
    if not isinstance(meant, Found):
        return Unclear(scene, meant, (*said, *_unchecked(meant.unchecked)))
    said += _unchecked(meant.unchecked)
    if asking is not None and asking.scorer == NONE:
        scene = replace(scene, semantic_scores=None)
    scorer = _choose_scorer(scene, None) if asking is None else scorer
    who = scorer.name if scorer else scene.semantic_scores.scorer if scene.semantic_scores else None
    model = _choose_model(model_choice, who, scorer is None and scene.semantic_scores is None)
    pipeline = model.pipeline(tau) if model else Pipeline(tau=0.5 if tau is None else tau)
    asked_all = True
    if scorer is not None:
        scene, note, asked_all = _ask(scene, meant.id, pipeline, scorer, asking or Asking(scorer.name))
        said.append(note)
    watch.lap("score")
    posterior = pipeline.posterior(pipeline.believe(scene), meant.id)
    watch.lap("relate")
    return Question(
        posterior, pipeline.tau, scene, pipeline, model, tuple(said), asked_all, masks, watch.times_ms
    )


def _unchecked(words: tuple[str, ...]) -> list[str]:
    if not words:
        return []
    return [f"Not counted, since nothing seen can be held against it: {', '.join(words)}."]


def _choose_scorer(scene: Scene, asking: Asking | None) -> "RelationScorer | None":
    """Who is to be asked; None where the scene has its own scores, or nobody is wanted or there."""
    if asking is not None:
        from cpor.semantics.registry import load_scorer

        return None if asking.scorer == NONE else load_scorer(asking.scorer)
    if scene.semantic_scores is not None:
        return None
    from cpor.perception.network_file import MissingExtraError
    from cpor.semantics.embedded import EmbeddedScorer

    scorer = EmbeddedScorer()
    try:
        _ = scorer.name
    except MissingExtraError:
        return None  # masks and depth decide alone, and the notes say so
    return scorer


def _choose_model(choice: str | None, scorer: str | None, geometry_alone: bool) -> "FittedModel | None":
    """The model asked for; without a word the bundled one that was fitted to such scores, if there is one."""
    from cpor.model import FittedModel, bundled_model

    if choice is not None:
        return None if choice == NONE else FittedModel.load(Path(choice))
    if geometry_alone:
        return FittedModel.load(bundled_model("geometry"))
    embedded = FittedModel.load(bundled_model("embedded"))
    return embedded if scorer == embedded.scorer else None


def _ask(
    scene: Scene, target: int, pipeline: "Pipeline", scorer: "RelationScorer", asking: Asking
) -> tuple[Scene, str, bool]:
    """The scene with what a scorer said of it, a note on what that took, and whether all was asked."""
    import numpy as np

    from cpor.asking import AskingSettings, ask_scene
    from cpor.semantics.crops import near_pairs
    from cpor.semantics.embedded import EmbeddedScorer
    from cpor.semantics.vlm import pairs_to_ask

    pairs = near_pairs(scene) if isinstance(scorer, EmbeddedScorer) else pairs_to_ask(scene)
    if asking.most_questions is None:
        scored = scorer.score(scene, pairs)
        answered, n_asked = len(pairs) - len(scored.unanswered), len(pairs) - scored.spent.refused
        note = f"{scorer.name} answered {answered} of {len(pairs)} questions."
    else:
        settings = AskingSettings(most_questions=asking.most_questions)
        rng = np.random.default_rng(asking.seed)
        asked, scored = ask_scene(pipeline, scene, target, scorer, pairs, rng, settings)
        answered = sum(score is not None for score in asked.answers.values())
        n_asked = len(asked.answers)
        note = (
            f"{scorer.name} answered {answered} of {len(asked.answers)} questions asked, of "
            f"{asked.relevant} that could matter; the others would change the action with probability "
            f"{asked.p_change:.2f}."
        )
    if scored.problems:
        note += f" Trouble: {scored.problems[0]}."
    if scored.spent.calls:
        note += f" Spent: {scored.spent.calls} calls, {scored.spent.tokens} tokens."
    return replace(scene, semantic_scores=scored.semantic_scores()), note, n_asked == len(pairs)


def notes_on(scene: Scene) -> list[str]:
    """What to know of a scene that lacks a source of evidence, in sentences."""
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
