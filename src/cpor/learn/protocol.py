"""What every calibrator is: fitted to labelled pairs, applied to scores, kept as JSON."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped


@runtime_checkable
class Calibrator(Protocol):
    """Turns raw scores of pairs into probabilities.

    One call pattern for all: pass what you have; a calibrator ignores what it does not look at and says
    so when something it needs is missing. A NaN score, which means no answer, stays NaN.
    """

    @property
    def monotone(self) -> bool:
        """Whether, all else equal, a higher score never gets a lower probability."""
        ...

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
    ) -> "Calibrator":
        """Fit to labelled pairs of many scenes.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
        """
        ...

    def apply(
        self,
        score: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Probabilities for raw scores.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
        """
        ...

    def to_json(self) -> str:
        """The calibrator as JSON."""
        ...

    def save(self, path: str | Path) -> None:
        """Write the calibrator to a file."""
        ...

    @classmethod
    def load(cls, path: str | Path) -> "Calibrator":
        """Read what `save` wrote."""
        ...
