"""The action of a cycle: what the decider says, less what was tried in vain."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from cpor.answer import Answer
from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.evidence import PairState
from cpor.inference.decide import MethodChoice
from cpor.pipeline import UNSEEN, Pipeline, PipelineResult
from cpor.scene import Scene
from cpor.system import System
from cpor.tracking.pair_filter import PairFilter

Decider: TypeAlias = Callable[[Scene, int], Answer | PipelineResult | Decision]
"""Decides for one target of a scene. On an arm it also says `prior` and `method`, as `Declared` does."""


@dataclass(frozen=True)
class Declared:
    """A function of your own that decides, and what it does where an answer is missing.

    Attributes:
        decide: The function.
        prior: Probability that it assumes where no source has an answer; None: it does not act on such pairs.
        method: Of its inference; `topk`, which acts on scores however far they may be off, moves no arm.
    """

    decide: Decider
    prior: float | None = None
    method: MethodChoice = "exact"

    def __call__(self, scene: Scene, target: int) -> Answer | PipelineResult | Decision:
        """Ask the function."""
        return self.decide(scene, target)


@runtime_checkable
class Carrying(Protocol):
    """A decider that counts in what earlier looks said."""

    carries: ClassVar[bool]

    def __call__(
        self, scene: Scene, target: int, carried: PairFilter | None = None
    ) -> Answer | PipelineResult | Decision:
        """Decide for one target of a scene."""
        ...


LIKELIER_THAN_NOT = 0.5
"""Least score of an action that stands in for one that was tried in vain, however bold the threshold is; and
least belief in a blocker for it to be in the way of an action."""


@dataclass(frozen=True)
class SystemDecider:
    """A system as the loop asks it: the scene that was found, checked and decided on as everywhere.

    Attributes:
        system: Who decides; its segmenter is not used, since the loop follows objects by their masks.
        tau: Act above this score, instead of as the system's mode does.
    """

    system: System
    tau: float | None = None
    prior: ClassVar[float | None] = None
    method: ClassVar[MethodChoice] = "auto"
    carries: ClassVar[bool] = True

    def __call__(self, scene: Scene, target: int, carried: PairFilter | None = None) -> Answer:
        """Look at the scene, score its pairs anew, count in what earlier looks said, decide."""
        view = self.system.look(replace(scene, semantic_scores=None))
        view.carried = carried
        return self.system.decide(view, target, tau=self.tau)


def as_decider(decider: System | Pipeline | Decider) -> Pipeline | Decider:
    """Whoever decides, as the loop asks them."""
    return SystemDecider(decider) if isinstance(decider, System) else decider


@dataclass(frozen=True, eq=False)
class Choice:
    """What to do in a cycle.

    Attributes:
        decision: What the decider said.
        action: What to do; another than the decision's where that was tried in vain.
        p_success: How often such an action succeeds, where known.
        result: Everything on the way to the decision, where the decider tells.
        answer: The whole answer, where a system decided.
        notes: Why the action is another one.
    """

    decision: Decision
    action: Action
    p_success: float | None
    result: PipelineResult | None
    notes: tuple[str, ...] = ()
    answer: Answer | None = None


def choose(
    decider: Pipeline | Decider,
    scene: Scene,
    target: int,
    excluded: frozenset[int],
    make_room: bool = False,
    hopeless: frozenset[int] | None = None,
    carried: PairFilter | None = None,
) -> Choice:
    """Decide, and where the action decided on is excluded, take the next best that is likely to be right.

    Things can lie on each other in a circle, which inference rules out. So where an object is decided on and
    something is believed to lie on it all the same, nobody knows what to do first: it defers.
    Where none is, the excluded one is tried again until it is hopeless: a grasp that slipped may hold the
    next time, and removing something else would be a guess.

    Args:
        decider: A pipeline, or any callable that decides.
        scene: What was seen.
        target: Whom it is about.
        excluded: Objects not to be tried again where there is something better to do.
        make_room: Whether, where nothing else is likely enough to be right, a free neighbour of the object
            that was tried in vain may be removed.
        hopeless: Those of them not to be tried again at all; all of them by default.
        carried: What earlier looks said; told to pipelines, systems and whoever is `Carrying`.
    """
    said: Answer | PipelineResult | Decision
    if isinstance(decider, Pipeline):
        said = decider.run(scene, target, carried.apply if carried else None)
    elif isinstance(decider, Carrying):
        said = decider(scene, target, carried)
    else:
        said = decider(scene, target)
    answer = said if isinstance(said, Answer) else None
    result = _result_of(said)
    decision = said if isinstance(said, Decision) else said.decision
    assert decision is not None  # the loop names its target by id
    p_success = result.p_success if result else None
    action = decision.action
    if result is not None and (note := why_obstructed(result)):
        return Choice(decision, Defer("conflicting_evidence"), None, result, (note,), answer)
    if isinstance(action, Defer) or action.obj not in excluded:
        return Choice(decision, action, p_success, result, answer=answer)
    other = _next_best(decision, target, excluded)
    why = f"object {action.obj} was tried in vain and has not changed"
    if isinstance(other, Defer) and make_room and result is not None and isinstance(action.obj, int):
        neighbour = _free_neighbour(result, action.obj, excluded | {target})
        if neighbour is not None:
            note = f"{why}; it removes object {neighbour}, which lies free beside it, to make room"
            return Choice(decision, Remove(neighbour), None, result, (note,), answer)
    if isinstance(other, Defer) and action.obj not in (excluded if hopeless is None else hopeless):
        note = f"{why}; no other action is likelier than not to be right, so it is tried again"
        return Choice(decision, action, p_success, result, (note,), answer)
    if isinstance(other, Defer):
        note = f"{why}; no other action is likely enough to be right, so it defers"
        return Choice(decision, other, None, result, (note,), answer)
    verb = "grasps" if isinstance(other, Grasp) else "removes"
    note = f"{why}; it {verb} object {other.obj} instead, the next best"
    return Choice(decision, other, _success_rate(decider, decision, other), result, (note,), answer)


def why_obstructed(result: PipelineResult) -> str | None:
    """Why the object that is to be acted on is believed to be obstructed itself; None where it is not."""
    action, posterior = result.decision.action, result.posterior
    if isinstance(action, Defer):
        return None
    p = np.nan_to_num(posterior.p_obstructs[posterior.objects.index(action.obj)])
    if not p.max() > LIKELIER_THAN_NOT:
        return None
    blocker = posterior.objects[int(p.argmax())]
    only = f"object {action.obj} would be next only if no things lay on each other in a circle"
    return f"{only}, but object {blocker} is believed to lie on it ({p.max():.0%}); it defers"


def _result_of(said: Answer | PipelineResult | Decision) -> PipelineResult | None:
    """Everything on the way to a decision, where it is told."""
    if isinstance(said, Answer):
        assert said.view is not None and said.view.believed is not None
        assert said.posterior is not None and said.decision is not None
        beliefs = said.view.believed.beliefs
        return PipelineResult(beliefs, said.posterior, said.decision, said.p_success, said.times_ms)
    return said if isinstance(said, PipelineResult) else None


def _next_best(decision: Decision, target: int, excluded: frozenset[int]) -> Action:
    # Ties as everywhere: the target first, then the order of the objects.
    least = {obj: decision.interval(obj)[0] for obj in decision.scores}
    for obj in sorted(least, key=lambda obj: (-least[obj], obj != target)):
        if obj == UNSEEN or obj in excluded or not least[obj] > max(decision.tau, LIKELIER_THAN_NOT):
            continue
        return Grasp(obj) if obj == target else Remove(obj)
    return Defer("weak_evidence")


def _free_neighbour(result: PipelineResult, obj: int, excluded: frozenset[int]) -> int | None:
    """The object beside `obj` that is likeliest to lie free, if it does with more than tau; else None."""
    beliefs = result.beliefs
    here = beliefs.ids.index(obj)
    state = beliefs.geometry.state
    touches = (state[here] != PairState.NO_CONTACT) | (state[:, here] != PairState.NO_CONTACT)
    # No answer is not free: NaN stays NaN, and exceeds nothing.
    p_free = np.prod(1.0 - beliefs.p_fused, axis=1) * (1.0 - beliefs.p_unseen)
    beside = [k for k, label in enumerate(beliefs.ids) if touches[k] and label not in excluded]
    likely = [k for k in beside if p_free[k] > result.decision.tau]
    return beliefs.ids[max(likely, key=lambda k: float(p_free[k]))] if likely else None


def _success_rate(decider: Pipeline | Decider, decision: Decision, action: Action) -> float | None:
    if not isinstance(decider, Pipeline):
        return None
    return decider.success_rate(replace(decision, action=action))
