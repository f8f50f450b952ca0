"""Calibration: from raw scores to probabilities that mean what they say."""

from cpor.calibration.action import ActionCalibrator
from cpor.calibration.cross_validation import PENALTY_GRID, PenaltyCurve, cross_fit, fold_of, penalty_curve
from cpor.calibration.graph_features import GraphFeatures, graph_features
from cpor.calibration.graph_platt import GraphPlattCalibrator, cross_fit_on_chain
from cpor.calibration.isotonic import IsotonicCalibrator
from cpor.calibration.on_chain import OnChainProbabilities, WrongTargetError
from cpor.calibration.pairs import CalibrationInputError
from cpor.calibration.platt import PlattCalibrator
from cpor.calibration.protocol import Calibrator
from cpor.calibration.registry import CALIBRATORS, AnyCalibrator, calibrator_from_json, load_calibrator
from cpor.calibration.scene_platt import ScenePlattCalibrator
from cpor.calibration.temperature import TemperatureCalibrator
from cpor.calibration.unseen import UnseenCalibrator
from cpor.calibration.versioned import ModelFileError, VersionedModel

__all__ = [
    "CALIBRATORS",
    "PENALTY_GRID",
    "ActionCalibrator",
    "AnyCalibrator",
    "CalibrationInputError",
    "Calibrator",
    "GraphFeatures",
    "GraphPlattCalibrator",
    "IsotonicCalibrator",
    "ModelFileError",
    "OnChainProbabilities",
    "PenaltyCurve",
    "PlattCalibrator",
    "ScenePlattCalibrator",
    "TemperatureCalibrator",
    "UnseenCalibrator",
    "VersionedModel",
    "WrongTargetError",
    "calibrator_from_json",
    "cross_fit",
    "cross_fit_on_chain",
    "fold_of",
    "graph_features",
    "load_calibrator",
    "penalty_curve",
]
