"""Moving probabilities to another base rate, in the log-odds where base rates add."""

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import expit, logit

from cpor.errors import InvalidSettingError
from cpor.learn.pairs import check_scores


def shift_prior(
    p: Shaped[np.ndarray, " n"], *, fitted_prior: float, deployed_prior: float
) -> Float[np.ndarray, " n"]:
    """Probabilities under another share of true relations: sigmoid(logit p + logit pi' - logit pi_0).

    Right where the evidence looks the same within true and within false relations, and only their
    shares differ. 0, 1 and NaN (no answer) stay what they are.

    Args:
        p: Probabilities under `fitted_prior`. Shape (n,).
        fitted_prior: pi_0, the share of true relations where p was fitted.
        deployed_prior: pi', the share where it is used.
    """
    check_prior(fitted_prior, "fitted_prior")
    check_prior(deployed_prior, "deployed_prior")
    # logit 0 = -inf and back is 0 again: certainty does not move.
    return np.asarray(expit(logit(check_scores(p, "p")) + logit(deployed_prior) - logit(fitted_prior)))


def shift_for_decoding(p: Shaped[np.ndarray, " n"], rate: float) -> Float[np.ndarray, " n"]:
    """The paper's decoding shift: sigmoid(logit p - logit rate), so that p = rate becomes 1/2.

    Done once, before all inference.

    Args:
        p: Probabilities; NaN = no answer. Shape (n,).
        rate: Where to put even odds.
    """
    return shift_prior(p, fitted_prior=rate, deployed_prior=0.5)


def check_prior(prior: float, name: str) -> None:
    """A prior lies strictly between 0 and 1."""
    if not 0.0 < prior < 1.0:
        raise InvalidSettingError(
            f"{name} is {prior}; a share of true relations lies strictly between 0 and 1"
        )
