"""From a frame to objects with visible and amodal masks."""

from cpor.perception.segmenter import Segmenter, make_segmenter

__all__ = ["Segmenter", "make_segmenter"]
