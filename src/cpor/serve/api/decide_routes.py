"""Routes that decide from probabilities."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from cpor.serve.api.messages import (
    DecideReply,
    DecideRequest,
    ExplainReply,
    ExplainRequest,
    PlanReply,
    PlanRequest,
)
from cpor.serve.http.settings import ServeSettings
from cpor.serve.jobs.quick_or_queued import DecidingPool, run_decide, run_explain, run_plan


def as_json(message: BaseModel | dict[str, Any]) -> Response:
    """A message as a reply; it was checked when it was made, so it is not checked again."""
    text = to_json(message) if isinstance(message, dict) else message.model_dump_json()
    return Response(text, media_type="application/json")


def add_decide_routes(
    app: FastAPI, settings: ServeSettings, deciding: DecidingPool, explaining: DecidingPool
) -> None:
    """Add the routes; decisions never wait behind explanations and plans, which take longer."""

    @app.post("/v1/decide", response_model=DecideReply)
    async def decide(request: DecideRequest) -> Response:
        """Decide from probabilities: grasp, remove, or defer."""
        return as_json(await run_decide(deciding, request, settings.deadline_ms))

    @app.post("/v1/explain", response_model=ExplainReply)
    async def explain(request: ExplainRequest, http: HttpRequest) -> Response:
        """Decide, and say what would change it and what to ask next."""
        gone = http.is_disconnected
        return as_json(await run_explain(explaining, request, settings.deadline_ms, gone))

    @app.post("/v1/plan", response_model=PlanReply)
    async def plan(request: PlanRequest, http: HttpRequest) -> Response:
        """The removals, in order, that lead to the target."""
        return as_json(await run_plan(explaining, request, http.is_disconnected))
