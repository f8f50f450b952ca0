"""From a frame to objects with visible and amodal masks."""

from cpor.perception.segmenter import Segmenter, list_segmenters, make_segmenter

__all__ = ["Segmenter", "list_segmenters", "make_segmenter"]
