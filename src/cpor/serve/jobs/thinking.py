"""Which questions are answered at once, and which go to a worker because they may take long."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import numpy as np

from cpor.inference._kernels.frontier import strong_components
from cpor.inference.explain import NO_ANSWER
from cpor.inference.warm_up import warm_up
from cpor.perception.grounding_answers import Grounding
from cpor.planning.plan import plan
from cpor.reading import Request
from cpor.relations import ObstructionPosterior
from cpor.serve.api.deciding import answer_decide, answer_explain, answer_plan, read_scene
from cpor.serve.api.looking import KeptScene
from cpor.serve.api.messages import (
    DecideReply,
    DecideRequest,
    ExplainReply,
    ExplainRequest,
    PlanReply,
    PlanRequest,
)
from cpor.serve.jobs.workers import WorkerPool

ThinkingPool: TypeAlias = WorkerPool[None]

Gone: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the caller has gone away."""

# Largest set of objects that obstruct each other in cycles, and number of relations, up to which an answer
# takes a few milliseconds: measured on dense random scenes.
_SMALL_DECIDE = (10, 60)
_SMALL_EXPLAIN = (6, 20)
_SMALL_PLAN = (6, 20)


async def think_decide(pool: ThinkingPool, request: DecideRequest, deadline_ms: float) -> DecideReply:
    """Decide, here or in a worker."""
    posterior = read_scene(request)
    if _is_small(posterior, _SMALL_DECIDE):
        return answer_decide(request, deadline_ms, posterior)
    return await pool.run(_decide_job, request, deadline_ms)


async def think_explain(
    pool: ThinkingPool, request: ExplainRequest, deadline_ms: float, gone: Gone
) -> ExplainReply:
    """Explain, here or in a worker; not at all where the caller has gone before its turn comes."""
    posterior = read_scene(request)
    if _is_small(posterior, _SMALL_EXPLAIN):
        return answer_explain(request, deadline_ms, posterior)
    return await pool.run_unless(gone, _explain_job, request, deadline_ms)


async def think_plan(pool: ThinkingPool, request: PlanRequest, gone: Gone) -> PlanReply:
    """Plan, here or in a worker; not at all where the caller has gone before its turn comes."""
    if _is_small(read_scene(request), _SMALL_PLAN) and len(request.objects) <= _SMALL_PLAN[0] + 2:
        return answer_plan(request)
    return await pool.run_unless(gone, _plan_job, request)


async def think_ground(pool: ThinkingPool, kept: KeptScene, request: Request) -> Grounding:
    """Which object is meant: it looks at every pixel, so a worker does it."""
    return await pool.run(_ground_job, kept, request)


def prepare_thinking() -> None:
    """Compile or load everything, so that no caller waits for it."""
    warm_up()
    plan(ObstructionPosterior(("a", "b"), "a", {("a", "b"): 0.5}))


def _is_small(posterior: ObstructionPosterior, limit: tuple[int, int]) -> bool:
    present = posterior.with_prior(NO_ANSWER).p_obstructs
    if np.count_nonzero(present) > limit[1]:
        return False
    part = np.empty(len(posterior), np.int64)
    strong_components(present, part)
    return int(np.bincount(part).max()) <= limit[0]


def _decide_job(_: None, request: DecideRequest, deadline_ms: float) -> DecideReply:
    return answer_decide(request, deadline_ms)


def _explain_job(_: None, request: ExplainRequest, deadline_ms: float) -> ExplainReply:
    return answer_explain(request, deadline_ms)


def _plan_job(_: None, request: PlanRequest) -> PlanReply:
    return answer_plan(request)


def _ground_job(_: None, kept: KeptScene, request: Request) -> Grounding:
    return kept.ground(request)
