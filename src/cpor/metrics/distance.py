"""Total variation: how far a truncated posterior is from the whole one."""

import math


def truncation_tv(log_z_kept: float, log_z: float) -> float:
    """d_TV(P_D, P_K) = 1 - Z_K / Z, of a posterior cut down to the graphs kept and renormalised.

    Args:
        log_z_kept: Log mass of the graphs kept.
        log_z: Log mass of all graphs.
    """
    return max(0.0, -math.expm1(min(log_z_kept - log_z, 0.0)))
