"""Metrics: one function a metric, plain arrays in, a number out."""

from cpor.metrics.checks import MetricInputError
from cpor.metrics.ranking import auroc
from cpor.metrics.reliability import ReliabilityBins, debiased_ece, ece, reliability_bins
from cpor.metrics.scoring import brier, nll
from cpor.metrics.summary import ReliabilitySummary, summarise_reliability

__all__ = [
    "MetricInputError",
    "ReliabilityBins",
    "ReliabilitySummary",
    "auroc",
    "brier",
    "debiased_ece",
    "ece",
    "nll",
    "reliability_bins",
    "summarise_reliability",
]
