"""The middle of a picture, and how far away it may be on a table-top."""

import numpy as np

TYPICAL_M = 0.75
"""Median distance of the middles of 57 photographs and MetaGraspNet views; they lie 0.50 to 1.27 away. [m]"""

PLAUSIBLE_M = (0.15, 4.0)
"""Nearer than depth cameras measure well, farther than any arm's table. A unit ten times too large or too
small puts the middles of all those frames outside. [m]"""

USUAL_M = (0.25, 2.5)
"""Beyond these a scene is unlike all of them, by a factor of two. [m]"""


def middle_of(picture: np.ndarray) -> np.ndarray:
    """The middle half of each axis, at most about 40,000 pixels of it: what is to be grasped lies there."""
    height, width = picture.shape[:2]
    stride = max(1, round((height * width / 160_000) ** 0.5))
    return picture[height // 4 : height - height // 4 : stride, width // 4 : width - width // 4 : stride]
