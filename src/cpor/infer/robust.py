"""How wrong the beliefs may be before an action's score falls to tau: dependence, relations, cycles.

The score of an action is the probability of an event a under the posterior Q. Three facts bound how it moves.

Dependence: for every Q' over the same graphs with sup / inf dQ'/dQ <= e^eta, logit Q'(a) >= logit Q(a) - eta.
So the action stays above tau up to eta* = logit Q(a) - logit tau (`Decision.radius`).

Relations, in log-odds: d logit Q(a) / d logit p_e = Q(e | a) - Q(e | not a), which lies in [-1, 1].

Relations, in logarithms: d log Q(a) / d logit p_e = Q(e | a) - Q(e), with Q the acyclic posterior. By Harris'
inequality Q(e) <= p_e, and Q(e) >= p_e s_e, where s_e is the larger of the probabilities that nothing
obstructs the blocker of e and that its blocked object obstructs nothing. Q(e | a) <= p_e where a is "nothing
obstructs X", Q(e | a) = 0 where a needs e to be absent, and Q(e | a) <= Q(e) / Q(a) always. Integrated from
p_e to either end of its interval, this bounds how far log Q(a) can fall. As long as Q(a) > tau, each
derivative is at most 1 - tau, too.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from cpor.decision import ROUNDING, Decision, Defer, Grasp
from cpor.errors import InvalidSettingError
from cpor.infer.local import ZETA, cyclic_parts, reachable
from cpor.relations import Label, ObstructionPosterior

Matrix = Float[np.ndarray, "n n"]

LARGEST_FACTOR = 1000.0
"""Factors in odds beyond this are not told apart."""


_HALVINGS = 20
"""Halvings of the interval of the logarithm of the factor: five digits of it."""

_ROUGH = 1e-9
"""Least threshold that a bound is divided by."""


def holds_within(posterior: ObstructionPosterior, decision: Decision, least: Matrix, most: Matrix) -> bool:
    """Whether the action's score is proven to stay above tau while each relation moves within its interval.

    Grasping the target then stays the best action where tau is at least a half. Another removal may become
    likelier to be right than the one decided on; that one is still likely enough.

    Args:
        posterior: The scene of the decision.
        decision: Not to act holds nothing: False.
        least: The least each relation may be. Shape (n, n).
        most: The most each relation may be. Shape (n, n).
    """
    if isinstance(decision.action, Defer):
        return False
    score, tau = decision.interval(decision.action.obj)[0], decision.tau
    if tau <= 0.0 or score <= tau:
        return score > tau
    fall, fall_in_odds = _falls(posterior, decision, least, most)
    return fall < math.log(score / tau) or fall_in_odds < _logit(score) - _logit(tau)


def odds_factor(posterior: ObstructionPosterior, decision: Decision) -> float | None:
    """The factor by which the odds of every relation may be off at once, either way; None where it defers.

    The action's score is proven to stay above tau for all smaller factors. A missing answer may be anything
    already, and is not counted.
    """
    if isinstance(decision.action, Defer):
        return None
    low, high = 0.0, math.log(LARGEST_FACTOR)
    if holds_within(posterior, decision, *off_by(posterior, LARGEST_FACTOR)):
        return LARGEST_FACTOR
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if holds_within(posterior, decision, *off_by(posterior, math.exp(middle))):
            low = middle
        else:
            high = middle
    return math.exp(low)


def only_robust(
    posterior: ObstructionPosterior,
    decision: Decision,
    factor: float,
    band: Callable[[Matrix], tuple[Matrix, Matrix]] | None = None,
) -> Decision:
    """The decision, or `Defer("not_robust")` where its score might fall to tau within intervals of relations.

    Args:
        posterior: The scene of the decision.
        decision: The decision.
        factor: The odds of every relation may be off by this factor at once, either way.
        band: From the probabilities to the ends of their intervals, where these are wider; None: the factor
            alone counts.
    """
    found = odds_factor(posterior, decision)
    known = replace(decision, odds_factor=found)
    if found is None:
        return known
    low, high = off_by(posterior, factor)
    if band is not None:
        least, most = band(posterior.p_obstructs)
        low, high = np.fmin(low, least), np.fmax(high, most)
    holds = found >= factor and holds_within(posterior, decision, low, high)
    return known if holds else replace(known, action=Defer("not_robust"))


def allow_cycles(decision: Decision, weight: float) -> Decision:
    """The decision where a graph with a cycle keeps a share of its probability, and no action is right in it.

    With w that share and Z the probability of no cycle, every score is multiplied by Z / (Z + w (1 - Z)): the
    best action stays the best, and is taken where its score still exceeds tau. Where Z is not known, none is.

    Args:
        decision: A decision given that there is no cycle.
        weight: w. 0: graphs with a cycle are excluded, as in the paper; 1: relations are independent.
    """
    if not 0.0 <= weight <= 1.0:
        raise InvalidSettingError(f"the weight of cycles is {weight}; it must lie in [0, 1]")
    if weight == 0.0:
        return decision
    mu = 1.0 if decision.mu_target is None else decision.mu_target
    share = (1.0 - mu) / (1.0 - mu + weight * mu)
    scaled = replace(
        decision,
        scores={obj: share * score for obj, score in decision.scores.items()},
        unanswered_range=_scale(decision.unanswered_range, share),
        bounds=_scale(decision.bounds, share),
        blockers=frozenset(
            obj for obj in decision.blockers if share * decision.interval(obj)[0] > decision.blocker_threshold
        ),
    )
    action = decision.action
    if isinstance(action, Defer) or share * decision.interval(action.obj)[0] > decision.tau + ROUNDING:
        return scaled
    return replace(scaled, action=Defer("conflicting_evidence"))


def _scale(
    ranges: Mapping[Label, tuple[float, float]] | None, share: float
) -> Mapping[Label, tuple[float, float]] | None:
    if ranges is None:
        return None
    return {obj: (share * low, share * high) for obj, (low, high) in ranges.items()}


def off_by(posterior: ObstructionPosterior, factor: float) -> tuple[Matrix, Matrix]:
    """The ends of every relation's interval where its odds may be off by a factor, either way."""
    p = _clipped(posterior.p_obstructs)
    return p / (p + (1.0 - p) * factor), p * factor / (p * factor + 1.0 - p)


def _falls(
    posterior: ObstructionPosterior, decision: Decision, least: Matrix, most: Matrix
) -> tuple[float, float]:
    """Bounds on how far the logarithm, and the log-odds, of the action's score can fall."""
    assert not isinstance(decision.action, Defer)
    p, target = posterior.p_obstructs, posterior.target_index
    own, tau = posterior.index(decision.action.obj), decision.tau
    given = _clipped(p)
    least, most = np.minimum(_clipped(least), given), np.maximum(_clipped(most), given)
    anything = np.where(np.isnan(p), 1.0, p)
    matters = np.zeros(p.shape, np.bool_)
    if isinstance(decision.action, Grasp):  # others' relations matter through cycles that pass the target
        part = cyclic_parts(anything)
        matters[np.ix_(part == part[target], part == part[target])] = True
        matters[own] = True
    else:
        matters[reachable(anything, target)] = True
    matters &= p > 0.0  # neither absent nor without answer
    up, down = _logit(most) - _logit(given), _logit(given) - _logit(least)
    rise = np.log((1.0 - given) / (1.0 - most))
    drop = np.log((1.0 - least) / (1.0 - given))
    if not isinstance(decision.action, Grasp):
        gap = 1.0 - np.where(np.isnan(p), 1.0, np.where(p > 0.0, most, 0.0))
        apart = np.maximum(gap.prod(axis=1)[None, :], gap.prod(axis=0)[:, None])
        by_size = drop / tau if tau > _ROUGH else np.inf
        drop = np.minimum(by_size, (1.0 - apart) * down + apart * np.log(given / least))
    drop[own] = 0.0  # nothing obstructs it: fewer relations of its own only help
    limit = np.maximum(up, np.where(np.arange(len(p))[:, None] == own, 0.0, down))
    fall = np.minimum(np.maximum(rise, drop), (1.0 - tau) * limit)
    return float(fall[matters].sum()), float(limit[matters].sum())


def _clipped(p: Matrix) -> Matrix:
    return np.clip(np.where(np.isnan(p), 0.5, p), ZETA, 1.0 - ZETA)


def _logit(p: Float[np.ndarray, "*shape"] | float) -> Float[np.ndarray, "*shape"]:
    odds: Float[np.ndarray, "*shape"] = np.log(p) - np.log1p(-np.asarray(p))
    return odds
