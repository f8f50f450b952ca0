"""Which questions are answered at once, and which go to a worker because they may take long."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from cpor.infer.explain import NO_ANSWER
from cpor.infer.local import cyclic_parts
from cpor.infer.plan import plan
from cpor.infer.warm_up import warm_up
from cpor.relations import ObstructionPosterior
from cpor.serve.api.decide_jobs import answer_decide, answer_explain, answer_plan, read_scene
from cpor.serve.api.kept_views import KeptView
from cpor.serve.api.messages import (
    DecideRequest,
    ExplainReply,
    ExplainRequest,
    PlanReply,
    PlanRequest,
    SceneDecideRequest,
)
from cpor.serve.api.view_decisions import decide_on_view
from cpor.serve.jobs.workers import WorkerPool

DecidingPool: TypeAlias = WorkerPool[None]

Gone: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the caller has gone away."""

# Largest set of objects that obstruct each other in cycles, and number of relations, up to which an answer
# takes a few milliseconds: measured on dense random scenes.
_SMALL_DECIDE = (10, 60)
_SMALL_EXPLAIN = (6, 20)
_SMALL_PLAN = (6, 20)


async def run_decide(pool: DecidingPool, request: DecideRequest, deadline_ms: float) -> dict[str, Any]:
    """Decide from probabilities, here or in a worker."""
    posterior = read_scene(request)
    if _is_small(posterior, _SMALL_DECIDE):
        return answer_decide(request, deadline_ms, posterior)
    return await pool.run(_decide_job, request, deadline_ms)


async def run_decide_on_view(
    pool: DecidingPool, kept: KeptView, request: SceneDecideRequest
) -> dict[str, Any]:
    """Decide on a view; in a worker where every pixel is looked at, or the scene is large."""
    scene, beliefs = kept.view.scene, kept.view.beliefs
    assert beliefs is not None
    looks_at_pixels = request.target is None or scene.observation.camera.workspace is not None
    looks_at_pixels |= request.ask or bool(request.answers)  # these decide several times, and explain
    p = beliefs.p_fused.copy()
    place = {label: k for k, label in enumerate(beliefs.ids)}
    for each in request.relations:
        if each.blocked in place and each.blocker in place:
            p[place[each.blocked], place[each.blocker]] = NO_ANSWER if each.p is None else each.p
    if looks_at_pixels or not _is_small_matrix(np.nan_to_num(p, nan=NO_ANSWER), _SMALL_DECIDE):
        return await pool.run(_decide_on_view_job, kept, request)
    return decide_on_view(kept, request)


async def run_explain(
    pool: DecidingPool, request: ExplainRequest, deadline_ms: float, gone: Gone
) -> ExplainReply:
    """Explain, here or in a worker; not at all where the caller has gone before its turn comes."""
    posterior = read_scene(request)
    if _is_small(posterior, _SMALL_EXPLAIN):
        return answer_explain(request, deadline_ms, posterior)
    return await pool.run_unless(gone, _explain_job, request, deadline_ms)


async def run_plan(pool: DecidingPool, request: PlanRequest, gone: Gone) -> PlanReply:
    """Plan, here or in a worker; not at all where the caller has gone before its turn comes."""
    if _is_small(read_scene(request), _SMALL_PLAN) and len(request.objects) <= _SMALL_PLAN[0] + 2:
        return answer_plan(request)
    return await pool.run_unless(gone, _plan_job, request)


def prepare_deciding() -> None:
    """Compile or load everything, so that no caller waits for it."""
    warm_up()
    plan(ObstructionPosterior(("a", "b"), "a", {("a", "b"): 0.5}))


def _is_small(posterior: ObstructionPosterior, limit: tuple[int, int]) -> bool:
    return _is_small_matrix(posterior.with_prior(NO_ANSWER).p_obstructs, limit)


def _is_small_matrix(p: Float[np.ndarray, "n n"], limit: tuple[int, int]) -> bool:
    if np.count_nonzero(p) > limit[1]:
        return False
    return not p.size or int(np.bincount(cyclic_parts(p)).max()) <= limit[0]


def _decide_job(_: None, request: DecideRequest, deadline_ms: float) -> dict[str, Any]:
    return answer_decide(request, deadline_ms)


def _decide_on_view_job(_: None, kept: KeptView, request: SceneDecideRequest) -> dict[str, Any]:
    return decide_on_view(kept, request)


def _explain_job(_: None, request: ExplainRequest, deadline_ms: float) -> ExplainReply:
    return answer_explain(request, deadline_ms)


def _plan_job(_: None, request: PlanRequest) -> PlanReply:
    return answer_plan(request)
