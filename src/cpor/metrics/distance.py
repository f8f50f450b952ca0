"""Total variation: how far a truncated posterior is from the whole one."""

import math

import numpy as np
from jaxtyping import Float


def total_variation(p: Float[np.ndarray, " k"], q: Float[np.ndarray, " k"]) -> float:
    """d_TV = half the sum of |p - q| over outcomes.

    Args:
        p: One distribution. Shape (k,).
        q: The other, over the same outcomes. Shape (k,).
    """
    return 0.5 * float(np.abs(np.asarray(p) - np.asarray(q)).sum())


def truncation_tv(log_z_kept: float, log_z: float) -> float:
    """d_TV(P_D, P_K) = 1 - Z_K / Z, of a posterior cut down to the graphs kept and renormalised.

    Args:
        log_z_kept: Log mass of the graphs kept.
        log_z: Log mass of all graphs.
    """
    return max(0.0, -math.expm1(min(log_z_kept - log_z, 0.0)))
