"""Why a decision came out as it did, what would change it, and what to ask next.

With one relation's probability p free and the rest fixed, every score is a mixture of its value given
that the relation holds and given that it does not, q(p) = w q(1) + (1 - w) q(0), with weight w = the
relation's posterior probability. So two exact evaluations of the scene tell all about one relation.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.decision import Action, Decision, Defer
from cpor.errors import TooLargeError
from cpor.inference.allowance import Allowance
from cpor.inference.certificate import choose
from cpor.inference.decide import decide
from cpor.inference.exact import WORK_LIMIT, ZETA, reachable, solve_exact, solve_small
from cpor.inference.graphs import GraphShare, edge_posteriors, likeliest_graphs
from cpor.relations import Label, ObstructionPosterior

NO_ANSWER = 0.5
"""Probability assumed where there was no answer and no prior is given; marked as assumed."""


@dataclass(frozen=True)
class RelationEffect:
    """What one relation means for the decision.

    Attributes:
        blocked: The object in question.
        blocker: What may obstruct it.
        p: The probability it was given (or assumed).
        assumed: Whether there was no answer and `p` is an assumption.
        p_posterior: Its probability given that all relations together are acyclic.
        sensitivity: d score / d p for each object.
        flips_at: The probability nearest to `p` at which the action changes, the rest being as it is.
            None: no value of this relation alone changes it.
        flips_to: The action then.
        value_of_asking: Expected gain of the decision's value, max(best score, tau), from a true answer.
    """

    blocked: Label
    blocker: Label
    p: float
    assumed: bool
    p_posterior: float
    sensitivity: dict[Label, float]
    flips_at: float | None
    flips_to: Action | None
    value_of_asking: float

    @property
    def change_to_flip(self) -> float:
        """How far `p` would have to move to change the action; infinite where it cannot."""
        return float("inf") if self.flips_at is None else abs(self.flips_at - self.p)


@dataclass(frozen=True)
class Explanation:
    """Data behind "why", "what would change this" and "what to ask next".

    Attributes:
        decision: The decision explained.
        target: The object asked for.
        graphs: The likeliest graphs with their share.
        relations: The relations the decision depends on, the one that flips it with the least change first.
        not_examined: Relations left out because the scene is too large to examine them exactly.
    """

    decision: Decision
    target: Label
    graphs: tuple[GraphShare, ...]
    relations: tuple[RelationEffect, ...]
    not_examined: int

    @property
    def ask_next(self) -> RelationEffect | None:
        """The relation most worth asking about; None where no answer is expected to help."""
        best = max(self.relations, key=lambda effect: effect.value_of_asking, default=None)
        return best if best is not None and best.value_of_asking > 1e-12 else None


def explain(
    posterior: ObstructionPosterior, decision: Decision | None = None, k: int = 3, prior: float | None = None
) -> Explanation:
    """Explain the decision for a scene.

    Args:
        posterior: The scene.
        decision: What was decided for it; `decide(posterior, prior=prior)` where None.
        k: How many of the likeliest graphs to list.
        prior: As for `decide`; without it, relations without answer are examined as if at 0.5.
    """
    decision = decision or decide(posterior, prior=prior)
    missing = np.isnan(posterior.p_obstructs)
    assumed = posterior.with_prior(NO_ANSWER if prior is None else prior)
    effects, not_examined = _examine(assumed, missing, decision.tau)
    return Explanation(decision, posterior.target, likeliest_graphs(assumed, k), effects, not_examined)


def _examine(
    scene: ObstructionPosterior, missing: np.ndarray, tau: float
) -> tuple[tuple[RelationEffect, ...], int]:
    """Effects of all relations whose blocked object the target can reach."""
    p, target = scene.p_obstructs, scene.target_index
    members = reachable(p, target)
    pairs = [(i, j) for i in members.tolist() for j in np.flatnonzero(p[i]).tolist()]
    allowance = Allowance(WORK_LIMIT)
    now = solve_exact(p, target, allowance=allowance)
    try:
        posterior_p = edge_posteriors(p)
    except TooLargeError:
        now = None
    if now is None:
        return (), len(pairs)
    effects = []
    for (i, j), ends in zip(pairs, _endpoints(p, target, pairs, allowance), strict=False):
        effects.append(
            _effect(scene, i, j, bool(missing[i, j]), float(posterior_p[i, j]), now.scores, ends, tau)
        )
    effects.sort(key=lambda effect: (effect.change_to_flip, -effect.value_of_asking))
    return tuple(effects), len(pairs) - len(effects)


def _endpoints(
    p: Float[np.ndarray, "n n"], target: int, pairs: list[tuple[int, int]], allowance: Allowance
) -> list[Float[np.ndarray, "2 n"]]:
    """Scores given that each relation does not hold, and that it does; fewer where work runs out."""
    matrices = []
    for i, j in pairs:
        for value in (0.0, 1.0):
            changed = p.copy()
            changed[i, j] = value
            matrices.append(changed)
    batch = solve_small(matrices, [target] * len(matrices))
    table = batch.scores.reshape(len(matrices), len(p))
    for s in np.flatnonzero(~batch.solved):
        large = solve_exact(matrices[s], target, allowance=allowance)
        if large is None:
            table = table[: s - s % 2]
            break
        table[s] = large.scores
    return list(table.reshape(-1, 2, len(p)))


def _effect(
    scene: ObstructionPosterior,
    i: int,
    j: int,
    assumed: bool,
    weight: float,
    now: Float[np.ndarray, " n"],
    ends: Float[np.ndarray, "2 n"],
    tau: float,
) -> RelationEffect:
    p = float(scene.p_obstructs[i, j])
    # The odds of w are those of p times a constant, Z given the relation over Z given its absence.
    ratio = _odds(weight) / _odds(p)
    without, with_it = ends
    # The upper end was taken at 1 - zeta, where inference clips; go the rest of the way.
    w_end = (1.0 - ZETA) * ratio / ((1.0 - ZETA) * ratio + ZETA)
    with_it = np.clip((with_it - (1.0 - w_end) * without) / w_end, 0.0, 1.0)
    slope = ratio / (p * ratio + 1.0 - p) ** 2
    flip = _nearest_flip(scene, without, with_it, weight, ratio, p, tau)
    value = max(float(now.max()), tau)
    value_with, value_without = max(float(with_it.max()), tau), max(float(without.max()), tau)
    return RelationEffect(
        scene.objects[i],
        scene.objects[j],
        p,
        assumed,
        weight,
        dict(zip(scene.objects, (slope * (with_it - without)).tolist(), strict=True)),
        None if flip is None else flip[0],
        None if flip is None else flip[1],
        max(weight * value_with + (1.0 - weight) * value_without - value, 0.0),
    )


def _odds(p: float) -> float:
    p = min(max(p, 1e-12), 1.0 - 1e-12)
    return p / (1.0 - p)


def _nearest_flip(
    scene: ObstructionPosterior,
    without: Float[np.ndarray, " n"],
    with_it: Float[np.ndarray, " n"],
    weight: float,
    ratio: float,
    p: float,
    tau: float,
) -> tuple[float, Action] | None:
    """The p nearest to the present one at which the action changes, and to what."""

    def action_at(w: float) -> Action:
        scores = (w * with_it + (1.0 - w) * without).tolist()
        return choose(scene, scores, tau) or Defer("weak_evidence")

    # Scores are linear in w, so the action can only change where two scores, or a score and tau, cross.
    levels = np.append(np.stack([without, with_it]), [[tau], [tau]], axis=1)
    start, rise = levels[0], levels[1] - levels[0]
    gap, slope = start[:, None] - start[None, :], rise[:, None] - rise[None, :]
    crossing = np.divide(-gap, slope, out=np.full_like(gap, -1.0), where=np.abs(slope) > 1e-15)
    places = np.unique(np.round(crossing[(crossing >= 0.0) & (crossing <= 1.0)], 12))
    present = action_at(weight)
    best: tuple[float, Action] | None = None
    for w in places:
        beyond = w + (1e-9 if w >= weight else -1e-9)
        if not 0.0 <= beyond <= 1.0:
            beyond = w
        action = action_at(beyond)
        at = w / (w + ratio * (1.0 - w))
        if _differs(action, present) and (best is None or abs(at - p) < abs(best[0] - p)):
            best = (float(at), action)
    return best


def _differs(a: Action, b: Action) -> bool:
    if isinstance(a, Defer) and isinstance(b, Defer):
        return False
    return a != b
