"""Routes that decide from probabilities."""

from fastapi import FastAPI
from pydantic import BaseModel
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
from cpor.serve.jobs.thinking import ThinkingPool, think_decide, think_explain, think_plan


def as_json(message: BaseModel, status: int = 200) -> Response:
    """A message as a reply; it was checked when it was made, so it is not checked again."""
    return Response(message.model_dump_json(), status, media_type="application/json")


def add_decide_routes(
    app: FastAPI, settings: ServeSettings, deciding: ThinkingPool, thinking: ThinkingPool
) -> None:
    """Add the routes; decisions never wait behind explanations and plans, which take longer."""

    @app.post("/v1/decide", response_model=DecideReply)
    async def decide(request: DecideRequest) -> Response:
        """Decide from probabilities: grasp, remove, or defer."""
        return as_json(await think_decide(deciding, request, settings.deadline_ms))

    @app.post("/v1/explain", response_model=ExplainReply)
    async def explain(request: ExplainRequest, http: HttpRequest) -> Response:
        """Decide, and say what would change it and what to ask next."""
        gone = http.is_disconnected
        return as_json(await think_explain(thinking, request, settings.deadline_ms, gone))

    @app.post("/v1/plan", response_model=PlanReply)
    async def plan(request: PlanRequest, http: HttpRequest) -> Response:
        """The removals, in order, that lead to the target."""
        return as_json(await think_plan(thinking, request, http.is_disconnected))
