"""One logistic calibrator (eq. calibration, cal-loss): slope and bias, alone or conditioned.

    p = sigmoid(a logit(score) + c),   a = exp[clip(alpha_0 + alpha . psi, -5, 5)],   c = c_0 + c . psi

`score`: no condition; Platt scaling, and with c = 0 temperature scaling, T = 1 / a.
`scene`: psi = log(1 + N), N the number of scored pairs of the scene; the paper's.
`graph`: psi = `CONDITIONS`, the scene and the pair's place in the candidate graph of one target (ours).

Conditions are standardised; one that is not known counts as average.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Shaped
from pydantic import NonNegativeFloat, PositiveFloat, model_validator

from cpor.errors import FittingError
from cpor.learn.conditioned import LOG_SLOPE_LIMIT, conditioned_platt, fit_conditioned_platt
from cpor.learn.cross_validation import (
    N_FOLDS,
    PENALTY_GRID,
    PenaltyCurve,
    Predict,
    fold_of,
    penalty_curve,
)
from cpor.learn.graph_features import CONDITIONS, GraphFeatures, condition_matrix
from cpor.learn.isotonic import IsotonicCalibrator
from cpor.learn.pairs import (
    answered_pairs,
    check_candidates,
    check_labels,
    check_scores,
    clipped_logit,
    clipped_sigmoid,
)
from cpor.learn.versioned import VersionedModel
from cpor.relations import Label, ObstructionPosterior


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
            raise FittingError(
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


Sees: TypeAlias = Literal["score", "scene", "graph"]
"""What a logistic calibrator is conditioned on."""

N_CONDITIONS: dict[Sees, int] = {"score": 0, "scene": 1, "graph": len(CONDITIONS)}

CHAIN_PENALTY = 0.001
"""For `graph`: least held-out NLL on the synthetic UNOBench scores among the penalties above 0."""

BASE_PENALTY = 1e-3
"""Penalty on slope and bias. Without it, scores that tell the labels apart completely have no best fit."""


class LogisticCalibrator(VersionedModel):
    """Slope and bias on the log-odds of a score.

    With `graph`, the label it learns is "lies on this target's true paths", so what it gives is
    `OnChainProbabilities`. That one is not monotone: the rank of a blocker among its rivals moves with the
    score. For the others a > 0 keeps the order of the scores of a scene.

    Attributes:
        sees: What it is conditioned on, k conditions.
        theta: (alpha_0, alpha, c_0, c), 2 k + 2 numbers.
        mean: Mean of each condition over the pairs fitted to, k numbers.
        scale: Population standard deviation of each, k numbers; 1 where it does not vary.
        penalty: lambda_cal, on alpha and c.
        objective: Value of eq. cal-loss at the fit; None where it was not fitted.
    """

    kind: Literal["logistic"] = "logistic"
    version: Literal[1] = 1
    sees: Sees = "score"
    theta: tuple[float, ...]
    mean: tuple[float, ...] = ()
    scale: tuple[PositiveFloat, ...] = ()
    penalty: NonNegativeFloat = 0.0
    objective: float | None = None

    @model_validator(mode="after")
    def _check_lengths(self) -> "LogisticCalibrator":
        k = N_CONDITIONS[self.sees]
        if (len(self.theta), len(self.mean), len(self.scale)) != (2 * k + 2, k, k):
            raise ValueError(f"theta, mean and scale must hold {2 * k + 2}, {k} and {k} numbers")
        return self

    @property
    def monotone(self) -> bool:
        """Whether a higher score of the same scene never gets a lower probability."""
        return self.sees != "graph"

    @property
    def slope(self) -> float:
        """The slope a where all conditions are average."""
        return float(np.exp(np.clip(self.theta[0], -LOG_SLOPE_LIMIT, LOG_SLOPE_LIMIT)))

    @property
    def bias(self) -> float:
        """The bias c where all conditions are average."""
        return self.theta[len(self.theta) // 2]

    @classmethod
    def fit(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        *,
        sees: Sees = "score",
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        graph: Sequence[GraphFeatures] | None = None,
        penalty: float = 0.0,
        base_penalty: float | None = None,
        with_bias: bool = True,
    ) -> "LogisticCalibrator":
        """Minimise eq. cal-loss over labelled pairs of many scenes.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool; with `graph` whether the pair lies on its target's true paths. Shape (n,).
            sees: What to condition on.
            n_candidates: For `scene`: number of scored pairs in each pair's scene. Shape (n,).
            graph: For `graph`: what the candidate graphs say, one a case, in the order of the scores.
            penalty: lambda_cal, on alpha and c; see `penalty_curve`.
            base_penalty: The same on alpha_0 and c_0. None: 0, as in the paper; for `graph` at most
                `BASE_PENALTY`.
            with_bias: False: no bias, that is temperature scaling.
        """
        condition = _conditions(sees, check_scores(score), n_candidates, graph)
        return cls._fit_rows(sees, score, label, condition, penalty, base_penalty, with_bias)

    @classmethod
    def _fit_rows(
        cls,
        sees: Sees,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        condition: Float[np.ndarray, "n k"],
        penalty: float,
        base_penalty: float | None = None,
        with_bias: bool = True,
    ) -> "LogisticCalibrator":
        answered, values, truth = answered_pairs(score, label)
        condition = condition[answered]
        known = ~np.isnan(condition)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, condition, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(known, condition - mean, 0.0) ** 2).sum(axis=0) / count)
        # What never varies teaches nothing; 1 keeps it at 0 and the division defined.
        scale = np.where(spread > 1e-12, spread, 1.0)
        standard = np.where(known, (condition - mean) / scale, 0.0)
        if base_penalty is None:
            base_penalty = min(penalty, BASE_PENALTY) if sees == "graph" else 0.0
        theta, objective = fit_conditioned_platt(
            clipped_logit(values), standard, truth, penalty, base_penalty, with_bias
        )
        return cls(
            sees=sees,
            theta=tuple(theta.tolist()),
            mean=tuple(mean.tolist()),
            scale=tuple(scale.tolist()),
            penalty=penalty,
            objective=objective,
        )

    def apply(
        self, score: Shaped[np.ndarray, " n"], *, n_candidates: Shaped[np.ndarray, " n"] | None = None
    ) -> Float[np.ndarray, " n"]:
        """Probabilities for raw scores; NaN, no answer, stays NaN. Shape (n,).

        Args:
            score: In [0, 1]. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene; needed where it sees that. Shape (n,).
        """
        if self.sees == "graph":
            raise FittingError("a graph-conditioned calibrator holds for one target; use `on_chain`")
        values = check_scores(score)
        return self._apply_rows(values, _conditions(self.sees, values, n_candidates, None))

    def on_chain(self, graph: GraphFeatures) -> OnChainProbabilities:
        """Probabilities that each pair of one scene lies on the target's paths; for `graph` only."""
        if self.sees != "graph":
            raise FittingError("this calibrator does not see the graph; use `apply`")
        p = self._apply_rows(graph.score, condition_matrix(graph))
        return OnChainProbabilities(graph.target, graph.blocked, graph.blocker, p)

    def _apply_rows(
        self, score: Float[np.ndarray, " n"], condition: Float[np.ndarray, "n k"]
    ) -> Float[np.ndarray, " n"]:
        standard = (condition - np.array(self.mean)) / np.array(self.scale)
        standard = np.where(np.isnan(standard), 0.0, standard)
        return clipped_sigmoid(conditioned_platt(np.array(self.theta), clipped_logit(score), standard))

    @classmethod
    def penalty_curve(
        cls,
        score: Shaped[np.ndarray, " n"],
        label: Shaped[np.ndarray, " n"],
        group: Shaped[np.ndarray, " n"],
        *,
        n_candidates: Shaped[np.ndarray, " n"] | None = None,
        graph: Sequence[GraphFeatures] | None = None,
        grid: Sequence[float] = PENALTY_GRID,
        n_folds: int = N_FOLDS,
        rng: np.random.Generator | None = None,
    ) -> PenaltyCurve:
        """Choose lambda_cal by cross-validation over images; for `graph` where graphs are given.

        Args:
            score: In [0, 1], NaN = no answer. Shape (n,).
            label: 0 / 1 or bool. Shape (n,).
            group: Which image each pair belongs to. Shape (n,).
            n_candidates: Number of scored pairs in each pair's scene. Shape (n,).
            graph: What the candidate graphs say, one a case, in the order of the scores.
            grid: Penalties to try.
            n_folds: Number of folds.
            rng: Shuffles the images before they are dealt out to folds.
        """
        sees: Sees = "scene" if graph is None else "graph"
        values, truth = check_scores(score), np.asarray(label)
        condition = _conditions(sees, values, n_candidates, graph)

        def predict_with(penalty: float) -> Predict:
            def predict(
                fitted: Bool[np.ndarray, " n"], held_out: Bool[np.ndarray, " n"]
            ) -> Float[np.ndarray, " m"]:
                fit = cls._fit_rows(sees, values[fitted], truth[fitted], condition[fitted], penalty)
                return fit._apply_rows(values[held_out], condition[held_out])

            return predict

        return penalty_curve(predict_with, truth, group, grid, n_folds, rng)


Calibrator: TypeAlias = LogisticCalibrator | IsotonicCalibrator
"""Turns raw scores of pairs into probabilities. It ignores what it does not look at."""


def cross_fit_on_chain(
    graph: Sequence[GraphFeatures],
    label: Sequence[Shaped[np.ndarray, " _"]],
    group: Sequence[Label],
    penalty: float = CHAIN_PENALTY,
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
        raise FittingError(f"{len(graph)} graphs, {len(label)} label lists, {len(group)} images")
    fold = fold_of(np.asarray(group), n_folds, rng)
    fits = []
    for k in range(n_folds):
        seen = [row for row in range(len(graph)) if fold[row] != k]
        score = np.concatenate([graph[row].score for row in seen])
        truth = np.concatenate([check_labels(label[row], len(graph[row])) for row in seen])
        given = [graph[row] for row in seen]
        fits.append(LogisticCalibrator.fit(score, truth, sees="graph", graph=given, penalty=penalty))
    return [fits[k].on_chain(each) for k, each in zip(fold, graph, strict=True)]


def _conditions(
    sees: Sees,
    score: Float[np.ndarray, " n"],
    n_candidates: Shaped[np.ndarray, " n"] | None,
    graph: Sequence[GraphFeatures] | None,
) -> Float[np.ndarray, "n k"]:
    """The conditions of all pairs; graphs must come from these very scores."""
    if sees == "score":
        return np.empty((score.size, 0))
    if sees == "scene":
        return np.asarray(np.log1p(check_candidates(n_candidates, score.size))[:, None])
    if graph is None:
        raise FittingError(
            "graph-conditioned calibration needs `graph`: what `graph_features` says of the same pairs"
        )
    own = np.concatenate([each.score for each in graph]) if graph else np.empty(0)
    if not np.array_equal(own, score, equal_nan=True):
        raise FittingError("the graph features were computed from other scores than those given")
    if not graph:
        return np.empty((0, len(CONDITIONS)))
    return np.concatenate([condition_matrix(each) for each in graph])
