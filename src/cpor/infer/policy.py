"""How to decide: threshold, method, deadline, costs (eq. policy)."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Literal, TypeAlias, TypedDict, get_args

from cpor.decision import Costs
from cpor.errors import InvalidSettingError, one_of
from cpor.infer.local import ZETA
from cpor.infer.topk import TopKSettings

MethodChoice: TypeAlias = Literal["auto", "exact", "topk", "milp"]
METHODS: tuple[MethodChoice, ...] = get_args(MethodChoice)
LISTING = ("topk", "milp")
"""The paper's methods, which act on scores however far they may be off: for comparison only."""


@dataclass(frozen=True)
class Policy:
    """Settings of a decision.

    Attributes:
        tau: Act only if the action is right with more than this probability, by the lower end of the
            interval in which that is proven to lie.
        method: `exact`; `auto`, exact where the counted work is within a limit, else bounds from
            Algorithm 1 on what the target can reach, acting only where they prove the action likely
            enough to be right; or `topk`, the paper's Algorithm 1 to the letter, for comparison only: it
            acts on scores however far they may be off, so neither arms nor the service use its rule; or
            `milp`, the same with the appendix's program in HiGHS (extra `peers`). The same input gives the
            same answer on any machine.
        deadline_ms: Answer by then, with what is known then, by whatever method; each scene by itself. [ms]
        require_certificate: Defer where the answer is not proven to be that of exact inference.
        costs: Costs instead of tau: tau = 1 - cost of deferring, and the blocker set's own threshold.
        prior: Probability to assume where there was no answer. Without it, a missing answer that could
            change the action makes the decision `Defer("no_evidence")`.
        topk: Settings of Algorithm 1.
        zeta: Probabilities of candidate relations are clipped to [zeta, 1 - zeta].
    """

    tau: float = 0.5
    method: MethodChoice = "auto"
    deadline_ms: float | None = None
    require_certificate: bool = False
    costs: Costs | None = None
    prior: float | None = None
    topk: TopKSettings = field(default_factory=TopKSettings)
    zeta: float = ZETA

    def __post_init__(self) -> None:
        for name in ("tau", "deadline_ms", "prior", "zeta"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise InvalidSettingError(f"{name} is {value!r}; it must be a number")
        if self.costs is not None and self.tau != 0.5:
            raise InvalidSettingError("give either tau or costs, not both: tau is 1 - the cost of deferring")
        if not 0.0 <= self.tau <= 1.0:
            raise InvalidSettingError(f"tau is {self.tau}; it must lie in [0, 1]")
        parse_method(self.method)
        if self.deadline_ms is not None and not self.deadline_ms > 0.0:
            raise InvalidSettingError(f"deadline_ms is {self.deadline_ms}; it must be above 0")
        if self.prior is not None and not 0.0 <= self.prior <= 1.0:
            raise InvalidSettingError(f"prior is {self.prior}; it must lie in [0, 1]")
        if not 0.0 < self.zeta < 0.5:
            raise InvalidSettingError(f"zeta is {self.zeta}; it must lie between 0 and 0.5")

    @property
    def threshold(self) -> float:
        """An action is taken when its score is proven to exceed this."""
        return self.tau if self.costs is None else self.costs.tau

    @property
    def blocker_threshold(self) -> float:
        """An object belongs to the blocker set when its score is proven to exceed this."""
        return self.tau if self.costs is None else self.costs.blocker_threshold


def parse_method(name: str) -> MethodChoice:
    """A method by its name; an unknown one is an error that lists the known ones."""
    return one_of("method", name, METHODS)


class PolicySettings(TypedDict, total=False):
    """Fields of a `Policy` beside threshold and method, as keywords."""

    deadline_ms: float | None
    require_certificate: bool
    costs: Costs | None
    prior: float | None
    topk: TopKSettings
    zeta: float
