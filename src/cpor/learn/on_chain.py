"""Probabilities for one target only, in a type that keeps them with it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.errors import CporError
from cpor.relations import Label, ObstructionPosterior


class WrongTargetError(CporError, ValueError):
    """Probabilities learnt for one target were asked for on behalf of another."""


@dataclass(frozen=True, eq=False)
class OnChainProbabilities:
    """For each candidate pair the probability that it lies on this target's true removal paths.

    That is less than "blocker obstructs blocked": a true relation off the target's chain counts as
    none. So the numbers mean nothing for another target, nor for the scene after something was moved.
    They are no array on purpose: naming the target is the only way to them.

    Attributes:
        target: The one target they hold for.
        blocked: The object each pair is about. n labels.
        blocker: The object that may obstruct it. n labels.
    """

    target: Label
    blocked: tuple[Label, ...]
    blocker: tuple[Label, ...]
    _p_on_chain: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        self._p_on_chain.flags.writeable = False

    def __len__(self) -> int:
        return len(self.blocked)

    def p_on_chain(self, target: Label) -> Float[np.ndarray, " n"]:
        """The probabilities, NaN = no answer; any target but theirs is an error. Shape (n,), read-only."""
        if target != self.target:
            raise WrongTargetError(
                f"these probabilities say what lies on the chain of {self.target!r}; for {target!r} "
                "compute the graph features anew and apply the calibrator to those"
            )
        return self._p_on_chain

    def posterior(self, objects: Iterable[Label]) -> ObstructionPosterior:
        """What inference starts from, for this target.

        Args:
            objects: The labels of all objects in the scene, those of every pair among them.
        """
        pairs = zip(self.blocked, self.blocker, strict=True)
        answers = [None if np.isnan(p) else float(p) for p in self._p_on_chain]
        return ObstructionPosterior(objects, self.target, dict(zip(pairs, answers, strict=True)))
