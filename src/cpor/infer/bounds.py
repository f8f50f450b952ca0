"""Bounds that hold where the exact sum is out of reach: on Z (eq. zbar and tighter) and on single scores.

Split the edges into disjoint blocks. An acyclic graph is acyclic on every block, and blocks are
independent, so Z is at most the product of the blocks' acyclic probabilities. The paper's bound takes
blocks of two objects.
"""

import numpy as np
from jaxtyping import Float

from cpor.infer.local import ZETA, Allowance, cut_local, cyclic_parts
from cpor.infer.subset import acyclic_table

BLOCK = 9
"""Objects a block may have: 3^9 steps each."""


def log_pair_bound(p: Float[np.ndarray, "n n"], zeta: float = ZETA) -> float:
    """Log of the paper's bound, prod_{i<j} (1 - p_ij p_ji)."""
    clipped = np.where(p > 0.0, np.clip(p, zeta, 1.0 - zeta), 0.0)
    gap = 1.0 - clipped + clipped * (1.0 - clipped.T)  # 1 - p_ij p_ji, exact where both are near 1
    return float(np.log(gap[np.triu_indices(len(p), 1)]).sum())


def log_block_bound(
    p: Float[np.ndarray, "n n"], zeta: float = ZETA, allowance: Allowance | None = None
) -> float:
    """Log of a bound with blocks of up to BLOCK objects, gathered greedily where relations are strongest.

    Never looser than `log_pair_bound`: what is left when the allowance is spent counts pair by pair.
    """
    allowance = allowance or Allowance()
    left = p.copy()
    log_bound = 0.0
    while True:
        label = cyclic_parts(left)
        sizes = np.bincount(label)
        if sizes.max(initial=0) < 2:
            return log_bound
        crossing = label[:, None] != label[None, :]
        left[crossing] = 0.0  # on no cycle of what is left
        for c in np.flatnonzero(sizes >= 2):
            if allowance.chunk() == 0:
                return log_bound + log_pair_bound(left, zeta)
            block = _gather(left, np.flatnonzero(label == c))
            table = acyclic_table(cut_local(left, block, zeta), Allowance())
            if table is not None:
                # Where a block's probability underflows, the least normal number still bounds it.
                log_bound += float(np.log(max(table[-1], np.finfo(float).tiny)))
            left[np.ix_(block, block)] = 0.0


def local_score_bounds(
    p: Float[np.ndarray, "n n"],
    target: int,
    zeta: float = ZETA,
    most: Float[np.ndarray, "n n"] | None = None,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Bounds on every score from the relations of the object itself and of the target. Shape (n,) each.

    Being acyclic, or free, is the likelier the fewer relations hold; being reached the less likely. Under
    independent relations, events of one kind are positively correlated, those of opposite kinds negatively
    (Harris' inequality). With N_o the probability that nothing obstructs o, and M_o that o obstructs nothing,
    no cycle runs through o with probability at least s_o = N_o + (1 - N_o) M_o, and so

        N_X        <= q_X <= N_X / s_X
        N_o p_Xo   <= q_o <= N_o / s_o * min(1 - N_X, 1 - M_o)

    Each side is monotone in every relation, so intervals of relations give intervals of scores.

    Args:
        p: Probabilities, or the least they may be. Shape (n, n).
        target: X.
        zeta: Clipping of probabilities.
        most: The most they may be; None: they are known. Shape (n, n).
    """
    gap = 1.0 - np.where(p > 0.0, np.clip(p, zeta, 1.0 - zeta), 0.0)
    least_gap = gap if most is None else 1.0 - np.where(most > 0.0, np.clip(most, zeta, 1.0 - zeta), 0.0)
    free, free_at_least, idle = gap.prod(axis=1), least_gap.prod(axis=1), least_gap.prod(axis=0)
    apart = free + (1.0 - free) * idle
    best = np.divide(free, apart, out=np.ones_like(free), where=apart > 0.0)
    low = free_at_least * (1.0 - gap[target])
    high = best * np.minimum(1.0 - free_at_least[target], 1.0 - idle)
    low[target], high[target] = free_at_least[target], best[target]
    return low, np.maximum(high, low)


def _gather(p: Float[np.ndarray, "n n"], component: np.ndarray) -> np.ndarray:
    """Up to BLOCK objects of a component among which many strong relations run."""
    if len(component) <= BLOCK:
        return component
    pull = p + p.T + len(p) * p * p.T  # reciprocal pairs first: they exclude the most
    part = pull[np.ix_(component, component)]
    first = int(np.argmax(part.max(axis=1)))
    inside = [first]
    while len(inside) < BLOCK:
        gain = part[inside].sum(axis=0)
        gain[inside] = -1.0
        inside.append(int(np.argmax(gain)))
    block: np.ndarray = component[np.sort(np.array(inside))]
    return block
