"""What several looks say of a pair together: a two-state filter over time, exact under its model.

Whether j obstructs i is hidden and stays as it is, but for a probability c of being drawn anew where
something near moved. A look k speaks in log-odds over the base rate, x_k. The errors of looks at a pair that
stayed are normal with correlation rho, so that n looks of mean m say g(n) m, g(n) = n / (1 + (n - 1) rho),
and the n-th look adds g(n) m_n - g(n - 1) m_(n - 1) to what the others said. Learnt rho is 1: a further look
at the same thing removes noise from the evidence and adds none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from cpor.pipeline import PairBeliefs
from cpor.scene import BlockedBy

RHO = 1.0
"""Correlation of the errors of two looks at one pair. The likeliest value on 3,106 pairs of simulated looks
of our networks, each taken twice with new noise, is 1.03."""

BASE = 0.39
"""Share of the pairs that may obstruct which do, in the same looks."""

NEAR_CHANGE = 0.01
"""Probability that a relation of unchanged objects is another one after something near them moved: 4 of 508
were."""

CONTRADICTS = 3.0
"""Looks further apart than this, in log-odds, are not of the same state: the last one is measured anew. Of
looks at the same state 1 in 100 is. Without it an old "free" would speak against a new "obstructed"."""

APART = 0.05
"""How often a pair obstructs that a look finds apart, where another look found it to touch."""


class PairEvidence(NamedTuple):
    """What the looks at a pair say since it was last measured anew.

    Attributes:
        weight: Number of looks.
        mean: Their mean log-odds over the base rate.
        log_odds: Log-odds of "obstructs", given all of them.
    """

    weight: int
    mean: float
    log_odds: float


@dataclass(frozen=True)
class PairFilter:
    """What the looks so far say of each pair that was judged, by kept ids."""

    pairs: Mapping[BlockedBy, PairEvidence] = field(default_factory=dict)

    def predict(self, unchanged: frozenset[int], near: frozenset[int]) -> "PairFilter":
        """What still holds in the next look.

        Args:
            unchanged: Objects that did not change; pairs with others are measured anew.
            near: Those of them near to something that changed, came or went.
        """
        pairs = {}
        for pair, said in self.pairs.items():
            if unchanged.issuperset(pair):
                p = 1.0 / (1.0 + np.exp(-said.log_odds))
                anew = _log_odds((1.0 - NEAR_CHANGE) * p + NEAR_CHANGE * BASE)
                pairs[pair] = said._replace(log_odds=anew) if near.intersection(pair) else said
        return PairFilter(pairs)

    def apply(self, beliefs: PairBeliefs) -> PairBeliefs:
        """The beliefs of a look with these as evidence; no answer stays no answer."""
        fresh = beliefs.p_fused if beliefs.p_look is None else beliefs.p_look
        p, after = fresh.copy(), self.after(beliefs).pairs
        for pair in self.pairs.keys() & after.keys():
            r, c = (beliefs.ids.index(obj) for obj in pair)
            if not np.isnan(fresh[r, c]):
                p[r, c] = 1.0 / (1.0 + np.exp(-after[pair].log_odds))
        return replace(beliefs, p_fused=p, p_look=fresh)

    def after(self, beliefs: PairBeliefs) -> "PairFilter":
        """What is believed after a look."""
        fresh = beliefs.p_fused if beliefs.p_look is None else beliefs.p_look
        pairs = {}
        for r, i in enumerate(beliefs.ids):
            for c, j in enumerate(beliefs.ids):
                pair, p = BlockedBy(i, j), float(fresh[r, c])
                old = self.pairs.get(pair)
                if np.isnan(p):
                    if old is not None:
                        pairs[pair] = old
                elif p > 0.0 or old is not None:
                    x = _log_odds(p or APART) - _log_odds(BASE)
                    pairs[pair] = _add(old, x)
        return PairFilter(pairs)


def _add(old: PairEvidence | None, x: float) -> PairEvidence:
    if old is None or abs(x - old.mean) > CONTRADICTS:
        return PairEvidence(1, x, _log_odds(BASE) + x)
    total = old.weight + 1
    mean = old.mean + (x - old.mean) / total
    return PairEvidence(total, mean, old.log_odds + _gain(total) * mean - _gain(old.weight) * old.mean)


def _gain(n: int) -> float:
    """How many independent looks n correlated ones are worth."""
    return n / (1.0 + (n - 1.0) * RHO)


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-9), 1.0 - 1e-9)
    return float(np.log(p) - np.log1p(-p))
