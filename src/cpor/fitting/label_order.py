"""In which order labels teach most: greedy D-optimal design of the stages that a label is for.

Each candidate pair of a picture tells p (1 - p) x x' of the calibrators' numbers, with x = (1, log-odds of
each source). Next comes the picture that adds most to the
log-determinant of what is told so far; pairs without an answer count as even odds.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from cpor.calibration.pairs import clipped_logit
from cpor.pipeline import PairBeliefs


def order_by_value(beliefs: Sequence[PairBeliefs]) -> list[int]:
    """Indices of the pictures, those whose labels teach most first.

    Args:
        beliefs: What is believed of each picture's pairs.
    """
    told = [_information(each) for each in beliefs]
    known = np.eye(len(told[0])) if told else np.eye(1)
    left, order = list(range(len(told))), []
    while left:
        gain = [np.linalg.slogdet(known + told[k])[1] for k in left]
        best = left.pop(int(np.argmax(gain)))
        known = known + told[best]
        order.append(best)
    return order


def _information(beliefs: PairBeliefs) -> Float[np.ndarray, "k k"]:
    p = np.where(np.isnan(beliefs.p_fused), 0.5, beliefs.p_fused)
    there = p > 0.0
    p = p[there]
    sources = [np.nan_to_num(clipped_logit(each[there])) for each in beliefs.p.values()]
    x = np.column_stack([np.ones(p.size), *sources])
    return np.asarray((x * (p * (1.0 - p))[:, None]).T @ x)
