"""The benchmark's cases with the posterior that a score log gives each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from cpor.data.unobench import BenchmarkFileError, Case, FusedScores, read_fused_scores, read_truth
from cpor.fusion import shift_for_decoding
from cpor.relations import ObstructionPosterior

NO_SHIFT = 0.5
"""An edge prior of one half leaves every probability as it is."""


@dataclass(frozen=True, eq=False)
class ScoredCase:
    """One case and what a score log says of it.

    Attributes:
        case: Target and truth.
        posterior: Objects in any candidate relation and the target; None where no relation is a
            candidate: the log says nothing of this case.
    """

    case: Case
    posterior: ObstructionPosterior | None


def score_cases(cases: Sequence[Case], scores: FusedScores, shift: float = NO_SHIFT) -> list[ScoredCase]:
    """Give each case its posterior: self-loops dropped, the larger of duplicates kept, then shifted once.

    Args:
        cases: The truth, in order.
        scores: The log.
        shift: Edge prior to take out, p' = sigmoid(logit p - logit shift); 0.5 changes nothing.
    """
    relations = scores.by_case()
    unknown = [k for k in relations if k >= len(cases)]
    if unknown:
        raise BenchmarkFileError(
            f"the scores speak of case {min(unknown)}, the truth has cases 0 to {len(cases) - 1}; "
            "do the files belong together?"
        )
    scored = []
    for case in cases:
        pairs = relations.get(case.index)
        if not pairs:
            scored.append(ScoredCase(case, None))
            continue
        objects = sorted({case.target, *(o for pair in pairs for o in pair)})
        posterior = ObstructionPosterior.from_relations(
            objects, case.target, [(*pair, p) for pair, p in pairs.items()]
        )
        scored.append(ScoredCase(case, posterior.replace_p(_shift(posterior.p_obstructs, shift))))
    return scored


def image_of(cases: Sequence[Case]) -> np.ndarray:
    """Image of each case, the group of every split and bootstrap. Shape (n,)."""
    return np.array([case.image_id for case in cases])


def read_scored(scores_file: str | Path, truth_file: str | Path, shift: float) -> list[ScoredCase]:
    """Read a score log and the truth, and give each case its posterior."""
    cases = read_truth(truth_file)
    return score_cases(cases, read_fused_scores(scores_file, len(cases)), shift)


def _shift(p: Float[np.ndarray, "n n"], rate: float) -> Float[np.ndarray, "n n"]:
    return shift_for_decoding(p.ravel(), rate).reshape(p.shape)
