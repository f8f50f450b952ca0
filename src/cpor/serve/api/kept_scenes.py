"""Recent scenes, kept in memory for a while so that they can be asked about."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from cpor.serve.api.looking import KeptScene
from cpor.serve.http.refusals import NotKept


@dataclass
class SceneShelf:
    """The scenes that were looked at last; the one used longest ago goes first.

    Attributes:
        most: How many are kept.
        most_bytes: Of all together.
        keep_s: How long one is kept after it was last asked about. [s]
        clock: Seconds that only grow.
    """

    most: int
    most_bytes: int
    keep_s: float
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[str, tuple[KeptScene, float]] = field(default_factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)

    def __len__(self) -> int:
        self._forget_old()
        return len(self._kept)

    def put(self, scene: KeptScene) -> str:
        """Keep a scene; the id it gets cannot be guessed."""
        scene_id = secrets.token_urlsafe(16)
        self._kept[scene_id] = scene, self.clock()
        self._bytes += scene.n_bytes
        while len(self._kept) > self.most or (self._bytes > self.most_bytes and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))
        self._forget_old()
        return scene_id

    def get(self, scene_id: str) -> KeptScene:
        """A scene by its id.

        Raises:
            NotKept: There is none, or not any more.
        """
        self._forget_old()
        if scene_id not in self._kept:
            raise NotKept("no such scene is kept, or not any more; send the picture again")
        scene = self._kept[scene_id][0]
        self._kept[scene_id] = scene, self.clock()
        self._kept.move_to_end(scene_id)
        return scene

    def _forget_old(self) -> None:
        while self._kept:
            scene_id, (_, used) = next(iter(self._kept.items()))
            if self.clock() - used <= self.keep_s:
                return
            self._drop(scene_id)

    def _drop(self, scene_id: str) -> None:
        scene, _ = self._kept.pop(scene_id)
        self._bytes -= scene.n_bytes
