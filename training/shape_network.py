"""The shape network: from a picture of one object to its everyday shape; how it is trained and measured."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nn_f

from cpor.words.shapes import LAYERS, PICTURE_SIZE, SHAPES
from training.averaging import Averaging, Log
from training.export import both_say, finish_file, write_graph
from training.relation_network import Block, convolve
from training.shape_data import MASKS, ShapeCrops

WIDTHS = (48, 96, 160)
STEM = 32
LEARNING_RATE = 1.5e-3
WEIGHT_DECAY = 0.03
SIZES = 4
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


class ShapeNet(nn.Module):
    """A small residual net over pictures of single objects; `temperature` divides what it says."""

    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.ones(()))
        self.stem = convolve(len(LAYERS) + 4, STEM, 5, 2)
        body: list[nn.Module] = []
        inside = STEM
        for width in WIDTHS:
            body += [Block(inside, width, 2), Block(width, width, 1)]
            inside = width
        self.body = nn.Sequential(*body)
        self.head = nn.Sequential(
            nn.Linear(2 * inside + SIZES, 160), nn.ReLU(), nn.Dropout(0.3), nn.Linear(160, len(SHAPES))
        )

    def forward(self, crops: Tensor, size: Tensor) -> Tensor:
        """Log-odds (n, shapes) from pictures and sizes as `object_pictures` makes them."""
        x = nn_f.relu(self.stem(self.prepared(crops.to(torch.float32), size)))
        x = self.body(x)
        pooled = torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3)), size], dim=1)
        told: Tensor = self.head(pooled) / self.temperature
        return told

    @staticmethod
    def prepared(x: Tensor, size: Tensor) -> Tensor:
        """Layers around 0: colours, masks, depth in metres and by the size of the object, that size."""
        depth = x[:, 5:6]
        read = (depth > 0.5).to(torch.float32)
        relief = (depth - 128.0) * read
        side = (size[:, :1] * size[:, 1:2])[:, :, None, None]
        by_size = 0.02 * relief * torch.exp(-side)
        plane = side + torch.zeros_like(depth)
        masks = 2.0 * torch.cat([x[:, 3:5], x[:, 6:7]], dim=1) - 1.0
        fine = (relief / 8.0).clamp(-2.0, 2.0)
        return torch.cat(
            [(x[:, :3] - 118.0) / 60.0, masks, relief / 32.0, fine, by_size.clamp(-4.0, 4.0), read, plane],
            dim=1,
        )


class ShapeStore:
    """Pictures of objects on the device; filled by one thread while another trains.

    Args:
        capacity: Most pictures; later ones take the place of the first.
        device: Where.
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity, self.device, self.added = capacity, device, 0
        self.crops = torch.zeros((capacity, 5, PICTURE_SIZE, PICTURE_SIZE), dtype=torch.uint8, device=device)
        self.sizes = torch.zeros((capacity, SIZES), device=device)
        self.words = torch.zeros((capacity, len(SHAPES)), dtype=torch.bool, device=device)
        self.labels = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.masks = torch.zeros(capacity, dtype=torch.uint8, device=device)
        self.usual = torch.zeros(capacity, dtype=torch.bool, device=device)

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, made: ShapeCrops) -> None:
        """Takes pictures over."""
        at = ((torch.arange(len(made.labels)) + self.added) % self.capacity).to(self.device)
        for name in ("crops", "sizes", "words", "labels", "masks", "usual"):
            getattr(self, name)[at] = torch.as_tensor(getattr(made, name)).to(self.device)
        self.added += len(made.labels)

    def pictures(self, at: Tensor) -> Tensor:
        """Pictures as the network takes them. Shape (n, 7, p, p), uint8."""
        held = self.crops[at]
        visible, whole, others = ((held[:, 4:5] >> k) & 1 for k in range(3))
        return torch.cat([held[:, :3], visible, whole, held[:, 3:4], others], dim=1)


def train(
    store: ShapeStore, seconds: float, log: Log, save: Callable[[ShapeNet], None], batch: int
) -> ShapeNet:
    """Trains for some seconds; returns the mean of the weights, which `save` also sees every minute."""
    device = store.device
    torch.manual_seed(7)
    rng = torch.Generator(device=device).manual_seed(7)
    run = Averaging(ShapeNet().to(device), seconds, LEARNING_RATE, WEIGHT_DECAY)
    saved = 0.0
    while run.goes_on():
        if run.step % 500 == 0:  # rare words count more, though not as much more as they are rarer
            counts = torch.bincount(store.labels[: len(store)], minlength=len(SHAPES)).clamp(min=1).float()
            weights = (counts.mean() / counts).pow(0.3).clamp(max=2.0)
        at = torch.randint(len(store), (batch,), generator=rng, device=device)
        crops, sizes = spoilt(store.pictures(at), store.sizes[at], rng)
        crops = run.ready(crops)
        with run.autocast():
            logit = run.net(crops, sizes)
        run.learn(nn_f.cross_entropy(logit.float(), store.labels[at], weights, label_smoothing=0.02))
        run.tell(log, f"{len(store)} pictures")
        if run.spent - saved > 60.0:
            saved = run.spent
            save(run.mean)
    log(f"{run.step} steps of {batch} in {run.spent:.0f} s")
    return run.mean


def spoilt(crops: Tensor, sizes: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures turned, mirrored and shifted, in other light, some without depth or hidden parts; float."""
    n, device = len(crops), crops.device

    def luck(*shape: int) -> Tensor:
        return torch.rand(shape, generator=rng, device=device)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, device=device)

    angle, scale = 0.12 * normal(n), torch.exp(0.08 * normal(n))
    flips = torch.where(luck(n, 2) < 0.5, -1.0, 1.0)
    cos, sin = scale * torch.cos(angle), scale * torch.sin(angle)
    shift = 0.05 * normal(n, 2)
    rows = torch.stack([cos * flips[:, 0], -sin * flips[:, 1], shift[:, 0]], dim=1)
    cols = torch.stack([sin * flips[:, 0], cos * flips[:, 1], shift[:, 1]], dim=1)
    grid = nn_f.affine_grid(torch.stack([rows, cols], dim=1), list(crops.shape), align_corners=False)
    x = nn_f.grid_sample(crops.float(), grid, mode="nearest", align_corners=False)
    sizes = sizes.clone()
    # A picture of more of the scene has a longer side; nobody knows the focal length of every camera.
    sizes[:, 0] += (torch.log(scale) + 0.06 * normal(n)) * sizes[:, 1]
    colour, depth = x[:, :3], x[:, 5:6]
    gain = torch.exp(0.5 * (luck(n, 1, 1, 1) - 0.5)) * torch.exp(0.2 * (luck(n, 3, 1, 1) - 0.5))
    grey = colour.mean(dim=1, keepdim=True)
    keep = torch.where(luck(n, 1, 1, 1) < 0.08, 0.0, 0.7 + 0.5 * luck(n, 1, 1, 1))
    colour = (grey + (colour - grey) * keep) * gain + 20.0 * (luck(n, 1, 1, 1) - 0.5)
    colour = (colour + 6.0 * luck(n, 1, 1, 1) ** 2 * normal(*colour.shape)).clamp(0.0, 255.0)
    noise = 2.0 * luck(n, 1, 1, 1) ** 3 * normal(*depth.shape)
    no_depth = luck(n) < 0.08
    read = (depth > 0.5) & ~no_depth[:, None, None, None]
    depth = torch.where(read, (depth + noise).clamp(1.0, 255.0), 0.0)
    sizes[no_depth, :2] = 0.0
    alone = luck(n) < 0.08
    whole = torch.where(alone[:, None, None, None], x[:, 3:4], x[:, 4:5])
    sizes[alone, 3] = 1.0
    return torch.cat([colour, x[:, 3:4], whole, depth, x[:, 6:7]], dim=1), sizes


@torch.no_grad()
def tell(net: ShapeNet, store: ShapeStore) -> Tensor:
    """Log-odds of all pictures of a store, on the CPU."""
    every = torch.split(torch.arange(len(store), device=store.device), 512)
    net = net.eval()
    return torch.cat([net(store.pictures(at), store.sizes[at]).float().cpu() for at in every])


def calibrate(net: ShapeNet, store: ShapeStore) -> None:
    """Sets the temperature with which the probabilities fit pictures that it did not learn from."""
    net.temperature.fill_(1.0)
    said, labels = tell(net, store), store.labels[: len(store)].cpu()
    scales = np.geomspace(0.5, 3.0, 40)
    fits = [float(nn_f.cross_entropy(said / scale, labels)) for scale in scales]
    net.temperature.fill_(float(scales[int(np.argmin(fits))]))


def measure(net: ShapeNet, store: ShapeStore) -> dict[str, Any]:
    """Share told right, by masks, by word, and where the network is so and so sure; what is confused."""
    p, best = tell(net, store).softmax(dim=1).max(dim=1)
    labels, words = store.labels[: len(store)].cpu(), store.words[: len(store)].cpu()
    masks, usual = store.masks[: len(store)].cpu(), store.usual[: len(store)].cpu()
    right = words[torch.arange(len(best)), best]
    told: dict[str, Any] = {"pictures": len(best), "temperature": float(net.temperature)}
    for name, where in (("all", torch.ones_like(usual)), ("as simulated", usual)):
        for k, kind in enumerate(MASKS):
            here = where & (masks == k)
            told[f"{name}, {kind} masks"] = _shares(p[here], right[here])
    told["by word, as simulated"] = {
        word: [round(float(right[here].float().mean()), 3), int(here.sum())]
        for k, word in enumerate(SHAPES)
        if (here := usual & (labels == k)).any()
    }
    told["by word"] = {
        word: [round(float(right[here].float().mean()), 3), int(here.sum())]
        for k, word in enumerate(SHAPES)
        if (here := labels == k).any()
    }
    pairs = torch.bincount(labels[~right] * len(SHAPES) + best[~right], minlength=len(SHAPES) ** 2)
    most = pairs.argsort(descending=True)[:30].tolist()
    told["confused"] = {
        f"{SHAPES[k // len(SHAPES)]} for a {SHAPES[k % len(SHAPES)]}": int(pairs[k]) for k in most if pairs[k]
    }
    return told


def _shares(p: Tensor, right: Tensor) -> dict[str, Any]:
    """Share right, and at each threshold the share answered and right among those."""
    if not len(p):
        return {"n": 0}
    told: dict[str, Any] = {"n": len(p), "right": round(float(right.float().mean()), 4)}
    for threshold in THRESHOLDS:
        sure = p >= threshold
        shown = float(right[sure].float().mean()) if sure.any() else 0.0
        told[f"at {threshold}"] = [round(float(sure.float().mean()), 4), round(shown, 4)]
    return told


def export(net: ShapeNet, path: Path, version: str) -> float:
    """Writes the network; returns the largest difference to torch on trial pictures."""
    rng = np.random.default_rng(0)
    shape = (3, len(LAYERS), PICTURE_SIZE, PICTURE_SIZE)
    crops = rng.integers(0, 256, shape).astype(np.uint8)
    crops[:, [3, 4, 6]] %= 2
    trial = torch.as_tensor(crops), torch.zeros(3, SIZES)
    module = copy.deepcopy(net).to("cpu").float().to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload]
    axes = {"crops": {0: "n"}, "size": {0: "n"}, "logit": {0: "n"}}
    write_graph(module, trial, path, ["crops", "size"], ["logit"], axes)
    finish_file(path, {"version": version, "shapes": " ".join(SHAPES)})
    got, wanted = both_say(module, trial, path, {"crops": crops, "size": trial[1].numpy()})
    return float(np.abs(got[0] - wanted[0]).max())
