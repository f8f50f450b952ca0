"""Random materials: ordinary ones as things are made of, and wild ones far beyond."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as nn_f

PLAIN, STRIPES, CHECKER, NOISE, PRINT, BAND, SPECKLE, PACKED = range(8)

Random = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Materials:
    """One a row.

    Attributes:
        colours: Three colours, linear RGB. Shape (n, 3, 3).
        pattern: Which of the patterns. Shape (n,).
        direction: Along which stripes and bands run. Shape (n, 3).
        scale: Size of one repetition. Shape (n,). [m]
        offset: Where the pattern begins. Shape (n, 3). [m]
        tile: Printed texture, or package. Shape (n,).
        shine, power, mirror, bump: Strength and sharpness of gloss, of reflections, of roughness. Shape (n,).
    """

    colours: Tensor
    pattern: Tensor
    direction: Tensor
    scale: Tensor
    offset: Tensor
    tile: Tensor
    shine: Tensor
    power: Tensor
    mirror: Tensor
    bump: Tensor

    def __getitem__(self, rows: Tensor) -> "Materials":
        return Materials(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def calmed(self, which: Tensor) -> "Materials":
        """Some of them in muted colours with faint patterns, as tables and walls mostly are."""
        chosen = which[:, None, None]
        grey = self.colours.mean(2, keepdim=True)
        muted = grey + 0.3 * (self.colours - grey)
        muted = muted[:, :1] + 0.2 * (muted - muted[:, :1])
        printed = (self.pattern == PRINT) | (self.pattern == PACKED)
        pattern = torch.where(which & printed, NOISE, self.pattern)
        return replace(self, colours=torch.where(chosen, muted, self.colours), pattern=pattern)

    def plain(self, which: Tensor) -> "Materials":
        """Some of them without a pattern."""
        return replace(self, pattern=torch.where(which, PLAIN, self.pattern))

    @staticmethod
    def join(*many: "Materials") -> "Materials":
        """All rows, in this order."""
        return Materials(
            *(torch.cat([getattr(m, name) for m in many]) for name in Materials.__dataclass_fields__)
        )


def wild(r: Random, count: int, tiles: int, patterned: float, scale: tuple[float, float]) -> Materials:
    """Materials of any colour and pattern.

    Args:
        r: Random numbers from 0 to 1 of a given shape.
        count: How many.
        tiles: How many printed textures there are.
        patterned: Share that has a pattern.
        scale: Range of the size of one repetition. [m]
    """
    hue = r(count, 3, 3)
    grey = hue.mean(2, keepdim=True)
    saturation = r(count, 1, 1) ** 1.1
    colours = (grey + (hue - grey) * saturation * 1.6).clamp(0.0, 1.0)
    bright = 0.03 + 0.95 * r(count, 3, 1)
    colours = colours * bright / colours.amax(2, keepdim=True).clamp(min=1e-3)
    pattern = torch.where(r(count) < patterned, (1 + 7 * r(count)).long().clamp(max=7), 0)
    pattern = torch.where((pattern > 0) & (r(count) < 0.35), PRINT, pattern)
    pattern = torch.where((pattern > 0) & (r(count) < 0.2), PACKED, pattern)
    low, high = scale
    glossy, metal = (r(count) < 0.35).float(), (r(count) < 0.12).float()
    return Materials(
        colours=colours**1.6,
        pattern=pattern,
        direction=nn_f.normalize(r(count, 3) - 0.5 + 1e-4, dim=1),
        scale=low * (high / low) ** r(count),
        offset=r(count, 3),
        tile=(r(count) * tiles).long().clamp(max=tiles - 1),
        shine=0.05 * r(count) + glossy * r(count) * 0.9,
        power=8.0 * 30.0 ** r(count),
        mirror=metal * (0.3 + 0.6 * r(count)) + glossy * 0.12 * r(count),
        bump=(r(count) < 0.3).float() * 0.35 * r(count),
    )


def tamed(made: Materials, r: Random, which: Tensor, neutral: float) -> Materials:
    """Some rows as ordinary things are: neutral or moderate colours, prints rather than stripes.

    Args:
        made: Wild ones.
        r: Random numbers from 0 to 1 of a given shape.
        which: Rows to tame. Shape (n,).
        neutral: Share of white, grey and black ones.
    """
    count = len(which)
    hue = r(count, 3, 3)
    hue = (hue - hue.amin(2, keepdim=True)) / (hue.amax(2, keepdim=True) - hue.amin(2, keepdim=True) + 1e-3)
    luck = r(count, 1, 1)
    saturation = torch.where(luck < neutral, 0.1 * r(count, 1, 1), 0.15 + 0.75 * r(count, 1, 1))
    value = 0.2 + 0.75 * r(count, 3, 1)
    value = torch.where(r(count, 3, 1) < 0.12, 0.08 + 0.12 * r(count, 3, 1), value)
    value = torch.where((luck < 0.5 * neutral), 0.78 + 0.2 * r(count, 3, 1), value)
    colours = (value * (1.0 - saturation * (1.0 - hue))) ** 2.2
    kind = r(count)
    pattern = torch.full_like(made.pattern, STRIPES)
    for below, name in (
        (0.96, SPECKLE),
        (0.93, NOISE),
        (0.82, BAND),
        (0.74, PRINT),
        (0.62, PACKED),
        (0.36, PLAIN),
    ):
        pattern = torch.where(kind < below, name, pattern)
    return replace(
        made,
        colours=torch.where(which[:, None, None], colours, made.colours),
        pattern=torch.where(which, pattern, made.pattern),
        mirror=torch.where(which, 0.25 * made.mirror, made.mirror),
        bump=torch.where(which, 0.4 * made.bump, made.bump),
    )


def metal(made: Materials, r: Random) -> Materials:
    """Bare metal: grey, glossy, mirroring the room."""
    count = len(made.pattern)
    grey = (0.25 + 0.5 * r(count, 1, 1)) * (1.0 + 0.06 * (r(count, 1, 3) - 0.5))
    return replace(
        made,
        colours=grey.expand(count, 3, 3).clone() ** 1.6,
        pattern=torch.zeros_like(made.pattern),
        shine=0.3 + 0.6 * r(count),
        mirror=0.15 + 0.5 * r(count),
    )


def film(made: Materials, r: Random) -> Materials:
    """Film of bags: whitish and glossy, now and then printed, wrinkled."""
    count = len(made.pattern)
    grey = (0.6 + 0.35 * r(count, 1, 1)) * (1.0 + 0.1 * (r(count, 1, 3) - 0.5))
    printed = r(count) < 0.25
    return replace(
        made,
        colours=grey.expand(count, 3, 3).clone(),
        pattern=torch.where(printed, BAND, torch.zeros_like(made.pattern)),
        shine=0.2 + 0.7 * r(count),
        mirror=0.2 * r(count),
        bump=0.1 + 0.5 * r(count),
        scale=0.03 + 0.05 * r(count),
    )
