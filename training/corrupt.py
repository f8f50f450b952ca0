"""What cameras do to pictures and depth, batch by batch, in torch."""

import torch
from torch import Tensor
from torch.nn import functional as nn_f

from training.config import CorruptionConfig


class Corruption:
    """Spoils views as real sensors do; every picture is spoilt in its own way.

    Args:
        config: How often.
        generator: Random numbers, on the device of the views.
    """

    def __init__(self, config: CorruptionConfig, generator: torch.Generator) -> None:
        self.config, self.generator, self.device = config, generator, generator.device

    def _r(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device)

    def _n(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def _some(self, b: int, share: float) -> Tensor:
        return (self._r(b) < share)[:, None, None]

    def _smooth(self, b: int, channels: int, cells: tuple[int, int], size: tuple[int, int]) -> Tensor:
        """Smooth noise. Shape (b, channels, h, w)."""
        return nn_f.interpolate(self._n(b, channels, *cells), size=size, mode="bicubic", align_corners=False)

    def colour(self, rgb: Tensor) -> Tensor:
        """Spoilt pictures, 0 to 255 as float. Shape (b, h, w, 3)."""
        b, h, w, _ = rgb.shape
        x = rgb.to(torch.float32).permute(0, 3, 1, 2) / 255.0
        # Most cameras are a little off, some are far off.
        strong = (self._r(b) < self.config.strong_colour)[:, None, None, None]
        much = torch.where(strong, 1.0, 0.35)
        x = x ** torch.exp(0.35 * much * self._n(b, 1, 1, 1)) * torch.exp(0.25 * much * self._n(b, 1, 1, 1))
        mix = torch.eye(3, device=self.device) + 0.08 * much[..., 0] * self._n(b, 3, 3)
        x = torch.einsum("bij,bjhw->bihw", mix, x)
        grey = x.mean(1, keepdim=True)
        keep = torch.where(self._r(b) < self.config.no_colour, 0.0, (0.5 + 1.0 * self._r(b)).clamp(max=1.2))
        x = grey + (x - grey) * keep[:, None, None, None]
        mean = x.mean((2, 3), keepdim=True)
        x = (
            mean
            + (x - mean) * torch.exp(0.2 * much * self._n(b, 1, 1, 1))
            + 0.05 * much * self._n(b, 1, 1, 1)
        )
        x = x * (1.0 + 0.12 * much * self._smooth(b, 1, (3, 4), (h, w)))
        blurred = nn_f.avg_pool2d(nn_f.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)
        x = x + (blurred - x) * self._r(b, 1, 1, 1)
        coarse = nn_f.interpolate(nn_f.avg_pool2d(x, 2), size=(h, w), mode="bilinear", align_corners=False)
        x = torch.where((self._r(b) < 0.2)[:, None, None, None], coarse, x)
        x = x + 0.05 * self._r(b, 1, 1, 1) ** 2 * self._n(b, 3, h, w)
        return (x.clamp(0.0, 1.0) * 255.0).round().permute(0, 2, 3, 1)

    def depth(self, depth: Tensor, rgb: Tensor, ids: Tensor) -> Tensor:
        """Spoilt depth, 0 for no reading. Shape (b, h, w). [m].

        Args:
            depth: As it is. Shape (b, h, w). [m]
            rgb: The pictures, 0 to 255. Shape (b, h, w, 3).
            ids: Object each pixel shows. Shape (b, h, w).
        """
        b, h, w = depth.shape
        if self.config.no_depth >= 1.0:
            return torch.zeros_like(depth)
        clean = self._some(b, self.config.clean_depth)
        z = self._vanish(depth, ids)
        z = self._displace(z)
        # Structured light makes what is near wider, or narrower.
        fat = -nn_f.max_pool2d(-torch.where(z > 0, z, 99.0)[:, None], 5, 1, 2)[:, 0]
        fat = torch.where(fat > 90, 0.0, fat)
        z = torch.where(self._some(b, 0.3), fat, z)
        z = torch.where(self._some(b, 0.12), nn_f.max_pool2d(z[:, None], 5, 1, 2)[:, 0], z)
        soft = nn_f.avg_pool2d(z[:, None], 5, 1, 2, count_include_pad=False)[:, 0]
        z = torch.where(self._some(b, 0.3) & (z > 0), soft, z)
        square = z * z
        z = z + 0.006 * self._r(b, 1, 1) ** 2 * square * self._n(b, h, w)
        z = z + 0.008 * self._r(b, 1, 1) ** 2 * square * self._smooth(b, 1, (h // 12, w // 12), (h, w))[:, 0]
        z = z + 0.015 * self._r(b, 1, 1) ** 2 * square * self._smooth(b, 1, (4, 5), (h, w))[:, 0]
        # Disparity comes in steps: coarse ones far away.
        step = 0.0015 + 0.008 * self._r(b, 1, 1) ** 2
        stepped = 1.0 / (torch.round(1.0 / z.clamp(min=0.1) / step) * step).clamp(min=0.02)
        z = torch.where(self._some(b, 0.4), stepped, z)
        z = torch.where(self._missing(z, rgb), 0.0, z)
        z = torch.where(depth > 0, z, 0.0)
        z = torch.where(clean, depth, z)
        z = z * (0.8 + 0.5 * self._r(b, 1, 1))
        return torch.where(self._some(b, self.config.no_depth), 0.0, z)

    def _vanish(self, depth: Tensor, ids: Tensor) -> Tensor:
        """Some objects give no reading, or that of what lies around them."""
        b = len(depth)
        lost = (self._r(b, 256) < 0.12) & (self._r(b, 1) < 0.35)
        lost[:, 0] = False
        gone = torch.gather(lost, 1, ids.flatten(1).long()).view_as(depth)
        small = nn_f.max_pool2d(torch.where(gone, 0.0, depth)[:, None], 8)
        around = nn_f.interpolate(
            nn_f.max_pool2d(small, 9, 1, 4), size=depth.shape[1:], mode="bilinear", align_corners=False
        )
        instead = torch.where(self._some(b, 0.5), around[:, 0], torch.zeros_like(depth))
        return torch.where(gone, instead, depth)

    def _displace(self, z: Tensor) -> Tensor:
        """Depth not quite where the picture has it: shifted as a whole, wobbling at the edges."""
        b, h, w = z.shape
        shift = 3.0 * self._n(b, 1, 1, 2) * (self._r(b) < 0.4)[:, None, None, None]
        wobble = self._smooth(b, 2, (h // 10, w // 10), (h, w)).permute(0, 2, 3, 1)
        wobble = wobble * 2.0 * (self._r(b) * (self._r(b) < 0.6))[:, None, None, None]
        ys = torch.linspace(-1, 1, h, device=z.device)[:, None].expand(h, w)
        xs = torch.linspace(-1, 1, w, device=z.device)[None].expand(h, w)
        unit = torch.tensor([2.0 / (w - 1), 2.0 / (h - 1)], device=z.device)
        grid = torch.stack([xs, ys], -1)[None] + (shift + wobble) * unit
        return nn_f.grid_sample(z[:, None], grid, mode="nearest", padding_mode="border", align_corners=True)[
            :, 0
        ]

    def _missing(self, z: Tensor, rgb: Tensor) -> Tensor:
        """Where no reading comes: steep edges, dark and glaring places, blots, a frame."""
        b, h, w = z.shape
        high = nn_f.max_pool2d(z[:, None], 3, 1, 1)[:, 0]
        low = -nn_f.max_pool2d(-z[:, None], 3, 1, 1)[:, 0]
        steep = ((high - low) > 0.02 * z) & (self._r(b, h, w) < 0.8) & self._some(b, 0.4)
        light = rgb.to(torch.float32).mean(-1)
        dark = (light < 25.0 * self._r(b, 1, 1)) & self._some(b, 0.3)
        glare = (light > 250.0) & self._some(b, 0.4)
        field = self._smooth(b, 1, (h // 16, w // 16), (h, w))[:, 0]
        blots = (field > 1.3 + 1.2 * self._r(b, 1, 1)) & self._some(b, 0.4)
        dots = (self._r(b, h, w) < 0.15 * self._r(b, 1, 1)) & self._some(b, 0.35)
        edge = torch.zeros_like(steep)
        edge[:, :, : w // 16] = True
        return steep | dark | glare | blots | dots | (edge & self._some(b, 0.1))
