"""Frames as one moving picture that every browser shows."""

import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cpor.errors import InvalidSettingError

FASTEST_S = 0.08
"""Browsers do not show frames of much less than this in time. [s]"""

_LAST_S = 1.5


def playing_speed(frame_s: float, most: float = 8.0) -> float:
    """How many times as fast as it was a film is shown: up to `most`, less where frames would rush by.

    Args:
        frame_s: Time from one frame to the next, when it was taken. [s]
        most: The highest speed.
    """
    return min(most, frame_s / FASTEST_S)


def animate(frames: Sequence[UInt8[np.ndarray, "h w 3"]], frame_s: float = FASTEST_S) -> bytes:
    """An animated WebP image, repeated for ever, the last frame held.

    Args:
        frames: Pictures of one size. Each of shape (h, w, 3).
        frame_s: Time a frame is shown. [s]
    """
    if not frames:
        raise InvalidSettingError("there are no frames to animate; record some first")
    pictures = [Image.fromarray(frame) for frame in frames]
    times = [round(1e3 * frame_s)] * (len(pictures) - 1) + [round(1e3 * _LAST_S)]
    buffer = io.BytesIO()
    pictures[0].save(
        buffer,
        format="WEBP",
        save_all=True,
        append_images=pictures[1:],
        duration=times,
        loop=0,
        quality=70,
        method=2,
    )
    return buffer.getvalue()
