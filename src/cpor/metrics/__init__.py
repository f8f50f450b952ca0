"""Metrics: one function a metric, plain arrays in, a number out."""

from cpor.metrics.bootstrap import Interval, PairedComparison, bootstrap_mean, compare_paired
from cpor.metrics.checks import MetricInputError
from cpor.metrics.distance import truncation_tv
from cpor.metrics.paths import edit_distance, mp_ned, ned, relations_on
from cpor.metrics.ranking import auroc
from cpor.metrics.reliability import ReliabilityBins, debiased_ece, ece, reliability_bins
from cpor.metrics.scoring import brier, nll
from cpor.metrics.selective import RiskCoverage, aurc, coverage, ecr, risk_coverage, rsr
from cpor.metrics.sets import SetScore, object_score, relation_score, set_score
from cpor.metrics.summary import ReliabilitySummary, summarise_reliability

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
