"""Frames as one moving picture that every browser shows."""

import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cpor.errors import InvalidSettingError

MOST_FRAMES = 240
"""More frames are thinned out evenly: the page must stay small enough to be mailed."""


def animate(
    frames: Sequence[UInt8[np.ndarray, "h w 3"]], frame_s: float = 0.08, most: int = MOST_FRAMES
) -> bytes:
    """An animated WebP image, repeated for ever, the last frame held.

    Args:
        frames: Pictures of one size. Each of shape (h, w, 3).
        frame_s: Time a frame is shown, were none left out. [s]
        most: At most this many frames are kept, evenly; the first and the last always.
    """
    if not frames:
        raise InvalidSettingError("there are no frames to animate; record some first")
    chosen = np.unique(np.linspace(0, len(frames) - 1, min(most, len(frames))).round().astype(int))
    # Thinning out makes each frame stand for several: it is shown the longer.
    step_ms = 1e3 * frame_s * min(3.0, len(frames) / len(chosen))
    pictures = [Image.fromarray(frames[k]) for k in chosen]
    times = [round(step_ms)] * (len(pictures) - 1) + [1500]
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
