"""What a person corrects of what was seen, and the labelled scene that comes of it."""

from cpor.corrections.history import (
    Add,
    Brush,
    Correction,
    Corrections,
    Delete,
    Merge,
    Relate,
    Rename,
    Split,
    Workspace,
    correct_view,
    label_scene,
)
from cpor.corrections.mask_edits import CorrectionError

__all__ = [
    "Add",
    "Brush",
    "Correction",
    "CorrectionError",
    "Corrections",
    "Delete",
    "Merge",
    "Relate",
    "Rename",
    "Split",
    "Workspace",
    "correct_view",
    "label_scene",
]
