"""Why a decision came out as it did, what would change it, and what to ask next.

With one relation's probability p free and the rest fixed, every score is a mixture of its value given
that the relation holds and given that it does not, q(p) = w q(1) + (1 - w) q(0), with weight w = the
relation's posterior probability. So two exact evaluations of the scene tell all about one relation.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import Action, Decision, Defer
from cpor.errors import TooLargeError
from cpor.infer.certificate import choose
from cpor.infer.decide import decide
from cpor.infer.exact import WORK_LIMIT, solve_exact, solve_small
from cpor.infer.graphs import GraphShare, edge_posterior_matrix, likeliest_graphs
from cpor.infer.local import ZETA, Allowance, reachable
from cpor.infer.robust import odds_factor
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
        flips_to: The action then. Both are None for an assumed `p`, from which nothing is near or far.
        if_true: The action if it is known to hold, the rest being as it is.
        if_false: The action if it is known not to.
        value_of_asking: Expected gain of the decision's value from a true answer; its value is the score of
            the action, tau where it defers.
    """

    blocked: Label
    blocker: Label
    p: float
    assumed: bool
    p_posterior: float
    sensitivity: dict[Label, float]
    flips_at: float | None
    flips_to: Action | None
    if_true: Action
    if_false: Action
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
        graphs: The likeliest graphs with their share; none where answers are missing.
        relations: The relations the decision depends on, the one that flips it with the least change first.
        not_examined: Relations left out because the scene is too large to examine them exactly.
        unseen: The label of what has no mask, as the posterior has it.
        odds_factor: See `cpor.infer.robust.odds_factor`.
    """

    decision: Decision
    target: Label
    graphs: tuple[GraphShare, ...]
    relations: tuple[RelationEffect, ...]
    not_examined: int
    unseen: Label | None = None
    odds_factor: float | None = None

    @property
    def ask_next(self) -> RelationEffect | None:
        """The relation most worth asking about; None where no answer is expected to help."""
        best = max(self.relations, key=lambda effect: effect.value_of_asking, default=None)
        return best if best is not None and best.value_of_asking > 1e-12 else None


def explain(
    posterior: ObstructionPosterior,
    decision: Decision | None = None,
    k: int = 3,
    prior: float | None = None,
    flips: bool = True,
) -> Explanation:
    """Explain the decision for a scene.

    Args:
        posterior: The scene.
        decision: What was decided for it; `decide(posterior, prior=prior)` where None.
        k: How many of the likeliest graphs to list.
        prior: As for `decide`; without it, relations without answer are examined as if at 0.5.
        flips: Whether to look for the probability at which the action changes; half of the work.
    """
    decision = decision or decide(posterior, prior=prior)
    missing = np.isnan(posterior.p_obstructs)
    assumed = posterior.with_prior(NO_ANSWER if prior is None else prior)
    effects, not_examined = _examine(assumed, missing, decision, flips)
    # Graphs of relations without an answer would show assumptions as findings.
    graphs = () if missing.any() and prior is None else likeliest_graphs(assumed, k)
    factor = odds_factor(posterior.with_prior(prior), decision)
    return Explanation(decision, posterior.target, graphs, effects, not_examined, posterior.unseen, factor)


def _examine(
    scene: ObstructionPosterior, missing: Bool[np.ndarray, "n n"], decision: Decision, flips: bool
) -> tuple[tuple[RelationEffect, ...], int]:
    """Effects of all relations whose blocked object the target can reach, nearest to the target first."""
    p, target = scene.p_obstructs, scene.target_index
    members = reachable(p, target)
    pairs = [(i, j) for i in members.tolist() for j in np.flatnonzero(p[i]).tolist()]
    allowance = Allowance(WORK_LIMIT)
    now = solve_exact(p, target, allowance=allowance)
    if now is None:
        return (), len(pairs)
    local = np.zeros_like(p)
    local[members] = p[members]
    try:
        weight = edge_posterior_matrix(local)
    except TooLargeError:
        return (), len(pairs)
    effects = []
    for (i, j), ends in zip(pairs, _endpoints(p, target, pairs, allowance), strict=False):
        given = _Given(scene, i, j, bool(missing[i, j]), float(weight[i, j]), decision)
        effects.append(given.effect(now.scores, ends, flips))
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


@dataclass(frozen=True)
class _Given:
    """One relation in a scene, and how its probability moves the scores.

    With r the ratio of Z given the relation to Z given its absence, the odds of the weight w are r times
    those of p, and every score is w q(1) + (1 - w) q(0).
    """

    scene: ObstructionPosterior
    i: int
    j: int
    missing: bool
    weight: float
    decision: Decision

    @property
    def p(self) -> float:
        return min(max(float(self.scene.p_obstructs[self.i, self.j]), ZETA), 1.0 - ZETA)

    @property
    def ratio(self) -> float:
        return _odds(self.weight) / _odds(self.p)

    def effect(
        self, now: Float[np.ndarray, " n"], ends: Float[np.ndarray, "2 n"], flips: bool
    ) -> RelationEffect:
        p, ratio = self.p, self.ratio
        without, with_it = ends
        # The upper end was taken at 1 - zeta, where inference clips; go the rest of the way.
        w_end = (1.0 - ZETA) * ratio / ((1.0 - ZETA) * ratio + ZETA)
        with_it = np.clip((with_it - (1.0 - w_end) * without) / w_end, 0.0, 1.0)
        slope = ratio / (p * ratio + 1.0 - p) ** 2
        flip = self._nearest_flip(without, with_it) if flips and not self.missing else None
        value, value_with, value_without = (self._value(q) for q in (now, with_it, without))
        gain = self.weight * value_with + (1.0 - self.weight) * value_without - value
        return RelationEffect(
            self.scene.objects[self.i],
            self.scene.objects[self.j],
            float(self.scene.p_obstructs[self.i, self.j]),
            self.missing,
            self.weight,
            dict(zip(self.scene.objects, (slope * (with_it - without)).tolist(), strict=True)),
            None if flip is None else flip[0],
            None if flip is None else flip[1],
            self._act(with_it),
            self._act(without),
            max(gain, 0.0),
        )

    def _act(self, scores: Float[np.ndarray, " n"]) -> Action:
        return choose(self.scene, scores.tolist(), self.decision.tau) or Defer("weak_evidence")

    def _value(self, scores: Float[np.ndarray, " n"]) -> float:
        return self.decision.tau if isinstance(self._act(scores), Defer) else float(scores.max())

    def _nearest_flip(
        self, without: Float[np.ndarray, " n"], with_it: Float[np.ndarray, " n"]
    ) -> tuple[float, Action] | None:
        """The p nearest to the present one at which the action changes, and to what.

        Scores are linear in w, so the action can only change where two scores, or a score and tau, cross.
        """
        tau = self.decision.tau

        def action_at(w: float) -> Action:
            return self._act(w * with_it + (1.0 - w) * without)

        levels = np.append(np.stack([without, with_it]), [[tau], [tau]], axis=1)
        start, rise = levels[0], levels[1] - levels[0]
        gap, slope = start[:, None] - start[None, :], rise[:, None] - rise[None, :]
        crossing = np.divide(-gap, slope, out=np.full_like(gap, -1.0), where=np.abs(slope) > 1e-15)
        places = np.unique(np.round(crossing[(crossing >= 0.0) & (crossing <= 1.0)], 12))
        present = action_at(self.weight)
        best: tuple[float, Action] | None = None
        for w in places.tolist():
            at = w / (w + self.ratio * (1.0 - w))
            if not ZETA < at < 1.0 - ZETA:
                continue  # inference clips there: no probability given to it can show this
            for beyond in (w - 1e-9, w + 1e-9):
                action = action_at(min(max(beyond, 0.0), 1.0))
                if _differs(action, present) and (best is None or abs(at - self.p) < abs(best[0] - self.p)):
                    best = (at, action)
        return best


def _odds(p: float) -> float:
    p = min(max(p, 1e-300), 1.0 - 1e-16)
    return p / (1.0 - p)


def _differs(a: Action, b: Action) -> bool:
    if isinstance(a, Defer) and isinstance(b, Defer):
        return False
    return a != b
