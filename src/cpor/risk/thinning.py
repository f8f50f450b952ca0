"""One case an image: cases that share an image are not independent."""

import numpy as np
from jaxtyping import Int, Shaped


def one_case_per_image(image: Shaped[np.ndarray, " n"], rng: np.random.Generator) -> Int[np.ndarray, " m"]:
    """Keep one case of each image, drawn at random.

    Args:
        image: Which image each case belongs to. Shape (n,).
        rng: Draws the case to keep.

    Returns:
        Positions of the cases kept, increasing. Shape (m,), m = number of images.
    """
    images = np.asarray(image)
    shuffled = rng.permutation(images.size)
    _, first = np.unique(images[shuffled], return_index=True)
    return np.sort(shuffled[first])
