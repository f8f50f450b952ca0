"""Scene-and-graph-conditioned Platt scaling (ours): eq. calibration, seeing the candidate graph as well."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped
from pydantic import NonNegativeFloat, PositiveFloat, model_validator

from cpor.calibration.conditioned import conditioned_platt, fit_conditioned_platt
from cpor.calibration.cross_validation import (
    N_FOLDS,
    PENALTY_GRID,
    PenaltyCurve,
    Predict,
    fold_of,
    penalty_curve,
)
from cpor.calibration.graph_features import CONDITIONS, GraphFeatures, condition_matrix
from cpor.calibration.on_chain import OnChainProbabilities
from cpor.calibration.pairs import (
    CalibrationInputError,
    answered_pairs,
    check_labels,
    check_scores,
    clipped_logit,
    clipped_sigmoid,
)
from cpor.calibration.versioned import VersionedModel
from cpor.relations import Label

DEFAULT_PENALTY = 0.001
"""Least held-out NLL on the synthetic UNOBench scores among the penalties above 0; see `penalty_curve`."""

BASE_PENALTY = 1e-3
"""At most this on slope and bias themselves: without, scores that tell the labels apart have no best fit."""

MISSING_GRAPH = "graph-conditioned calibration needs `graph`: what `graph_features` says of the same pairs"


class GraphPlattCalibrator(VersionedModel):
    """Platt scaling whose slope and bias depend on the scene and on the pair's place in its graph.

    p = sigmoid(a logit(score) + c), a = exp[clip(alpha_0 + alpha . psi, -5, 5)], c = c_0 + c . psi with
    psi the standardised columns `CONDITIONS`. A condition that is not known counts as average. The label it
    learns is "lies on this target's true paths", so what it gives is `OnChainProbabilities`.

    It is not monotone: the rank of a blocker among its rivals moves with the score.

    Attributes:
        theta: (alpha_0, alpha, c_0, c), 2 k + 2 numbers.
        mean: Mean of each condition over the pairs fitted to, k numbers.
        scale: Population standard deviation of each, k numbers; 1 where it does not vary.
        penalty: lambda, on alpha and c.
        objective: Value of eq. cal-loss at the fit.
    """

    monotone: ClassVar[bool] = False

    kind: Literal["graph-platt"] = "graph-platt"
    version: Literal[1] = 1
    theta: tuple[float, ...]
    mean: tuple[float, ...]
    scale: tuple[PositiveFloat, ...]
    penalty: NonNegativeFloat
    objective: float

    @model_validator(mode="after")
    def _check_lengths(self) -> "GraphPlattCalibrator":
        k = len(CONDITIONS)
        if (len(self.theta), len(self.mean), len(self.scale)) != (2 * k + 2, k, k):
            raise ValueError(f"theta, mean and scale must hold {2 * k + 2}, {k} and {k} numbers")
        return self

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        n_candidates: object = None,
        graph: Sequence[GraphFeatures] | None = None,
        penalty: float = DEFAULT_PENALTY,
    ) -> "GraphPlattCalibrator":
        """Minimise eq. cal-loss over all conditions; see `Calibrator.fit`.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: Whether the pair lies on its target's true paths; 0 / 1 or bool. Shape (n,).
            n_candidates: Not looked at: the graph knows.
            graph: What the candidate graphs say, one a case, in the order of the scores.
            penalty: lambda; see `penalty_curve`.
        """
        condition = _stack(graph, check_scores(score))
        return cls._fit_rows(np.asarray(score), np.asarray(label), condition, penalty)

    @classmethod
    def _fit_rows(
        cls,
        score: Float[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        condition: Float[np.ndarray, "n k"],
        penalty: float,
    ) -> "GraphPlattCalibrator":
        answered, values, truth = answered_pairs(score, label)
        condition = condition[answered]
        known = ~np.isnan(condition)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, condition, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(known, condition - mean, 0.0) ** 2).sum(axis=0) / count)
        # What never varies teaches nothing; 1 keeps it at 0 and the division defined.
        scale = np.where(spread > 1e-12, spread, 1.0)
        standard = np.where(known, (condition - mean) / scale, 0.0)
        theta, objective = fit_conditioned_platt(
            clipped_logit(values), standard, truth, penalty, min(penalty, BASE_PENALTY)
        )
        return cls(
            theta=tuple(theta.tolist()),
            mean=tuple(mean.tolist()),
            scale=tuple(scale.tolist()),
            penalty=penalty,
            objective=objective,
        )

    def apply(
        self,
        score: Shaped[np.ndarray, " n"],
        *,
        n_candidates: object = None,
        graph: GraphFeatures | None = None,
    ) -> OnChainProbabilities:
        """Probabilities that each pair of one scene lies on the target's paths; see `Calibrator.apply`."""
        if graph is None:
            raise CalibrationInputError(MISSING_GRAPH)
        values = check_scores(score)
        condition = _stack([graph], values)
        return OnChainProbabilities(
            graph.target, graph.blocked, graph.blocker, self._apply_rows(values, condition)
        )

    def _apply_rows(
        self, score: Float[np.ndarray, " n"], condition: Float[np.ndarray, "n k"]
    ) -> Float[np.ndarray, " n"]:
        standard = (condition - np.array(self.mean)) / np.array(self.scale)
        standard = np.where(np.isnan(standard), 0.0, standard)
        logit_p = conditioned_platt(np.array(self.theta), clipped_logit(score), standard)
        return clipped_sigmoid(logit_p)

    @classmethod
    def penalty_curve(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        group: Shaped[np.ndarray, " n"],
        *,
        graph: Sequence[GraphFeatures],
        grid: Sequence[float] = PENALTY_GRID,
        n_folds: int = N_FOLDS,
        rng: np.random.Generator | None = None,
    ) -> PenaltyCurve:
        """Choose lambda by cross-validation over images.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            group: Which image each pair belongs to. Shape (n,).
            graph: What the candidate graphs say, one a case, in the order of the scores.
            grid: Penalties to try.
            n_folds: Number of folds.
            rng: Shuffles the images before they are dealt out to folds.
        """
        values, truth = check_scores(score), np.asarray(label)
        condition = _stack(graph, values)

        def predict_with(penalty: float) -> Predict:
            def predict(
                fitted: Bool[np.ndarray, " n"], held_out: Bool[np.ndarray, " n"]
            ) -> Float[np.ndarray, " m"]:
                fit = cls._fit_rows(values[fitted], truth[fitted], condition[fitted], penalty)
                return fit._apply_rows(values[held_out], condition[held_out])

            return predict

        return penalty_curve(predict_with, truth, group, grid, n_folds, rng)


def cross_fit_on_chain(
    graph: Sequence[GraphFeatures],
    label: Sequence[Shaped[np.ndarray, " _"]],
    group: Sequence[Label],
    penalty: float = DEFAULT_PENALTY,
    n_folds: int = N_FOLDS,
    rng: np.random.Generator | None = None,
) -> list[OnChainProbabilities]:
    """Apply to every case a fit that has not seen its image.

    Args:
        graph: What the candidate graphs say, one a case.
        label: The labels of each case's pairs, one array a case.
        group: The image of each case.
        penalty: lambda.
        n_folds: Number of folds.
        rng: Shuffles the images before they are dealt out to folds.
    """
    if not len(graph) == len(label) == len(group):
        raise CalibrationInputError(f"{len(graph)} graphs, {len(label)} label lists, {len(group)} images")
    fold = fold_of(np.asarray(group), n_folds, rng)
    fits = []
    for k in range(n_folds):
        rows = np.flatnonzero(fold != k).tolist()
        score = np.concatenate([graph[row].score for row in rows])
        truth = np.concatenate([check_labels(label[row], len(graph[row])) for row in rows])
        fits.append(
            GraphPlattCalibrator.fit(score, truth, graph=[graph[row] for row in rows], penalty=penalty)
        )
    return [fits[k].apply(each.score, graph=each) for k, each in zip(fold, graph, strict=True)]


def _stack(graph: Sequence[GraphFeatures] | None, score: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
    """The conditions of all cases, one below the other; they must come from these very scores."""
    if graph is None:
        raise CalibrationInputError(MISSING_GRAPH)
    own = np.concatenate([each.score for each in graph]) if graph else np.empty(0)
    if not np.array_equal(own, score, equal_nan=True):
        raise CalibrationInputError("the graph features were computed from other scores than those given")
    if not graph:
        return np.empty((0, len(CONDITIONS)))
    return np.concatenate([condition_matrix(each) for each in graph])
