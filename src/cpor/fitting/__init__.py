"""Fitting: from labelled scenes to one model file."""

from cpor.errors import FittingError
from cpor.fitting.fit import FitReport, FitSettings, fit_model
from cpor.fitting.stages import ReliabilityData

__all__ = ["FitReport", "FitSettings", "FittingError", "ReliabilityData", "fit_model"]
