"""Trains a relation network on pictures of pairs held on the device, and measures it on held-out heaps."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as nn_f

from cpor.evidence.learnt import RELATIONS
from cpor.evidence.pair_crops import CROP_SIZE
from cpor.learn.reliability import summarise_reliability
from training.averaging import Averaging, Log
from training.exported import load_exported
from training.relation_data import KINDS, MASKS, Pairs
from training.relation_network import LAYERS, RelationNet, Source

BATCH = 1024
LEARNING_RATE = 1.5e-3
RATE_GOING_ON = 5e-4
"""From weights that were trained before: what they know should stay."""

WEIGHT_DECAY = 0.03


class PairStore:
    """Pictures of pairs on the device; filled by one thread while another trains.

    Args:
        capacity: Most pairs; later ones take the place of the first.
        device: Where.
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        size = (CROP_SIZE, CROP_SIZE)
        self.capacity, self.device = capacity, device
        self.geometry = torch.zeros((capacity, 2, *size), dtype=torch.uint8, device=device)
        self.colour = torch.zeros((capacity, 4, *size), dtype=torch.uint8, device=device)
        self.label = torch.zeros((capacity, 2, len(RELATIONS)), dtype=torch.bool, device=device)
        self.masks = torch.zeros(capacity, dtype=torch.uint8, device=device)
        self.kind = torch.zeros(capacity, dtype=torch.uint8, device=device)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, pairs: Pairs) -> None:
        """Takes pairs over."""
        at = (torch.arange(len(pairs)) + self.added) % self.capacity
        at = at.to(self.device)
        for name in ("geometry", "colour", "label", "masks", "kind"):
            getattr(self, name)[at] = torch.as_tensor(getattr(pairs, name)).to(self.device)
        self.added += len(pairs)

    def crops(self, source: Source, at: Tensor) -> Tensor:
        """Pictures as the networks take them. Shape (n, layers, 96, 96), uint8."""
        packed = (self.geometry if source == "geometry" else self.colour)[at]
        plain = packed.shape[1] - 1
        bits = torch.arange(LAYERS[source] - plain, device=self.device, dtype=torch.uint8)
        masks = (packed[:, plain:] >> bits[None, :, None, None]) & 1
        return torch.cat([packed[:, :plain], masks], 1)


def train(
    source: Source, store: PairStore, seconds: float, log: Log, batch: int = BATCH, seed: int = 7,
    begin: Path | None = None,
) -> RelationNet:  # fmt: skip
    """Trains for some seconds by the plain log loss at natural rates; returns the mean of the weights.

    Args:
        source: Which network.
        store: Pictures of pairs.
        seconds: How long.
        log: Takes a line now and then.
        batch: Pairs a step.
        seed: Of everything random.
        begin: Exported file to go on from.
    """
    device = store.device
    torch.manual_seed(seed)
    generator = torch.Generator(device=device).manual_seed(seed)
    net = RelationNet(source).to(device)
    if begin is not None:
        load_exported(net, begin, store.crops(source, torch.arange(min(batch, len(store)), device=device)))
    rate = LEARNING_RATE if begin is None else RATE_GOING_ON
    run = Averaging(net, seconds, rate, WEIGHT_DECAY)
    while run.goes_on():
        at = torch.randint(len(store), (batch,), generator=generator, device=device)
        crops, label = _turned(source, store.crops(source, at), store.label[at], store.kind[at], generator)
        crops = run.ready(_spoilt(source, crops.float(), generator))
        with run.autocast():
            logit = run.net(crops)
        run.learn(nn_f.binary_cross_entropy_with_logits(logit.float(), label.float()))
        run.tell(log, f"{source}, {len(store)} pairs")
    log(f"{source}: {run.step} steps of {batch} in {run.spent:.0f} s, loss {run.loss:.4f}")
    return run.mean


def _turned(
    source: Source, crops: Tensor, label: Tensor, kind: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pictures mirrored, turned by quarters and with both objects swapped, at random.

    A turned depth picture is one of a camera that was rolled, which changes no relation. In photographs light
    and gravity have a direction, so only those from straight above are turned.
    """
    device = crops.device

    def luck(n: int) -> Tensor:
        return torch.rand(n, generator=generator, device=device)

    n = len(crops)
    across = torch.where((luck(n) < 0.5)[:, None, None, None], crops.flip(3), crops)
    may = torch.ones(n, dtype=torch.bool, device=device) if source == "geometry" else kind < 2
    down = ((luck(n) < 0.5) & may)[:, None, None, None]
    across = torch.where(down, across.flip(2), across)
    quarter = ((luck(n) < 0.5) & may)[:, None, None, None]
    turned = torch.where(quarter, across.transpose(2, 3), across)
    order = [0, 2, 1, 4, 3, 5] if source == "geometry" else [0, 1, 2, 4, 3]
    swap = luck(n) < 0.5
    turned = torch.where(swap[:, None, None, None], turned[:, order], turned)
    return turned, torch.where(swap[:, None, None], label.flip(1), label)


def _spoilt(source: Source, x: Tensor, generator: torch.Generator) -> Tensor:
    """Depth with another scale, noise and gaps, or colours in another light. `x` is float, 0 to 255."""
    n, device = len(x), x.device

    def luck(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=device)

    if source == "geometry":
        depth = x[:, :1]
        valid = depth > 0.5
        scale = torch.exp(0.3 * (luck(n, 1, 1, 1) - 0.5))
        noise = 3.0 * luck(n, 1, 1, 1) ** 3 * torch.randn(depth.shape, generator=generator, device=device)
        offset = 2.0 * (luck(n, 1, 1, 1) - 0.5)
        gaps = nn_f.interpolate(luck(n, 1, 12, 12), size=x.shape[2:], mode="bilinear")
        kept = valid & (gaps > 0.35 * luck(n, 1, 1, 1) ** 2 * (luck(n, 1, 1, 1) < 0.3))
        moved = ((depth - 128.0) * scale + 128.0 + offset + noise).clamp(1.0, 255.0).round()
        return torch.cat([torch.where(kept, moved, 0.0), x[:, 1:]], 1)
    colour = x[:, :3]
    gain = torch.exp(0.5 * (luck(n, 1, 1, 1) - 0.5)) * torch.exp(0.2 * (luck(n, 3, 1, 1) - 0.5))
    grey = colour.mean(1, keepdim=True)
    keep = torch.where(luck(n, 1, 1, 1) < 0.05, 0.0, 0.6 + 0.6 * luck(n, 1, 1, 1))
    colour = (grey + (colour - grey) * keep) * gain + 24.0 * (luck(n, 1, 1, 1) - 0.5)
    noise = 8.0 * luck(n, 1, 1, 1) ** 2 * torch.randn(colour.shape, generator=generator, device=device)
    return torch.cat([(colour + noise).clamp(0.0, 255.0), x[:, 3:]], 1)


@torch.no_grad()
def measure(net: RelationNet, store: PairStore) -> dict[str, dict[str, float]]:
    """AUROC and ECE over the directions of held-out pairs, by kind of heap, masks and relation."""
    device, held = store.device, len(store)  # another thread may add pairs meanwhile
    logits = [
        net(store.crops(net.source, torch.arange(k, min(k + 1024, held), device=device))).float()
        for k in range(0, held, 1024)
    ]
    p = torch.sigmoid(torch.cat(logits)).cpu().numpy().astype(np.float64)
    label = store.label[:held].cpu().numpy()
    masks, kinds = store.masks[:held].cpu().numpy(), store.kind[:held].cpu().numpy()
    told: dict[str, dict[str, float]] = {}
    for k, kind in enumerate(KINDS):
        for m, mask in enumerate(MASKS):
            where = (kinds == k) & (masks == m)
            for r, relation in enumerate(RELATIONS):
                q, y = p[where][..., r].ravel(), label[where][..., r].ravel()
                if 0 < y.sum() < y.size:
                    found = summarise_reliability(q, y)
                    told[f"{kind}, {mask} masks, {relation}"] = {
                        "auroc": round(_ranking(q, y), 4),
                        "ece": round(float(found.ece), 4),
                        "n": float(y.size),
                        "rate": round(float(y.mean()), 4),
                    }
    return told


def _ranking(score: np.ndarray, label: np.ndarray) -> float:
    """Chance that a true relation scores above a false one (area under the ROC curve)."""
    ranks = np.empty(score.size)
    ranks[np.argsort(score, kind="stable")] = np.arange(1, score.size + 1)
    n = int(label.sum())
    return float((ranks[label].sum() - n * (n + 1) / 2) / (n * (label.size - n)))
