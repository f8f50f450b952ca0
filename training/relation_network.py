"""The relation networks: from a picture of a pair to who obstructs whom, both directions at once.

One sees depth and masks and takes the place of the geometry formula; the other sees colour and visible masks
and is the embedded scorer. They share this architecture and nothing else, so that they stay two sources.
"""

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as nn_f

from cpor.evidence.learnt import RELATIONS
from cpor.evidence.pair_crops import COLOUR_LAYERS, GEOMETRY_LAYERS

Source: TypeAlias = Literal["geometry", "scorer"]
LAYERS: dict[Source, int] = {"geometry": len(GEOMETRY_LAYERS), "scorer": len(COLOUR_LAYERS)}

WIDTHS: dict[Source, tuple[int, ...]] = {"geometry": (40, 80, 144, 192), "scorer": (32, 64, 128, 192)}
BLOCKS = (2, 2, 2, 1)
STEM = 24


def convolve(inside: int, outside: int, size: int, stride: int) -> nn.Sequential:
    """A convolution and its normalisation."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, size, stride, size // 2, bias=False), nn.BatchNorm2d(outside)
    )


class Block(nn.Module):
    """Two convolutions beside a way past them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = convolve(inside, outside, 3, stride), convolve(outside, outside, 3, 1)
        self.past = nn.Identity() if stride == 1 else convolve(inside, outside, 1, 1)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Features of features. Shape (b, c, h, w)."""
        past = self.past(nn_f.avg_pool2d(x, 2) if self.stride == 2 else x)
        return nn_f.relu(past + self.second(nn_f.relu(self.first(x))))


class RelationNet(nn.Module):
    """A small residual net over pictures of pairs.

    Args:
        source: What it sees: `geometry` takes `GEOMETRY_LAYERS`, `scorer` takes `COLOUR_LAYERS`.
        widths: Channels from a quarter of the picture's size on; those of the source by default.
        blocks: Residual blocks at each.
        stem: Channels at half the picture's size.
    """

    def __init__(
        self,
        source: Source,
        widths: tuple[int, ...] | None = None,
        blocks: tuple[int, ...] = BLOCKS,
        stem: int = STEM,
    ) -> None:
        super().__init__()
        self.source = source
        self.stem = convolve(LAYERS[source] + 2 * (source == "geometry"), stem, 5, 2)
        body: list[nn.Module] = []
        inside = stem
        for width, count in zip(widths or WIDTHS[source], blocks, strict=True):
            for k in range(count):
                body.append(Block(inside, width, 2 if k == 0 else 1))
                inside = width
        self.body = nn.Sequential(*body)
        self.head = nn.Sequential(nn.Linear(2 * inside, 128), nn.ReLU(), nn.Linear(128, 2 * len(RELATIONS)))

    def forward(self, crops: Tensor) -> Tensor:
        """Log-odds of both directions and all relations. Shape (n, 2, 3).

        Args:
            crops: Pictures as `cpor.evidence.pair_crops` cuts them. Shape (n, layers, 96, 96), 0 to 255.
        """
        x = nn_f.relu(self.stem(self.prepared(crops.to(torch.float32))))
        x = self.body(x)
        pooled = torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1)
        logit: Tensor = self.head(pooled).reshape(-1, 2, len(RELATIONS))
        return logit

    def prepared(self, x: Tensor) -> Tensor:
        """Layers around 0: depth coarse and fine with its own mask, colours, masks as -1 and 1."""
        if self.source == "scorer":
            return torch.cat([(x[:, :3] - 118.0) / 60.0, 2.0 * x[:, 3:] - 1.0], dim=1)
        depth = x[:, :1]
        valid = (depth > 0.5).to(torch.float32)
        coarse = valid * (depth - 128.0) / 32.0
        fine = (4.0 * coarse).clamp(-2.0, 2.0)
        return torch.cat([coarse, fine, valid, 2.0 * x[:, 1:] - 1.0], dim=1)
