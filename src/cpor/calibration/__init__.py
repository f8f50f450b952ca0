"""Calibration: from raw scores to probabilities that mean what they say."""

from cpor.calibration.action import ActionCalibrator
from cpor.calibration.cross_validation import PENALTY_GRID, PenaltyCurve, cross_fit, fold_of, penalty_curve
from cpor.calibration.graph_features import GraphFeatures, graph_features
from cpor.calibration.isotonic import IsotonicCalibrator
from cpor.calibration.logistic import LogisticCalibrator, cross_fit_on_chain
from cpor.calibration.on_chain import OnChainProbabilities, WrongTargetError
from cpor.calibration.pairs import CalibrationInputError
from cpor.calibration.protocol import Calibrator
from cpor.calibration.unseen import UnseenCalibrator
from cpor.calibration.versioned import ModelFileError, VersionedModel

__all__ = [
    "PENALTY_GRID",
    "ActionCalibrator",
    "CalibrationInputError",
    "Calibrator",
    "GraphFeatures",
    "IsotonicCalibrator",
    "LogisticCalibrator",
    "ModelFileError",
    "OnChainProbabilities",
    "PenaltyCurve",
    "UnseenCalibrator",
    "VersionedModel",
    "WrongTargetError",
    "cross_fit",
    "cross_fit_on_chain",
    "fold_of",
    "graph_features",
    "penalty_curve",
]
