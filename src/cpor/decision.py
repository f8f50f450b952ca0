"""What we say: an action, the probabilities behind it, and what certifies it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cpor.errors import InvalidSettingError
from cpor.relations import Label

DeferReason: TypeAlias = Literal[
    "no_evidence",
    "unseen_blocker",
    "conflicting_evidence",
    "not_proven",
    "near_tie",
    "weak_evidence",
    "not_robust",
    "failed_check",
]
CertificateKind: TypeAlias = Literal["exact", "action", "defer", "tolerance", "k_max", "deadline"]
Method: TypeAlias = Literal["exact", "topk", "milp"]

CERTIFIED: tuple[CertificateKind, ...] = ("exact", "action", "defer")
"""Kinds of certificate that prove the action to be that of exact inference."""

ROUNDING = 1e-12
"""Two scores closer than this are a tie; rounding errors of the sums stay well below it."""

WHY_DEFERRED: Mapping[str, str] = {
    "no_evidence": "an answer is missing that could change the action",
    "unseen_blocker": "something that nobody segmented seems to be in the way",
    "conflicting_evidence": "the relations contradict each other",
    "not_proven": "the scene is too large for an exact sum, and no action is proven to be likely right",
    "near_tie": "no action is likely enough to be right, and the best two are about equally likely",
    "weak_evidence": "no action is likely enough to be right",
    "not_robust": "the action would not be likely enough if all probabilities were a little off",
    "failed_check": "a check of the input failed",
}
"""The reasons to defer in words, to follow a colon."""


@dataclass(frozen=True, slots=True)
class Grasp:
    """Grasp the target: nothing obstructs it."""

    obj: Label


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove this object first: it lies on the target's chain and nothing obstructs it."""

    obj: Label


@dataclass(frozen=True, slots=True)
class Defer:
    """Do not act: ask, or look again.

    Attributes:
        reason: `no_evidence` (an answer is missing that could change the action),
            `unseen_blocker` (what would have to go first has no mask),
            `conflicting_evidence` (most of the belief had to be discarded as cyclic), `not_proven` (the
            scores are known within bounds only, and these leave open what to do), `near_tie` (two actions
            are about equally likely to be right), `weak_evidence` (none of these, yet no action is likely
            enough to be right), `not_robust` (an action is, but not with all probabilities a little off),
            `failed_check` (the input is not what it should be).
    """

    reason: DeferReason


Action: TypeAlias = Grasp | Remove | Defer


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proven about a decision, relative to exact inference under the same probabilities.

    Attributes:
        kind: `exact` (the scores are exact), `action` or `defer` (tests (a) and (b) of the paper's
            corollary: exact inference would do the same), or none: `tolerance`, `k_max` (as many graphs,
            or as much counted work, as is allowed) and `deadline` say why the search stopped.
        epsilon: No score is further than this from its exact value. 0 where the sum is exact; where Top-K
            listed every graph, the paper's analytic bound, which need not vanish.
        k: Graphs retained. None where the sum is exact and none are listed.
        exact: Whether the scores are exact.
        blockers_certified: Whether the blocker set is the one exact inference would give, test (c).
    """

    kind: CertificateKind
    epsilon: float
    k: int | None
    exact: bool
    blockers_certified: bool

    @property
    def certified(self) -> bool:
        """Whether exact inference is proven to take the same action."""
        return self.kind in CERTIFIED


COST_ASK = 0.5
"""What asking a person costs, in units of a wrong action, unless another cost is given."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs that stand in for tau and the blocker threshold, in units of a wrong action.

    Attributes:
        defer: Cost of deferring, in [0, 1]; tau = 1 - defer.
        false_positive: Cost of naming a blocker that is none.
        false_negative: Cost of missing a blocker. A blocker is named when its probability
            exceeds false_positive / (false_positive + false_negative).
    """

    defer: float
    false_positive: float = 1.0
    false_negative: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.defer <= 1.0:
            raise InvalidSettingError(
                f"the cost of deferring is {self.defer}; it must lie in [0, 1], where 1 is the cost of a "
                "wrong action"
            )
        if not (0.0 <= self.false_positive < float("inf") and 0.0 <= self.false_negative < float("inf")):
            raise InvalidSettingError("costs of wrongly named and of missed blockers must be finite and >= 0")
        if self.false_positive + self.false_negative == 0.0:
            raise InvalidSettingError("give a cost above 0 to wrongly named or to missed blockers")

    @property
    def tau(self) -> float:
        """The threshold that minimises expected cost: act when the action is likelier right than this."""
        return 1.0 - self.defer

    @property
    def blocker_threshold(self) -> float:
        """A blocker is named when its probability exceeds this."""
        return self.false_positive / (self.false_positive + self.false_negative)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one scene.

    Attributes:
        action: `Grasp(obj)`, `Remove(obj)` or `Defer(reason)`.
        scores: For every object the probability that acting on it next is right: for the target that
            nothing obstructs it, for another that it lies on the target's chain and nothing obstructs
            it. Where answers are missing, the least value over everything they could have been.
        blockers: The set F: objects other than the target whose score is proven to exceed the blocker
            threshold (with the method `topk`: whose score exceeds it, as in the paper).
        certificate: What is proven about the above.
        method: `exact` or `topk`.
        tau: An action is taken when the lower end of its interval exceeds this (with the method `topk`:
            when its score does, as in the paper).
        blocker_threshold: See `blockers`; tau unless costs were given.
        mu: Probability that independent relations contradict each other (contain a cycle), over all
            candidate relations. None where unknown.
        mu_target: The same over the relations that the target's decision depends on.
        unanswered_range: Where answers are missing: the range of each score over everything they could
            have been. None where none is missing.
        bounds: Where scores are not exact: the interval of each, narrower than epsilon alone makes it.
        odds_factor: Factor of the action that was found (`cpor.infer.robust.odds_factor`), also where it
            deferred as `not_robust`. None: the mode does not ask for it.
    """

    action: Action
    scores: Mapping[Label, float]
    blockers: frozenset[Label]
    certificate: Certificate
    method: Method
    tau: float
    blocker_threshold: float
    mu: float | None
    mu_target: float | None
    unanswered_range: Mapping[Label, tuple[float, float]] | None = None
    bounds: Mapping[Label, tuple[float, float]] | None = None
    odds_factor: float | None = None

    def interval(self, obj: Label) -> tuple[float, float]:
        """The interval in which the exact score of an object is proven to lie."""
        known = self.unanswered_range or self.bounds
        if known is not None:
            return known[obj]
        score = self.scores[obj]
        epsilon = 0.0 if self.certificate.exact else self.certificate.epsilon
        return max(0.0, score - epsilon), min(1.0, score + epsilon)

    @property
    def why_deferred(self) -> str:
        """The reason to defer, in words; empty where it acts."""
        if not isinstance(self.action, Defer):
            return ""
        holds = self.action.reason == "not_robust" and self.odds_factor is not None
        return WHY_DEFERRED[self.action.reason] + (
            f" (it holds with odds off by a factor of up to {self.odds_factor:.3g})" if holds else ""
        )

    @property
    def radius(self) -> float | None:
        """How much dependence between relations the action bears: eta*; None where no action is proven.

        For every other distribution over the same graphs whose ratios to the posterior differ by a factor of
        less than e^eta*, the action is right with more than tau.
        """
        if isinstance(self.action, Defer):
            return None
        score = self.interval(self.action.obj)[0]
        if score <= self.tau:
            return None
        if score >= 1.0 or self.tau <= 0.0:
            return math.inf
        return math.log(score / (1.0 - score)) - math.log(self.tau / (1.0 - self.tau))


MOST_MU = 0.99
"""Share of the belief that may be discarded as contradictory before nothing is done, where not learnt."""


def settle(decision: Decision, most_mu: float = MOST_MU) -> Decision:
    """A decision that defers where more belief than `most_mu` had to be discarded as contradictory."""
    conflict = decision.mu_target is not None and decision.mu_target > most_mu
    if isinstance(decision.action, Defer) or not conflict:
        return decision
    return replace(decision, action=Defer("conflicting_evidence"))
