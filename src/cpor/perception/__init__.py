"""From a frame to objects with visible and amodal masks."""

from cpor.perception.registry import list_segmenters, make_segmenter
from cpor.perception.segmenter import Segmenter

__all__ = ["Segmenter", "list_segmenters", "make_segmenter"]
