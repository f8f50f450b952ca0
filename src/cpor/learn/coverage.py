"""Candidates with coverage: how near a pair must be to count, so that few scenes lack a true relation.

With M_s the least nearness over the true relations of scene s that are no candidates by themselves, and
lambda the floor(alpha (n + 1))-th smallest of n of them, a new exchangeable scene has M >= lambda with
probability 1 - alpha at least (split conformal prediction). What still lacks is charged as an unseen blocker
is: each score times 1 - leak.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field

from cpor.errors import FittingError
from cpor.learn.versioned import VersionedModel


class CoverageCase(NamedTuple):
    """One labelled scene: nearness, true relations, and what is a candidate by itself. Shape (n, n) each."""

    nearness: Float[np.ndarray, "n n"]
    label: Bool[np.ndarray, "n n"]
    is_candidate: Bool[np.ndarray, "n n"]

    @property
    def farthest(self) -> float:
        """Least nearness over the true relations that are no candidates by themselves; inf: no such one."""
        return float(self.nearness[self.label & ~self.is_candidate].min(initial=np.inf))


class CandidateCoverage(VersionedModel):
    """Which pairs count as candidates beside those that geometry or a scorer links.

    Attributes:
        least: lambda: a pair at least this near is a candidate; None: every pair is.
        alpha: Share of the scenes that may lack a true relation among their candidates.
        n: Scenes it was fitted to.
        p_added: How often a pair that counts for its nearness alone truly obstructs.
        leak: How often an object has a true blocker that is no candidate even so.
    """

    kind: Literal["candidate-coverage"] = "candidate-coverage"
    version: Literal[1] = 1
    least: float | None
    alpha: float = Field(gt=0.0, lt=1.0)
    n: int = Field(ge=1)
    p_added: float = Field(gt=0.0, lt=1.0)
    leak: float = Field(gt=0.0, lt=1.0)

    @classmethod
    def fit(cls, cases: Sequence[CoverageCase], alpha: float) -> "CandidateCoverage":
        """Fit to scenes of which no two show one picture; rates have half a count each way."""
        if not cases:
            raise FittingError("there are no scenes to learn from")
        farthest = np.sort([case.farthest for case in cases])
        rank = int(alpha * (len(cases) + 1) + 1e-9)
        least = None if rank == 0 else min(float(farthest[rank - 1]), 0.0)
        fitted = cls(least=least, alpha=alpha, n=len(cases), p_added=0.5, leak=0.5)
        added = [fitted.added(case.nearness, case.is_candidate) for case in cases]
        labels = np.concatenate([case.label[new] for case, new in zip(cases, added, strict=True)])
        lacks = [
            (case.label & ~case.is_candidate & ~new).any(axis=1)
            for case, new in zip(cases, added, strict=True)
        ]
        missing = np.concatenate(lacks)
        p_added, leak = ((each.sum() + 0.5) / (each.size + 1.0) for each in (labels, missing))
        return fitted.model_copy(update={"p_added": float(p_added), "leak": float(leak)})

    def added(
        self, nearness: Float[np.ndarray, "n n"], is_candidate: Bool[np.ndarray, "n n"]
    ) -> Bool[np.ndarray, "n n"]:
        """The pairs that are candidates for their nearness alone."""
        near = ~np.eye(len(nearness), dtype=np.bool_) & ~is_candidate
        return near if self.least is None else np.asarray(near & (nearness >= self.least))

    def apply(
        self,
        p: Float[np.ndarray, "n n"],
        p_unseen: Float[np.ndarray, " n"],
        nearness: Float[np.ndarray, "n n"],
    ) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
        """The probabilities of pairs and of unseen blockers with candidates added and the leak charged."""
        widened = np.where(self.added(nearness, p != 0.0), self.p_added, p)  # NaN is not 0
        return widened, 1.0 - (1.0 - p_unseen) * (1.0 - self.leak)
