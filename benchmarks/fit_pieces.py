"""Learn when two masks show one thing, on scenes with their truth (`cpor.words.pieces`).

Run: python benchmarks/fit_pieces.py [--scenes 110] [--intercepts]
"""

import argparse

import numpy as np
from evidence_words import see

from cpor.words.appearance import describe_objects
from cpor.words.pieces import APART, TOUCHING, compare_masks

PENALTY = 1.0
"""Of the square of a weight times the spread of what it weighs."""


def fit(factors: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Weights of a logistic regression with a small penalty, by Newton's method."""
    weights, penalty = np.zeros(factors.shape[1]), PENALTY * factors.var(axis=0)
    for _ in range(60):
        p = 1.0 / (1.0 + np.exp(-factors @ weights))
        bend = (factors * (p * (1.0 - p))[:, None]).T @ factors + np.diag(penalty)
        weights += np.linalg.solve(bend, factors.T @ (same - p) - penalty * weights)
    return weights


def fit_intercept(factors: np.ndarray, same: np.ndarray, kept: tuple[float, ...]) -> np.ndarray:
    """The weights as they are, but for the intercept, which comes first."""
    weights = np.array(kept)
    for _ in range(60):
        p = 1.0 / (1.0 + np.exp(-factors @ weights))
        weights[0] += (same - p).sum() / (p * (1.0 - p)).sum()
    return weights


def main() -> None:
    """Print the weights of both kinds of pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=110)
    parser.add_argument("--intercepts", action="store_true", help="learn how often alone, and keep the rest")
    asked = parser.parse_args()
    kinds: dict[int, list[tuple[tuple[float, ...], bool]]] = {len(TOUCHING): [], len(APART): []}
    for view, seen in see("dev", asked.scenes):
        owners = view.owners(seen)
        for (a, b), (told, _) in compare_masks(seen, describe_objects(seen)).items():
            if owners[a] and owners[b]:  # what is no object is no piece either
                kinds[len(told)].append((told, owners[a] == owners[b]))
    for kept, pairs in zip((TOUCHING, APART), kinds.values(), strict=True):
        factors, same = np.array([f for f, _ in pairs]), np.array([s for _, s in pairs], dtype=float)
        weights = fit_intercept(factors, same, kept) if asked.intercepts else fit(factors, same)
        p = 1.0 / (1.0 + np.exp(-factors @ weights))
        sure = [f"{int(same[p > t].sum())} of {int((p > t).sum())} above {t}" for t in (0.3, 0.5, 0.7)]
        print(
            f"{len(same)} pairs, {int(same.sum())} one thing: {weights.round(1).tolist()}; {', '.join(sure)}"
        )


if __name__ == "__main__":
    main()
