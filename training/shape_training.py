"""Trains the shape network on a CPU: `python -m training.shape_training --data DIR --seconds 500 --out DIR`.

Writes shapes.onnx and its checksum. Pictures of one heap in twenty are held out; on them the temperature is
chosen that makes the probabilities fit, and log.txt says how well the words are told.
"""

import argparse
import copy
import hashlib
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nn_f

from cpor.perception.network_file import CHECKSUMS
from cpor.perception.shapes import LAYERS, SHAPES, TURNED_SIZE, turn_upright
from training.export import _both, _finish, _write
from training.relation_network import _conv

WIDTHS = (32, 64, 96)
BATCH = 96
HELD_OUT = 20
"""One heap in so many is held out."""


class ShapeNet(nn.Module):
    """A small net over turned pictures of single objects; `temperature` divides what it says."""

    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.ones(()))
        pairs = zip((len(LAYERS) + 1, *WIDTHS[:-1]), WIDTHS, strict=True)
        self.body = nn.Sequential(*(nn.Sequential(_conv(a, b, 3, 2), nn.ReLU()) for a, b in pairs))
        side = TURNED_SIZE // 2 ** len(WIDTHS)
        self.head = nn.Sequential(
            nn.Linear(side * side * WIDTHS[-1] + 3, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, len(SHAPES)),
        )

    def forward(self, crops: Tensor, size: Tensor) -> Tensor:
        """Log-odds (n, shapes) from pictures and sizes as `turn_upright` makes them."""
        x = crops.float()
        rgb, masks, depth = x[:, :3] / 255.0 - 0.5, x[:, 3:5], x[:, 5:6]
        read = (depth > 0.5).float()
        relief = (depth - 128.0) / 24.0 * read
        x = self.body(torch.cat([rgb, masks, relief, read, x[:, 6:7]], dim=1))
        told: Tensor = self.head(torch.cat([x.flatten(1), size], dim=1)) / self.temperature
        return told


def spoilt(crops: Tensor, sizes: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures mirrored and shifted, some without depth or colour, some without hidden parts."""
    crops, sizes = crops.clone(), sizes.clone()
    n = len(crops)

    def luck(share: float) -> Tensor:
        return torch.rand(n, generator=rng) < share

    for axis in (2, 3):
        some = luck(0.5)
        crops[some] = crops[some].flip(axis)
    for axis, step in ((2, 1), (2, -1), (3, 1), (3, -1)):
        some = luck(0.2)
        crops[some] = crops[some].roll(step, axis)
    no_depth = luck(0.1)
    crops[no_depth, 5] = 0
    sizes[no_depth, :2] = 0.0
    alone = luck(0.08)
    crops[alone, 4] = crops[alone, 3]
    grey = luck(0.1)
    crops[grey, :3] = crops[grey, :3].float().mean(dim=1, keepdim=True).to(torch.uint8)
    gain = torch.empty(n, 3, 1, 1).uniform_(0.8, 1.2, generator=rng)
    crops[:, :3] = (crops[:, :3].float() * gain).clamp(0, 255).to(torch.uint8)
    # No one knows the focal length of every camera.
    sizes[:, 0] += 0.08 * torch.randn(n, generator=rng) * sizes[:, 1]
    return crops, sizes


def train(data: Path, out: Path, seconds: float, threads: int) -> dict[str, float]:
    """Train, calibrate, export; returns how well held-out pictures are told."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    rng = torch.Generator().manual_seed(0)
    shards = [np.load(path) for path in sorted(data.glob("shapes_*.npz"))]
    turned = [turn_upright(each["crops"], each["sizes"]) for each in shards]
    crops, sizes = (torch.as_tensor(np.concatenate([each[k] for each in turned])) for k in (0, 1))
    labels, heaps = (
        torch.as_tensor(np.concatenate([each[name] for each in shards])) for name in ("labels", "heaps")
    )
    held = heaps % HELD_OUT == 0
    ours = torch.nonzero(~held)[:, 0]
    # Rare words count more, though not as much more as they are rarer.
    counts = torch.bincount(labels[ours], minlength=len(SHAPES)).clamp(min=1).float()
    weights = (counts.mean() / counts).sqrt().clamp(max=3.0)
    net = ShapeNet()
    mean = copy.deepcopy(net)
    tuner = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.02)
    begun, steps = time.monotonic(), 0
    while (gone := (time.monotonic() - begun) / seconds) < 1.0:
        for group in tuner.param_groups:
            group["lr"] = 2e-3 * min(1.0, steps / 60) * max(0.02, 0.5 + 0.5 * float(np.cos(np.pi * gone)))
        at = ours[torch.randint(len(ours), (BATCH,), generator=rng)]
        picture, size = spoilt(crops[at], sizes[at], rng)
        loss = nn_f.cross_entropy(net(picture, size), labels[at], weights, label_smoothing=0.03)
        tuner.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        tuner.step()
        steps += 1
        with torch.no_grad():
            keep = min(0.995, 1.0 - 1.0 / (1.0 + steps / 10.0))
            for slow, fast in zip(mean.state_dict().values(), net.state_dict().values(), strict=True):
                if slow.is_floating_point():
                    slow.mul_(keep).add_(fast, alpha=1.0 - keep)
                else:
                    slow.copy_(fast)
    mean.eval()
    said = _tell(mean, crops[held], sizes[held])
    scales = np.geomspace(0.5, 3.0, 40)
    fits = [float(nn_f.cross_entropy(said / scale, labels[held])) for scale in scales]
    mean.temperature.fill_(float(scales[int(np.argmin(fits))]))
    told = _measure(said / mean.temperature, labels[held])
    told |= {"steps": steps, "pictures": len(ours), "held_out": int(held.sum())}
    told["farthest"] = export(mean, out / "shapes.onnx")
    _list_checksum(out / "shapes.onnx")
    (out / "shapes_log.json").write_text(json.dumps(told, indent=1) + "\n")
    return told


def _tell(net: ShapeNet, crops: Tensor, sizes: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([net(crops[k : k + 256], sizes[k : k + 256]) for k in range(0, len(crops), 256)])


def _measure(logit: Tensor, labels: Tensor) -> dict[str, float]:
    p, best = logit.softmax(dim=1).max(dim=1)
    right = best == labels
    sure = p >= 0.5
    told = {"right": float(right.float().mean()), "sure": float(sure.float().mean())}
    told["right_where_sure"] = float(right[sure].float().mean())
    for k, word in enumerate(SHAPES):
        if (labels == k).any():
            told[f"right {word}"] = float(right[labels == k].float().mean())
    return told


def export(net: ShapeNet, path: Path) -> float:
    """Writes the network; returns the largest difference to torch on a trial picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    crops = rng.integers(0, 256, (3, len(LAYERS), TURNED_SIZE, TURNED_SIZE)).astype(np.uint8)
    crops[:, [3, 4, 6]] %= 2
    trial = torch.as_tensor(crops), torch.zeros(3, 3)
    module = copy.deepcopy(net).eval()
    _write(
        module,
        trial,
        path,
        ["crops", "size"],
        ["logit"],
        {"crops": {0: "n"}, "size": {0: "n"}, "logit": {0: "n"}},
    )
    _finish(path, {"version": "1", "shapes": " ".join(SHAPES)})
    got, wanted = _both(module, trial, path, {"crops": crops, "size": trial[1].numpy()})
    return float(np.abs(got[0] - wanted[0]).max())


def _list_checksum(path: Path) -> None:
    """Adds the file to the list of checksums beside it."""
    listed = path.with_name(CHECKSUMS)
    known = json.loads(listed.read_text()) if listed.is_file() else {}
    known[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    listed.write_text(json.dumps(known, indent=2) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    train(asked.data, asked.out, asked.seconds, asked.threads)


if __name__ == "__main__":
    main()
