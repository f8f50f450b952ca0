"""Drift: do new scenes still look like those that the promise was made from.

A promise holds for scenes from where the calibration scenes came. The test here is a permutation test: were
all scenes alike, any split of them into old and new would be as likely as the one seen. Its level is exact
for any features, however they depend on each other and however often they tie.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from cpor.errors import FittingError, InvalidSettingError

N_PERMUTATIONS = 999
"""The least p-value is 1 / (N_PERMUTATIONS + 1)."""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Whether new scenes differ from the calibration scenes.

    Attributes:
        drifted: Whether they differ at the level asked for.
        p_value: Result of the permutation test over all features together.
        level: Probability of a false alarm when nothing has changed.
        distance: For each feature the Kolmogorov-Smirnov distance of new from calibration scenes, the
            largest gap between their cumulative shares; the missing ones count as largest.
        reason: What was found, in words.
    """

    drifted: bool
    p_value: float
    level: float
    distance: Mapping[str, float]
    reason: str


def check_drift(
    calibration: Mapping[str, Shaped[np.ndarray, " n"]],
    new: Mapping[str, Shaped[np.ndarray, " m"]],
    rng: np.random.Generator,
    level: float = 0.01,
    n_permutations: int = N_PERMUTATIONS,
) -> DriftReport:
    """Compare new scenes with the calibration scenes, feature by feature, in one test.

    Args:
        calibration: Features of the calibration scenes (best score, number of objects, ...), by name; one
            independent scene an entry, NaN = missing. Shape (n,) each.
        new: The same features of new scenes. Shape (m,) each.
        rng: Draws the permutations.
        level: Probability of a false alarm when nothing has changed.
        n_permutations: Splits drawn; fewer than 1 / level - 1 could never raise an alarm.
    """
    if not 0.0 < level < 1.0:
        raise InvalidSettingError(f"level is {level}; it must lie strictly between 0 and 1")
    if (n_permutations + 1) * level < 1.0:
        raise InvalidSettingError(
            f"{n_permutations} permutations cannot reach level {level}; take {math.ceil(1 / level)} or more"
        )
    names, pooled, n_old = _pool(calibration, new)
    n_new = pooled.shape[0] - n_old
    is_new = np.zeros(pooled.shape[0], dtype=bool)
    is_new[n_old:] = True
    ranked = [_rank(pooled[:, k]) for k in range(len(names))]
    seen = _distances(ranked, is_new[None, :])[0]
    statistic = float(seen.max())
    at_least = 1
    for chunk in _chunks(n_permutations, pooled.shape[0]):
        splits = rng.permuted(np.broadcast_to(is_new, (chunk, is_new.size)), axis=1)
        # Equal distances may differ in their last bits.
        at_least += int((_distances(ranked, splits).max(axis=1) >= statistic - 1e-12).sum())
    p_value = at_least / (n_permutations + 1)
    drifted = p_value <= level
    distance = {name: float(value) for name, value in zip(names, seen, strict=True)}
    worst = max(distance, key=lambda name: distance[name])
    reason = f"largest difference in '{worst}', distance {distance[worst]:.3f}, p = {p_value:.3g}"
    if drifted:
        reason = f"new scenes differ from the calibration scenes: {reason}; calibrate again"
    elif math.comb(n_old + n_new, n_new) * level < 1.0:
        reason = f"too few scenes ({n_old} and {n_new}) to tell at level {level:g}: {reason}"
    else:
        reason = f"no sign that the new scenes differ: {reason}"
    return DriftReport(drifted, p_value, level, distance, reason)


def _pool(
    calibration: Mapping[str, Shaped[np.ndarray, " n"]], new: Mapping[str, Shaped[np.ndarray, " m"]]
) -> tuple[list[str], Float[np.ndarray, "nm k"], int]:
    names = sorted(calibration)
    if not names or names != sorted(new):
        raise FittingError(f"features differ: calibration has {names}, the new scenes have {sorted(new)}")
    sizes = []
    for part, which in ((calibration, "calibration"), (new, "new")):
        lengths = {np.asarray(part[name]).shape for name in names}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1 or 0 in next(iter(lengths)):
            raise FittingError(
                f"each feature of the {which} scenes needs one number a scene, and at least one"
            )
        sizes.append(next(iter(lengths))[0])
    columns = [
        np.concatenate([np.asarray(part[name], dtype=np.float64) for part in (calibration, new)])
        for name in names
    ]
    return names, np.column_stack(columns), sizes[0]


def _rank(
    value: Float[np.ndarray, " n"],
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """The order of the values, NaN last, and where in it a run of equal values ends."""
    order = np.argsort(value, kind="stable")
    ranked = value[order]
    following = np.append(ranked[1:], -np.inf)
    same = (ranked == following) | (np.isnan(ranked) & np.isnan(following))
    return order, ~same


def _distances(
    ranked: list[tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]], is_new: Bool[np.ndarray, "splits n"]
) -> Float[np.ndarray, "splits k"]:
    """Kolmogorov-Smirnov distance of each feature under each split."""
    n_new = int(is_new[0].sum())
    n_old = is_new.shape[1] - n_new
    step = np.where(is_new, 1.0 / n_new, -1.0 / n_old)
    gaps = [np.abs(np.cumsum(step[:, order], axis=1)[:, ends]).max(axis=1) for order, ends in ranked]
    return np.column_stack(gaps)


def _chunks(n_permutations: int, n_scenes: int) -> list[int]:
    """Permutations in portions that keep the arrays small, about 2 million numbers each."""
    size = max(1, min(n_permutations, 2_000_000 // n_scenes))
    return [min(size, n_permutations - done) for done in range(0, n_permutations, size)]
