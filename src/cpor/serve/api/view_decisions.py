"""Decide on a view that was kept: no network is needed, so it takes milliseconds."""

import time
from typing import Any

from cpor.answer import Answer, DecideSettings
from cpor.corrections.replies import Relations, decide_after, next_question
from cpor.parts import GIVEN
from cpor.scene import PixelPoint
from cpor.serve.api.decide_jobs import describe_answer
from cpor.serve.api.kept_views import KeptView
from cpor.serve.api.messages import SceneDecideRequest
from cpor.system import System
from cpor.words.grounding import shows_nothing
from cpor.words.grounding_answers import Request

_DESCRIBING_S = 1.0
"""Time for the likeliest graphs and posteriors of relations; the decision itself has no deadline, since the
promise was tested without one: its work is counted instead. [s]"""


def asked_of(request: SceneDecideRequest, shrunk: int = 1) -> Request:
    """The object that a request names, in pixels of a view that was made so many times smaller.

    Raises:
        InvalidSettingError: It is named in no way, or in several.
    """
    point = None if request.point is None else PixelPoint(*(side / shrunk for side in request.point))
    return Request(request.target, point, request.request).required()


def points_at_nothing(kept: KeptView, request: SceneDecideRequest) -> bool:
    """Whether a request points at a place of the picture that no object of the view shows."""
    point = asked_of(request, kept.shrunk).point
    return point is not None and shows_nothing(kept.view.seen, point)


def answer_on_view(kept: KeptView, request: SceneDecideRequest) -> Answer:
    """Decide for an object of a view, after what a person replied."""
    assert kept.view.beliefs is not None
    system = System(GIVEN, model=kept.model)  # beliefs are there, so that no network is loaded
    by_hand = {(each.blocked, each.blocker): each.p for each in request.relations}
    settings = DecideSettings(ignore_checks=request.ignore_checks)

    def decides(asked: Request, said: Relations) -> Answer:
        return system.decide(
            kept.view,
            asked,
            mode=request.mode,
            tau=request.tau,
            relations={**by_hand, **said},
            settings=settings,
        )

    return decide_after(decides, asked_of(request, kept.shrunk), request.answers)


def decide_on_view(kept: KeptView, request: SceneDecideRequest) -> dict[str, Any]:
    """The same; the reply as `DecideReply` has it."""
    answer = answer_on_view(kept, request)
    said = describe_answer(answer, request.graphs, time.perf_counter() + _DESCRIBING_S)
    if request.ask or request.answers:
        said["ask"] = next_question(answer)
    return said if kept.shrunk == 1 else said | {"objects": _enlarged(said["objects"], kept.shrunk)}


def _enlarged(objects: list[dict[str, Any]], scale: int) -> list[dict[str, Any]]:
    """The objects of a view in pixels of the picture."""

    def grown(sides: list[int] | None) -> list[int] | None:
        return None if sides is None else [scale * side for side in sides]

    return [each | {"point": grown(each["point"]), "box": grown(each["box"])} for each in objects]
