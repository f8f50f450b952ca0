"""Recent views, kept in memory for a while, and decisions on them for any target.

A decision on a view needs no network, so it takes milliseconds.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cpor.answer import Answer, DecideSettings
from cpor.corrections.history import Corrections
from cpor.model import FittedModel
from cpor.parts import GIVEN
from cpor.scene import PixelPoint
from cpor.serve.api.asked import SceneDecideRequest, by_pair
from cpor.serve.api.decide_jobs import describe_answer
from cpor.serve.http.refusals import Conflict, NotKept
from cpor.system import System
from cpor.view import View
from cpor.words.grounding import shows_nothing
from cpor.words.grounding_answers import Request


@dataclass(frozen=True, eq=False)
class KeptView:
    """What was seen in a picture, with everything believed of it.

    Attributes:
        view: The view, with what was corrected; its beliefs are there.
        shrunk: Pixels of the picture to one of the view, along each side.
        size: Width and height of the picture. [px]
        seen: The view before any correction; None: there was none.
        history: What was corrected; None: nothing.
        model: The model that was asked for; None: the bundled ones.
        asked: What a conversation is about, which `answers` of it go on with; None: nothing yet.
    """

    view: View
    shrunk: int
    size: tuple[int, int]
    seen: View | None = None
    history: Corrections | None = None
    model: FittedModel | None = None
    asked: SceneDecideRequest | None = None

    @property
    def n_bytes(self) -> int:
        """Memory of its arrays, twice where corrected; those of pairs are small beside them."""
        scene = self.view.scene
        arrays = [scene.observation.rgb, scene.observation.depth, scene.visible_ids]
        arrays += [o.amodal.pixels for o in scene.objects if o.amodal is not None]
        return (1 if self.seen is None else 2) * sum(array.nbytes for array in arrays if array is not None)


@dataclass
class ViewShelf:
    """The pictures that were looked at last, for `keep_s` after use; the one used longest ago goes first."""

    most: int
    most_bytes: int
    keep_s: float
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[str, tuple[KeptView, float]] = field(default_factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)

    def __len__(self) -> int:
        self._forget_old()
        return len(self._kept)

    def put(self, view: KeptView) -> str:
        """Keep a view; the id it gets cannot be guessed."""
        name = secrets.token_urlsafe(16)
        self._kept[name] = view, self.clock()
        self._bytes += view.n_bytes
        self._make_room()
        return name

    def get(self, name: str) -> KeptView:
        """A view by its id.

        Raises:
            NotKept: There is none, or not any more.
        """
        self._forget_old()
        if name not in self._kept:
            raise NotKept("this scene is not kept (any more); send the picture again")
        view = self._kept[name][0]
        self._kept[name] = view, self.clock()
        self._kept.move_to_end(name)
        return view

    def replace(self, name: str, before: KeptView, after: KeptView) -> None:
        """Keep a corrected view in place of the one that was corrected, unless it changed meanwhile."""
        if self.get(name) is not before:
            raise Conflict("this scene was corrected meanwhile; load it again")
        self._kept[name] = after, self.clock()
        self._bytes += after.n_bytes - before.n_bytes
        self._make_room()

    def forget(self, name: str) -> None:
        """Drop a view at once."""
        self.get(name)
        self._drop(name)

    def _make_room(self) -> None:
        while len(self._kept) > self.most or (self._bytes > self.most_bytes and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))
        self._forget_old()

    def _forget_old(self) -> None:
        while self._kept:
            name, (_, used) = next(iter(self._kept.items()))
            if self.clock() - used <= self.keep_s:
                return
            self._drop(name)

    def _drop(self, name: str) -> None:
        view, _ = self._kept.pop(name)
        self._bytes -= view.n_bytes


_DESCRIBING_S = 1.0
"""Time for the likeliest graphs; the decision itself has no deadline, since the
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
    by_hand = by_pair(request.relations)
    settings = DecideSettings(ignore_checks=request.ignore_checks)

    return system.decide(
        kept.view,
        asked_of(request, kept.shrunk),
        mode=request.mode,
        tau=request.tau,
        relations=by_hand,
        settings=settings,
        replies=request.answers,
    )


def decide_on_view(kept: KeptView, request: SceneDecideRequest) -> dict[str, Any]:
    """The same; the reply as `DecideReply` has it."""
    answer = answer_on_view(kept, request)
    said = describe_answer(answer, request.graphs, time.perf_counter() + _DESCRIBING_S)
    if request.ask or request.answers:
        said["ask"] = answer.asks
    return said if kept.shrunk == 1 else said | {"objects": _enlarged(said["objects"], kept.shrunk)}


def _enlarged(objects: list[dict[str, Any]], scale: int) -> list[dict[str, Any]]:
    """The objects of a view in pixels of the picture."""

    def grown(sides: list[int] | None) -> list[int] | None:
        return None if sides is None else [scale * side for side in sides]

    return [each | {"point": grown(each["point"]), "box": grown(each["box"])} for each in objects]
