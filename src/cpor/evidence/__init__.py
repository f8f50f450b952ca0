"""Geometric evidence: what masks and depth say about each pair of objects."""

from cpor.evidence.geometry import (
    GEOMETRY_PRESETS,
    GeometricEvidence,
    GeometrySettings,
    PairState,
    geometric_evidence,
)
from cpor.evidence.unseen import UnseenEvidence

__all__ = [
    "GEOMETRY_PRESETS",
    "GeometricEvidence",
    "GeometrySettings",
    "PairState",
    "UnseenEvidence",
    "geometric_evidence",
]
