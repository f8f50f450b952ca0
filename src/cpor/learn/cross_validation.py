"""Cross-validation by scene: one image is never on both sides of a split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.errors import FittingError
from cpor.learn.pairs import check_labels
from cpor.learn.scoring import nll

PENALTY_GRID = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""The paper's grid for lambda_cal."""

N_FOLDS = 5
"""The paper's number of folds."""

Predict: TypeAlias = Callable[[Bool[np.ndarray, " n"], Bool[np.ndarray, " n"]], Float[np.ndarray, " m"]]
"""(which rows to fit on, which rows to predict) -> probabilities of the latter; NaN = no answer."""


@dataclass(frozen=True, eq=False)
class PenaltyCurve:
    """What cross-validation says of each penalty.

    Attributes:
        penalty: The grid.
        nll: Held-out negative log-likelihood for each penalty, mean over pairs. [nats]
        nll_folds: The same fold by fold. Shape (penalties, folds).
    """

    penalty: tuple[float, ...]
    nll: tuple[float, ...]
    nll_folds: Float[np.ndarray, "penalties folds"]

    @property
    def best(self) -> float:
        """The penalty of least held-out NLL; of equals the larger one, as the simpler model."""
        least = min(self.nll)
        return max(value for value, loss in zip(self.penalty, self.nll, strict=True) if loss == least)


def fold_of(
    group: Shaped[np.ndarray, " n"], n_folds: int = N_FOLDS, rng: np.random.Generator | None = None
) -> Int[np.ndarray, " n"]:
    """Deal the groups out to folds, one after the other.

    Args:
        group: Which image each row belongs to; any values that compare equal within one. Shape (n,).
        n_folds: Number of folds, at least 2 and at most the number of groups.
        rng: Shuffles the groups first; without it they are dealt out in order of appearance.

    Returns:
        The fold of each row, 0 .. n_folds - 1. Shape (n,).
    """
    _, first, index = np.unique(np.asarray(group), return_index=True, return_inverse=True)
    if not 2 <= n_folds <= first.size:
        raise FittingError(
            f"{n_folds} folds of {first.size} images: folds are at least 2 and at most one an image"
        )
    order = np.argsort(first) if rng is None else rng.permutation(first.size)
    fold_of_group = np.empty(first.size, dtype=np.int64)
    fold_of_group[order] = np.arange(first.size) % n_folds
    return fold_of_group[index]


def cross_fit(
    predict: Predict,
    group: Shaped[np.ndarray, " n"],
    n_folds: int = N_FOLDS,
    rng: np.random.Generator | None = None,
) -> Float[np.ndarray, " n"]:
    """Predict every row with a fit that has not seen its image.

    Args:
        predict: Fits on some rows and predicts others.
        group: Which image each row belongs to. Shape (n,).
        n_folds: Number of folds.
        rng: Shuffles the images before they are dealt out; see `fold_of`.
    """
    return _held_out(predict, fold_of(group, n_folds, rng))


def penalty_curve(
    predict: Callable[[float], Predict],
    label: Shaped[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"],
    grid: Sequence[float] = PENALTY_GRID,
    n_folds: int = N_FOLDS,
    rng: np.random.Generator | None = None,
) -> PenaltyCurve:
    """Held-out NLL of each penalty, all of them on the same folds.

    Args:
        predict: Gives, for a penalty, the function that fits on some rows and predicts others.
        label: 0 / 1 or bool. Shape (n,).
        group: Which image each row belongs to. Shape (n,).
        grid: Penalties to try.
        n_folds: Number of folds.
        rng: Shuffles the images before they are dealt out; see `fold_of`.
    """
    fold = fold_of(group, n_folds, rng)
    truth = check_labels(label, fold.size)
    by_fold = np.empty((len(grid), n_folds))
    pooled = []
    problem = None
    for row, penalty in enumerate(grid):
        try:
            held_out = _held_out(predict(penalty), fold)
        except FittingError as failure:  # such as no best fit without a penalty
            problem = failure
            by_fold[row] = np.inf
            pooled.append(np.inf)
            continue
        answered = ~np.isnan(held_out)
        for k in range(n_folds):
            rows = answered & (fold == k)
            by_fold[row, k] = nll(held_out[rows], truth[rows]) if rows.any() else np.nan
        pooled.append(nll(held_out[answered], truth[answered]))
    if problem is not None and not np.isfinite(pooled).any():
        raise problem
    by_fold.flags.writeable = False
    return PenaltyCurve(tuple(grid), tuple(pooled), by_fold)


def _held_out(predict: Predict, fold: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    p = np.empty(fold.size)
    for k in range(int(fold.max()) + 1):
        p[fold == k] = predict(fold != k, fold == k)
    return p
