"""Random scenes for the tests."""

import numpy as np
from hypothesis import strategies as st

from cpor import ObstructionPosterior


def random_matrix(
    rng: np.random.Generator, n: int, density: float, low: float = 0.02, high: float = 0.98
) -> np.ndarray:
    """Probabilities uniform in [low, high] on a random share `density` of the ordered pairs."""
    p = rng.uniform(low, high, (n, n)) * (rng.random((n, n)) < density)
    np.fill_diagonal(p, 0.0)
    return p


def random_scene(
    rng: np.random.Generator, most_objects: int = 6, most_edges: int = 14
) -> ObstructionPosterior:
    """A scene of 1 to `most_objects` objects, sparse or dense, now and then with extreme probabilities."""
    n = int(rng.integers(1, most_objects + 1))
    p = random_matrix(rng, n, float(rng.uniform(0.1, 1.0)))
    if rng.random() < 0.2:
        p = np.where(p > 0.5, 1.0 - (1.0 - p) ** 8, p**8)
    filled = np.argwhere(p > 0.0)
    for i, j in rng.permutation(filled)[most_edges:]:
        p[i, j] = 0.0
    return ObstructionPosterior(range(n), int(rng.integers(n)), p)


def nearest_matrix(rng: np.random.Generator, n: int, neighbours: int = 3) -> np.ndarray:
    """Points in the unit square; each object's nearest neighbours are its candidate blockers."""
    points = rng.random((n, 2))
    distance = np.linalg.norm(points[:, None] - points[None, :], axis=-1)
    np.fill_diagonal(distance, np.inf)
    p = np.zeros((n, n))
    for i in range(n):
        p[i, np.argsort(distance[i])[:neighbours]] = rng.uniform(0.05, 0.95, min(neighbours, n - 1))
    return p


PROBABILITY = st.one_of(
    st.just(0.0),
    st.floats(0.0, 1.0, allow_nan=False),
    st.sampled_from([1e-12, 1e-9, 0.25, 0.5, 0.75, 1 - 1e-9, 1.0]),
)


@st.composite
def scenes(draw, most=6, unanswered=False):
    """Scenes of 1 to `most` objects, as hypothesis draws them."""
    n = draw(st.integers(1, most))
    value = st.one_of(PROBABILITY, st.none()) if unanswered else PROBABILITY
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    p = {pair: draw(value) for pair in pairs if draw(st.booleans())}
    return ObstructionPosterior(range(n), draw(st.integers(0, n - 1)), p)
