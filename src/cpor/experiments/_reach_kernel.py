"""Numba kernel of the product model: who is reached from the target when cycles are not excluded."""

from typing import no_type_check

from numba import njit


@no_type_check
@njit(cache=True)
def fill_scores(absent, free_of, reached, scores):
    """Scores of all members under independent relations, the target first.

    Args:
        absent: 1 - p of each relation, 1 where no candidate. Shape (c, c).
        free_of: Scratch: probability that a member has no blocker in a set. Shape (c, 2^c).
        reached: Scratch: probability that the target reaches all of a set inside it. Shape (2^c,).
        scores: Filled. Shape (c,).
    """
    size = absent.shape[0]
    full = (1 << size) - 1
    for i in range(size):
        free_of[i, 0] = 1.0
        for members in range(1, full + 1):
            lowest = 0
            while not (members >> lowest) & 1:
                lowest += 1
            factor = 1.0 if lowest == i else absent[i, lowest]
            free_of[i, members] = free_of[i, members & (members - 1)] * factor
    for j in range(size):
        scores[j] = 0.0
    for members in range(1, full + 1, 2):  # the target is bit 0
        missed = 0.0
        inner = (members - 1) & members
        while inner > 0:
            if inner & 1 and reached[inner] > 0.0:
                missed += reached[inner] * cut(free_of, inner, members ^ inner)
            inner = (inner - 1) & members
        reached[members] = max(1.0 - missed, 0.0)
        # Nobody else is reached: what is not a member is missed by this much.
        alone = reached[members] * cut(free_of, members, full ^ members)
        for j in range(size):
            if not (members >> j) & 1:
                scores[j] += alone
    for j in range(size):
        scores[j] = free_of[j, full] * max(1.0 - scores[j], 0.0)


@no_type_check
@njit(cache=True)
def cut(free_of, inside, outside):
    """Probability that no relation leads from one set into another."""
    product = 1.0
    i = 0
    while inside:
        if inside & 1:
            product *= free_of[i, outside]
        inside >>= 1
        i += 1
    return product
