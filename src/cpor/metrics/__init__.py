"""Metrics: one function a metric, plain arrays in, a number out."""

from cpor.metrics.bootstrap import Interval, PairedComparison, bootstrap_mean, compare_paired
from cpor.metrics.checks import MetricInputError
from cpor.metrics.paths import (
    SetScore,
    edit_distance,
    mp_ned,
    ned,
    object_score,
    relation_score,
    relations_on,
    set_score,
)
from cpor.metrics.ranking import auroc
from cpor.metrics.reliability import (
    ReliabilityBins,
    ReliabilitySummary,
    debiased_ece,
    ece,
    reliability_bins,
    summarise_reliability,
)
from cpor.metrics.scoring import brier, nll, truncation_tv
from cpor.metrics.selective import RiskCoverage, aurc, coverage, ecr, risk_coverage, rsr

__all__ = [
    "Interval",
    "MetricInputError",
    "PairedComparison",
    "ReliabilityBins",
    "ReliabilitySummary",
    "RiskCoverage",
    "SetScore",
    "aurc",
    "auroc",
    "bootstrap_mean",
    "brier",
    "compare_paired",
    "coverage",
    "debiased_ece",
    "ece",
    "ecr",
    "edit_distance",
    "mp_ned",
    "ned",
    "nll",
    "object_score",
    "relation_score",
    "relations_on",
    "reliability_bins",
    "risk_coverage",
    "rsr",
    "set_score",
    "summarise_reliability",
    "truncation_tv",
]
