"""Trains the relation scorer: `python -m training.scorer --data DIR --seconds 120 --out DIR`."""

import argparse
import copy
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as nn_f

from training.buffer import ViewBuffer, split_heaps
from training.config import Config
from training.heaps import read_heaps
from training.pairs import candidate_pairs, cut_pairs
from training.parts import halved, write_parts
from training.scorer_network import ScorerNet
from training.segmenter import SLOTS, rate


def draw_pairs(
    buffer: ViewBuffer, views: int, pairs: int, generator: torch.Generator, jitter: bool
) -> tuple[Tensor, Tensor]:
    """Crops and labels of random pairs, half of them positive where there are enough."""
    batch = buffer.draw(views)
    index, label = candidate_pairs(batch, SLOTS, buffer.config.views.min_visible_px)
    if not len(index):
        return torch.zeros((0, 96, 96, 5), device=label.device), label
    # Relations are rare among neighbours: draw both kinds alike, and say in the card that the score is so.
    share = label.mean().clamp(0.05, 0.95)
    weight = torch.where(label > 0, 0.5 / share, 0.5 / (1.0 - share))
    chosen = torch.multinomial(weight, min(pairs, len(weight)), generator=generator)
    return cut_pairs(batch, index[chosen], generator if jitter else None), label[chosen]


def ranking(scores: Tensor, labels: Tensor) -> float:
    """Chance that a positive pair scores above a negative one (area under the ROC curve)."""
    order = scores.argsort()
    ranks = torch.empty_like(scores)
    ranks[order] = torch.arange(1, len(scores) + 1, device=scores.device, dtype=scores.dtype)
    good = labels > 0.5
    positive, negative = int(good.sum()), int((~good).sum())
    if not positive or not negative:
        return float("nan")
    return float((ranks[good].sum() - positive * (positive + 1) / 2) / (positive * negative))


def train(
    config: Config, data: Path, out: Path, seconds: float, views: int, pairs: int = 512
) -> dict[str, float]:
    """Trains for some seconds; returns the last figures on held-out heaps."""
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(config.train.seed)
    training, checking = split_heaps(read_heaps(data), config.train.held_out)
    held_out = ViewBuffer(checking, min(256, views), config, device, config.train.seed + 200)
    held_out.fill()
    buffer = ViewBuffer(training, views, config, device, config.train.seed + 2000)
    buffer.fill(config.train.fill_s)
    generator = torch.Generator(device=device).manual_seed(config.train.seed + 3)
    net = ScorerNet().to(device)
    mean = copy.deepcopy(net).eval().requires_grad_(False)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=config.train.learning_rate, weight_decay=config.train.weight_decay
    )
    tests = [
        draw_pairs(held_out, min(32, views), pairs, generator, jitter=True)
        for _ in range(8 if views > 100 else 1)
    ]
    figures: dict[str, float] = {}
    start = last = time.monotonic()
    step = 0
    while (spent := time.monotonic() - start) < seconds:
        for group in optimiser.param_groups:
            group["lr"] = rate(spent / seconds, config)
        crops, labels = draw_pairs(buffer, min(48, views), pairs, generator, jitter=True)
        if len(crops) < 2:
            continue
        net.train()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.train.half):
            logit = net(crops)
        loss = nn_f.binary_cross_entropy_with_logits(logit.float(), labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        step += 1
        decay = min(0.998, (1.0 + step) / (10.0 + step))
        with torch.no_grad():
            for a, b in zip(mean.state_dict().values(), net.state_dict().values(), strict=True):
                if a.is_floating_point():
                    a.lerp_(b, 1.0 - decay)
        if config.train.renew and step % 16 == 0:
            buffer.renew()
        if time.monotonic() - last > 10.0 or step == 1:
            last = time.monotonic()
            figures = _check(mean, tests)
            _log(out, step=step, seconds=round(spent, 1), loss=float(loss.detach()), **figures)
    figures = _check(mean, tests)
    _log(out, step=step, seconds=round(seconds, 1), event="end", **figures)
    content = io.BytesIO()
    torch.save({"weights": halved(mean), "step": step}, content)
    write_parts(content.getvalue(), out, "scorer.pt")
    return figures


@torch.no_grad()
def _check(net: ScorerNet, tests: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    scores = torch.cat([net(crops).float() for crops, _ in tests if len(crops)])
    labels = torch.cat([label for _, label in tests])
    right = ((scores > 0) == (labels > 0.5)).float().mean()
    loss = nn_f.binary_cross_entropy_with_logits(scores, labels)
    return {
        "auroc": round(ranking(scores, labels), 4),
        "accuracy": round(float(right), 4),
        "nll": round(float(loss), 4),
    }


def _log(out: Path, **entry: object) -> None:
    with (out / "scorer.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--views", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=512)
    asked = parser.parse_args()
    config = Config()
    config = replace(config, corruption=replace(config.corruption, no_depth=1.0))
    train(config, asked.data, asked.out, asked.seconds, asked.views, asked.pairs)


if __name__ == "__main__":
    main()
