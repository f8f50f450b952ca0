"""Fusion: one probability a pair from what all sources say."""

from typing import TypeAlias

from cpor.fusion.gated import GatedFusion, Guard, NaiveFusion, learn_most_disagreement
from cpor.fusion.prior import PAPER_DECODING_RATE, shift_for_decoding, shift_prior

AnyFusion: TypeAlias = GatedFusion | NaiveFusion

__all__ = [
    "PAPER_DECODING_RATE",
    "AnyFusion",
    "GatedFusion",
    "Guard",
    "NaiveFusion",
    "learn_most_disagreement",
    "shift_for_decoding",
    "shift_prior",
]
