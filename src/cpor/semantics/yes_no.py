"""Probability of yes from the log-probabilities of the first token, normalised over yes and no."""

import math
from collections.abc import Mapping

YES = frozenset({"yes", "y"})
NO = frozenset({"no", "n"})


def p_yes(first_token: Mapping[str, float], least_mass: float = 0.01) -> float | None:
    """P(yes) / (P(yes) + P(no)), where spellings of a word count together.

    Providers list the likeliest tokens only. A word that is not listed counts with the least probability
    that is, which it cannot exceed; so a score is never 0 or 1 for want of a longer list.

    Args:
        first_token: Log-probability by token.
        least_mass: Least probability that yes and no have together; below it the model was about to say
            something else.

    Returns:
        In [0, 1]; None where the model would have said neither.
    """
    usable = {token: value for token, value in first_token.items() if value <= 1e-6 and value > -math.inf}
    yes = _mass(usable, YES)
    no = _mass(usable, NO)
    if (yes == 0.0 and no == 0.0) or yes + no < least_mass:
        return None
    if yes == 0.0 or no == 0.0:
        least = min(math.exp(value) for value in usable.values())
        missing = min(least, max(1.0 - sum(math.exp(value) for value in usable.values()), 0.0))
        yes, no = (yes or missing), (no or missing)
    return min(max(yes / (yes + no), 0.0), 1.0)


def is_yes_or_no(token: str) -> bool:
    """Whether a token counts for yes or for no."""
    return _word(token) in YES | NO


def _mass(first_token: Mapping[str, float], words: frozenset[str]) -> float:
    return math.fsum(math.exp(value) for token, value in first_token.items() if _word(token) in words)


def _word(token: str) -> str:
    # Tokenisers mark a leading space in their own ways.
    return token.replace("\u2581", " ").replace("\u0120", " ").strip(" \t\r\n\"'.,:*").lower()
