"""The relation scorer's network: from a picture and the visible masks of two objects to "j obstructs i".

It sees no depth, so that it stays a second, independent source beside the geometry.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as nn_f

CROP = 96


def _conv(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)
    )


class _Block(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.first, self.second = _conv(inside, outside, 2), _conv(outside, outside)
        self.third = nn.Sequential(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return nn_f.relu(x + self.third(self.second(x)))


class ScorerNet(nn.Module):
    """A small residual net; the order of the two masks says who would be blocked by whom."""

    def __init__(self, widths: tuple[int, ...] = (48, 96, 160)) -> None:
        super().__init__()
        self.stem = _conv(5, 32, 2)
        blocks: list[nn.Module] = []
        inside = 32
        for width in widths:
            blocks.append(_Block(inside, width))
            inside = width
        self.body = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Linear(2 * inside, 96), nn.ReLU(inplace=True), nn.Linear(96, 1))

    def forward(self, crops: Tensor) -> Tensor:
        """Logit of each pair. Shape (p,).

        Args:
            crops: Red, green, blue, mask of the blocked, mask of the blocker, 0 to 255. Shape (p, 96, 96, 5).
        """
        x = crops.to(torch.float32).permute(0, 3, 1, 2)
        x = torch.cat([(x[:, :3] - 118.0) / 60.0, x[:, 3:] / 127.5 - 1.0], dim=1)
        x = self.body(self.stem(x))
        pooled = torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1)
        logit: Tensor = self.head(pooled)[:, 0]
        return logit
