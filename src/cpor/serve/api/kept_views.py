"""Recent views, kept in memory for a while so that they can be decided on for any target."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from cpor.answer import View
from cpor.corrections.history import Corrections
from cpor.model import FittedModel
from cpor.serve.api.messages import SceneDecideRequest
from cpor.serve.http.refusals import Conflict, NotKept


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
    """The pictures that were looked at last; the one used longest ago goes first.

    Attributes:
        most: How many are kept.
        most_bytes: Memory of all together.
        keep_s: How long one is kept after it was last asked about. [s]
        clock: Seconds that only grow.
    """

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
        """Keep a corrected view in place of the one that was corrected.

        Raises:
            Conflict: It was corrected meanwhile.
            NotKept: It is not there any more.
        """
        if self.get(name) is not before:
            raise Conflict("this scene was corrected meanwhile; load it again")
        self._kept[name] = after, self.clock()
        self._bytes += after.n_bytes - before.n_bytes
        self._make_room()

    def forget(self, name: str) -> None:
        """Drop a view at once.

        Raises:
            NotKept: There is none, or not any more.
        """
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
