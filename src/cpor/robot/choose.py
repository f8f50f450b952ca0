"""The action of a cycle: the decision's, unless that was tried in vain or what it acts on is obstructed."""

import numpy as np

from cpor.answer import Answer
from cpor.decision import Action, Decision, Defer, Grasp, Remove
from cpor.evidence import PairState
from cpor.pipeline import UNSEEN, PairBeliefs
from cpor.relations import Label, ObstructionPosterior

LIKELIER_THAN_NOT = 0.5
"""Least score of an action that stands in for one that was tried in vain, however bold the threshold is; and
least belief in a blocker for it to be in the way of an action."""


def choose(
    answer: Answer,
    excluded: frozenset[int],
    make_room: bool = False,
    hopeless: frozenset[int] | None = None,
) -> tuple[Action, str | None]:
    """The action to take, and why it is another one than the decision's; None where it is the same.

    Where the action decided on is excluded, the next best one that is likely to be right is taken.

    Things can lie on each other in a circle, which inference rules out. So where an object is decided on and
    something is believed to lie on it all the same, it defers: what has to go first is not known.
    Where no other action is likely enough, the excluded one is tried again until it is hopeless: a grasp that
    slipped may hold the next time, and removing something else would be a guess.

    Args:
        answer: A decision for the target.
        excluded: Objects not to be tried again where there is something better to do.
        make_room: Whether, where nothing else is likely enough to be right, a free neighbour of the object
            that was tried in vain may be removed.
        hopeless: Those of them not to be tried again at all; all of them by default.
    """
    decision, posterior = answer.decision, answer.posterior
    assert decision is not None and posterior is not None
    action, target = decision.action, posterior.target
    if note := why_obstructed(posterior, action):
        return Defer("conflicting_evidence"), note
    if isinstance(action, Defer) or action.obj not in excluded:
        return action, None
    other = _next_best(decision, target, excluded)
    why = f"object {action.obj} was tried in vain and has not changed"
    if not isinstance(other, Defer):
        verb = "grasps" if isinstance(other, Grasp) else "removes"
        return other, f"{why}; it {verb} object {other.obj} instead, the next best"
    beliefs = None if answer.view is None else answer.view.beliefs
    if make_room and beliefs is not None and isinstance(action.obj, int):
        neighbour = _free_neighbour(beliefs, decision.tau, action.obj, excluded | {target})
        if neighbour is not None:
            note = f"{why}; it removes object {neighbour}, which lies free beside it, to make room"
            return Remove(neighbour), note
    if action.obj not in (excluded if hopeless is None else hopeless):
        return action, f"{why}; no other action is likelier than not to be right, so it is tried again"
    return other, f"{why}; no other action is likely enough to be right, so it defers"


def why_obstructed(posterior: ObstructionPosterior, action: Action) -> str | None:
    """Why the object that is to be acted on is believed to be obstructed itself; None where it is not."""
    if isinstance(action, Defer):
        return None
    p = np.nan_to_num(posterior.p_obstructs[posterior.objects.index(action.obj)])
    if not p.max() > LIKELIER_THAN_NOT:
        return None
    blocker = posterior.objects[int(p.argmax())]
    only = f"object {action.obj} would be next only if no things lay on each other in a circle"
    return f"{only}, but object {blocker} is believed to lie on it ({p.max():.0%}); it defers"


def _next_best(decision: Decision, target: Label, excluded: frozenset[int]) -> Action:
    # Ties as everywhere: the target first, then the order of the objects.
    least = {obj: decision.interval(obj)[0] for obj in decision.scores}
    for obj in sorted(least, key=lambda obj: (-least[obj], obj != target)):
        if obj == UNSEEN or obj in excluded or not least[obj] > max(decision.tau, LIKELIER_THAN_NOT):
            continue
        return Grasp(obj) if obj == target else Remove(obj)
    return Defer("weak_evidence")


def _free_neighbour(beliefs: PairBeliefs, tau: float, obj: int, excluded: frozenset[Label]) -> int | None:
    """The object beside `obj` that is likeliest to lie free, if it does with more than tau; else None."""
    here = beliefs.ids.index(obj)
    state = beliefs.geometry.state
    touches = (state[here] != PairState.NO_CONTACT) | (state[:, here] != PairState.NO_CONTACT)
    # No answer is not free: NaN stays NaN, and exceeds nothing.
    p_free = np.prod(1.0 - beliefs.p_fused, axis=1) * (1.0 - beliefs.p_unseen)
    beside = [k for k, label in enumerate(beliefs.ids) if touches[k] and label not in excluded]
    likely = [k for k in beside if p_free[k] > tau]
    return beliefs.ids[max(likely, key=lambda k: float(p_free[k]))] if likely else None
