"""Decide on a view that was kept: no network is needed, so it takes milliseconds."""

import time
from typing import Any

from cpor.answer import Answer, DecideSettings
from cpor.errors import InvalidSettingError
from cpor.scene import PixelPoint
from cpor.serve.api.decide_jobs import describe_answer
from cpor.serve.api.kept_views import KeptView
from cpor.serve.api.messages import SceneDecideRequest
from cpor.system import GIVEN, System
from cpor.words.grounding import shows_nothing

_DESCRIBING_S = 1.0
"""Time for the likeliest graphs and posteriors of relations; the decision itself has no deadline, since the
promise was tested without one: its work is counted instead. [s]"""


def check_asked_once(request: SceneDecideRequest) -> None:
    """Refuse a request that names its object in no way, or in several."""
    if sum(way is not None for way in (request.target, request.point, request.request)) != 1:
        raise InvalidSettingError("say which object in one way: target, point or request")


def pointed_at(kept: KeptView, request: SceneDecideRequest) -> PixelPoint | None:
    """The point of a request in the view."""
    return None if request.point is None else PixelPoint(*(side / kept.shrunk for side in request.point))


def points_at_nothing(kept: KeptView, request: SceneDecideRequest) -> bool:
    """Whether a request points at a place of the picture that no object of the view shows."""
    point = pointed_at(kept, request)
    return point is not None and shows_nothing(kept.view.seen, point)


def answer_on_view(kept: KeptView, request: SceneDecideRequest) -> Answer:
    """Decide for an object of a view."""
    assert kept.view.believed is not None
    check_asked_once(request)
    # Beliefs are there, so that no network is loaded.
    return System(GIVEN, model=kept.model).decide(
        kept.view,
        request.target,
        point=pointed_at(kept, request),
        request=request.request,
        mode=request.mode,
        tau=request.tau,
        relations={(each.blocked, each.blocker): each.p for each in request.relations},
        settings=DecideSettings(ignore_checks=request.ignore_checks),
    )


def decide_on_view(kept: KeptView, request: SceneDecideRequest) -> dict[str, Any]:
    """The same; the reply as `DecideReply` has it."""
    answer = answer_on_view(kept, request)
    said = describe_answer(answer, request.graphs, time.perf_counter() + _DESCRIBING_S)
    return said if kept.shrunk == 1 else said | {"objects": _enlarged(said["objects"], kept.shrunk)}


def _enlarged(objects: list[dict[str, Any]], scale: int) -> list[dict[str, Any]]:
    """The objects of a view in pixels of the picture."""

    def grown(sides: list[int] | None) -> list[int] | None:
        return None if sides is None else [scale * side for side in sides]

    return [each | {"point": grown(each["point"]), "box": grown(each["box"])} for each in objects]
