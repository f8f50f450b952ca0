"""How well a segmenter finds the objects of labelled views: recall, precision and overlap, at stride 4."""

from dataclasses import dataclass

import torch
from torch import Tensor

from training.buffer import Batch
from training.network import PEAKS, Maps, SegmenterNet, peaks, prepare
from training.targets import make_targets


@dataclass(frozen=True)
class Found:
    """Counts over views.

    Attributes:
        wanted, found, matched: Objects to be found, objects claimed, pairs of them that overlap by half.
        visible, amodal: Mean overlap of the matched ones.
        buried: Mean amodal overlap of those more than 15 % hidden.
    """

    wanted: int
    found: int
    matched: int
    visible: float
    amodal: float
    buried: float

    def summary(self) -> dict[str, float]:
        """Recall, precision and the overlaps, rounded."""
        return {
            "recall": round(self.matched / max(self.wanted, 1), 4),
            "precision": round(self.matched / max(self.found, 1), 4),
            "visible": round(self.visible, 4),
            "amodal": round(self.amodal, 4),
            "buried": round(self.buried, 4),
        }


def read(
    net: SegmenterNet, maps: Maps, height: Tensor, cells: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Some peaks: scores (b, k), visible and amodal masks (b, k, h / 4, w / 4), chance of being hidden.

    The score is the geometric mean of the height of the peak and the overlap the judge expects.
    """
    visible_logit, amodal_logit, hidden = net.masks(maps, cells)
    visible = torch.sigmoid(visible_logit)
    amodal = torch.maximum(torch.sigmoid(amodal_logit), visible)
    quality = torch.sigmoid(net.quality(maps, cells, visible))
    return torch.sqrt(height * quality), visible, amodal, torch.sigmoid(hidden)


@torch.no_grad()
def decode(
    net: SegmenterNet, rgb: Tensor, depth: Tensor, count: int = PEAKS
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (b, k), visible and amodal masks (b, k, h / 4, w / 4) of the best peaks."""
    maps = net(prepare(rgb, depth))
    return read(net, maps, *peaks(maps.heat, count))[:3]


def keep_distinct(scores: Tensor, masks: Tensor, threshold: float) -> Tensor:
    """Which of one view's masks stay: sure enough, and not half the same as a better one. Shape (k,)."""
    flat = (masks > 0.5).flatten(1).float()
    area = flat.sum(1)
    shared = flat @ flat.T
    overlap = shared / (area[:, None] + area[None] - shared).clamp(min=1.0)
    keep: list[int] = []
    for k in torch.argsort(scores, descending=True).tolist():
        if scores[k] < threshold:
            break
        if area[k] > 2 and all(overlap[k, j] < 0.5 for j in keep):
            keep.append(k)
    mask = torch.zeros(len(scores), dtype=torch.bool)
    mask[keep] = True
    return mask


@torch.no_grad()
def measure(
    net: SegmenterNet, batches: list[Batch], slots: int, min_visible_px: int, threshold: float = 0.45
) -> Found:
    """Compares what a network finds with the labels."""
    wanted = found = matched = 0
    visible_sum = amodal_sum = buried_sum = 0.0
    buried = 0
    for batch in batches:
        truth = make_targets(batch.ids, batch.amodal, slots, min_visible_px)
        scores, visible, amodal = decode(net, batch.rgb, batch.depth)
        for k in range(len(scores)):
            there = truth.wanted[k].cpu()
            keep = keep_distinct(scores[k].cpu(), visible[k].cpu(), threshold)
            every = (truth.visible[k] > 0.5).cpu()
            a, b = (visible[k][keep.to(visible.device)] > 0.5).cpu(), every[there]
            overlap = _overlaps(a, b)
            pairs = _match(overlap)
            # What lies on things too small to be wanted is not held against the network.
            excused = _on_small(a, every[~there], {i for i, _ in pairs})
            wanted, found, matched = wanted + len(b), found + len(a) - excused, matched + len(pairs)
            hidden = truth.hidden[k].cpu()[there]
            full, whole = (
                (amodal[k][keep.to(amodal.device)] > 0.5).cpu(),
                (truth.amodal[k] > 0.5).cpu()[there],
            )
            both = _overlaps(full, whole)
            for i, j in pairs:
                visible_sum, amodal_sum = visible_sum + float(overlap[i, j]), amodal_sum + float(both[i, j])
                if hidden[j] > 0.15:
                    buried_sum, buried = buried_sum + float(both[i, j]), buried + 1
    pairs_seen = max(matched, 1)
    return Found(
        wanted, found, matched, visible_sum / pairs_seen, amodal_sum / pairs_seen, buried_sum / max(buried, 1)
    )


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    x, y = a.flatten(1).float(), b.flatten(1).float()
    shared = x @ y.T
    return shared / (x.sum(1)[:, None] + y.sum(1)[None] - shared).clamp(min=1.0)


def _on_small(claimed: Tensor, small: Tensor, matched: set[int]) -> int:
    """How many of the masks that matched nothing lie mostly on things too small to be wanted."""
    if not len(claimed) or not len(small):
        return 0
    area = claimed.flatten(1).sum(1).clamp(min=1)
    covered = (claimed & small.any(0)).flatten(1).sum(1)
    return sum(bool(2 * covered[i] >= area[i]) for i in range(len(claimed)) if i not in matched)


def _match(overlap: Tensor) -> list[tuple[int, int]]:
    """Pairs that overlap by half or more, best first."""
    pairs: list[tuple[int, int]] = []
    left = overlap.clone()
    while left.numel() and left.max() >= 0.5:
        at = int(left.argmax())
        i, j = at // left.shape[1], at % left.shape[1]
        pairs.append((i, j))
        left[i], left[:, j] = -1.0, -1.0
    return pairs
