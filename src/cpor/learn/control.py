"""Promised error rates: fixed-sequence testing of tau.

For scenes drawn independently from where the calibration scenes came: with probability at least 1 - delta
over that draw, P(wrong | executed) <= alpha for the tau that is promised. It rests on three things: the taus
and their order are fixed before the test looks at its scenes; given how many scenes a tau executes, their
errors are binomial, so each test is exact; the sequence stops at its first failure, so a false promise
takes one false test, at level delta. Where several kinds of cases are tested apart, a tau passes only if it
passes in each of them (an intersection-union test).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from pydantic import Field, model_validator
from scipy.special import bdtr, bdtrik, betaincinv

from cpor.errors import FittingError, InvalidSettingError
from cpor.learn.versioned import VersionedModel

MOST_DELTA = 0.5
"""A promise that is likelier broken than kept is none."""


def check_levels(alpha: float, delta: float) -> None:
    """Alpha lies strictly between 0 and 1, delta between 0 and MOST_DELTA."""
    if not 0.0 < alpha < 1.0:
        raise InvalidSettingError(f"alpha is {alpha}; it must lie strictly between 0 and 1")
    if not 0.0 < delta <= MOST_DELTA:
        raise InvalidSettingError(f"delta is {delta}; it must lie above 0 and be at most {MOST_DELTA:g}")


def least_executed(alpha: float, delta: float) -> int:
    """Executed scenes below which no promise is possible, even without an error: ln delta / ln(1 - alpha)."""
    check_levels(alpha, delta)
    n = math.ceil(math.log(delta) / math.log1p(-alpha))
    # The quotient may round to the wrong side of a whole number.
    while (1.0 - alpha) ** n > delta:
        n += 1
    return n


def least_rate(n_executed: int, delta: float) -> float:
    """The least error rate that so many executed scenes without an error support: 1 - delta^(1/n)."""
    return 1.0 if n_executed < 1 else -math.expm1(math.log(delta) / n_executed)


def error_p_value(
    n_wrong: Int[np.ndarray, "*shape"], n_executed: Int[np.ndarray, "*shape"], alpha: float
) -> Float[np.ndarray, "*shape"]:
    """P(Bin(n_executed, alpha) <= n_wrong): small when the error rate is below alpha."""
    return np.asarray(bdtr(n_wrong, n_executed, alpha), dtype=np.float64)


def most_wrong(n_executed: Int[np.ndarray, " n"], alpha: float, delta: float) -> Int[np.ndarray, " n"]:
    """The most errors with which so many executed scenes still pass; -1 where even 0 do not. Shape (n,)."""
    guess = np.floor(np.nan_to_num(bdtrik(delta, n_executed, alpha), nan=-1.0)).astype(np.int64)
    # bdtrik solves in floating point: settle the last step with the test itself.
    guess = np.where((guess >= 0) & (error_p_value(guess, n_executed, alpha) > delta), guess - 1, guess)
    one_more = guess + 1
    passes = (one_more <= n_executed) & (error_p_value(one_more, n_executed, alpha) <= delta)
    return np.asarray(np.where(passes, one_more, guess))


COVERAGE_LEVEL = 0.95
"""Confidence of the interval around the coverage."""


class Stratum(NamedTuple):
    """One kind of cases that is tested apart: how many, in how many it acted, how often wrongly."""

    n: int
    n_executed: int
    n_wrong: int

    def p_value(self, alpha: float) -> float:
        """P(Bin(n_executed, alpha) <= n_wrong)."""
        return float(error_p_value(np.array(self.n_wrong), np.array(self.n_executed), alpha))


class RiskPromise(VersionedModel):
    """What can be promised about acting when the best score exceeds tau.

    Attributes:
        tau: Act when the best action score exceeds this; None = nothing can be promised.
        alpha: The promised bound on P(wrong | executed).
        delta: The probability, over the calibration draw, that the promise is broken.
        coverage: Share of the calibration scenes that tau executes; 0 without a promise.
        coverage_interval: Where the share among all scenes lies, with confidence 0.95 whatever tau was
            chosen (Dvoretzky-Kiefer-Wolfowitz-Massart).
        n: Calibration scenes.
        n_executed: Those that tau executes; without a promise, those that the first tau tested executes.
        n_wrong: Wrong actions among these.
        p_value: Result of the test that tau passed; without a promise, of the first test, which failed.
        n_tested: Taus tested, the failed one included.
        strata: Kinds of cases that were tested apart, by name: the promise holds in each. Empty: none were.
        reason: Why tau was chosen, or why nothing is promised.
    """

    kind: Literal["risk-promise"] = "risk-promise"
    version: Literal[1] = 1
    tau: float | None = Field(ge=0.0, le=1.0)
    alpha: float = Field(gt=0.0, lt=1.0)
    delta: float = Field(gt=0.0, le=MOST_DELTA)
    coverage: float = Field(ge=0.0, le=1.0)
    coverage_interval: tuple[float, float]
    n: int = Field(ge=1)
    n_executed: int = Field(ge=0)
    n_wrong: int = Field(ge=0)
    p_value: float = Field(ge=0.0, le=1.0)
    n_tested: int = Field(ge=1)
    reason: str
    strata: dict[str, Stratum] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _test_again(self) -> "RiskPromise":
        """The counts must pass the test that they claim to have passed."""
        whole = Stratum(self.n, self.n_executed, self.n_wrong)
        strata = [*self.strata.values()] or [whole]
        if tuple(map(sum, zip(*strata, strict=True))) != whole:
            raise ValueError("the counts of the strata do not add up")
        if not all(0 <= each.n_wrong <= each.n_executed <= each.n for each in strata):
            raise ValueError("more errors than actions, or more actions than cases")
        p_value = max(each.p_value(self.alpha) for each in strata)
        if not math.isclose(p_value, self.p_value, rel_tol=1e-6, abs_tol=1e-12):
            raise ValueError(f"the test of its counts gives p = {p_value:.4g}, not {self.p_value:.4g}")
        if (self.tau is not None) != (p_value <= self.delta):
            raise ValueError(
                f"tau is {self.tau}, but the test gives p = {p_value:.4g} at level {self.delta:g}"
            )
        executed = self.n_executed / self.n if self.promised else 0.0
        if (self.coverage, self.coverage_interval) != (executed, _interval(executed, self.n)):
            raise ValueError(f"coverage {self.coverage:g} does not fit {self.n_executed} of {self.n} scenes")
        return self

    @property
    def promised(self) -> bool:
        """Whether there is a promise at all."""
        return self.tau is not None


def _interval(coverage: float, n: int) -> tuple[float, float]:
    """Interval of the coverage among all scenes; (0, 0) where nothing is covered or promised."""
    if coverage == 0.0:
        return 0.0, 0.0
    margin = math.sqrt(math.log(2.0 / (1.0 - COVERAGE_LEVEL)) / (2.0 * n))
    return max(0.0, coverage - margin), min(1.0, coverage + margin)


def control_risk(
    score: Shaped[np.ndarray, " n"],
    wrong: Shaped[np.ndarray, " n"],
    alpha: float,
    delta: float,
    tau_grid: Shaped[np.ndarray, " t"],
    stratum: Sequence[str] = (),
) -> RiskPromise:
    """Choose tau so that at most a share alpha of the executed actions is wrong, or say that none will do.

    The scenes must be independent (one case an image, see `one_case_per_image`) and disjoint from those that
    anything was fitted on, the tau grid included.

    Args:
        score: Best action score of each scene; NaN = no answer, never executed. Shape (n,).
        wrong: Whether that action would have been wrong. Shape (n,).
        alpha: Allowed rate of wrong actions among those executed.
        delta: Allowed probability of a broken promise.
        tau_grid: Decreasing taus, tested in this order; see `choose_tau_grid`. Shape (t,).
        stratum: The kind of each case, to promise the rate in each kind: a tau passes where it passes in
            all of them. That needs no correction, since to pass wrongly takes a false pass of the one kind
            whose rate is too high. Cases must be independent within a kind. Empty: all are tested together.
    """
    check_levels(alpha, delta)
    values, errors = check_outcomes(score, wrong)
    grid = np.asarray(tau_grid, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or not np.isfinite(grid).all() or np.any(np.diff(grid) >= 0.0):
        raise FittingError("the tau grid must hold at least one number, all finite and decreasing")
    n = values.size
    kinds = by_kind(stratum, n)
    counts = {name: count_executed(values[at], errors[at], grid) for name, at in kinds.items()}
    p_value = np.max([error_p_value(wrong, acted, alpha) for acted, wrong in counts.values()], axis=0)
    n_executed, n_wrong = np.sum(list(counts.values()), axis=0)
    n_passed = int(np.logical_and.accumulate(p_value <= delta).sum())
    n_tested = min(n_passed + 1, grid.size)
    last = max(n_passed - 1, 0)
    tested = {
        name: Stratum(int(kinds[name].sum()), int(acted[last]), int(errors[last]))
        for name, (acted, errors) in counts.items()
    }
    coverage, tau = 0.0, None
    reason = _explain_refusal(tested, float(grid[0]), alpha, delta)
    if n_passed > 0:
        coverage, tau = int(n_executed[last]) / n, float(grid[last])
        stopped = "the whole grid passed" if n_passed == grid.size else f"tau {grid[n_passed]:.4g} failed"
        reason = f"tau {tau:.4g} is the last of {n_passed} that passed in order; {stopped}"
    return RiskPromise(
        tau=tau,
        alpha=alpha,
        delta=delta,
        coverage=coverage,
        coverage_interval=_interval(coverage, n),
        n=n,
        n_executed=int(n_executed[last]),
        n_wrong=int(n_wrong[last]),
        p_value=float(p_value[last]),
        n_tested=n_tested,
        reason=reason,
        strata=tested if stratum else {},
    )


def by_kind(stratum: Sequence[str], n: int) -> dict[str, Bool[np.ndarray, " n"]]:
    """Which of n cases are of each kind; one kind without a name where none are told apart."""
    names = np.array(stratum or [""] * n)
    return {str(name): names == name for name in np.unique(names)}


def count_executed(
    score: Float[np.ndarray, " n"], wrong: Bool[np.ndarray, " n"], tau: Float[np.ndarray, " t"]
) -> tuple[Shaped[np.ndarray, " t"], Shaped[np.ndarray, " t"]]:
    """Scenes each tau executes (score > tau; NaN never), and the wrong ones among them. Shape (t,) each."""
    answered = ~np.isnan(score)
    order = np.argsort(score[answered])
    ranked = score[answered][order]
    wrong_above = np.concatenate([np.cumsum(wrong[answered][order][::-1])[::-1], [0]])
    first = np.searchsorted(ranked, tau, side="right")
    return ranked.size - first, wrong_above[first]


def least_supported(
    score: Float[np.ndarray, " n"], wrong: Bool[np.ndarray, " n"], tau: float, delta: float
) -> float | None:
    """The error rate that is not exceeded with confidence 1 - delta at a threshold fixed before (exact)."""
    executed, errors = (int(each[0]) for each in count_executed(score, wrong, np.array([tau])))
    if not executed:
        return None
    return 1.0 if errors == executed else float(betaincinv(errors + 1, executed - errors, 1.0 - delta))


def check_outcomes(
    score: Shaped[np.ndarray, " n"], wrong: Shaped[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Scores as float64 and outcomes as bool; there must be some, as many of each."""
    values, errors = np.asarray(score, dtype=np.float64), np.asarray(wrong)
    if values.ndim != 1 or errors.shape != values.shape:
        raise FittingError(
            f"scores of shape {values.shape} and outcomes of shape {errors.shape}: give one outcome a score"
        )
    if values.size == 0:
        raise FittingError("there are no scenes to learn from")
    outside = np.flatnonzero((values < 0.0) | (values > 1.0))
    if outside.size:
        raise FittingError(
            f"score {outside[0]} is {values[outside[0]]}; it must lie in [0, 1], or be NaN for no answer"
        )
    bad = np.flatnonzero((errors != 0) & (errors != 1))
    if bad.size:
        raise FittingError(f"outcome {bad[0]} is {errors[bad[0]]}; an action is wrong (1) or not (0)")
    return values, errors.astype(bool)


def _explain_refusal(tested: Mapping[str, Stratum], tau: float, alpha: float, delta: float) -> str:
    least = least_executed(alpha, delta)
    name, (_, n_executed, n_wrong) = max(tested.items(), key=lambda item: item[1].p_value(alpha))
    above = f"tau {tau:.4g}" + (f" for {name}" if name else "")
    if n_executed < least:
        return (
            f"too few scenes: above {above}, the first tested, the robot acts in {n_executed}; to "
            f"promise {alpha:g} with confidence {1.0 - delta:g} it must act in {least} without an error; "
            "label more scenes"
        )
    return (
        f"too many errors: {n_wrong} of {n_executed} actions are wrong above {above}, the first "
        f"tested, so the error rate may be above {alpha:g}"
    )
