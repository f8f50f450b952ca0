"""What every calibrator is: fitted to labelled pairs, applied to scores, kept as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from cpor.calibration.graph_features import GraphFeatures

PT_co = TypeVar("PT_co", covariant=True)
"""What `apply` gives: an array, or, where it holds for one target only, `OnChainProbabilities`."""


@runtime_checkable
class Calibrator(Protocol[PT_co]):
    """Turns raw scores of pairs into probabilities.

    One call pattern for all: pass what you have; a calibrator ignores what it does not look at and says
    so when something it needs is missing. A NaN score, which means no answer, stays NaN.

    Attributes:
        monotone: Whether, all else equal, a higher score never gets a lower probability.
    """

    monotone: ClassVar[bool]

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        graph: Sequence[GraphFeatures] | None = None,
    ) -> "Calibrator[PT_co]":
        """Fit to labelled pairs of many scenes.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
            graph: What the candidate graphs say, one a scene, in the order of the scores.
        """
        ...

    def apply(
        self,
        score: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        graph: GraphFeatures | None = None,
    ) -> PT_co:
        """Probabilities for raw scores.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
            graph: What the candidate graph of the one scene says that the scores belong to.
        """
        ...

    def to_json(self) -> str:
        """The calibrator as JSON."""
        ...

    def save(self, path: str | Path) -> None:
        """Write the calibrator to a file."""
        ...

    @classmethod
    def load(cls, path: str | Path) -> "Calibrator[PT_co]":
        """Read what `save` wrote."""
        ...
