"""Views held on the device: drawn and renewed while training, or read from files as they come."""

import math
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.casting import HeapStore
from training.config import Config
from training.corrupt import Corruption
from training.heaps import PER_SHAPE, HeapArrays
from training.looks import Painter
from training.textures import make_atlas, make_noise, make_packages
from training.view_files import DEPTH_UNIT
from training.views import ViewBatch, ViewMaker


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch to train on.

    Attributes:
        rgb: As the camera gives it, 0 to 255. Shape (b, h, w, 3), float32.
        depth: 0 for no reading. Shape (b, h, w). [m]
        ids, amodal: As in `ViewBatch`.
    """

    rgb: Tensor
    depth: Tensor
    ids: Tensor
    amodal: Tensor


def mix(first: Batch, second: Batch, generator: torch.Generator) -> Batch:
    """Two batches as one, in random order."""
    order = torch.randperm(len(first.ids) + len(second.ids), generator=generator, device=first.ids.device)
    parts = ((getattr(first, name), getattr(second, name)) for name in ("rgb", "depth", "ids", "amodal"))
    return Batch(*(torch.cat(pair)[order] for pair in parts))


class Views:
    """Views in memory of the device.

    Args:
        count: How many views to hold.
        config: Everything.
        device: Where.
        seed: Of everything random in it.
    """

    def __init__(self, count: int, config: Config, device: torch.device, seed: int) -> None:
        h, w = config.views.height, config.views.width
        self.config, self.device, self.count = config, device, count
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.corruption = Corruption(config.corruption, self.generator)
        self.rgb = torch.zeros((count, h, w, 3), dtype=torch.uint8, device=device)
        # 16 bits without a sign are poorly supported: the same bits are kept as if they had one.
        self.depth = torch.zeros((count, h, w), dtype=torch.int16, device=device)
        self.ids = torch.zeros((count, h, w), dtype=torch.uint8, device=device)
        self.amodal = torch.zeros((count, h // 2, w // 2), dtype=torch.int32, device=device)
        self.filled = 0
        self.next = 0

    def _store(self, views: ViewBatch, size: int) -> None:
        at = torch.arange(self.next, self.next + size, device=self.device) % self.count
        self.rgb[at] = views.rgb
        self.depth[at] = torch.where(views.depth > 32767, views.depth - 65536, views.depth).to(torch.int16)
        self.ids[at] = views.ids
        self.amodal[at] = views.amodal
        self.next = (self.next + size) % self.count
        self.filled = min(self.filled + size, self.count)

    def clean(self, at: Tensor) -> Batch:
        """Views as drawn, not spoilt."""
        depth = (self.depth[at].to(torch.int32) & 0xFFFF).to(torch.float32) * DEPTH_UNIT
        return Batch(self.rgb[at].to(torch.float32), depth, self.ids[at], self.amodal[at])

    def draw(self, size: int) -> Batch:
        """Random views, mirrored, cut and spoilt at random."""
        at = torch.randint(self.filled, (size,), generator=self.generator, device=self.device)
        batch = self._mirrored(self.clean(at))
        with torch.no_grad():
            depth = self.corruption.depth(batch.depth, batch.rgb, batch.ids)
            rgb = self.corruption.colour(batch.rgb)
        return self._letterboxed(Batch(rgb, depth, batch.ids, batch.amodal))

    def _mirrored(self, batch: Batch) -> Batch:
        """Each view mirrored or not, along either axis."""
        b = len(batch.ids)
        parts = [batch.rgb, batch.depth, batch.ids, batch.amodal]
        for axis in (1, 2):
            flip = torch.rand(b, generator=self.generator, device=self.device) < (0.5 if axis == 2 else 0.2)
            parts = [torch.where(flip.view(b, *([1] * (x.dim() - 1))), x.flip(axis), x) for x in parts]
        return Batch(*parts)

    def _letterboxed(self, batch: Batch) -> Batch:
        """Some views with a margin on the right or below, as the product pads pictures of another shape."""
        b, h, w = batch.ids.shape
        r = torch.rand((3, b), generator=self.generator, device=self.device)
        margin = torch.where(r[0] < 0.2, 0.35 * r[1], 0.0)
        across, down = torch.where(r[2] < 0.65, margin, 0.0), torch.where(r[2] < 0.65, 0.0, margin)
        x = (torch.arange(w, device=self.device) + 0.5) / w
        y = (torch.arange(h, device=self.device) + 0.5) / h
        keep = (x[None, None] < 1.0 - across[:, None, None]) & (y[None, :, None] < 1.0 - down[:, None, None])
        shown = keep[..., None].float()
        mean = (batch.rgb * shown).sum((1, 2), keepdim=True) / shown.sum((1, 2), keepdim=True)
        rgb = torch.where(keep[..., None], batch.rgb, mean.floor())
        bits = torch.where(keep[:, ::2, ::2], batch.amodal, 0)
        return Batch(rgb, batch.depth * keep, batch.ids * keep, bits)


class ViewBuffer(Views):
    """Views that are drawn here.

    Args:
        heaps: What to picture.
        count, config, device, seed: As of `Views`.
    """

    def __init__(
        self, heaps: HeapArrays, count: int, config: Config, device: torch.device, seed: int
    ) -> None:
        super().__init__(count, config, device, seed)
        rng = np.random.default_rng(seed)
        atlas = torch.as_tensor(make_atlas(rng, config.views.textures)).to(device)
        packages = torch.as_tensor(make_packages(rng, config.views.packages)).to(device)
        painter = Painter(atlas, packages, make_noise(rng).to(device), self.generator)
        self.heap_count = len(heaps)
        self.maker = ViewMaker(HeapStore(heaps, device), painter, config.views)

    def renew(self) -> None:
        """Draws one batch of views, in place of the oldest."""
        size = min(self.config.views.batch, self.count)
        heaps = torch.randint(self.heap_count, (size,), generator=self.generator, device=self.device)
        with torch.no_grad():
            views = self.maker.make(heaps)
        self._store(views, size)

    def fill(self, seconds: float = math.inf) -> None:
        """Draws views until it is full, or for some seconds; the rest then comes with renewing."""
        end = time.monotonic() + seconds
        while self.filled < self.count and (not self.filled or time.monotonic() < end):
            self.renew()


class FileViews(Views):
    """Windows of views that other processes write to files (`training.view_files`), read as they come.

    Args:
        folder: Where the files come to lie.
        pattern: Which of them.
        count, config, device, seed: As of `Views`.
    """

    def __init__(
        self, folder: Path, pattern: str, count: int, config: Config, device: torch.device, seed: int
    ) -> None:
        c = config.corruption
        spoilt = replace(c, clean_depth=c.clean_photographs, no_depth=c.no_depth_photographs)
        super().__init__(count, replace(config, corruption=spoilt), device, seed)
        self.folder, self.pattern, self._read = folder, pattern, set[Path]()
        self._rng = np.random.default_rng(seed)

    def follow(self) -> None:
        """Reads whatever comes, in a thread of its own, for as long as the process lives."""

        def run() -> None:
            while self.filled < self.count:
                if not self.read():
                    time.sleep(0.5)

        threading.Thread(target=run, daemon=True).start()

    def read(self) -> int:
        """Takes over the files that came since, each view cut to the size that is trained on; how many."""
        h, w = self.config.views.height, self.config.views.width
        new = sorted(set(self.folder.glob(self.pattern)) - self._read)
        for path in new:
            self._read.add(path)
            with np.load(path, allow_pickle=True) as held:
                rgb, depth, ids, amodal = (held[name] for name in ("rgb", "depth", "ids", "amodal"))
            cut: list[tuple[np.ndarray, ...]] = []
            for k in range(min(len(ids), self.count - self.filled)):
                room = (ids.shape[1] - h) // 2 + 1, (ids.shape[2] - w) // 2 + 1
                top, left = (int(self._rng.integers(most)) for most in room)
                full = slice(2 * top, 2 * top + h), slice(2 * left, 2 * left + w)
                half = slice(top, top + h // 2), slice(left, left + w // 2)
                cut.append((rgb[k][full], depth[k][full].astype(np.int32), ids[k][full], amodal[k][half]))
            if cut:
                parts = (torch.as_tensor(np.stack(each)).to(self.device) for each in zip(*cut, strict=True))
                self._store(ViewBatch(*parts), len(cut))
        return len(new)


def split_heaps(heaps: HeapArrays, held_out: float) -> tuple[HeapArrays, HeapArrays]:
    """Heaps to train on and heaps kept for checking: the last ones, at least one."""
    count = max(1, round(held_out * len(heaps)))
    cut = len(heaps) - count
    shapes = int(heaps.starts[cut])

    def take(shape_range: slice, heap_range: slice, starts: np.ndarray) -> HeapArrays:
        chosen = {name: getattr(heaps, name)[shape_range] for name in PER_SHAPE}
        return HeapArrays(
            **chosen,
            planes=heaps.planes,
            starts=starts,
            radii=heaps.radii[heap_range],
            bins=heaps.bins[heap_range],
        )

    first = take(slice(0, shapes), slice(0, cut), heaps.starts[: cut + 1])
    return first, take(slice(shapes, None), slice(cut, None), heaps.starts[cut:] - shapes)
