"""The segmenter's network: one peak of a heat map an object, and for each peak two small networks of its own.

A residual net with a feature pyramid gives a heat map of objects at stride 8, and features at stride 4. At a
peak, the network writes the weights of a small network (as conditional convolutions do) that turns those
features, and where a pixel lies from the peak, into the visible mask; a second one, which also sees the
visible mask, makes the amodal mask. A judge says how well the visible mask fits, and ranks the peaks by
it. An encoder that knows photographs (`training.colour_encoder`) adds what it sees in colour at each stride.
Colour and depth are prepared inside, so that the exported file takes
the sensor's numbers as they are.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as nn_f

from training.colour_encoder import TAPS, ColourEncoder
from training.config import NetworkConfig

MASK_STRIDE = 4
PEAK_STRIDE = 8
PEAKS = 48
"""Most peaks of a picture that get masks."""

_COORDINATE_SCALE = 32.0


class Maps(NamedTuple):
    """What the network computes of a whole picture.

    Attributes:
        heat: Logits of the heat map. Shape (b, h / 8, w / 8).
        tower: Features the weights of the masks are written from. Shape (b, c, h / 8, w / 8).
        features: What visible masks are made of. Shape (b, f, h / 4, w / 4).
        whole: What amodal masks are made of. Shape (b, f, h / 4, w / 4).
    """

    heat: Tensor
    tower: Tensor
    features: Tensor
    whole: Tensor

    def first(self, count: int) -> "Maps":
        """Those of the first pictures."""
        return Maps(*(each[:count] for each in self))


def prepare(rgb: Tensor, depth: Tensor) -> Tensor:
    """The network's input channels. Shape (b, 8, h, w).

    Args:
        rgb: 0 to 255. Shape (b, h, w, 3).
        depth: 0 or less where there is no reading. Shape (b, h, w). [m]
    """
    colour = (rgb.to(torch.float32).permute(0, 3, 1, 2) - 118.0) / 60.0
    valid = (depth > 0.05).to(torch.float32)[:, None]
    log = torch.log(depth.clamp(min=0.05, max=20.0))[:, None] * valid
    mean = log.sum(dim=(2, 3), keepdim=True) / valid.sum(dim=(2, 3), keepdim=True).clamp(min=1.0)
    level = (log - mean) * valid
    # Height above the surroundings: objects are a few centimetres high, the scene is a metre deep.
    pooled, share = nn_f.avg_pool2d(level, 8), nn_f.avg_pool2d(valid, 8)
    pooled = nn_f.avg_pool2d(pooled, 9, stride=1, padding=4)
    share = nn_f.avg_pool2d(share, 9, stride=1, padding=4)
    around = nn_f.interpolate(pooled / share.clamp(min=1e-3), scale_factor=8.0, mode="nearest")
    relief = (level - around) * valid
    both_x, both_y = valid[..., 1:] * valid[..., :-1], valid[..., 1:, :] * valid[..., :-1, :]
    dx = nn_f.pad((level[..., 1:] - level[..., :-1]) * both_x, (1, 0, 0, 0))
    dy = nn_f.pad((level[..., 1:, :] - level[..., :-1, :]) * both_y, (0, 0, 1, 0))
    channels = [
        (4.0 * level).clamp(-2, 2),
        (20.0 * relief).clamp(-3, 3),
        (80.0 * dx).clamp(-3, 3),
        (80.0 * dy).clamp(-3, 3),
    ]
    return torch.cat([colour, *channels, valid], dim=1)


def _conv(inside: int, outside: int, size: int = 3, stride: int = 1, relu: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inside, outside, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outside),
    ]
    if relu:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class _Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(inside, outside, 3, stride), _conv(outside, outside, relu=False))
        straight = inside == outside and stride == 1
        self.skip = nn.Identity() if straight else _conv(inside, outside, 1, stride, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn_f.relu(self.body(x) + self.skip(x))


class _Context(nn.Module):
    """Adds what the whole picture is like to every place."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(channels, channels // 2), nn.Linear(channels // 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        whole = self.outer(nn_f.relu(self.inner(x.mean(dim=(2, 3)))))
        added: Tensor = x + whole[:, :, None, None]
        return added


def peaks(heat: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best local peaks of heat maps: their height, 0 to 1, and their cells, each of shape (b, count).

    Args:
        heat: Logits. Shape (b, rows, cols).
        count: How many.
    """
    p = torch.sigmoid(heat.to(torch.float32))[:, None]
    peak = torch.where(p >= nn_f.max_pool2d(p, 3, 1, 1), p, torch.zeros_like(p))
    height, cells = torch.topk(peak.flatten(1), count, dim=1)
    return height, cells


class SegmenterNet(nn.Module):
    """From picture and depth to heat map, and from peaks to masks."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        w, n, p = config.widths, config.depths, config.pyramid
        self.config = config
        self.stem = nn.Sequential(_conv(8, 32, 3, 2), _conv(32, w[0], 3, 2))
        self.stages = nn.ModuleList()
        inside = w[0]
        for k, (width, count) in enumerate(zip(w, n, strict=True)):
            first = _Residual(inside, width, 1 if k == 0 else 2)
            self.stages.append(nn.Sequential(first, *(_Residual(width, width, 1) for _ in range(count - 1))))
            inside = width
        self.colour = ColourEncoder()
        self.join = nn.ModuleList(
            nn.Conv2d(seen, width, 1) for seen, width in zip(TAPS.values(), w, strict=True)
        )
        self.context = _Context(w[3])
        self.lateral = nn.ModuleList([_conv(c, p, 1, relu=False) for c in w[1:]])
        self.smooth16, self.smooth8 = _conv(p, p), _conv(p, p)
        fine = w[0]
        self.lateral4, self.reduce8 = _conv(w[0], fine, 1, relu=False), _conv(p, fine, 1, relu=False)
        self.mask_tower = nn.Sequential(
            _conv(fine, fine), _conv(fine, fine), nn.Conv2d(fine, config.mask_features, 1)
        )
        # Hidden parts are smooth and need to see far: their features are coarser, and added to the others.
        self.whole = nn.Sequential(_conv(p, p), _conv(p, p), nn.Conv2d(p, config.mask_features, 1))
        for added in (*self.join, self.whole[-1]):
            nn.init.zeros_(added.weight)
            nn.init.zeros_(added.bias)
        self.tower = nn.Sequential(_conv(p, p), _conv(p, p))
        self.heat = nn.Conv2d(p, 1, 3, padding=1)
        nn.init.constant_(self.heat.bias, -4.0)  # type: ignore[arg-type]
        # Two more numbers than the tower has: how sure the mask is of itself, and its size.
        self.judge = nn.Sequential(nn.Linear(p + 2, p), nn.ReLU(inplace=True), nn.Linear(p, 1))
        self.writer = nn.Sequential(
            nn.Linear(p, 2 * p), nn.ReLU(inplace=True), nn.Linear(2 * p, self._weights())
        )

    def _sizes(self) -> tuple[int, int, int, int]:
        """Numbers in the layers of one mask network."""
        # Features, place and a constant; the constant is all the bias the inner layers need.
        f, h = self.config.mask_features + 3, self.config.head
        return (f * h, h * h, h, 1)

    def _weights(self) -> int:
        # Both networks, how much the amodal one trusts the visible mask, and whether something is hidden.
        return 2 * sum(self._sizes()) + 2

    def forward(self, channels: Tensor) -> Maps:
        """Maps of prepared pictures. Shape of `channels` (b, 8, h, w)."""
        x = self.stem(channels)
        # Undoes `prepare`, and scales as the encoder was taught.
        seen = self.colour((channels[:, :3] * 60.0 + (118.0 - 127.0)) / 128.0)
        levels = []
        for stage, join, colour in zip(self.stages, self.join, seen, strict=True):
            x = stage(x) + join(colour)
            levels.append(x)
        c4, c8, c16, c32 = levels
        p32 = self.lateral[2](self.context(c32))
        p16 = self.smooth16(self.lateral[1](c16) + nn_f.interpolate(p32, scale_factor=2.0, mode="nearest"))
        p8 = self.smooth8(self.lateral[0](c8) + nn_f.interpolate(p16, scale_factor=2.0, mode="nearest"))
        p4 = nn_f.relu(
            self.lateral4(c4) + nn_f.interpolate(self.reduce8(p8), scale_factor=2.0, mode="nearest")
        )
        tower = self.tower(p8)
        features = self.mask_tower(p4)
        whole = features + nn_f.interpolate(self.whole(p8), scale_factor=2.0, mode="nearest")
        return Maps(self.heat(tower)[:, 0], tower, features, whole)

    @staticmethod
    def at_cells(maps: Maps, cells: Tensor) -> Tensor:
        """Features of the tower at some cells, in single precision. Shape (b, m, c)."""
        b, m = cells.shape
        channels = maps.tower.shape[1]
        at = torch.gather(maps.tower.flatten(2), 2, cells[:, None].expand(b, channels, m))
        return at.transpose(1, 2).to(torch.float32)

    def quality(self, maps: Maps, cells: Tensor, visible: Tensor) -> Tensor:
        """Logit of how well each visible mask overlaps its object; wholes should come before parts.

        Args:
            maps: Of the pictures.
            cells: Flat index of each object's cell. Shape (b, m).
            visible: The masks made from there, 0 to 1. Shape (b, m, h / 4, w / 4).
        """
        claimed = (visible > 0.5).to(torch.float32)
        area = claimed.sum((2, 3))
        sure = (visible * claimed).sum((2, 3)) / area.clamp(min=1.0)
        traits = torch.stack([4.0 * sure - 3.0, 0.5 * torch.log(area + 1.0) - 2.0], dim=-1)
        logit: Tensor = self.judge(torch.cat([self.at_cells(maps, cells), traits], dim=-1))[..., 0]
        return logit

    def masks(self, maps: Maps, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Masks of the objects at some cells of the heat map.

        Args:
            maps: Of the pictures.
            cells: Flat index of each object's cell. Shape (b, m).

        Returns:
            Logits of the visible and the amodal masks, each of shape (b, m, h / 4, w / 4), and of being
            hidden in part, of shape (b, m).
        """
        b, m = cells.shape
        across = maps.heat.shape[2]
        # In single precision, outside of any autocast region.
        written = self.writer(self.at_cells(maps, cells))
        h, w = maps.features.shape[2:]
        # Places in single precision: bf16 cannot tell neighbouring pixels apart.
        ys = torch.arange(h, device=cells.device, dtype=torch.float32) / _COORDINATE_SCALE
        xs = torch.arange(w, device=cells.device, dtype=torch.float32) / _COORDINATE_SCALE
        plane = torch.stack(
            [xs[None].expand(h, w), ys[:, None].expand(h, w), torch.ones_like(xs)[None].expand(h, w)]
        )
        place = plane[None].expand(b, 3, h, w)
        shown, whole = (
            torch.cat([each.to(torch.float32), place], dim=1).flatten(2)
            for each in (maps.features, maps.whole)
        )
        ratio = PEAK_STRIDE / MASK_STRIDE
        row = torch.div(cells, across, rounding_mode="floor")
        cx = ((cells - row * across).to(torch.float32) * ratio + 0.5) / _COORDINATE_SCALE
        cy = (row.to(torch.float32) * ratio + 0.5) / _COORDINATE_SCALE
        centre = torch.stack([cx, cy], dim=-1)
        pieces = torch.split(written, [*self._sizes(), *self._sizes(), 1, 1], dim=-1)
        visible = self._small_net(shown, centre, *pieces[:4])
        amodal = self._small_net(whole, centre, *pieces[4:8]) + pieces[8] * visible.clamp(-6.0, 6.0)
        return visible.view(b, m, h, w), amodal.view(b, m, h, w), pieces[9][..., 0]

    def _small_net(
        self, shared: Tensor, centre: Tensor, first: Tensor, second: Tensor, last: Tensor, bias: Tensor
    ) -> Tensor:
        """One mask network of each object on features all share. Shape (b, m, places)."""
        b, m = centre.shape[:2]
        f, h, places = self.config.mask_features + 3, self.config.head, shared.shape[2]
        first = first.reshape(b, m, h, f)
        # Relative places are linear in places: the shift by the centre goes into the constant's weight.
        shift = (first[..., f - 3 : f - 1] * centre[:, :, None]).sum(-1, keepdim=True)
        first = torch.cat([first[..., : f - 1], first[..., f - 1 :] - shift], dim=-1)
        x = nn_f.relu(torch.bmm(first.reshape(b, m * h, f), shared)).view(b * m, h, places)
        x = nn_f.relu(torch.bmm(second.reshape(b * m, h, h), x))
        x = torch.bmm(last.reshape(b * m, 1, h), x)
        return x.view(b, m, places) + bias
