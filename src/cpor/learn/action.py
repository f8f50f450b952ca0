"""Action-level calibration (ours): from the score of an action, a graph event, to how often it succeeds."""

import math
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, model_validator

from cpor.errors import FittingError
from cpor.learn.conditioned import fit_conditioned_platt
from cpor.learn.cross_validation import N_FOLDS, PENALTY_GRID, cross_fit
from cpor.learn.isotonic import isotonic_knots, rates_by_score
from cpor.learn.pairs import answered_pairs, check_labels, check_scores, clipped_logit, clipped_sigmoid
from cpor.learn.scoring import nll
from cpor.learn.versioned import VersionedModel


def _nearest_to_certain(n: int) -> float:
    """Rule of succession: n successes in n trials still leave a failure to be expected in n + 2."""
    return 1.0 / (n + 2.0)


class IsotonicRate(BaseModel):
    """Non-decreasing success rate by its knots, fitted to groups of about sqrt(n) cases of like score.

    The groups keep the ends, where plain isotonic regression follows a handful of cases, from being
    shown as near certain; no rate is nearer to 0 or 1 than n cases can show.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: Literal["isotonic"] = "isotonic"
    score_knots: tuple[float, ...] = Field(min_length=1)
    p_knots: tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...]

    @model_validator(mode="after")
    def _check_knots(self) -> "IsotonicRate":
        rising = all(a <= b for knots in (self.score_knots, self.p_knots) for a, b in pairwise(knots))
        if len(self.score_knots) != len(self.p_knots) or not rising:
            raise ValueError("as many score_knots as p_knots, both non-decreasing")
        return self

    @classmethod
    def fit(cls, score: Float[np.ndarray, " n"], label: Bool[np.ndarray, " n"]) -> "IsotonicRate":
        """Fit to scores without NaN. Shape (n,) each."""
        at, rate, count = rates_by_score(score, label)
        group = _group_cases(count, least=math.ceil(math.sqrt(label.size)))
        cases = np.bincount(group, count).astype(np.int64)
        score_knots, p_knots = isotonic_knots(
            np.bincount(group, at * count) / cases, np.bincount(group, rate * count) / cases, cases
        )
        floor = _nearest_to_certain(label.size)
        return cls(score_knots=score_knots, p_knots=tuple(np.clip(p_knots, floor, 1.0 - floor).tolist()))

    def apply(self, score: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Rates, shape (n,); NaN stays NaN."""
        return np.asarray(np.interp(score, self.score_knots, self.p_knots))


class PlattRate(BaseModel):
    """p = sigmoid(a logit(score) + c), drawn towards p = score, with a rate of its own for score 0.

    A score of exactly 0 says that the object is not connected to the target at all: an atom, whose
    log-odds would otherwise pull the whole line. Other scores get at least the rate of the atom.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: Literal["platt"] = "platt"
    a: PositiveFloat
    c: float
    p_zero: float | None
    penalty: NonNegativeFloat
    floor: float = Field(ge=0.0, le=0.5)

    @classmethod
    def fit(
        cls, score: Float[np.ndarray, " n"], label: Bool[np.ndarray, " n"], penalty: float
    ) -> "PlattRate":
        """Fit to scores without NaN. Shape (n,) each."""
        zero = score == 0.0
        # (k + 1/2) / (n + 1), Jeffreys: no rate of exactly 0 from finitely many cases.
        p_zero = (float(label[zero].sum()) + 0.5) / (float(zero.sum()) + 1.0) if zero.any() else None
        _, values, truth = answered_pairs(score[~zero], label[~zero])
        theta, _ = fit_conditioned_platt(
            clipped_logit(values), np.empty((values.size, 0)), truth, penalty=0.0, base_penalty=penalty
        )
        return cls(
            a=float(np.exp(np.clip(theta[0], -5.0, 5.0))),
            c=float(theta[1]),
            p_zero=p_zero,
            penalty=penalty,
            floor=_nearest_to_certain(label.size),
        )

    def apply(self, score: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Rates, shape (n,); NaN stays NaN."""
        p = np.asarray(
            np.clip(clipped_sigmoid(self.a * clipped_logit(score) + self.c), self.floor, 1.0 - self.floor)
        )
        if self.p_zero is None:
            return p
        return np.where(score == 0.0, self.p_zero, np.maximum(p, self.p_zero))


ActionRate: TypeAlias = Annotated[IsotonicRate | PlattRate, Field(discriminator="method")]


class ActionCalibrator(VersionedModel):
    """Success rates from action scores: one non-decreasing map for grasping the target, one for removing.

    The two are kept apart because they err differently: that nothing obstructs the target needs every
    relation of it to be absent, that an object may go needs a chain to be present. For each, isotonic
    regression and shrunken Platt scaling compete by cross-validation over images.

    Attributes:
        grasp: The map for the target's score.
        remove: The map for the scores of other objects.
        by_role: Whether the two were fitted apart.
        held_out_nll: What cross-validation said, by role and method. [nats]
    """

    monotone: ClassVar[bool] = True

    kind: Literal["action"] = "action"
    version: Literal[1] = 1
    grasp: ActionRate
    remove: ActionRate
    by_role: bool
    held_out_nll: dict[str, dict[str, float]]

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        is_target: Shaped[np.ndarray, " n"] | None = None,
        group: Shaped[np.ndarray, " n"] | None = None,
        rng: np.random.Generator | None = None,
    ) -> "ActionCalibrator":
        """Fit to actions whose outcome is known.

        Args:
            score: Action scores q in [0, 1], NaN = no answer. Shape (n,).
            label: Whether the action was right; 0 / 1 or bool. Shape (n,).
            is_target: Whether the action grasps the target. Without it one map serves both. Shape (n,).
            group: Which image each action belongs to. Without it each is its own. Shape (n,).
            rng: Shuffles the images before they are dealt out to folds.
        """
        answered, values, truth = answered_pairs(score, label)
        images = np.arange(answered.size) if group is None else np.asarray(group)
        if images.shape != answered.shape:
            raise FittingError(f"{answered.size} scores and groups of shape {images.shape}")
        images = images[answered]
        if is_target is None:
            rate, curve = _choose_rate(values, truth, images, rng)
            return cls(grasp=rate, remove=rate, by_role=False, held_out_nll={"any": curve})
        grasps = check_labels(is_target, answered.size)[answered]
        rates, curves = {}, {}
        for role, rows in (("grasp", grasps), ("remove", ~grasps)):
            try:
                rates[role], curves[role] = _choose_rate(values[rows], truth[rows], images[rows], rng)
            except FittingError as problem:
                raise FittingError(
                    f"the actions of kind '{role}' do not suffice: {problem}; leave out is_target to fit one "
                    "map to both kinds"
                ) from None
        return cls(grasp=rates["grasp"], remove=rates["remove"], by_role=True, held_out_nll=curves)

    def apply(
        self, score: Shaped[np.ndarray, " n"], *, is_target: Shaped[np.ndarray, " n"] | None = None
    ) -> Float[np.ndarray, " n"]:
        """Success rates. Shape (n,).

        Args:
            score: Action scores q in [0, 1], NaN = no answer. Shape (n,).
            is_target: Whether the action grasps the target. Shape (n,).
        """
        values = check_scores(score)
        if not self.by_role:
            return self.remove.apply(values)
        if is_target is None:
            raise FittingError("this calibrator tells grasping from removing: give is_target")
        grasps = check_labels(is_target, values.size)
        return np.where(grasps, self.grasp.apply(values), self.remove.apply(values))


def _choose_rate(
    score: Float[np.ndarray, " n"],
    label: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"],
    rng: np.random.Generator | None,
) -> tuple[ActionRate, dict[str, float]]:
    """The map of least held-out NLL, and the whole comparison."""
    answered_pairs(score, label)  # says so where a label is missing altogether
    n_folds = min(N_FOLDS, np.unique(group).size)
    seed = 0 if rng is None else int(rng.integers(2**32))
    held_out_nll = {}
    for penalty in (None, *PENALTY_GRID):

        def predict(
            fitted: Bool[np.ndarray, " n"], held_out: Bool[np.ndarray, " n"], penalty: float | None = penalty
        ) -> Float[np.ndarray, " m"]:
            return _fit_rate(score[fitted], label[fitted], penalty).apply(score[held_out])

        # Every method is judged on the same folds.
        same = None if rng is None else np.random.default_rng(seed)
        held_out_nll[_name(penalty)] = nll(cross_fit(predict, group, n_folds, same), label)
    best = min(held_out_nll, key=lambda name: held_out_nll[name])
    chosen = next(penalty for penalty in (None, *PENALTY_GRID) if _name(penalty) == best)
    return _fit_rate(score, label, chosen), held_out_nll


def _name(penalty: float | None) -> str:
    return "isotonic" if penalty is None else f"platt, penalty {penalty:g}"


def _fit_rate(
    score: Float[np.ndarray, " n"], label: Bool[np.ndarray, " n"], penalty: float | None
) -> IsotonicRate | PlattRate:
    if penalty is None:
        return IsotonicRate.fit(score, label)
    return PlattRate.fit(score, label, penalty)


def _group_cases(count: Int[np.ndarray, " u"], least: int) -> Int[np.ndarray, " u"]:
    """Group neighbours until each group holds at least `least` cases; the last takes what is left over."""
    group = np.empty(count.size, dtype=np.int64)
    current, held = 0, 0
    for k, cases in enumerate(count.tolist()):
        group[k] = current
        held += cases
        if held >= least:
            current, held = current + 1, 0
    return np.minimum(group, max(current - 1, 0)) if held else group
