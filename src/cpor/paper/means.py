"""Means over cases and shares of cases with intervals: what tables of our own measurements are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from cpor.learn.bootstrap import LEVEL, N_RESAMPLES, Interval, bootstrap_mean


class Mean(NamedTuple):
    """A mean over cases; None where there is nothing to take it over.

    Attributes:
        value: The mean.
        ci: Its interval, images resampled.
        n: Cases.
    """

    value: float | None
    ci: Interval | None
    n: int


def mean_of(
    told: Sequence[tuple[str, float]], rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> Mean:
    """The mean of values, each with the image that it is of."""
    if not told:
        return Mean(None, None, 0)
    images, values = (np.array(each) for each in zip(*told, strict=True))
    return Mean(float(values.mean()), bootstrap_mean(values, images, rng, n_resamples), len(told))


def means_by_tier(told: Sequence[tuple[str, str, float]], rng: np.random.Generator) -> dict[str, Mean]:
    """Means over `all` and by tier of values, each with its image and tier."""
    tiers = ("all", *dict.fromkeys(tier for _, tier, _ in told))
    return {
        tier: mean_of([(image, value) for image, of, value in told if tier in ("all", of)], rng)
        for tier in tiers
    }


def means_to_json(found: Any) -> Any:
    """Means at the leaves of nested mappings, as dictionaries."""
    if isinstance(found, Mean):
        return found._asdict()
    return {name: means_to_json(each) for name, each in found.items()}


@dataclass(frozen=True)
class WilsonRate:
    """A share with its Wilson interval at 95%.

    Attributes:
        hits, n: How many of how many.
        ci: The interval.
    """

    hits: int
    n: int
    ci: Interval

    @classmethod
    def of(cls, outcomes: Sequence[bool]) -> "WilsonRate":
        """The share of true outcomes."""
        hits, n = sum(outcomes), len(outcomes)
        return cls(hits, n, Interval(*wilson_interval(hits, n)))

    @property
    def share(self) -> float:
        """Hits among all; NaN where there are none."""
        return self.hits / self.n if self.n else float("nan")


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """Wilson's score interval for a rate, at 95%; all of [0, 1] of nothing."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)
    share, weight = hits / n, z * z / n
    centre = (share + weight / 2.0) / (1.0 + weight)
    half = z * math.sqrt(share * (1.0 - share) / n + weight / (4.0 * n)) / (1.0 + weight)
    # At the ends the interval closes exactly; rounding must not leave the rate outside.
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == n else centre + half)
