"""The front door: look at a frame, decide for a target. Every surface calls this and nothing else.

look     the frame             -> a View: objects, and what may be wrong with the input
decide   a View and a request  -> an Answer: which object is meant, beliefs about every pair, an action
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from cpor.answer import Answer, Believed, DecideSettings, Outlook, View
from cpor.asking import AskingSettings, ask_scene
from cpor.data.frame_files import make_observation, read_frame
from cpor.data.scene_folder import read_scene_folder
from cpor.decision import Defer
from cpor.errors import InvalidSceneError, InvalidSettingError
from cpor.gate.check import Check
from cpor.gate.frame import check_frame
from cpor.gate.masks import check_masks
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.perception.grounding import Found
from cpor.perception.mask_files import GivenMasks
from cpor.perception.network_file import MissingExtraError
from cpor.perception.registry import DEFAULT, make_segmenter
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import Pipeline, Stopwatch
from cpor.promise import check_like_tested, check_masks_source, check_scores_source, make_promise
from cpor.relations import ObstructionPosterior
from cpor.risk.modes import DEFAULT_MODE, MODES, Mode, mode_tau, parse_mode
from cpor.scene import Camera, Observation, PixelPoint, Scene, SemanticScores
from cpor.semantics.grounder import Grounder, ground_with
from cpor.semantics.registry import load_scorer
from cpor.semantics.scorer import RelationScorer, ScoredPairs
from cpor.sources import describe_sources, fingerprint, verified_sources

NONE = "none"
"""In place of a scorer or a model: go without."""

GIVEN = "given"
"""Name of the masks that a scene came with."""

Picture: TypeAlias = np.ndarray | Observation | Scene | str | Path
"""A photograph as an array, a frame, a scene with masks, an image file, or a scene folder."""


class System:
    """Segmenter, scorer and model in one; networks are read when first used.

    Args:
        segmenter: A segmenter, its name, or `module:attribute`; `given`: only masks that a scene came with.
            None: those, else ours.
        scorer: A relation scorer, its name or file, `module:attribute`, or `none`. None: the scores a scene
            came with, else ours.
        model: A fitted model, its file, or `none`. None: the bundled one that was fitted to such scores.
        mode: The risk setting.
        grounder: Who is asked which object words mean; None: the scorer where it can, else our word judge.
    """

    def __init__(
        self,
        segmenter: Segmenter | str | None = None,
        scorer: RelationScorer | str | None = None,
        model: FittedModel | str | Path | None = None,
        mode: Mode | str = DEFAULT_MODE,
        grounder: Grounder | None = None,
    ) -> None:
        self.mode = parse_mode(mode)
        self._segmenter_name = segmenter if isinstance(segmenter, str) else None
        self._segmenter = _load_segmenter(segmenter)
        self._no_scorer = scorer == NONE
        self._scorer = _load_scorer(scorer)
        self._no_model = model == NONE
        self._model = _load_model(model)
        self._grounder = grounder or (self._scorer if isinstance(self._scorer, Grounder) else None)

    def look(
        self,
        picture: Picture,
        depth: np.ndarray | str | Path | None = None,
        camera: Camera | None = None,
        depth_unit_m: float | None = None,
        *,
        workspace: Sequence[tuple[float, float]] | None = None,
        previous: View | None = None,
    ) -> View:
        """Find the objects of a frame, and check what was given.

        Args:
            picture: The frame; see `Picture`.
            depth: Registered to the photograph: metres, or steps of `depth_unit_m`; or an image file.
                Shape (h, w).
            camera: What is known of the camera.
            depth_unit_m: Metres that one step of depth means. None: as the camera says, else guessed. [m]
            workspace: Corners x, y of the polygon in which objects may be asked for; None: as the camera
                says. [px]
            previous: The last view of the same camera; a frame that repeats it is stale.
        """
        watch = Stopwatch()
        given, notes = _read(picture, depth, camera, depth_unit_m)
        if workspace is not None:
            given = _limit(given, workspace)
        watch.lap("read")
        checks = check_frame(given.observation, None if previous is None else previous.scene.observation)
        watch.lap("check")
        scene, masks, maker = self._segment(given)
        watch.lap("segment")
        if masks != GIVEN:
            notes = (*notes, f"{len(scene.objects)} objects found by the segmenter {masks}.")
        checks += (check_masks_source(given, maker), *(check_masks(scene) if scene.objects else ()))
        recorded = verified_sources(given) if masks == GIVEN else None
        sources = describe_sources(scene, maker, recorded.scorer if recorded else None)
        watch.lap("check_masks")
        return View(scene, masks, sources, checks, notes, watch.times_ms)

    def decide(
        self,
        view: View,
        target: int | None = None,
        *,
        point: PixelPoint | tuple[float, float] | None = None,
        request: str | None = None,
        mode: Mode | str | None = None,
        tau: float | None = None,
        relations: Mapping[tuple[int, int], float | None] | None = None,
        settings: DecideSettings | None = None,
    ) -> Answer:
        """Decide for one object, asked for in one of three ways.

        Args:
            view: What was seen.
            target: Its id.
            point: A pixel that shows it.
            request: What it looks like, in words. In no way at all: the request the scene came with.
            mode: The risk setting; None: the system's.
            tau: Act above this score instead.
            relations: Probabilities to use in place of what is believed, by `(blocked, blocker)`; None is no
                answer, 0 known not to obstruct.
            settings: How to decide.
        """
        settings = settings or DecideSettings()
        chosen = None if tau is not None else self.mode if mode is None else parse_mode(mode)
        watch = Stopwatch(view.times_ms)
        place = None if point is None else PixelPoint(*point)
        told = ground_with(self._grounder, view.scene, target, place, request)
        watch.lap("ground")
        own = view.scene.request if target is None and point is None and request is None else None
        notes = (*view.notes, *((f"request.txt asks for: {own}.",) if own else ()), *told.notes)
        if not isinstance(told.meant, Found):
            return Answer(
                None, None, view, told.meant, chosen, tau,
                checks=view.checks, notes=notes, times_ms=watch.times_ms,
            )  # fmt: skip
        believed = self.believe(view, told.meant.id, settings, watch)
        model = self._choose_model(believed.semantic)
        level = tau if chosen is None else _tau(model, chosen)
        assert level is not None
        pipeline = replace(_stages(model), tau=level, method=settings.method, prior=settings.prior)
        posterior = _edit(pipeline.posterior(believed.beliefs, told.meant.id), relations)
        decision = pipeline.decide(posterior, settings.deadline_ms, settings.require_certificate)
        rate = pipeline.success_rate(decision)
        checks = _all_checks(view, believed, model)
        if not settings.ignore_checks and any(check.state == "fail" for check in checks):
            decision = replace(decision, action=Defer("failed_check"))
        watch.lap("decide")
        plain = (
            settings == DecideSettings() and chosen == DEFAULT_MODE and not relations and believed.asked_all
        )
        measured_by = fingerprint(pipeline.measure)
        promise, in_words = make_promise(model, believed.sources, measured_by, checks, plain)
        notes += (believed.note, *_notes_on(view.scene, believed), _say_mode(model, chosen), in_words)
        return Answer(
            decision, posterior, view, told.meant, chosen, level, promise, checks, rate, settings.prior,
            tuple(note for note in notes if note), watch.times_ms,
        )  # fmt: skip

    def outlook(self, view: View) -> Outlook:
        """What holds for every target of a view: thresholds, checks, and the promise of the default mode."""
        believed = self.believe(view)
        model = self._choose_model(believed.semantic)
        checks = _all_checks(view, believed, model)
        made, measured_by = believed.sources, fingerprint(_stages(model).measure)
        promise, in_words = make_promise(model, made, measured_by, checks, believed.asked_all)
        notes = (*view.notes, believed.note, *_notes_on(view.scene, believed), in_words)
        taus = {mode: _tau(model, mode) for mode in MODES}
        return Outlook(taus, checks, promise, tuple(note for note in notes if note))

    def believe(
        self,
        view: View,
        target: int | None = None,
        settings: DecideSettings | None = None,
        watch: Stopwatch | None = None,
    ) -> Believed:
        """What is believed of every pair of a view; scored once and kept.

        Args:
            view: What was seen.
            target: Whom it is about, where only questions that matter are asked; that is not kept.
            settings: How many questions.
            watch: Notes the time of each stage.
        """
        if view.believed is not None:
            return view.believed
        settings, watch = settings or DecideSettings(), watch or Stopwatch()
        scene, sources = view.scene, view.sources
        if self._no_scorer:
            scene = replace(scene, semantic_scores=None)
        scorer = self._choose_scorer(scene)
        asked_all, note = True, ""
        if scorer is not None:
            scored, asked_all, note = self._score(scene, scorer, target, settings)
            scene = replace(scene, semantic_scores=scored.semantic_scores())
            sources = describe_sources(scene, sources.segmenter, fingerprint(scorer))
        watch.lap("score")
        semantic = scene.semantic_scores
        pipeline = _stages(self._choose_model(semantic))
        beliefs = pipeline.believe(scene)
        watch.lap("relate")
        found = Believed(beliefs, sources, semantic, asked_all, note)
        if settings.questions is None:
            view.believed, view.times_ms = found, dict(watch.times_ms)
        return found

    def _segment(self, given: Scene) -> tuple[Scene, str, str | None]:
        """The scene with masks, whose they are, and the fingerprint of who made them."""
        if given.visible_ids is None and self._segmenter_name == GIVEN:
            raise InvalidSceneError("the scene has no masks; give some, or let a segmenter find them")
        if given.visible_ids is not None and self._segmenter is None:
            recorded = verified_sources(given)
            maker = recorded.segmenter if recorded is not None else None
            return GivenMasks(given).segment(given.observation), GIVEN, maker
        segmenter = self._segmenter or _own_segmenter()
        found = segmenter.segment(given.observation)
        # Scores that came with other masks are about other objects.
        scene = replace(found, request=given.request, sources=None)
        maker = fingerprint(segmenter)
        own = getattr(segmenter, "name", type(segmenter).__name__)
        name = maker.split(" @")[0] if maker else self._segmenter_name or own
        return scene, name, maker

    def _choose_scorer(self, scene: Scene) -> RelationScorer | None:
        """Who is to be asked; None where the scene has its own scores, or nobody is wanted or there."""
        if self._scorer is not None:
            return self._scorer
        if self._no_scorer or scene.semantic_scores is not None:
            return None
        try:
            scorer = _own_scorer()
            _ = scorer.name
        except MissingExtraError:
            return None  # masks and depth decide alone, and the notes say so
        return scorer

    def _score(
        self, scene: Scene, scorer: RelationScorer, target: int | None, settings: DecideSettings
    ) -> tuple[ScoredPairs, bool, str]:
        """What a scorer says of its pairs, whether all were asked, and a sentence on what that took."""
        pairs = scorer.pairs(scene)
        if settings.questions is None or target is None:
            scored = scorer.score(scene, pairs)
            n_asked = len(pairs) - scored.spent.refused
            answered = len(pairs) - len(scored.unanswered)
            note = f"{scorer.name} answered {answered} of {len(pairs)} questions."
        else:
            stages = _stages(self._choose_model(SemanticScores({}, scorer.name)))
            limit = AskingSettings(most_questions=settings.questions)
            rng = np.random.default_rng(settings.seed)
            asked, scored = ask_scene(stages, scene, target, scorer, pairs, rng, limit)
            n_asked = len(asked.answers)
            answered = sum(score is not None for score in asked.answers.values())
            note = (
                f"{scorer.name} answered {answered} of {n_asked} questions asked, of {asked.relevant} that "
                f"could matter; the others would change the action with probability {asked.p_change:.2f}."
            )
        if scored.problems:
            note += f" Problem: {scored.problems[0]}."
        if scored.spent.calls:
            note += f" Spent: {scored.spent.calls} calls, {scored.spent.tokens} tokens."
        return scored, n_asked == len(pairs), note

    def _choose_model(self, semantic: SemanticScores | None) -> FittedModel | None:
        """The model asked for; without a word the bundled one that was fitted to such scores, if any."""
        if self._model is not None or self._no_model:
            return self._model
        if semantic is None:
            return _bundled("geometry")
        embedded = _bundled("embedded")
        return embedded if semantic.scorer == embedded.scorer else None


@cache
def _bundled(kind: Bundled) -> FittedModel:
    return FittedModel.load(bundled_model(kind))


@cache
def _own_segmenter() -> Segmenter:
    return make_segmenter(DEFAULT)


@cache
def _own_scorer() -> RelationScorer:
    return load_scorer("embedded")


def _load_segmenter(segmenter: Segmenter | str | None) -> Segmenter | None:
    if isinstance(segmenter, str):
        return None if segmenter == GIVEN else make_segmenter(segmenter)
    return segmenter


def _load_scorer(scorer: RelationScorer | str | None) -> RelationScorer | None:
    if isinstance(scorer, str):
        return None if scorer == NONE else load_scorer(scorer)
    return scorer


def _load_model(model: FittedModel | str | Path | None) -> FittedModel | None:
    if isinstance(model, str | Path):
        return None if model == NONE else FittedModel.load(Path(model))
    return model


def _stages(model: FittedModel | None) -> Pipeline:
    return Pipeline() if model is None else model.pipeline()


def _tau(model: FittedModel | None, mode: Mode) -> float:
    return mode_tau(mode) if model is None else model.tau(mode)


def _all_checks(view: View, believed: Believed, model: FittedModel | None) -> tuple[Check, ...]:
    made = check_scores_source(view.scene, believed.semantic, believed.sources.scorer)
    return (*view.checks, made, *check_like_tested(model, believed.beliefs))


def _read(
    picture: Picture, depth: np.ndarray | str | Path | None, camera: Camera | None, unit_m: float | None
) -> tuple[Scene, tuple[str, ...]]:
    """What was given, as a scene, and what to know of it."""
    if isinstance(picture, Scene | Observation):
        if depth is not None or camera is not None or unit_m is not None:
            raise InvalidSettingError("a frame has its own depth and camera; give it alone")
        return (picture if isinstance(picture, Scene) else Scene(picture)), ()
    if isinstance(picture, np.ndarray) and not isinstance(depth, str | Path):
        seen, notes = make_observation(picture, depth, camera, unit_m)
        return Scene(seen), notes
    if isinstance(picture, np.ndarray) or isinstance(depth, np.ndarray):
        raise InvalidSettingError("give photograph and depth both as arrays, or both as files")
    if Path(picture).is_dir():
        if depth is not None or camera is not None:
            raise InvalidSettingError(f"{picture} is a scene folder with depth and camera; drop yours")
        return read_scene_folder(picture, depth_unit_m=unit_m), ()
    seen, notes = read_frame(Path(picture), None if depth is None else Path(depth), camera, unit_m)
    return Scene(seen), notes


def _limit(scene: Scene, workspace: Sequence[tuple[float, float]]) -> Scene:
    """The scene with another workspace."""
    frame = scene.observation
    camera = replace(frame.camera, workspace=tuple(PixelPoint(x, y) for x, y in workspace))
    return replace(scene, observation=replace(frame, camera=camera))


def _edit(
    posterior: ObstructionPosterior, relations: Mapping[tuple[int, int], float | None] | None
) -> ObstructionPosterior:
    """The posterior with relations that somebody changed."""
    if not relations:
        return posterior
    p = posterior.p_obstructs.copy()
    for (blocked, blocker), value in relations.items():
        if blocked == blocker or (value is not None and not 0.0 <= value <= 1.0):
            raise InvalidSceneError(
                f"relation ({blocked}, {blocker}) = {value}: name two objects and give a probability, or null"
            )
        p[posterior.index(blocked), posterior.index(blocker)] = np.nan if value is None else value
    return posterior.replace_p(p)


def _notes_on(scene: Scene, believed: Believed) -> tuple[str, ...]:
    """What to know of a scene that lacks a source of evidence, in sentences."""
    notes = []
    if scene.observation.depth is None:
        notes.append("No depth: pairs that touch have no geometric answer.")
    if believed.semantic is None:
        notes.append("No semantic scores: geometry decides alone.")
    return tuple(notes)


def _say_mode(model: FittedModel | None, mode: Mode | None) -> str:
    if model is None:
        return "Not calibrated: no model was fitted to such scores; `cpor fit` fits one."
    if mode is None or mode not in model.modes:
        return ""
    return f"Mode {mode}: {model.modes[mode].in_words()}."
