"""Where a model's promise holds: an equality over what it was tested with, and every check passed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from cpor.decision import Action, Defer
from cpor.errors import MissingExtraError, say_version
from cpor.evidence.source import GEOMETRY
from cpor.gate.check import Check
from cpor.gate.masks import MASK_CHECKS, check_masks
from cpor.gate.setup import LESS_IS_SAFE, SETUP_FIGURES
from cpor.model import FittedModel, belief_features
from cpor.perception.segmenter import Segmenter
from cpor.pipeline import PairBeliefs, Pipeline, Stopwatch
from cpor.records import Promise
from cpor.scene import Scene, Sources
from cpor.semantics.scorer import RelationScorer
from cpor.sources import describe_sources, digest_masks, digest_scores, fingerprint, verified_sources
from cpor.view import View

if TYPE_CHECKING:  # only where looks are followed
    from cpor.tracking.memory import Memory

Makers = tuple[Callable[[], Segmenter], Callable[[], RelationScorer]]
"""Give what can make masks and scores again."""

LIKE_MARGIN = 0.05
"""How far outside of the range of the tested scenes a figure may lie, as a share of that range.

With 0.25, 43 of 108 targets on sparse tables passed for the dense bins of the bundled model; now 2 do.
"""

ODD_SHARE = 0.001
"""Share of the tested scenes, at either end, that does not widen their range: one odd scene in a thousand."""

SAME_SETUP = 0.01
"""A figure of the camera that was the same in all tested scenes may differ by this share of it, or by as much
in its unit: a millimetre of noise on a level floor is no tilt."""

_FIGURES = {
    "n_objects": "number of objects",
    "n_candidates": "number of pairs that may obstruct",
    "mean_p": "mean probability of obstruction",
    "n_unanswered": "number of pairs without an answer",
}


def check_source(what: Literal["masks", "scores"], given: Scene, maker: str | None) -> Check:
    """Whether the masks or scores in use were made for this very frame, and what made them.

    Args:
        what: Which of the two.
        given: The scene as it came.
        maker: Fingerprint of what made those in use; None where it is not recorded.
    """
    name = f"{what}_source"
    if maker is not None:
        return Check(name, "pass", f"The {what} are of this picture, by {_name(maker)}.")
    if (given.visible_ids if what == "masks" else given.semantic_scores) is None:
        says = f"Whoever made the {what} does not say which version it is."
        remedy = "Give it an attribute `fingerprint`: a text that changes whenever its results may."
        return Check(name, "doubt", says, remedy)
    claimed, holds = given.sources, verified_sources(given)
    if getattr(claimed, what, None) is not None and getattr(holds, what, None) is None:
        says = f"The record that came with the {what} is about another picture, or about other {what}."
        return Check(name, "fail", says, f"Make the {what} again for this picture, or delete sources.json.")
    says = f"Nobody recorded who made the {what}, and for which picture."
    return Check(name, "doubt", says, "Make them with `cpor perceive` and `cpor score`, which record it.")


def remask(view: View, scene: Scene, masks: str, maker: str, made_here: Iterable[str] = ()) -> View:
    """A view of the same frame with other masks, checked anew; nothing is believed of them yet."""
    watch = Stopwatch()
    made = describe_sources(scene, maker, None, made_here)
    scene = replace(scene, sources=made)
    of_frame = (check for check in view.checks if check.name not in (*MASK_CHECKS, "masks_source"))
    of_masks = check_masks(scene) if scene.objects else ()
    checks = (*of_frame, check_source("masks", scene, maker), *of_masks)
    watch.lap("check_masks")
    return View(scene, masks, made, checks, view.notes, watch.times, relations=view.relations, told=view.told)


def with_memory(view: View, memory: "Memory") -> View:
    """A view by the ids that its objects are known by; its masks are checked anew where they changed."""
    scene, numbers = memory.frame, memory.numbers
    assert scene is not None
    if scene is view.seen:
        return replace(view, memory=memory)
    made_here = view.sources.made_here & memory.made_here
    sources = replace(
        view.sources, masks=digest_masks(scene), scores=digest_scores(scene), made_here=made_here
    )  # fmt: skip
    checks = tuple(check for check in view.checks if check.name not in MASK_CHECKS)
    told = {numbers[k]: name for k, name in view.told.items()} if view.told is not None else None
    checks += check_masks(scene) if scene.objects else ()
    return replace(view, seen=scene, sources=sources, checks=checks, told=told, memory=memory)


def check_like_tested(model: FittedModel | None, beliefs: PairBeliefs) -> tuple[Check, ...]:
    """Whether the scene looks like those that the model was tested on."""
    if model is None:
        return ()
    for name, value in belief_features(beliefs).items():
        if (says := _unlike(_FIGURES[name], value, model.reference.get(name, ()))) is not None:
            remedy = "Nothing is promised for such scenes; fit a model to scenes like these with `cpor fit`."
            return (Check("like_tested", "doubt", says, remedy),)
    return (Check("like_tested", "pass", "The scene looks like those that the model was tested on."),)


def _unlike(
    figure: str, value: float, tested: Sequence[float | None], same: float = 0.0, less_is_safe: bool = False
) -> str | None:
    """How a figure differs from those of the tested scenes, in a sentence; None: it does not.

    What is not known counts as different, unless it was not known in some of the tested scenes, too.

    Args:
        figure: What it is, for people.
        value: In the scene at hand; NaN: not known.
        tested: In the tested scenes; None: not known.
        same: What was always the same may differ by this share of it, or by as much in its unit.
        less_is_safe: Whether less than in any tested scene is no reason to doubt.
    """
    known = [v for v in tested if v is not None]
    if not known:
        return f"The model does not say what the {figure} was in the tested scenes."
    low, high = (float(each) for each in np.quantile(known, (ODD_SHARE, 1.0 - ODD_SHARE), method="nearest"))
    span = _figure(low) if low == high else f"{_figure(low)} to {_figure(high)}"
    if np.isnan(value):
        is_new = len(known) == len(tested)
        return f"The {figure} is not known; in the tested scenes it was {span}." if is_new else None
    room = max(LIKE_MARGIN * (high - low), same * max(1.0, abs(low), abs(high)), 1e-9)
    if value <= high + room and (less_is_safe or value >= low - room):
        return None
    return f"The {figure} is {_figure(value)}; in the tested scenes it was {span}."


def _figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def check_as_set_up(model: FittedModel | None, figures: Mapping[str, float]) -> tuple[Check, ...]:
    """Whether the camera stands and sees as in the scenes that the model was tested on.

    Args:
        model: The fitted model; None: there is nothing to compare with.
        figures: Figures of the camera at hand, see `cpor.gate.setup.setup_figures`.
    """
    if model is None:
        return ()
    for name, what in SETUP_FIGURES.items():
        tested = model.setup.get(name, ())
        says = _unlike(what, figures[name], tested, SAME_SETUP, name in LESS_IS_SAFE)
        if says is not None:
            remedy = "Nothing is promised for another camera; fit a model to scenes of yours with `cpor fit`."
            return (Check("as_set_up", "doubt", says, remedy),)
    return (Check("as_set_up", "pass", "The camera stands and sees as in the tested scenes."),)


def check_used(view: View, model: FittedModel | None) -> tuple[Check, ...]:
    """The checks of a view, and those of the scores and the model used on it."""
    assert view.beliefs is not None
    made = Check("scores_source", "pass", "No semantic scores are used.")
    if view.semantic is not None:
        made = check_source("scores", view.seen, view.sources.scorer)
    tested = (*check_like_tested(model, view.beliefs), *check_as_set_up(model, view.setup))
    return (*view.checks, made, *tested)


def check_measured(beliefs: PairBeliefs, target: int, action: Action) -> Check:
    """Whether geometry knows every neighbour of the target and of what is acted on.

    Where it does not, the scorer alone may decide, but that earns no promise.
    """
    about = {target} if isinstance(action, Defer) else {target, action.obj}
    rows = [k for k, label in enumerate(beliefs.ids) if label in about]
    if not beliefs.geometry.is_unanswered[rows].any():
        return Check("measured", "pass", "Masks and depth tell of every neighbour.")
    if not beliefs.geometry.unseen.has_amodal[rows].all():
        says = "The masks hold only what shows, so masks and depth cannot tell what hides the rest."
        remedy = "Give whole (amodal) masks too, let our network find the objects, or ask a scorer."
        return Check("measured", "doubt", says, remedy)
    says = "Depth or a mask is missing on a neighbour, so masks and depth cannot tell whether it obstructs."
    return Check("measured", "doubt", says, "Look again, from another side or with more light.")


def prove_sources(scene: Scene, sources: Sources, makers: Makers) -> Sources:
    """The recorded sources, with what was read and is made again alike counted as made here."""
    made = Sources(sources.frame)
    try:
        segmenter, scorer = makers[0](), makers[1]()
        if "masks" not in sources.made_here and sources.segmenter == fingerprint(segmenter):
            made = replace(made, masks=digest_masks(segmenter.segment(scene.observation)))
        if "scores" not in sources.made_here and sources.scorer == fingerprint(scorer):
            scored = scorer.score(scene, scorer.pairs(scene)).semantic_scores()
            made = replace(made, scores=digest_scores(replace(scene, semantic_scores=scored)))
    except MissingExtraError:
        return sources  # no network, no proof
    again = {"masks": made.masks, "scores": made.scores}
    alike = {kind for kind, made_now in again.items() if made_now and made_now == getattr(sources, kind)}
    return replace(sources, made_here=sources.made_here | alike)


def promise_for(
    view: View,
    model: FittedModel | None,
    pipeline: Pipeline,
    checks: Sequence[Check],
    as_tested: bool,
    makers: Makers,
) -> tuple[Promise | None, str]:
    """As `make_promise`; where nothing else is missing, masks and scores that were read are made again."""
    measured = {GEOMETRY: fingerprint(pipeline.measure)}
    measured |= {each.name: fingerprint(each) for each in pipeline.sources}
    made = replace(view.sources, made_here=frozenset(("masks", "scores")))
    at_best = make_promise(model, made, measured, checks, as_tested)
    if at_best[0] is None:
        return at_best
    if view.proved is None:
        view.proved = prove_sources(view.seen, view.sources, makers)
    return make_promise(model, view.proved, measured, checks, as_tested)


def make_promise(
    model: FittedModel | None,
    sources: Sources,
    measured: Mapping[str, str | None],
    checks: Sequence[Check],
    as_tested: bool,
) -> tuple[Promise | None, str]:
    """The promise, or None; and a sentence that says it, or why there is none.

    Args:
        model: The fitted model.
        sources: What made masks and scores of the view.
        measured: Fingerprint of the network that measured geometry (None: the paper's formula did), and of
            each further source, by its name.
        checks: Checks of the input.
        as_tested: Whether it is decided as in the test: mode `cautious`, nothing set or edited, all asked.
    """
    reason = _why_not(model, sources, measured, checks, as_tested)
    if reason is not None or model is None:
        return None, f"No error rate is promised: {reason}."
    promise = Promise(model.promise.alpha, 1.0 - model.promise.delta)
    return promise, promise.in_words()


def _why_not(
    model: FittedModel | None,
    sources: Sources,
    measured: Mapping[str, str | None],
    checks: Sequence[Check],
    as_tested: bool,
) -> str | None:
    if model is None:
        return "no model was fitted to such scores"
    if (reason := model.why_no_promise()) is not None:
        return reason
    if not as_tested:
        return (
            "it holds in mode cautious, for a number, a point or a listed name, with every pair asked and "
            "nothing set, answered or edited"
        )
    tested = model.tested_with
    assert tested is not None  # else there is no promise
    for kind, made, wanted in (
        ("masks", sources.segmenter, tested.segmenter),
        ("scores", sources.scorer, tested.scorer),
    ):
        if made != wanted:
            return f"it was tested with the {kind} of {_name(wanted)}, not of {_name(made)}"
        if made is not None and kind not in sources.made_here:
            return f"the {kind} were read, and {_name(made)} did not make the same again"
    for name, wanted in {GEOMETRY: model.geometry_weights, **tested.sources}.items():
        if measured.get(name) != wanted:
            return f"it was tested with another measure of {name}"
    doubted = next((check for check in checks if check.state != "pass"), None)
    return None if doubted is None else f"a check did not pass. {doubted.says.rstrip('.')}"


def _name(fingerprint: str | None) -> str:
    return "an unknown source" if fingerprint is None else say_version(fingerprint.split(" @")[0])
