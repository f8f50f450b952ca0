"""What we say: an action, the probabilities behind it, and what certifies it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cpor.errors import InvalidSettingError
from cpor.relations import Label

DeferReason: TypeAlias = Literal["near_tie", "conflicting_evidence", "weak_evidence", "no_evidence"]
CertificateKind: TypeAlias = Literal["exact", "action", "defer", "tolerance", "k_max", "deadline"]
Method: TypeAlias = Literal["exact", "topk"]

CERTIFIED: tuple[CertificateKind, ...] = ("exact", "action", "defer")
"""Kinds of certificate that prove the action to be that of exact inference."""


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
            `conflicting_evidence` (most of the belief had to be discarded as cyclic), `near_tie` (two
            actions are about equally likely to be right), `weak_evidence` (none of these, yet no action
            is likely enough to be right).
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
        epsilon: No score is further than this from its exact value. 0 when exact.
        k: Graphs retained. None when exact.
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
        blockers: The set F: objects other than the target whose score exceeds the blocker threshold.
        certificate: What is proven about the above.
        method: `exact` or `topk`.
        tau: An action is taken when its score exceeds this.
        blocker_threshold: See `blockers`; tau unless costs were given.
        mu: Probability that independent relations contradict each other (contain a cycle), over all
            candidate relations. None where unknown.
        mu_target: The same over the relations that the target's decision depends on.
        unanswered_range: Where answers are missing: the range of each score over everything they could
            have been. None where none is missing.
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

    def interval(self, obj: Label) -> tuple[float, float]:
        """The interval in which the exact score of an object is proven to lie."""
        epsilon = self.certificate.epsilon
        low, high = (
            self.unanswered_range[obj] if self.unanswered_range else (self.scores[obj], self.scores[obj])
        )
        return max(0.0, low - epsilon), min(1.0, high + epsilon)
