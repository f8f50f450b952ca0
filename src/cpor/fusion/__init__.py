"""Fusion: one probability a pair from what the semantic and the geometric source say."""

from pathlib import Path
from typing import TypeAlias

from cpor.calibration.versioned import kind_of, read_text, read_versioned
from cpor.fusion.disagreement import MOST_DISAGREEMENT, learn_most_disagreement, settle_disagreement
from cpor.fusion.gated import GatedFusion
from cpor.fusion.naive import NaiveFusion
from cpor.fusion.prior import PAPER_DECODING_RATE, shift_for_decoding, shift_prior

AnyFusion: TypeAlias = GatedFusion | NaiveFusion

FUSIONS: dict[str, type[AnyFusion]] = {kind_of(each): each for each in (GatedFusion, NaiveFusion)}
"""Every fusion, by the kind it writes."""


def fusion_from_json(text: str) -> AnyFusion:
    """Read any fusion from JSON; an unknown kind or a newer version is an error that says so."""
    return read_versioned(text, FUSIONS)


def load_fusion(path: str | Path) -> AnyFusion:
    """Read any fusion from a file that `save` wrote."""
    return fusion_from_json(read_text(path))


__all__ = [
    "FUSIONS",
    "MOST_DISAGREEMENT",
    "PAPER_DECODING_RATE",
    "AnyFusion",
    "GatedFusion",
    "NaiveFusion",
    "fusion_from_json",
    "learn_most_disagreement",
    "load_fusion",
    "settle_disagreement",
    "shift_for_decoding",
    "shift_prior",
]
