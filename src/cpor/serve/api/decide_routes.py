"""Routes that decide from probabilities: small questions are answered at once, others by a worker."""

from typing import Any, TypeAlias

import numpy as np
from fastapi import FastAPI
from jaxtyping import Float
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from cpor.infer.explain import NO_ANSWER
from cpor.infer.local import cyclic_parts
from cpor.serve.api.answered import DecideReply, ExplainReply, PlanReply
from cpor.serve.api.asked import DecideRequest, ExplainRequest, GivenScene, PlanRequest, SceneDecideRequest
from cpor.serve.api.decide_jobs import answer_decide, answer_explain, answer_plan, read_scene, work
from cpor.serve.api.kept_views import KeptView, decide_on_view
from cpor.serve.http.settings import ServeSettings
from cpor.serve.jobs.workers import WorkerPool

DecidingPool: TypeAlias = WorkerPool[None]

# Largest set of objects that obstruct each other in cycles, and number of relations, up to which an answer
# takes a few milliseconds: measured on dense random scenes.
_SMALL_DECIDE = (10, 60)
_SMALL_EXPLAIN = (6, 20)


def as_json(message: BaseModel | dict[str, Any]) -> Response:
    """A message as a reply; it was checked when it was made, so it is not checked again."""
    text = to_json(message) if isinstance(message, dict) else message.model_dump_json()
    return Response(text, media_type="application/json")


def gives(kind: str, what: str) -> dict[str, Any]:
    """Arguments of a route that answers with a file of this media type."""
    return {
        "response_class": Response,
        "responses": {200: {"content": {each: {} for each in kind.split()}, "description": what}},
    }


def add_decide_routes(
    app: FastAPI, settings: ServeSettings, deciding: DecidingPool, explaining: DecidingPool
) -> None:
    """Add the routes; decisions never wait behind explanations and plans, which take longer."""

    @app.post("/v1/decide", response_model=DecideReply)
    async def decide(request: DecideRequest) -> Response:
        """Decide from probabilities: grasp, remove, or defer."""
        if _is_small(request, _SMALL_DECIDE):
            return as_json(answer_decide(request, settings.deadline_ms))
        return as_json(await deciding.run(work, answer_decide, request, settings.deadline_ms))

    @app.post("/v1/explain", response_model=ExplainReply)
    async def explain(request: ExplainRequest, http: HttpRequest) -> Response:
        """Decide, and say what would change it and what to ask next."""
        if _is_small(request, _SMALL_EXPLAIN):
            return as_json(answer_explain(request, settings.deadline_ms))
        gone, deadline_ms = http.is_disconnected, settings.deadline_ms
        return as_json(await explaining.run_unless(gone, work, answer_explain, request, deadline_ms))

    @app.post("/v1/plan", response_model=PlanReply)
    async def plan(request: PlanRequest, http: HttpRequest) -> Response:
        """The removals, in order, that lead to the target."""
        if _is_small(request, _SMALL_EXPLAIN) and len(request.objects) <= _SMALL_EXPLAIN[0] + 2:
            return as_json(answer_plan(request))
        return as_json(await explaining.run_unless(http.is_disconnected, work, answer_plan, request))


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
        return await pool.run(work, decide_on_view, kept, request)
    return decide_on_view(kept, request)


def _is_small(request: GivenScene, limit: tuple[int, int]) -> bool:
    """Whether the answer takes a few milliseconds; also refuses what is no scene."""
    return _is_small_matrix(read_scene(request).with_prior(NO_ANSWER).p_obstructs, limit)


def _is_small_matrix(p: Float[np.ndarray, "n n"], limit: tuple[int, int]) -> bool:
    if np.count_nonzero(p) > limit[1]:
        return False
    return not p.size or int(np.bincount(cyclic_parts(p)).max()) <= limit[0]
