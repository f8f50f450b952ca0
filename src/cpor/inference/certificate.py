"""From scores to a decision: the policy (eq. policy), its certificate (corollary), reasons to defer."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from cpor.decision import (
    CERTIFIED,
    Action,
    Certificate,
    CertificateKind,
    Decision,
    Defer,
    DeferReason,
    Grasp,
    Method,
    Remove,
)
from cpor.inference._kernels.algorithm1 import (
    EXIT_ACTION,
    EXIT_DEFER,
    EXIT_EXACT,
    EXIT_K_MAX,
    EXIT_TOLERANCE,
    ROUNDING,
)
from cpor.inference.topk import EXIT_DEADLINE, TopKScores
from cpor.relations import ObstructionPosterior

CONFLICT = 0.5
"""Defer as `conflicting_evidence` when at least this much belief had to be discarded as cyclic."""

VACUOUS = 0.5
"""An uncertified answer whose scores may be this far off says nothing; `auto` does not act on it."""

NEAR_TIE = 0.1
"""Defer as `near_tie` when the two best scores are closer than this."""

_KINDS: dict[int, CertificateKind] = {
    EXIT_EXACT: "exact",
    EXIT_ACTION: "action",
    EXIT_DEFER: "defer",
    EXIT_TOLERANCE: "tolerance",
    EXIT_K_MAX: "k_max",
    EXIT_DEADLINE: "deadline",
}


class Inference(NamedTuple):
    """Scores of one scene by either method, and how far they are from exact.

    Attributes:
        scores: One for each object.
        kind: What ended the inference.
        epsilon: No score is further than this from its exact value.
        k: Graphs retained; None when exact.
        method: `exact` or `topk`.
        mu: See `Decision`.
        mu_target: See `Decision`.
        conflict: The least that is known of mu_target, for the reason to defer.
        vacuous: Whether the bound is so wide that the scores say nothing.
    """

    scores: Sequence[float]
    kind: CertificateKind
    epsilon: float
    k: int | None
    method: Method
    mu: float | None
    mu_target: float | None
    conflict: float = 0.0
    vacuous: bool = False


def exact_inference(scores: Sequence[float], mu: float | None, mu_target: float | None) -> Inference:
    """Wrap exact scores."""
    return Inference(scores, "exact", 0.0, None, "exact", mu, mu_target, mu_target or 0.0)


def topk_inference(result: TopKScores) -> Inference:
    """Wrap what Algorithm 1 found; proven exhaustion makes it exact."""
    kind = _KINDS[result.exit]
    exact = kind == "exact"
    mu = min(max(-math.expm1(result.log_mass), 0.0), 1.0) if exact else None
    return Inference(
        result.scores.tolist(),
        kind,
        0.0 if exact else result.epsilon,
        None if exact else result.k,
        "topk",
        mu,
        None,
        -math.expm1(min(result.log_mass if exact else result.log_bound, 0.0)),
    )


def narrow(
    inference: Inference,
    target: int,
    tau: float,
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
) -> Inference:
    """Scores moved into bounds that hold besides epsilon; the tighter intervals may certify the action.

    Args:
        inference: What Algorithm 1 said.
        target: X.
        tau: Threshold of the policy.
        low: No exact score is below this. Shape (n,).
        high: No exact score is above this. Shape (n,).
    """
    if inference.kind in CERTIFIED:
        return inference
    scores = np.array(inference.scores)
    low = np.maximum(low, scores - inference.epsilon)
    high = np.minimum(high, scores + inference.epsilon)
    scores = np.clip(scores, low, high)
    epsilon = float(np.maximum(high - scores, scores - low).max())
    best = target if scores[target] >= scores.max() - ROUNDING else int(scores.argmax())
    kind = inference.kind
    if high.max() <= tau:
        kind = "defer"
    elif low[best] > tau + ROUNDING and low[best] > np.delete(high, best).max(initial=-1.0) + ROUNDING:
        kind = "action"
    vacuous = kind not in CERTIFIED and epsilon >= VACUOUS
    return inference._replace(scores=scores.tolist(), kind=kind, epsilon=epsilon, vacuous=vacuous)


_EXACT = Certificate("exact", 0.0, None, True, True)


def certify(inference: Inference, target: int, blocker_threshold: float) -> Certificate:
    """The certificate: tests (a), (b) were applied where the search ended; test (c) is applied here."""
    if inference.kind == "exact":
        return _EXACT
    blockers_certified = all(
        abs(score - blocker_threshold) > inference.epsilon + ROUNDING
        for o, score in enumerate(inference.scores)
        if o != target
    )
    return Certificate(inference.kind, inference.epsilon, inference.k, False, blockers_certified)


def choose(posterior: ObstructionPosterior, scores: Sequence[float], tau: float) -> Action | None:
    """The action of eq. policy; None is to defer.

    Ties (within rounding): grasping the target wins, then the smaller index; deferring wins at tau.
    """
    best = max(scores)
    if best <= tau + ROUNDING:
        return None
    enough = best - ROUNDING
    if scores[posterior.target_index] >= enough:
        return Grasp(posterior.target)
    return Remove(posterior.objects[next(o for o, score in enumerate(scores) if score >= enough)])


def reason_to_defer(scores: Sequence[float], conflict: float) -> DeferReason:
    """Why no action is likely enough to be right, by stated rules, the first that applies."""
    if conflict >= CONFLICT:
        return "conflicting_evidence"
    ranked = sorted(scores, reverse=True)
    if len(ranked) > 1 and ranked[0] - ranked[1] < NEAR_TIE:
        return "near_tie"
    return "weak_evidence"


def judge(
    posterior: ObstructionPosterior,
    inference: Inference,
    tau: float,
    blocker_threshold: float,
    require_certificate: bool,
) -> Decision:
    """The decision that scores, thresholds and certificate give."""
    scores = inference.scores
    target = posterior.target_index
    certificate = certify(inference, target, blocker_threshold)
    action = choose(posterior, scores, tau)
    unproven = inference.vacuous or (require_certificate and not certificate.certified)
    if action is None or unproven:
        action = Defer(_reason(scores, tau, inference, action is not None))
    by_label = dict(zip(posterior.objects, scores, strict=True))
    limit = blocker_threshold + ROUNDING
    blockers = [label for label, score in by_label.items() if score > limit]
    if scores[target] > limit:
        blockers.remove(posterior.target)
    return Decision(
        action,
        by_label,
        frozenset(blockers),
        certificate,
        inference.method,
        tau,
        blocker_threshold,
        inference.mu,
        inference.mu_target,
    )


def _reason(scores: Sequence[float], tau: float, inference: Inference, uncertified: bool) -> DeferReason:
    if uncertified:
        # An action was likely enough, but not provably so: which of the two margins of test (a) failed?
        return "weak_evidence" if max(scores) - inference.epsilon <= tau else "near_tie"
    return reason_to_defer(scores, inference.conflict)
