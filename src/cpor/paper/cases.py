"""The benchmark's cases with the posterior that a score log gives each, and their scores by three models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from cpor.errors import InputFileError, InvalidSettingError
from cpor.learn.prior import shift_for_decoding
from cpor.paper.decoding import assemble_paper, map_graph, object_ids
from cpor.paper.graph_structure import ExactAnswers, solve_all
from cpor.paper.paired import map_scores, product_scores
from cpor.paper.paths import Prediction
from cpor.paper.unobench import FusedScores, UnobenchCase, read_fused_scores, read_truth
from cpor.relations import ObstructionPosterior

NO_SHIFT = 0.5
"""An edge prior of one half leaves every probability as it is."""


ScoredCase: TypeAlias = tuple[UnobenchCase, ObstructionPosterior | None]
"""A case, and its objects in any candidate relation and the target; None where no relation is a candidate."""


@dataclass(frozen=True, eq=False)
class SolvedCases:
    """Cases with their scores under three models.

    Attributes:
        cases: The cases.
        scenes: Their posteriors.
        exact: Exact inference.
        models: Scores of each case by model: `dag` (exact), `no_dag` (cyclic graphs included) and `map` (the
            likeliest graph alone).
    """

    cases: tuple[UnobenchCase, ...]
    scenes: tuple[ObstructionPosterior, ...]
    exact: ExactAnswers
    models: Mapping[str, tuple[Float[np.ndarray, " n"], ...]]

    def marginals(self, model: str) -> list[dict[int, float]]:
        """Scores by object id, case by case."""
        return [
            dict(zip(object_ids(scene), q.tolist(), strict=True))
            for scene, q in zip(self.scenes, self.models[model], strict=True)
        ]

    def labels(self) -> list[Bool[np.ndarray, " n"]]:
        """Whether it is right to act on each object next, case by case."""
        ids = map(object_ids, self.scenes)
        return [
            np.array([o in case.top_objects for o in each])
            for case, each in zip(self.cases, ids, strict=True)
        ]

    def decode(self, model: str = "dag") -> dict[int, Prediction]:
        """By case: objects by the marginals of a model, relations and paths by the likeliest graph."""
        return {
            case.index: assemble_paper(q, map_graph(scene), case.target)
            for case, scene, q in zip(self.cases, self.scenes, self.marginals(model), strict=True)
        }


def score_cases(
    cases: Sequence[UnobenchCase], scores: FusedScores, shift: float = NO_SHIFT
) -> list[ScoredCase]:
    """Give each case its posterior: self-loops dropped, the larger of duplicates kept, then shifted once.

    Args:
        cases: The truth, in order.
        scores: The log.
        shift: Edge prior to take out, p' = sigmoid(logit p - logit shift); 0.5 changes nothing.
    """
    relations = scores.by_case()
    unknown = [k for k in relations if k >= len(cases)]
    if unknown:
        raise InputFileError(
            f"the scores speak of case {min(unknown)}, the truth has cases 0 to {len(cases) - 1}; "
            "do the files belong together?"
        )
    scored: list[ScoredCase] = []
    for case in cases:
        pairs = relations.get(case.index)
        if not pairs:
            scored.append((case, None))
            continue
        objects = sorted({case.target, *(o for pair in pairs for o in pair)})
        posterior = ObstructionPosterior.from_relations(
            objects, case.target, [(*pair, p) for pair, p in pairs.items()]
        )
        p = posterior.p_obstructs
        shifted = shift_for_decoding(p.ravel(), shift).reshape(p.shape)
        scored.append((case, posterior.replace_p(shifted)))
    return scored


def solve_cases(scored: Sequence[ScoredCase]) -> SolvedCases:
    """Solve every case that has a candidate relation and no missing answer.

    Raises:
        InvalidSettingError: There is none.
    """
    known = [(c, scene) for c, scene in scored if scene is not None and not scene.has_unanswered]
    if not known:
        raise InvalidSettingError(
            "the scores hold no candidate relation of any case; there is nothing to decode"
        )
    scenes = tuple(scene for _, scene in known)
    exact = solve_all(scenes)
    # Where no cycle is possible, conditioning on acyclicity changes nothing.
    product = tuple(
        product_scores(scene) if mu > 0.0 else q
        for scene, mu, q in zip(scenes, exact.mu.tolist(), exact.scores, strict=True)
    )
    models = {"dag": exact.scores, "no_dag": product, "map": tuple(map(map_scores, scenes))}
    return SolvedCases(tuple(c for c, _ in known), scenes, exact, models)


def free_where_unknown(scored: Sequence[ScoredCase]) -> list[ScoredCase]:
    """Read a case without a candidate relation as unobstructed, as the paper's tables do."""
    return [(c, scene or ObstructionPosterior([c.target], c.target, {})) for c, scene in scored]


def image_of(cases: Sequence[UnobenchCase]) -> np.ndarray:
    """Image of each case, the group of every split and bootstrap. Shape (n,)."""
    return np.array([case.image_id for case in cases])


def read_scored(scores_file: str | Path, truth_file: str | Path, shift: float) -> list[ScoredCase]:
    """Read a score log and the truth, and give each case its posterior."""
    cases = read_truth(truth_file)
    return score_cases(cases, read_fused_scores(scores_file, len(cases)), shift)
