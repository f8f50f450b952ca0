"""A frame of any size on a network's input, and masks from there back onto the frame.

The frame keeps its aspect and lies in the upper left corner; the rest is filled with its mean colour, in
which there is nothing to be found, and with missing depth.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from cpor.scene import Observation


@dataclass(frozen=True)
class Letterbox:
    """How a frame lies on the input.

    Attributes:
        frame: Height and width of the frame. [px]
        size: Height and width of the input. [px]
        content: Height and width of the frame on the input. [px]
    """

    frame: tuple[int, int]
    size: tuple[int, int]
    content: tuple[int, int]

    @classmethod
    def fit(cls, frame: tuple[int, int], size: tuple[int, int]) -> "Letterbox":
        """As large as it goes."""
        scale = min(size[0] / frame[0], size[1] / frame[1])
        rows, cols = (max(1, min(s, round(f * scale))) for f, s in zip(frame, size, strict=True))
        return cls(frame, size, (rows, cols))

    def place_rgb(self, rgb: UInt8[np.ndarray, "h w 3"]) -> UInt8[np.ndarray, "H W 3"]:
        """The photograph on the input."""
        rows, cols = self.content
        if self.content != self.frame:
            # A gap of 2 halves the cost of shrinking a 4k frame, and no difference can be seen.
            image = Image.fromarray(np.ascontiguousarray(rgb))
            small = image.resize((cols, rows), Image.Resampling.BILINEAR, reducing_gap=2.0)
            rgb = np.asarray(small)
        if self.content == self.size:
            return np.ascontiguousarray(rgb)
        out = np.empty((*self.size, 3), dtype=np.uint8)
        out[:] = rgb.reshape(-1, 3).mean(axis=0).astype(np.uint8)
        out[:rows, :cols] = rgb
        return out

    def place_depth(self, depth: Float32[np.ndarray, "h w"] | None) -> Float32[np.ndarray, "H W"]:
        """Depth in metres on the input, 0 where there is no reading. A reading is picked, never mixed."""
        out = np.zeros(self.size, dtype=np.float32)
        if depth is not None:
            rows, cols = (
                ((np.arange(c) + 0.5) * (f / c)).astype(np.intp)
                for c, f in zip(self.content, self.frame, strict=True)
            )
            picked = depth[np.ix_(rows, cols)] if self.content != self.frame else depth
            out[: rows.size, : cols.size] = np.nan_to_num(picked, nan=0.0)
        return out

    def place(
        self, observation: Observation
    ) -> tuple[UInt8[np.ndarray, "H W 3"], Float32[np.ndarray, "H W"]]:
        """Photograph and depth on the input."""
        return self.place_rgb(observation.rgb), self.place_depth(observation.depth)

    def coarse_content(self, coarse: tuple[int, int]) -> tuple[int, int]:
        """How many rows and columns of a coarse map of the input show the frame."""
        rows, cols = (min(k, -(-c * k // s)) for c, k, s in zip(self.content, coarse, self.size, strict=True))
        return rows, cols

    def spread(
        self, coarse: Float32[np.ndarray, "h w"], at_least: float
    ) -> tuple[int, int, Float32[np.ndarray, "rows cols"]] | None:
        """A coarse map brought to the size of the frame, inside the box where it may reach a value.

        Args:
            coarse: A map of the whole input. Shape (h, w).
            at_least: The value; None comes back where the map stays below it.

        Returns:
            First row and column of the box, and the values in it.
        """
        above = coarse >= at_least
        rows, cols = np.flatnonzero(above.any(axis=1)), np.flatnonzero(above.any(axis=0))
        if rows.size == 0:
            return None
        # Coarse cells a frame pixel; a cell more on each side, because interpolation reaches that far.
        steps = [
            c / f * k / s
            for c, f, k, s in zip(self.content, self.frame, coarse.shape, self.size, strict=True)
        ]
        spans = []
        for cells, step, most in zip((rows, cols), steps, self.frame, strict=True):
            low = max(0, int((cells[0] - 1) / step))
            high = min(most, int((cells[-1] + 2) / step) + 1)
            if low >= high:  # all of it lies on the filling
                return None
            spans.append((low, high))
        (top, bottom), (left, right) = spans
        limits = coarse.shape[1], coarse.shape[0], coarse.shape[1], coarse.shape[0]
        box = (left * steps[1], top * steps[0], right * steps[1], bottom * steps[0])
        inside = tuple(min(max(0.0, v), m) for v, m in zip(box, limits, strict=True))
        values = Image.fromarray(coarse).resize(
            (right - left, bottom - top), Image.Resampling.BILINEAR, box=inside
        )
        return top, left, np.asarray(values)
