"""The front door: look at a frame, decide for a target. Every surface calls this and nothing else.

look     the frame             -> a View: objects, and what may be wrong with the input
decide   a View and a request  -> an Answer: which object is meant, beliefs about every pair, an action
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from cpor.answer import Answer, Believed, DecideSettings, Outlook, View
from cpor.asking import AskingSettings, ask_scene
from cpor.data.pictures import Picture, limit_to, read_picture
from cpor.decision import Defer
from cpor.errors import InvalidSceneError
from cpor.evidence.merged import find_merged
from cpor.evidence.source import Source, load_sources
from cpor.gate.frame import check_frame
from cpor.gate.masks import check_masks
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.paper_model import load_model
from cpor.perception.hidden_parts import guess_hidden_parts
from cpor.perception.mask_files import GivenMasks
from cpor.perception.network_file import MissingExtraError
from cpor.perception.registry import DEFAULT, make_segmenter
from cpor.perception.segmenter import PointSegmenter, Segmenter
from cpor.pipeline import PairBeliefs, Pipeline, Stopwatch
from cpor.promise import Makers, check_masks_source, check_measured, check_used, promise_for, remask
from cpor.risk.modes import DEFAULT_MODE, MODES, Mode, mode_tau, parse_mode
from cpor.scene import Camera, PixelPoint, Scene, SemanticScores, Sources
from cpor.semantics.grounder import Grounder, ground_with
from cpor.semantics.namer import Namer
from cpor.semantics.registry import load_scorer
from cpor.semantics.scorer import RelationScorer, ScoredPairs
from cpor.sources import describe_sources, digest_scores, fingerprint, verified_sources
from cpor.words.grounding import Exchange, Found, shows_nothing

NONE = "none"
"""In place of a scorer or a model: go without."""

GIVEN = "given"
"""Name of the masks that a scene came with."""


class System:
    """Segmenter, scorer and model in one; networks are read when first used.

    Args:
        segmenter: A segmenter, its name, or `module:attribute`; `given`: only masks that a scene came with.
            None: those, else ours.
        scorer: A relation scorer, its name or file, `module:attribute`, or `none`. None: the scores a scene
            came with, else ours.
        model: A fitted model, its file, `paper`, or `none`. None: the bundled one fitted to such scores.
        mode: The risk setting.
        grounder: Who is asked which object words mean; None: the scorer where it can, else our word judge.
        second_look: Whether our segmenter looks too where the masks are not its own, to find masks that hold
            two objects (`cpor.evidence.merged`). It takes about half a second of one core for each view.
        sources: Further sources of belief that are not installed: objects, or `module:attribute`.
    """

    def __init__(
        self,
        segmenter: Segmenter | str | None = None,
        scorer: RelationScorer | str | None = None,
        model: FittedModel | str | Path | None = None,
        mode: Mode | str = DEFAULT_MODE,
        grounder: Grounder | None = None,
        second_look: bool = False,
        sources: Sequence[Source | str] = (),
    ) -> None:
        self.mode, self._second_look = parse_mode(mode), second_look
        self._segmenter_name = segmenter if isinstance(segmenter, str) else None
        self._segmenter = _load_segmenter(segmenter)
        self._no_scorer = scorer == NONE
        self._scorer = _load_scorer(scorer)
        self._sources = load_sources(sources)
        self._no_model = model == NONE
        self.model = _load_model(model)
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
        frame: int | None = None,
    ) -> View:
        """Find the objects of a frame, and check what was given.

        Args:
            picture: The frame; see `Picture`.
            depth: Registered to the photograph: metres, or steps of `depth_unit_m`; or an image file.
                Shape (h, w).
            camera: What is known of the camera; None: what the files beside an image file say.
            depth_unit_m: Metres that one step of depth means. None: as those files say, else guessed. [m]
            workspace: Corners x, y of the polygon in which objects may be asked for; None: as the camera
                says. [px]
            previous: The last view of the same camera; a frame that repeats it is stale.
            frame: Which frame of a folder of frames, counted from 0; None: the first.
        """
        watch = Stopwatch()
        given, notes = read_picture(picture, depth, camera, depth_unit_m, frame)
        if workspace is not None:
            given = limit_to(given, workspace)
        watch.lap("read")
        checks = check_frame(given.observation, None if previous is None else previous.seen.observation)
        watch.lap("check")
        scene, masks, maker = self._segment(given)
        scene, guessed = guess_hidden_parts(scene, _own_segmenter)
        if guessed:
            maker, notes = maker and f"{maker} with hidden parts of ours", (*notes, guessed)
        watch.lap("segment")
        if masks != GIVEN:
            notes = (*notes, f"{len(scene.objects)} objects found by the segmenter {masks}.")
        recorded = (verified_sources(given) if masks == GIVEN else None) or Sources("")
        made_here = recorded.made_here if masks == GIVEN else {"masks"}
        with ThreadPoolExecutor(1) as side:  # hashing leaves the interpreter to the checks
            sources = side.submit(describe_sources, scene, maker, recorded.scorer, made_here)
            checks += (check_masks_source(given, maker), *(check_masks(scene) if scene.objects else ()))
        watch.lap("check_masks")
        told = self._grounder.name_objects(scene) if isinstance(self._grounder, Namer) else None
        notes, names = (notes, None) if told is None else ((*notes, told.note), told.names)
        watch.lap("ask_names")
        return View(scene, masks, sources.result(), checks, notes, watch.times_ms, told=names)

    def decide(
        self,
        view: View,
        target: int | None = None,
        *,
        point: PixelPoint | tuple[float, float] | None = None,
        request: str | None = None,
        before: Exchange | None = None,
        mode: Mode | str | None = None,
        tau: float | None = None,
        relations: Mapping[tuple[int, int], float | None] | None = None,
        settings: DecideSettings | None = None,
    ) -> Answer:
        """Decide for one object, asked for in one of three ways.

        Args:
            view: What was seen.
            target: Its id.
            point: A pixel that shows it; see `look_closer` where no mask holds it.
            request: What it looks like, in words. In no way at all: the request the scene came with.
            before: What was said and done before, for words that point to it; None: as the view remembers.
            mode: The risk setting; None: the system's.
            tau: Act above this score instead.
            relations: Probabilities to use in place of what is believed, by `(blocked, blocker)`; None is no
                answer, 0 known not to obstruct. What a person corrected counts besides.
            settings: How to decide.
        """
        settings = settings or DecideSettings()
        if point is not None:
            view = self.look_closer(view, PixelPoint(*point))
        relations = {**view.relations, **(relations or {})}
        chosen = None if tau is not None else self.mode if mode is None else parse_mode(mode)
        asked = target, point and PixelPoint(*point), request, before or view.exchange
        by_words = target is None and point is None
        scene = view.scene if by_words else view.seen  # an id or a pixel needs names only to ask back
        watch = Stopwatch(view.times_ms)
        told = ground_with(self._grounder, scene, *asked)
        if not by_words and not isinstance(told.meant, Found):
            told = ground_with(self._grounder, view.scene, *asked)
        view.exchange = asked[-1].after(told.meant)
        watch.lap("ground")
        own = scene.request if by_words and request is None else None
        notes = (*view.notes, *((f"request.txt asks for: {own}.",) if own else ()), *told.notes)
        if not isinstance(told.meant, Found):
            return Answer(
                None, None, view, told.meant, chosen, tau,
                checks=view.checks, notes=notes, times_ms=watch.times_ms,
            )  # fmt: skip
        believed = self.believe(view, told.meant.id, settings, watch)
        model = self._choose_model(believed.semantic)
        level = _tau(model, chosen or self.mode) if tau is None else tau
        pipeline = replace(self._stages(model), tau=level, method=settings.method, prior=settings.prior)
        posterior = pipeline.posterior(believed.beliefs, told.meant.id).with_answers(relations.items())
        decision = pipeline.decide(posterior, settings.deadline_ms, settings.require_certificate)
        rate = pipeline.success_rate(decision)
        measured = check_measured(believed.beliefs, told.meant.id, decision.action)
        checks = (*check_used(view, believed, model), measured)
        if not settings.ignore_checks and any(check.state == "fail" for check in checks):
            decision = replace(decision, action=Defer("failed_check"))
        watch.lap("decide")
        plain = settings == DecideSettings() and chosen == DEFAULT_MODE and not relations
        plain = plain and believed.asked_all and not (view.carried and view.carried.pairs)
        promise, in_words = promise_for(view, believed, model, pipeline, checks, plain, _OWN)
        watch.lap("promise")
        notes += (*believed.notes_on(view.seen), _say_mode(model, chosen), in_words)
        return Answer(
            decision, posterior, view, told.meant, chosen, level, promise, checks, rate, settings.prior,
            tuple(note for note in notes if note), watch.times_ms,
        )  # fmt: skip

    def look_closer(self, view: View, point: PixelPoint) -> View:
        """The view with the object that a point shows, where the segmenter saw it too faintly to name it.

        A person who points says that something is there. Such masks were never tested: nothing is promised.

        Args:
            view: What was seen; it comes back as it is where a mask holds the point, the masks are not the
                segmenter's own, or nothing is seen there.
            point: Where. [px]
        """
        if not shows_nothing(view.seen, point) or GIVEN in (view.masks, self._segmenter_name):
            return view
        segmenter = self._segmenter or _own_segmenter()
        if not isinstance(segmenter, PointSegmenter) or view.sources.segmenter != fingerprint(segmenter):
            return view
        scene = segmenter.segment_at(view.seen, point)
        if scene is None:
            return view
        name, at, digest = str(view.sources.segmenter).partition(" @")
        note = f"Object {scene.objects[-1].id} is seen only faintly: it counts since it was pointed at."
        seen = replace(view, notes=(*view.notes, note))
        return remask(seen, scene, view.masks, f"{name} told where to look{at}{digest}", {"masks"})

    def outlook(self, view: View) -> Outlook:
        """What holds for every target of a view: thresholds, checks, and the promise of the default mode."""
        believed = self.believe(view)
        model = self._choose_model(believed.semantic)
        checks = check_used(view, believed, model)
        plain = believed.asked_all and not view.relations
        promise, in_words = promise_for(view, believed, model, self._stages(model), checks, plain, _OWN)
        notes = filter(None, (*view.notes, *believed.notes_on(view.seen), in_words))
        return Outlook({mode: _tau(model, mode) for mode in MODES}, checks, promise, tuple(notes))

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
        settings, watch = settings or DecideSettings(), watch or Stopwatch(view.times_ms)
        scene = replace(view.seen, semantic_scores=None) if self._no_scorer else view.seen
        sources = view.sources
        scorer = self._choose_scorer(scene)
        semantic = SemanticScores({}, scorer.name) if scorer is not None else scene.semantic_scores
        pipeline = self._stages(self._choose_model(semantic))
        asked_all, note = True, ""
        with ThreadPoolExecutor(1) as side:  # a scorer may wait for a model far away, or leave a core idle
            measured = side.submit(pipeline.measure, scene)
            if scorer is not None:
                scored, asked_all, note = _score(scene, scorer, target, settings, pipeline)
                scene = replace(scene, semantic_scores=scored.semantic_scores())
                sources = replace(
                    sources, scores=digest_scores(scene), scorer=fingerprint(scorer),
                    made_here=sources.made_here | {"scores"},
                )  # fmt: skip
            watch.lap("score")
        beliefs = pipeline.combine(measured.result(), scene.semantic_scores, pipeline.score_sources(scene))
        if self._second_look:
            beliefs = self._doubt_merged(view, beliefs, pipeline)
        if view.carried is not None:
            beliefs = view.carried.apply(beliefs)
        watch.lap("relate")
        found = Believed(beliefs, sources, scene.semantic_scores, asked_all, note)
        if settings.questions is None:
            view.believed, view.times_ms = found, dict(watch.times_ms)
        return found

    def _doubt_merged(self, view: View, beliefs: PairBeliefs, pipeline: Pipeline) -> PairBeliefs:
        """The beliefs without an answer for objects whose masks hold two, by a second look."""
        if "masks" in view.sources.made_here and view.sources.segmenter == fingerprint(_own_segmenter()):
            return beliefs
        second = _own_segmenter().segment(view.seen.observation)
        merged = find_merged(view.seen, second, pipeline.measure(second))
        return replace(beliefs, p_unseen=np.where(merged, np.nan, beliefs.p_unseen))

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
        maker = fingerprint(segmenter)
        own = getattr(segmenter, "name", type(segmenter).__name__)
        name = maker.split(" @")[0] if maker else self._segmenter_name or own
        # Scores that came with other masks are about other objects.
        return replace(found, request=given.request, sources=None), name, maker

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

    def _stages(self, model: FittedModel | None) -> Pipeline:
        """The stages with our sources: those of the model, or with nothing fitted."""
        return Pipeline(sources=self._sources) if model is None else model.pipeline(sources=self._sources)

    def _choose_model(self, semantic: SemanticScores | None) -> FittedModel | None:
        """The model asked for; without a word the bundled one that was fitted to such scores, if any."""
        if self.model is not None or self._no_model:
            return self.model
        if semantic is None:
            return _bundled("geometry")
        embedded = _bundled("embedded")
        return embedded if semantic.scorer == embedded.scorer else None


def _score(
    scene: Scene, scorer: RelationScorer, target: int | None, settings: DecideSettings, stages: Pipeline
) -> tuple[ScoredPairs, bool, str]:
    """What a scorer says of its pairs, whether all were asked, and a sentence on what that took."""
    pairs = scorer.pairs(scene)
    if settings.questions is None or target is None:
        scored = scorer.score(scene, pairs)
        n_asked = len(pairs) - scored.spent.refused
        answered = len(pairs) - len(scored.unanswered)
        note = f"{scorer.name} answered {answered} of {len(pairs)} questions." if pairs else ""
    else:
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


@cache
def _bundled(kind: Bundled) -> FittedModel:
    return FittedModel.load(bundled_model(kind))


@cache
def _own_segmenter() -> Segmenter:
    return make_segmenter(DEFAULT)


@cache
def _own_scorer() -> RelationScorer:
    return load_scorer("embedded")


_OWN: Makers = (_own_segmenter, _own_scorer)


def _load_segmenter(segmenter: Segmenter | str | None) -> Segmenter | None:
    if isinstance(segmenter, str):
        return None if segmenter == GIVEN else make_segmenter(segmenter)
    return segmenter


def _load_scorer(scorer: RelationScorer | str | None) -> RelationScorer | None:
    return None if scorer == NONE else load_scorer(scorer) if isinstance(scorer, str) else scorer


def _load_model(model: FittedModel | str | Path | None) -> FittedModel | None:
    found = load_model(model) if isinstance(model, str | Path) and model != NONE else model
    return found if isinstance(found, FittedModel) else None


def _tau(model: FittedModel | None, mode: Mode) -> float:
    return mode_tau(mode) if model is None else model.tau(mode)


def _say_mode(model: FittedModel | None, mode: Mode | None) -> str:
    if model is None:
        return "Not calibrated: no model was fitted to such scores; `cpor fit` fits one."
    return "" if mode is None else model.say_mode(mode)
