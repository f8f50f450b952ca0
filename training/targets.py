"""What the segmenter should say of labelled views, and how far off it is."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as nn_f

from training.network import MASK_STRIDE, PEAK_STRIDE, Maps, SegmenterNet, peaks

HIDDEN_SHARE = 0.05
"""An object of which more is hidden counts as occluded, as in the labels of relations."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels in the network's form; slot k is object k + 1.

    Attributes:
        visible, amodal: How far each place belongs to the object, 0 to 1. Shape (b, m, h / 4, w / 4).
        wanted: Whether it is to be found. Shape (b, m).
        score: How good a place each cell of the heat map is to find it from. Shape (b, m, cells).
        heat: The wanted heat map, and where it counts. Shape (b, h / 8, w / 8).
        heat_weight: As `heat`.
        hidden: Share of the object that is hidden. Shape (b, m).
    """

    visible: Tensor
    amodal: Tensor
    wanted: Tensor
    score: Tensor
    heat: Tensor
    heat_weight: Tensor
    hidden: Tensor


def make_targets(ids: Tensor, amodal_bits: Tensor, slots: int, min_visible_px: int) -> Targets:
    """Labels of views.

    Args:
        ids: Object each pixel shows. Shape (b, h, w), uint8.
        amodal_bits: As `ViewBatch.amodal`. Shape (b, h / 2, w / 2).
        slots: Most objects of a view.
        min_visible_px: What shows less is neither wanted nor held against the network.
    """
    _b, h, w = ids.shape
    names = torch.arange(1, slots + 1, device=ids.device)
    visible = _shares(ids, slots)
    bits = ((amodal_bits[:, None] >> names[None, :, None, None].to(torch.int32)) & 1).bool()
    # What is there but not seen, at the same pixels: counted apart, so that an object in the open has none.
    unseen = (bits & (ids[:, None, ::2, ::2] != names[None, :, None, None])).to(torch.float32)
    amodal = (visible + nn_f.avg_pool2d(unseen, MASK_STRIDE // 2)).clamp(max=1.0)
    pixels = visible.sum((2, 3)) * MASK_STRIDE**2
    wanted = pixels >= min_visible_px
    hidden = unseen.sum((2, 3)) / bits.sum((2, 3)).clamp(min=1)

    coarse = nn_f.avg_pool2d(visible, PEAK_STRIDE // MASK_STRIDE)
    rows, cols = h // PEAK_STRIDE, w // PEAK_STRIDE
    ys = torch.arange(rows, device=ids.device, dtype=torch.float32)[:, None]
    xs = torch.arange(cols, device=ids.device, dtype=torch.float32)[None]
    mass = coarse.sum((2, 3)).clamp(min=1e-3)
    cy, cx = (coarse * ys).sum((2, 3)) / mass, (coarse * xs).sum((2, 3)) / mass
    away = (ys - cy[..., None, None]) ** 2 + (xs - cx[..., None, None]) ** 2
    # Near the middle and on the object: the middle of a ring is not the ring.
    spread = (0.5 * mass).clamp(min=0.5)[..., None, None]
    score = (coarse + 1e-4) * torch.exp(-0.5 * away / spread)
    best = score.flatten(2).argmax(2)
    by, bx = (best // cols).float(), (best % cols).float()
    sigma = (0.16 * mass.sqrt()).clamp(0.7, 3.0)[..., None, None]
    bump = torch.exp(-0.5 * ((ys - by[..., None, None]) ** 2 + (xs - bx[..., None, None]) ** 2) / sigma**2)
    # Thin things are found from many cells along them: none of these is quite wrong.
    relative = score / score.flatten(2).amax(2)[..., None, None].clamp(min=1e-6)
    bump = torch.maximum(bump, 0.85 * relative**8)
    heat = (bump * wanted[..., None, None]).amax(1)
    small = (coarse * ((pixels > 0) & ~wanted)[..., None, None]).amax(1) > 0.1
    visible, amodal = _whole(visible), _whole(amodal)
    return Targets(visible, amodal, wanted, score.flatten(2), heat, (~small | (heat > 0.99)).float(), hidden)


def _shares(ids: Tensor, slots: int) -> Tensor:
    """Share of each place that shows each object. Shape (b, slots, h / 4, w / 4)."""
    b, h, w = ids.shape
    rows, cols, side = h // MASK_STRIDE, w // MASK_STRIDE, MASK_STRIDE
    within = ids.view(b, rows, side, cols, side).permute(0, 2, 4, 1, 3).reshape(b, side * side, rows, cols)
    counts = torch.zeros((b, slots + 1, rows, cols), device=ids.device)
    one = torch.ones((b, side * side, rows, cols), device=ids.device)
    counts.scatter_add_(1, within.long().clamp(max=slots), one)
    return counts[:, 1:] / float(side * side)


def _whole(share: Tensor) -> Tensor:
    """Shares of places as masks: things too thin to fill a place, wires and plates on edge, count in full."""
    around = nn_f.max_pool2d(share, 5, 1, 2)
    return share / around.clamp(min=0.25)


def choose_cells(targets: Targets, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which objects to train the masks of, and from which cell: slots and cells, each of shape (b, count)."""
    device = targets.wanted.device
    draw = torch.rand(targets.wanted.shape, generator=generator, device=device) + targets.wanted.float()
    slots = draw.topk(min(count, draw.shape[1]), dim=1).indices
    score = torch.gather(targets.score, 1, slots[..., None].expand(-1, -1, targets.score.shape[2]))
    # A peak may be a cell off: masks are learnt from good cells around the best one too.
    luck = torch.rand(score.shape, generator=generator, device=device)
    return slots, (score * (1.0 - 0.35 * luck)).argmax(2)


def heat_loss(logits: Tensor, targets: Targets) -> Tensor:
    """Penalty-reduced focal loss of the heat map, per object."""
    p = torch.sigmoid(logits.float()).clamp(1e-4, 1.0 - 1e-4)
    peak = (targets.heat > 0.99).float()
    gain = peak * (1.0 - p) ** 2 * torch.log(p)
    loss = (1.0 - peak) * (1.0 - targets.heat) ** 4 * p**2 * torch.log(1.0 - p) * targets.heat_weight
    return -(gain + loss).sum() / peak.sum().clamp(min=1.0)


def mask_losses(
    visible_logit: Tensor, amodal_logit: Tensor, visible: Tensor, amodal: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross entropy and dice of the visible and of the amodal masks, each of shape (b, m).

    Args:
        visible_logit: Said of what is seen. Shape (b, m, h, w).
        amodal_logit: Said of the whole. Shape (b, m, h, w).
        visible: Wanted, 0 to 1. Shape (b, m, h, w).
        amodal: Wanted, 0 to 1. Shape (b, m, h, w).
    """
    # Far from the object a place counts little, at the edges much, in the hidden part more.
    near = nn_f.max_pool2d(nn_f.max_pool2d(amodal, 4), 7, stride=1, padding=3)
    near = 0.08 + nn_f.interpolate((near > 0.05).float(), scale_factor=4.0, mode="nearest")
    losses = []
    for logit, truth, more in ((visible_logit, visible, 0.0), (amodal_logit, amodal, 3.0)):
        edge = nn_f.max_pool2d(truth, 3, 1, 1) + nn_f.max_pool2d(-truth, 3, 1, 1)
        importance = near + 2.0 * edge + more * (amodal - visible)
        cross = nn_f.binary_cross_entropy_with_logits(logit, truth, reduction="none")
        losses.append((cross * importance).sum((2, 3)) / importance.sum((2, 3)))
        p = torch.sigmoid(logit)
        both = (p * p).sum((2, 3)) + (truth * truth).sum((2, 3)) + 1.0
        losses.append(1.0 - 2.0 * (p * truth).sum((2, 3)) / both)
    return losses[0], losses[1], losses[2], losses[3]


MaskLosses = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]


def segmenter_loss(
    net: SegmenterNet,
    maps: Maps,
    targets: Targets,
    counts: tuple[int, int],
    generator: torch.Generator,
    of_masks: MaskLosses = mask_losses,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Total loss of a batch, and its parts.

    Args:
        net: The network.
        maps: What it says of the batch.
        targets: What it should say.
        counts: Objects whose masks are trained, and peaks of its own that it judges, in a picture.
        generator: Random numbers.
        of_masks: `mask_losses`, perhaps compiled.
    """
    slots, cells = choose_cells(targets, counts[0], generator)
    visible_logit, amodal_logit, hidden_logit = net.masks(maps, cells)
    places = slots[..., None, None].expand(-1, -1, *targets.visible.shape[2:])
    visible, amodal = torch.gather(targets.visible, 1, places), torch.gather(targets.amodal, 1, places)
    weight = torch.gather(targets.wanted, 1, slots).float()
    total = weight.sum().clamp(min=1.0)
    names = ("visible_cross", "visible_dice", "amodal_cross", "amodal_dice")
    losses = of_masks(visible_logit, amodal_logit, visible, amodal)
    parts = {name: (loss * weight).sum() / total for name, loss in zip(names, losses, strict=True)}
    occluded = (torch.gather(targets.hidden, 1, slots) > HIDDEN_SHARE).float()
    cross = nn_f.binary_cross_entropy_with_logits(hidden_logit, occluded, reduction="none")
    parts["hidden"] = (cross * weight).sum() / total
    parts["heat"] = heat_loss(maps.heat, targets)
    parts["quality"], parts["split"] = claim_losses(net, maps, targets, counts[1])
    loss = parts["heat"] + 1.5 * sum(parts[name] for name in names)
    return loss + 0.2 * parts["hidden"] + 0.5 * parts["quality"] + 0.3 * parts["split"], parts


def claim_losses(net: SegmenterNet, maps: Maps, targets: Targets, count: int) -> tuple[Tensor, Tensor]:
    """Losses of the network's own peaks, in half of the pictures.

    The first: how far off its judgement of them is, good ones and bad. The second: how high those peaks are
    whose mask is but a fragment of one object, a print, a lid or a face.
    """
    half = max(1, len(maps.heat) // 2)
    some = maps.first(half)
    with torch.no_grad():
        height, cells = peaks(some.heat, count)
        visible = torch.sigmoid(net.masks(some, cells)[0])
        said = (visible > 0.5).flatten(2).float()
        truth = (targets.visible[:half] > 0.5).flatten(2).float()
        shared = torch.bmm(said, truth.transpose(1, 2))
        union = said.sum(2)[..., None] + truth.sum(2)[:, None] - shared
        overlap, best = (shared / union.clamp(min=1.0)).max(2)
        # What is too small to be wanted is neither right nor wrong; peaks of no height are never asked.
        small = ~torch.gather(targets.wanted[:half], 1, best) & (overlap > 0.0)
        weight = (height > 0.02).float() * (~small).float()
        inside = torch.gather(shared, 2, best[..., None])[..., 0] / said.sum(2).clamp(min=1.0)
        fragment = weight * (inside > 0.7).float() * (overlap < 0.5).float()
    logit = net.quality(some, cells, visible)
    cross = nn_f.binary_cross_entropy_with_logits(logit, overlap, reduction="none")
    peak = torch.gather(some.heat.float().flatten(1), 1, cells)
    split = (nn_f.softplus(peak) * fragment).sum() / targets.wanted[:half].sum().clamp(min=1.0)
    return (cross * weight).sum() / weight.sum().clamp(min=1.0), split
