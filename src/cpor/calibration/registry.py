"""Which calibrator a file holds: its `kind` says so."""

from pathlib import Path
from typing import TypeAlias

from cpor.calibration.action import ActionCalibrator
from cpor.calibration.graph_platt import GraphPlattCalibrator
from cpor.calibration.isotonic import IsotonicCalibrator
from cpor.calibration.platt import PlattCalibrator
from cpor.calibration.scene_platt import ScenePlattCalibrator
from cpor.calibration.temperature import TemperatureCalibrator
from cpor.calibration.versioned import kind_of, read_text, read_versioned

AnyCalibrator: TypeAlias = (
    TemperatureCalibrator
    | PlattCalibrator
    | IsotonicCalibrator
    | ScenePlattCalibrator
    | GraphPlattCalibrator
    | ActionCalibrator
)

CALIBRATORS: dict[str, type[AnyCalibrator]] = {
    kind_of(each): each
    for each in (
        TemperatureCalibrator,
        PlattCalibrator,
        IsotonicCalibrator,
        ScenePlattCalibrator,
        GraphPlattCalibrator,
        ActionCalibrator,
    )
}
"""Every calibrator, by the kind it writes."""


def calibrator_from_json(text: str) -> AnyCalibrator:
    """Read any calibrator from JSON.

    Raises:
        ModelFileError: An unknown kind (the known ones are listed), a newer version, damaged content.
    """
    return read_versioned(text, CALIBRATORS)


def load_calibrator(path: str | Path) -> AnyCalibrator:
    """Read any calibrator from a file that `save` wrote."""
    return calibrator_from_json(read_text(path))
