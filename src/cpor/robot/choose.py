"""The action of a cycle: what the decider says, less what was tried in vain."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.evidence import PairState
from cpor.pipeline import Pipeline, PipelineResult
from cpor.scene import Scene

Decider: TypeAlias = Callable[[Scene, int], PipelineResult | Decision]
"""Decides for one target of a scene."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What to do in a cycle.

    Attributes:
        decision: What the decider said.
        action: What to do; another than the decision's where that was tried in vain.
        p_success: How often such an action succeeds, where known.
        result: Everything on the way to the decision, where the decider tells.
        notes: Why the action is another one.
    """

    decision: Decision
    action: Action
    p_success: float | None
    result: PipelineResult | None
    notes: tuple[str, ...] = ()


def choose(
    decider: Pipeline | Decider,
    scene: Scene,
    target: int,
    excluded: frozenset[int],
    make_room: bool = False,
) -> Choice:
    """Decide, and where the action decided on is excluded, take the next best that may be taken.

    Args:
        decider: A pipeline, or any callable that decides.
        scene: What was seen.
        target: Whom it is about.
        excluded: Objects not to be tried again.
        make_room: Whether, where nothing else is likely enough to be right, a free neighbour of the object
            that was tried in vain may be removed.
    """
    said = decider.run(scene, target) if isinstance(decider, Pipeline) else decider(scene, target)
    result = said if isinstance(said, PipelineResult) else None
    decision = said.decision if isinstance(said, PipelineResult) else said
    p_success = result.p_success if result else None
    action = decision.action
    if isinstance(action, Defer) or action.obj not in excluded:
        return Choice(decision, action, p_success, result)
    other = _next_best(decider, decision, target, excluded)
    why = f"object {action.obj} was tried in vain and has not changed"
    if isinstance(other, Defer) and make_room and result is not None and isinstance(action.obj, int):
        neighbour = _free_neighbour(result, action.obj, excluded | {target})
        if neighbour is not None:
            note = f"{why}; it removes object {neighbour}, which lies free beside it, to make room"
            return Choice(decision, Remove(neighbour), None, result, (note,))
    if isinstance(other, Defer):
        note = f"{why}; no other action is likely enough to be right, so it defers"
        return Choice(decision, other, None, result, (note,))
    verb = "grasps" if isinstance(other, Grasp) else "removes"
    note = f"{why}; it {verb} object {other.obj} instead, the next best"
    return Choice(decision, other, _success_rate(decider, decision, other), result, (note,))


def _next_best(
    decider: Pipeline | Decider, decision: Decision, target: int, excluded: frozenset[int]
) -> Action:
    # Ties as everywhere: the target first, then the order of the objects.
    ranked = sorted(decision.scores.items(), key=lambda item: (-item[1], item[0] != target))
    for obj, score in ranked:
        if obj in excluded or not score > decision.tau:
            continue
        action = Grasp(obj) if obj == target else Remove(obj)
        rate = _success_rate(decider, decision, action)
        least = decider.tau_success if isinstance(decider, Pipeline) else None
        if least is None or (rate is not None and rate > least):
            return action
    return Defer("weak_evidence")


def _free_neighbour(result: PipelineResult, obj: int, excluded: frozenset[int]) -> int | None:
    """The object beside `obj` that is likeliest to lie free, if it does with more than tau; else None."""
    beliefs = result.beliefs
    here = beliefs.ids.index(obj)
    state = beliefs.geometry.state
    touches = (state[here] != PairState.NO_CONTACT) | (state[:, here] != PairState.NO_CONTACT)
    # No answer is not free: NaN stays NaN, and exceeds nothing.
    p_free = np.prod(1.0 - beliefs.p_fused, axis=1)
    beside = [k for k, label in enumerate(beliefs.ids) if touches[k] and label not in excluded]
    likely = [k for k in beside if p_free[k] > result.decision.tau]
    return beliefs.ids[max(likely, key=lambda k: float(p_free[k]))] if likely else None


def _success_rate(decider: Pipeline | Decider, decision: Decision, action: Action) -> float | None:
    if not isinstance(decider, Pipeline):
        return None
    return decider.success_rate(replace(decision, action=action))
