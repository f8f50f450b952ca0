"""Structure of the posterior: conflict mu, numbers of graphs, what Top-K keeps and certifies (Table topk)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cpor.decision import ROUNDING, Action
from cpor.experiments.cases import ScoredCase
from cpor.inference.allowance import Allowance
from cpor.inference.certificate import choose
from cpor.inference.exact import solve_small
from cpor.inference.graphs import log_acyclic_mass
from cpor.inference.local import ZETA, cut_local
from cpor.inference.topk import WORK_LIMIT, GraphSearch, TopKSettings
from cpor.metrics import truncation_tv
from cpor.relations import ObstructionPosterior

FIXED_K = (20, 50, 100)
FORCED = 0.0
"""tau of forced decisions: never defer."""
_LOOSE = 1.0
"""Excess [nats] of a bound over log Z from which epsilon exceeds 1 - 1/e, so that no test ever passes."""


@dataclass(frozen=True, eq=False)
class ExactAnswers:
    """Exact inference on many scenes.

    Attributes:
        scores: q of every object of each scene.
        actions: The forced action of each scene.
        log_z: Log mass of acyclic graphs over all candidate relations. Shape (k,).
        mu: 1 - Z. Shape (k,).
        n_graphs: Number of acyclic graphs. Shape (k,).
    """

    scores: tuple[Float[np.ndarray, " n"], ...]
    actions: tuple[Action | None, ...]
    log_z: Float[np.ndarray, " k"]
    mu: Float[np.ndarray, " k"]
    n_graphs: Float[np.ndarray, " k"]


@dataclass(frozen=True, slots=True)
class TopKFigures:
    """What a truncation keeps, over scenes.

    Attributes:
        tv_mean, tv_max: d_TV from the exact posterior.
        certified: Share of scenes where test (a) or (b) holds with the pair bound; running out of graphs
            is not counted.
        agree: Share of scenes with the exact action.
        k: Mean number of graphs retained.
    """

    tv_mean: float
    tv_max: float
    certified: float
    agree: float
    k: float


def solve_all(scenes: Sequence[ObstructionPosterior]) -> ExactAnswers:
    """Exact scores, forced actions, conflict and number of graphs of each scene."""
    matrices = [scene.p_obstructs for scene in scenes]
    targets = [scene.target_index for scene in scenes]
    batch = solve_small(matrices, targets)
    # With p = 1/2 everywhere, all graphs weigh the same: their number is Z 2^m.
    even = solve_small([np.where(p > 0.0, 0.5, 0.0) for p in matrices], targets)
    edges = np.array([np.count_nonzero(p) for p in matrices], np.float64)
    scores, at = [], 0
    mu, even_mu = batch.mu.copy(), even.mu.copy()
    for k, scene in enumerate(scenes):
        scores.append(batch.scores[at : at + len(scene)])
        at += len(scene)
        if not batch.solved[k] or np.isnan(mu[k]) or np.isnan(even_mu[k]):
            whole = np.arange(len(scene))
            mu[k] = -np.expm1(log_acyclic_mass(cut_local(matrices[k], whole)))
            even_mu[k] = -np.expm1(log_acyclic_mass(cut_local(np.where(matrices[k] > 0, 0.5, 0.0), whole)))
    actions = tuple(choose(s, q.tolist(), FORCED) for s, q in zip(scenes, scores, strict=True))
    n_graphs = np.rint((1.0 - even_mu) * 2.0**edges)
    return ExactAnswers(tuple(scores), actions, np.log1p(-mu), mu, n_graphs)


def measure_fixed_k(scenes: Sequence[ObstructionPosterior], exact: ExactAnswers, k: int) -> TopKFigures:
    """Keep the k likeliest graphs of each scene, whatever they certify."""
    settings = TopKSettings(k_max=k, tolerance=0.0)
    tv, certified, agree, kept = [], [], [], []
    for s, scene in enumerate(scenes):
        # Any upper bound on Z will do; one this loose stops no run before k graphs are kept.
        loose = float(exact.log_z[s]) + _LOOSE
        search = GraphSearch(scene.p_obstructs, ZETA)
        found = search.run(scene.target_index, FORCED, settings, Allowance(WORK_LIMIT), loose)
        log_z_kept = float(np.log1p(-found.epsilon)) + loose
        epsilon = max(0.0, -float(np.expm1(log_z_kept - search.log_pair_bound)))
        tv.append(truncation_tv(log_z_kept, float(exact.log_z[s])))
        certified.append(is_certified(found.scores, epsilon))
        agree.append(choose(scene, found.scores.tolist(), FORCED) == exact.actions[s])
        kept.append(found.k)
    return _figures(tv, certified, agree, kept)


def measure_adaptive(scenes: Sequence[ObstructionPosterior], exact: ExactAnswers) -> TopKFigures:
    """Algorithm 1 with the paper's settings, K_max 256 and eps_tol 0.05."""
    tv, certified, agree, kept = [], [], [], []
    for s, scene in enumerate(scenes):
        search = GraphSearch(scene.p_obstructs, ZETA)
        found = search.run(scene.target_index, FORCED, TopKSettings(), Allowance(WORK_LIMIT))
        log_z_kept = search.log_pair_bound + float(np.log1p(-min(found.epsilon, 1.0)))
        tv.append(0.0 if found.kind == "exact" else truncation_tv(log_z_kept, float(exact.log_z[s])))
        passed = found.kind in ("action", "defer")
        certified.append(passed or is_certified(found.scores, found.epsilon))
        agree.append(choose(scene, found.scores.tolist(), FORCED) == exact.actions[s])
        kept.append(found.k)
    return _figures(tv, certified, agree, kept)


def is_certified(scores: Float[np.ndarray, " n"], epsilon: float, tau: float = FORCED) -> bool:
    """Tests (a) and (b) of the corollary.

    Args:
        scores: Scores under the retained graphs. Shape (n,).
        epsilon: No score is further than this from its exact value.
        tau: Threshold of the policy.
    """
    ranked = np.sort(scores)[::-1]
    second = ranked[1] if len(ranked) > 1 else -np.inf
    acts = ranked[0] - epsilon > tau + ROUNDING and ranked[0] - second > 2.0 * epsilon + ROUNDING
    return bool(acts or ranked[0] + epsilon <= tau)


def mu_by_tier(
    cases: Sequence[ScoredCase], mu: Mapping[int, float], tiers: Sequence[str]
) -> tuple[dict[str, int], dict[str, float]]:
    """Scenes with mu > 0 and mean mu over all cases of a tier; a case without candidate has mu 0."""
    values = {tier: [mu.get(c.case.index, 0.0) for c in cases if c.case.difficulty == tier] for tier in tiers}
    positive = {tier: int(np.count_nonzero(np.array(found) > 0.0)) for tier, found in values.items()}
    return positive, {tier: float(np.mean(found)) if found else 0.0 for tier, found in values.items()}


def _figures(tv: list[float], certified: list[bool], agree: list[bool], kept: list[int]) -> TopKFigures:
    return TopKFigures(
        float(np.mean(tv)),
        float(np.max(tv)),
        float(np.mean(certified)),
        float(np.mean(agree)),
        float(np.mean(kept)),
    )
