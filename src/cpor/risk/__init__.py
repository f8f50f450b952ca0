"""Risk: an error rate that can be promised, and when the promise no longer applies."""

from cpor.risk.binomial import RiskInputError, error_p_value, least_executed
from cpor.risk.control import RiskPromise, control_risk
from cpor.risk.drift import DriftReport, check_drift
from cpor.risk.tau_grid import choose_tau_grid
from cpor.risk.thinning import one_case_per_image

__all__ = [
    "DriftReport",
    "RiskInputError",
    "RiskPromise",
    "check_drift",
    "choose_tau_grid",
    "control_risk",
    "error_p_value",
    "least_executed",
    "one_case_per_image",
]
