"""A promise over whole retrievals: at most a share alpha of them contains a wrong action.

Each threshold is run afresh on independent retrievals. From the highest threshold down, the exact binomial
test of `control_risk` is applied to each, and it stops at the first failure. From then on, with L_t = 1 where
run t contained a wrong action,

    E_t = prod_s (1 + lambda (L_s - alpha))

is a supermartingale as long as each run is wrong with probability alpha at most, whatever came before. It
then ever reaches 1 / delta with probability delta at most (Ville's inequality).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from cpor.errors import FittingError
from cpor.learn.control import RiskPromise, check_levels, control_risk, least_executed


def promise_retrievals(
    outcomes: Mapping[float, Sequence[tuple[bool, str]]], alpha: float, delta: float
) -> RiskPromise:
    """The lowest threshold at which a share alpha of wrong retrievals can be promised.

    Thresholds with too few retrievals to pass are not tested; how many there are says nothing of the errors.

    Args:
        outcomes: For each threshold its retrievals: whether one contained a wrong action, and its set-up.
            Each set-up is tested apart, and the promise holds in each (`RiskPromise.strata`).
        alpha: Allowed share of retrievals that contain a wrong action.
        delta: Allowed probability of a broken promise.
    """
    check_levels(alpha, delta)
    if not outcomes:
        raise FittingError("there are no retrievals to learn from")
    least = least_executed(alpha, delta)
    enough = [tau for tau, runs in outcomes.items() if len(runs) >= least]
    found: RiskPromise | None = None
    for tau in sorted(enough or [max(outcomes, key=lambda tau: len(outcomes[tau]))], reverse=True):
        wrong, where = zip(*outcomes[tau], strict=True)
        tested = control_risk(np.ones(len(wrong)), np.array(wrong), alpha, delta, np.array([tau]), where)
        says = f"{tested.n_wrong} of {tested.n} retrievals at threshold {tau:.4g} had a wrong action"
        if not tested.promised:
            says = f"too many or too few: {says}; {least} without any are enough, for each set-up"
            return found or tested.model_copy(update={"reason": says})
        n_tested = 1 if found is None else found.n_tested + 1
        found = tested.model_copy(update={"reason": says, "n_tested": n_tested})
    assert found is not None
    return found


def e_value(wrong: Sequence[bool], alpha: float) -> float:
    """The largest E_t so far, for lambda = 1 / (1 - alpha): it grows fastest where the rate has doubled."""
    bet = 1.0 / max(1.0 - alpha, alpha)  # beyond 1 / alpha, E_t could fall below 0
    factor = 1.0 + bet * (np.asarray(wrong, np.float64) - alpha)
    return float(np.cumprod(factor).max(initial=1.0))
