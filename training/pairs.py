"""Pairs of neighbouring objects cut out of views, labelled with who hides whom, for the relation scorer."""

import torch
from torch import Tensor
from torch.nn import functional as nn_f

from training.buffer import Batch
from training.scorer_network import CROP
from training.targets import HIDDEN_SHARE

MARGIN = 0.15
"""Of the crop around the box of both masks, on each side, as a share of its longer side."""

_REACH_PX = 16
"""Objects whose masks are further apart than this are no candidates. [px]"""


def hides(ids: Tensor, amodal: Tensor, slots: int) -> Tensor:
    """Share of each object that each other one hides. Shape (b, slots, slots): [blocked, blocker].

    Args:
        ids: Object each pixel shows. Shape (b, h, w).
        amodal: Bits of the objects at every second pixel. Shape (b, h / 2, w / 2).
        slots: Most objects of a view.
    """
    names = torch.arange(1, slots + 1, device=ids.device)
    seen = (ids[:, None, ::2, ::2] == names[None, :, None, None]).flatten(2).float()
    whole = ((amodal[:, None] >> names[None, :, None, None].to(torch.int32)) & 1).flatten(2).float()
    return torch.bmm(whole, seen.transpose(1, 2)) / whole.sum(2, keepdim=True).clamp(min=1.0)


def candidate_pairs(batch: Batch, slots: int, min_visible_px: int) -> tuple[Tensor, Tensor]:
    """Ordered pairs of objects that are near each other, and whether the second hides the first.

    Returns:
        (view, blocked slot, blocker slot) of each pair, shape (n, 3), and labels, shape (n,).
    """
    names = torch.arange(1, slots + 1, device=batch.ids.device)
    b, h, w = batch.ids.shape
    within = batch.ids.view(b, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3).reshape(b, 16, h // 4, w // 4)
    counts = torch.zeros((b, slots + 1, h // 4, w // 4), device=names.device)
    counts.scatter_add_(1, within.long().clamp(max=slots), torch.ones_like(within, dtype=torch.float32))
    coarse, pixels = (counts[:, 1:] > 0).float(), counts[:, 1:].sum((2, 3))
    wide = nn_f.max_pool2d(coarse, 2 * (_REACH_PX // 4) + 1, 1, _REACH_PX // 4)
    near = torch.bmm(wide.flatten(2), coarse.flatten(2).transpose(1, 2)) > 0
    there = pixels >= min_visible_px
    near = near & there[:, :, None] & there[:, None]
    near &= ~torch.eye(slots, dtype=torch.bool, device=near.device)[None]
    index = near.nonzero()
    share = hides(batch.ids, batch.amodal, slots)
    return index, (share[index[:, 0], index[:, 1], index[:, 2]] > HIDDEN_SHARE).float()


def cut_pairs(batch: Batch, index: Tensor, generator: torch.Generator | None) -> Tensor:
    """Crops of pairs: colours, mask of the blocked, mask of the blocker, 0 to 255. Shape (n, 96, 96, 5).

    The crop is the square around the box of both masks, with a margin; it may reach beyond the picture,
    where everything is 0. With a generator, masks and crops are jittered as a segmenter would.
    """
    view, first, second = index.unbind(1)
    ids = batch.ids[view]
    blocked, blocker = ids == (first + 1)[:, None, None], ids == (second + 1)[:, None, None]
    both = blocked | blocker
    h, w = ids.shape[1:]
    rows, cols = both.any(2).float(), both.any(1).float()
    top, bottom = rows.argmax(1).float(), h - rows.flip(1).argmax(1).float()
    left, right = cols.argmax(1).float(), w - cols.flip(1).argmax(1).float()
    side = torch.maximum(bottom - top, right - left) * (1.0 + 2.0 * MARGIN)
    cy, cx = 0.5 * (top + bottom), 0.5 * (left + right)
    masks = torch.stack([blocked, blocker], 1).float()
    if generator is not None:
        n, device = len(index), ids.device

        def r(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device=device)

        side = side * (0.9 + 0.3 * r(n))
        cy, cx = cy + 0.06 * side * (r(n) - 0.5), cx + 0.06 * side * (r(n) - 0.5)
        grown = nn_f.max_pool2d(masks, 5, 1, 2)
        shrunk = -nn_f.max_pool2d(-masks, 5, 1, 2)
        luck = r(n, 2, 1, 1)
        masks = torch.where(luck < 0.2, grown, torch.where(luck > 0.8, shrunk, masks))
    # Twice as fine, then halved: the product shrinks with care for fine patterns, too.
    fine = 2 * CROP
    step = (torch.arange(fine, device=ids.device) + 0.5) / fine - 0.5
    y = (cy[:, None] + side[:, None] * step) / h * 2.0 - 1.0
    x = (cx[:, None] + side[:, None] * step) / w * 2.0 - 1.0
    grid = torch.stack([x[:, None].expand(-1, fine, -1), y[:, :, None].expand(-1, -1, fine)], -1)
    colour = batch.rgb[view].to(torch.float32).permute(0, 3, 1, 2)
    layers = torch.cat([colour, 255.0 * masks], 1)
    crops = nn_f.grid_sample(layers, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return nn_f.avg_pool2d(crops, 2).clamp(0, 255).round().permute(0, 2, 3, 1)
