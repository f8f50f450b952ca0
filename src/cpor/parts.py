"""The parts of a System: segmenter, scorer and model, given by name or object, chosen where none is given."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from cpor.answer import DecideSettings
from cpor.errors import InvalidSceneError, MissingExtraError
from cpor.evidence.source import Source, load_sources
from cpor.learn.modes import Mode, mode_tau
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.perception.segmenter import DEFAULT, PointSegmenter, Segmenter, make_segmenter
from cpor.pipeline import PairBeliefs, Pipeline
from cpor.promise import Makers, remask
from cpor.scene import BlockedBy, PixelPoint, Scene, SemanticScores
from cpor.semantics.embedded import EmbeddedScorer
from cpor.semantics.scorer import RelationScorer, ScoredPairs, score_new_pairs
from cpor.sources import fingerprint, verified_sources
from cpor.view import View
from cpor.words.grounding import shows_nothing

NONE = "none"
"""In place of a scorer or a model: go without."""

GIVEN = "given"
"""Name of the masks that a scene came with."""


class Parts:
    """Segmenter, scorer and model; the arguments are those of `System`.

    Attributes:
        segmenter: The segmenter that was asked for; None: the masks of the scene, else ours.
        only_given: Whether only masks that a scene came with are taken.
        scorer: The scorer that was asked for; None: the scores of the scene, else ours.
        no_scorer: Whether to go without a scorer.
        model: The model that was asked for; None: the bundled one that was fitted to such scores.
    """

    def __init__(
        self,
        segmenter: Segmenter | str | None,
        scorer: RelationScorer | str | None,
        model: FittedModel | str | Path | None,
        sources: Sequence[Source | str] = (),
    ) -> None:
        self._sources = load_sources(sources)
        self._segmenter_name = segmenter if isinstance(segmenter, str) else None
        self.only_given = segmenter == GIVEN
        if isinstance(segmenter, str):
            segmenter = None if self.only_given else make_segmenter(segmenter)
        self.segmenter = segmenter
        self.no_scorer, self._no_model = scorer == NONE, model == NONE
        if isinstance(scorer, str):
            from cpor.semantics.scorer_registry import load_scorer

            scorer = None if self.no_scorer else load_scorer(scorer)
        if isinstance(model, str | Path):
            from cpor.paper_model import load_model

            model = None if self._no_model else load_model(model)
        self.scorer, self.model = scorer, model

    def segment(self, given: Scene) -> tuple[Scene, str, str | None]:
        """The scene with masks, the name of their source, and the fingerprint of what made them."""
        if given.visible_ids is None and self.only_given:
            raise InvalidSceneError("the scene has no masks; give some, or let a segmenter find them")
        if given.visible_ids is not None and self.segmenter is None:
            recorded = verified_sources(given)
            maker = recorded.segmenter if recorded is not None else None
            return given, GIVEN, maker
        segmenter = self.segmenter or own_segmenter()
        found = segmenter.segment(given.observation)
        maker = fingerprint(segmenter)
        own = getattr(segmenter, "name", type(segmenter).__name__)
        name = maker.split(" @")[0] if maker else self._segmenter_name or own
        # Scores that came with other masks are about other objects.
        return replace(found, request=given.request, sources=None), name, maker

    def scorer_for(self, scene: Scene) -> RelationScorer | None:
        """The scorer to ask; None if the scene has its own scores, or no scorer is wanted or installed."""
        if self.scorer is not None:
            return self.scorer
        if self.no_scorer or scene.semantic_scores is not None:
            return None
        try:
            scorer = own_scorer()
            _ = scorer.name
        except MissingExtraError:
            return None  # masks and depth decide alone, and the notes say so
        return scorer

    def model_for(self, semantic: SemanticScores | None) -> FittedModel | None:
        """The model that was asked for, else the bundled one that was fitted to such scores, if any."""
        if self.model is not None or self._no_model:
            return self.model
        if semantic is None:
            return _bundled("geometry")
        embedded = _bundled("embedded")
        return embedded if semantic.scorer == embedded.scorer else None

    def pipeline_for(self, semantic: SemanticScores | None) -> Pipeline:
        """The stages for such scores: those of the model, else uncalibrated ones."""
        model = self.model_for(semantic)
        return Pipeline(sources=self._sources) if model is None else model.pipeline(sources=self._sources)

    def score(
        self,
        view: View,
        scene: Scene,
        scorer: RelationScorer,
        target: int | None,
        settings: DecideSettings,
    ) -> tuple[ScoredPairs, bool, str, frozenset[BlockedBy]]:
        """Scores of the pairs of a scene; as `score_new_pairs`, or those that matter for a target."""
        if settings.questions is None or target is None:
            memory = view.memory
            known = memory.scores if memory is not None and memory.scorer == scorer.name else {}
            return score_new_pairs(scene, scorer, known)
        from cpor.asking import score_what_matters

        stages = self.pipeline_for(SemanticScores({}, scorer.name))
        return score_what_matters(scene, scorer, stages, target, settings.questions, settings.seed)


def look_closer(parts: Parts, view: View, point: PixelPoint) -> View:
    """The view with the object that a point shows, where the segmenter saw it too faintly to name it.

    A person who points says that something is there. Such masks were never tested: nothing is promised.

    Args:
        parts: What looked.
        view: What was seen; it comes back as it is where a mask holds the point, the masks are not the
            segmenter's own, or nothing is seen there.
        point: Where. [px]
    """
    if not shows_nothing(view.seen, point) or view.masks == GIVEN or parts.only_given:
        return view
    segmenter = parts.segmenter or own_segmenter()
    if not isinstance(segmenter, PointSegmenter) or view.sources.segmenter != fingerprint(segmenter):
        return view
    scene = segmenter.segment_at(view.seen, point)
    if scene is None:
        return view
    name, at, digest = str(view.sources.segmenter).partition(" @")
    note = f"Object {scene.objects[-1].id} is seen only faintly: it counts since it was pointed at."
    seen, memory = replace(view, notes=(*view.notes, note)), view.memory
    if memory is not None:
        memory = memory.add(scene)
        scene = memory.frame or scene
    closer = remask(seen, scene, view.masks, f"{name} told where to look{at}{digest}", {"masks"})
    closer.memory, closer.exchange = memory, view.exchange
    return closer


def doubt_merged(view: View, beliefs: PairBeliefs, pipeline: Pipeline) -> PairBeliefs:
    """The beliefs without an answer for objects whose masks hold two, by a second look of our segmenter."""
    if "masks" in view.sources.made_here and view.sources.segmenter == fingerprint(own_segmenter()):
        return beliefs
    from cpor.evidence.merged import find_merged

    try:
        second = own_segmenter().segment(view.seen.observation)
    except MissingExtraError:
        return beliefs  # without our network there is no second look
    merged = find_merged(view.seen, second, pipeline.measure(second))
    return replace(beliefs, p_unseen=np.where(merged, np.nan, beliefs.p_unseen))


def tau_of(model: FittedModel | None, mode: Mode) -> float:
    """Threshold of a mode; without a model, the score that the mode asks for."""
    return mode_tau(mode) if model is None else model.tau(mode)


def say_mode(model: FittedModel | None, mode: Mode | None) -> str:
    """A sentence on what a mode means; empty where a threshold was given."""
    if model is None:
        return "Not calibrated: no model was fitted to such scores; `cpor fit` fits one."
    return " ".join(filter(None, (model.say_coverage(), mode and model.say_mode(mode))))


@cache
def _bundled(kind: Bundled) -> FittedModel:
    return FittedModel.load(bundled_model(kind))


@cache
def own_segmenter() -> Segmenter:
    """Our segmenter; its network is read when first used."""
    return make_segmenter(DEFAULT)


@cache
def own_scorer() -> RelationScorer:
    """Our scorer; its network is read when first used."""
    return EmbeddedScorer()


OWN: Makers = (own_segmenter, own_scorer)
"""What can make our masks and scores again."""
