"""Trains the segmenter: `python -m training.segmenter --data DIR --seconds 900 --out DIR [--resume]`."""

import argparse
import copy
import io
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from training.answering import answer
from training.buffer import Batch, FileViews, ViewBuffer, Views, mix, split_heaps
from training.config import Config
from training.exported import load_exported
from training.heaps import read_heaps
from training.measure import decode, keep_distinct, measure
from training.network import Maps, SegmenterNet, prepare
from training.parts import halved, join_parts, write_parts
from training.targets import MaskLosses, make_targets, mask_losses, segmenter_loss
from training.view_files import MOST_OBJECTS

SLOTS = MOST_OBJECTS
"""Most objects of a heap, as `HeapConfig` has it."""


def rate(share: float, config: Config) -> float:
    """Learning rate after a share of the time: a short rise, then a cosine to nearly nothing."""
    t = config.train
    if share < t.warmup:
        return t.learning_rate * (share / t.warmup + 0.01)
    along = min((share - t.warmup) / (1.0 - t.warmup), 1.0)
    return t.learning_rate * (0.005 + 0.995 * 0.5 * (1.0 + math.cos(math.pi * along)))


def _by_decay(net: SegmenterNet, colour: bool) -> list[tuple[float, list[nn.Parameter]]]:
    """Parameters of the encoder, or all others: those that decay (1) and those that do not (0)."""
    chosen = [
        p
        for name, p in net.named_parameters()
        if name.startswith("colour.") == colour and not (colour and ".norm." in name)
    ]
    return [(1.0, [p for p in chosen if p.dim() > 1]), (0.0, [p for p in chosen if p.dim() <= 1])]


class Run:
    """A training run: network, running mean of its weights, optimiser and log."""

    def __init__(self, config: Config, device: torch.device, out: Path) -> None:
        torch.manual_seed(config.train.seed)
        self.config, self.device, self.out = config, device, out
        self.net = SegmenterNet(config.network).to(device)
        self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.mean = copy.deepcopy(self.net).eval().requires_grad_(False)
        groups = [
            {"params": list(params), "weight_decay": decay * config.train.weight_decay, "share": share}
            for part, share in ((False, 1.0), (True, config.train.colour_rate))
            for decay, params in _by_decay(self.net, colour=part)
            if params
        ]
        on_gpu = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            groups, lr=config.train.learning_rate, betas=(0.9, 0.99), fused=on_gpu
        )
        self.forward: Callable[[Tensor], Maps] = torch.compile(self.net) if config.train.fuse else self.net
        self.of_masks: MaskLosses = torch.compile(mask_losses) if config.train.fuse else mask_losses
        self.generator = torch.Generator(device=device).manual_seed(config.train.seed + 1)
        self.step, self.spent, self.score_threshold = 0, 0.0, 0.45

    def train_step(self, batch: Batch, share: float) -> dict[str, float]:
        """One step; the parts of the loss every hundredth time, else nothing."""
        for group in self.optimiser.param_groups:
            group["lr"] = group["share"] * rate(share, self.config)
        self.net.train()
        targets = make_targets(batch.ids, batch.amodal, SLOTS, self.config.views.min_visible_px)
        channels = prepare(batch.rgb, batch.depth).to(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.config.train.half):
            maps = self.forward(channels)
        counts = (self.config.train.instances, self.config.train.claims)
        loss, parts = segmenter_loss(self.net, maps, targets, counts, self.generator, self.of_masks)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.net.parameters(), 3.0)
        # One gradient that is no number would end the run: such a step is left out.
        for value in self.net.parameters():
            if value.grad is not None:
                value.grad.nan_to_num_(0.0, 0.0, 0.0)
        self.optimiser.step()
        self.step += 1
        self._average()
        if self.step % 100 and self.step > 5:
            return {}
        return {
            "loss": float(loss.detach()),
            **{name: float(value.detach()) for name, value in parts.items()},
        }

    def _average(self) -> None:
        decay = min(self.config.train.ema, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            running, now = list(self.mean.state_dict().values()), list(self.net.state_dict().values())
            floats = [(a, b) for a, b in zip(running, now, strict=True) if a.is_floating_point()]
            torch._foreach_lerp_([a for a, _ in floats], [b for _, b in floats], 1.0 - decay)

    def save(self, folder: Path) -> None:
        """The running mean in half precision, in parts; it is what gets exported."""
        halves = halved(self.mean)
        content = io.BytesIO()
        notes = {"config": asdict(self.config), "step": self.step, "score_threshold": self.score_threshold}
        torch.save({"weights": halves, **notes}, content)
        write_parts(content.getvalue(), folder, "segmenter.pt")

    def save_state(self, path: Path) -> None:
        """Everything needed to go on, whole or not at all; stays on the machine that trains."""
        part = path.with_suffix(".part")
        state = {
            "net": self.net.state_dict(),
            "mean": self.mean.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "spent": self.spent,
        }
        torch.save(state, part)
        part.replace(path)

    def load_state(self, path: Path) -> None:
        """Goes on where `save_state` left."""
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.net.load_state_dict(state["net"])
        self.mean.load_state_dict(state["mean"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.spent = state["step"], state["spent"]

    def load_mean(self, folder: Path) -> None:
        """Begins from weights trained before, for fine-tuning."""
        weights = torch.load(join_parts(folder, "segmenter.pt"), map_location=self.device, weights_only=True)[
            "weights"
        ]
        own = self.net.state_dict()
        fits = {
            k: v.float() if v.is_floating_point() else v
            for k, v in weights.items()
            if k in own and own[k].shape == v.shape
        }
        for net in (self.net, self.mean):
            net.load_state_dict({**net.state_dict(), **fits})
        # A network of another make gives what it has in common; the rest begins anew.
        self.log(event="begin", loaded=len(fits), new=sorted(set(own) - set(fits)))

    def load_exported(self, path: Path, batch: Batch) -> None:
        """Begins from an exported file, with what the network has beyond it at zero."""
        for net in (self.net, self.mean):
            found = load_exported(net, path, prepare(batch.rgb, batch.depth))
        self.log(event="begin", file=path.name, layers=len(found))

    def log(self, **entry: object) -> None:
        """One line of `segmenter.jsonl`."""
        with (self.out / "segmenter.jsonl").open("a") as file:
            file.write(json.dumps({"step": self.step, "seconds": round(self.spent, 1), **entry}) + "\n")


def check(run: Run, held_out: Views, views: int, size: int = 16) -> dict[str, dict[str, float]]:
    """Quality on held-out heaps: clean depth, spoilt depth, no depth."""
    found = {}
    size = min(size, views, held_out.filled)
    whole = range(0, min(views, held_out.filled) - size + 1, size)
    clean = [held_out.clean(torch.arange(k, k + size, device=run.device)) for k in whole]
    flat = [replace(b, depth=torch.zeros_like(b.depth)) for b in clean]
    spoilt = [held_out.draw(size) for _ in whole]
    for name, batches in (("rgbd", clean), ("spoilt", spoilt), ("rgb", flat)):
        found[name] = measure(
            run.mean, batches, SLOTS, run.config.views.min_visible_px, run.score_threshold
        ).summary()
    return found


def choose_threshold(run: Run, held_out: ViewBuffer, views: int = 96, size: int = 16) -> float:
    """The score from which something is called an object: best F1 on held-out heaps, half of them spoilt."""
    size = min(size, views, held_out.filled)
    starts = range(0, min(views, held_out.filled) - size + 1, size)
    batches = [
        held_out.draw(size) if k % 2 else held_out.clean(torch.arange(at, at + size, device=run.device))
        for k, at in enumerate(starts)
    ]
    best = (-1.0, run.score_threshold)
    for threshold in (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6):
        found = measure(run.mean, batches, SLOTS, run.config.views.min_visible_px, threshold)
        best = max(best, (2.0 * found.matched / max(found.wanted + found.found, 1), threshold))
    return best[1]


def draw_samples(run: Run, batch: Batch, path: Path) -> None:
    """A page of pictures: what the camera gave, its depth, what is there, what was found."""
    colours = np.random.default_rng(3).integers(60, 256, (256, 3)).astype(np.uint8)
    colours[0] = 0
    scores, visible, _ = decode(run.mean, batch.rgb, batch.depth)
    rows = []
    for k in range(len(batch.rgb)):
        keep = keep_distinct(scores[k].cpu(), visible[k].cpu(), run.score_threshold).to(visible.device)
        masks = visible[k][keep]
        best = (
            torch.where(masks.amax(0) > 0.5, masks.argmax(0) + 1, 0)
            if len(masks)
            else torch.zeros_like(visible[k][0])
        )
        depth = batch.depth[k].cpu().numpy()
        low, high = np.percentile(depth, 2), np.percentile(depth, 98)
        grey = np.clip((depth - low) / max(high - low, 1e-3) * 255, 0, 255).astype(np.uint8)
        found = np.kron(colours[best.long().cpu().numpy()], np.ones((2, 2, 1), np.uint8))
        left = batch.rgb[k].cpu().numpy().astype(np.uint8)[::2, ::2]
        rows.append(
            np.concatenate(
                [
                    left,
                    np.repeat(grey[::2, ::2, None], 3, 2),
                    colours[batch.ids[k].cpu().numpy()][::2, ::2],
                    found,
                ],
                1,
            )
        )
    Image.fromarray(np.concatenate(rows)).save(path)


def train(
    config: Config,
    data: Path,
    out: Path,
    seconds: float,
    total_seconds: float,
    state: Path | None,
    begin: Path | None,
    colour: Path | None = None,
    photographs: Path | None = None,
) -> Run:
    """Trains for some seconds of a schedule that may be longer; goes on from `state` where it exists.

    Args:
        config: Everything.
        data: Folder of heaps.
        out: Folder for weights, curves and pictures.
        seconds: How long to train now.
        total_seconds: Length of the whole schedule.
        state: File to go on from, and to leave the state in.
        begin: Weights to go on from: a folder a training left, or an exported file.
        colour: ImageNet weights of the colour encoder.
        photographs: Folder where `training.run_relations` leaves views; gets answers for all of them.
    """
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    # Small networks of the masks multiply in single precision: ten bits of it are enough.
    torch.set_float32_matmul_precision("high")
    began = time.monotonic()
    training, checking = split_heaps(read_heaps(data), config.train.held_out)
    run = Run(config, device, out)
    if state is not None and state.exists():
        run.load_state(state)
    elif begin is not None and begin.is_dir():
        run.load_mean(begin)
    held_out = ViewBuffer(checking, min(192, config.train.views), config, device, config.train.seed + 100)
    held_out.fill()
    # Another seed after a resume: the same pictures again would be worth less.
    buffer = ViewBuffer(training, config.train.views, config, device, config.train.seed + 1000 + run.step)
    buffer.fill(config.train.fill_s)
    if not run.step and colour is not None:
        for net in (run.net, run.mean):
            net.colour.load_imagenet(colour)
    if not run.step and begin is not None and begin.is_file():
        run.load_exported(begin, buffer.draw(config.train.batch))
        run.log(event="loaded", **check(run, held_out, 48))
    taken = held_taken = None
    if photographs is not None:
        taken, held_taken = (
            FileViews(photographs, f"{name}_0*.npz", count, config, device, config.train.seed + 2000)
            for name, count in (
                ("catalogue", config.train.photographs),
                ("held", min(512, config.train.photographs)),
            )
        )
        taken.follow()
    run.log(
        event="views", heaps=len(training), views=buffer.filled, drawing_s=round(time.monotonic() - began, 1)
    )
    start = last_save = time.monotonic()
    already, since, counted = run.spent, start, run.step
    while (spent := time.monotonic() - start) < seconds:
        run.spent = already + spent
        of_catalogue = round(config.train.photograph_share * config.train.batch)
        if taken is not None and taken.filled >= 8 * of_catalogue:
            batch = buffer.draw(config.train.batch - of_catalogue)
            batch = mix(batch, taken.draw(of_catalogue), run.generator)
        else:
            batch = buffer.draw(config.train.batch)
        parts = run.train_step(batch, run.spent / total_seconds)
        if config.train.renew and run.step % max(config.views.batch // config.train.renew, 1) == 0:
            buffer.renew()
        if parts:
            now = time.monotonic()
            speed = (run.step - counted) * config.train.batch / max(now - since, 1e-3)
            since, counted = now, run.step
            run.log(rate=rate(run.spent / total_seconds, config), images_per_s=round(speed), **parts)
        if time.monotonic() - last_save > config.train.checkpoint_s:
            last_save = time.monotonic()
            run.save(out)
            if state is not None:
                run.save_state(state)
            run.log(**check(run, held_out, 48))
    run.save(out)
    if state is not None:
        run.save_state(state)
    if photographs is not None and taken is not None and held_taken is not None:
        answered = answer(run.mean, photographs, device)
        run.log(event="answered", files=answered, photographs=taken.filled)
        if held_taken.read():
            run.log(event="catalogue", **check(run, held_taken, min(256, held_taken.filled)))
    run.score_threshold = choose_threshold(run, held_out)
    run.save(out)
    run.log(event="end", score_threshold=run.score_threshold, **check(run, held_out, held_out.filled))
    draw_samples(run, held_out.draw(min(8, held_out.filled)), out / "samples.png")
    return run


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=900.0, help="how long to train now")
    parser.add_argument(
        "--total-seconds", type=float, help="length of the whole schedule; default: --seconds"
    )
    parser.add_argument("--state", type=Path, help="file to go on from, and to leave the state in")
    parser.add_argument("--begin", type=Path, help="folder with weights, or exported file, to go on from")
    parser.add_argument("--colour", type=Path, help="ImageNet weights of the colour encoder (.pth)")
    parser.add_argument("--photographs", type=Path, help="folder where run_relations leaves its views")
    parser.add_argument("--most-photographs", type=int, default=Config().train.photographs)
    parser.add_argument("--views", type=int, default=Config().train.views)
    parser.add_argument("--batch", type=int, default=Config().train.batch)
    parser.add_argument("--fuse", action="store_true", help="compile the network first")
    parser.add_argument("--rate", type=float, default=Config().train.learning_rate)
    asked = parser.parse_args()
    config = Config()
    changed = {"views": asked.views, "batch": asked.batch, "learning_rate": asked.rate, "fuse": asked.fuse}
    changed["photographs"] = asked.most_photographs
    config = replace(config, train=replace(config.train, **changed))
    total = asked.total_seconds or asked.seconds
    train(
        config, asked.data, asked.out, asked.seconds, total, asked.state, asked.begin, asked.colour,
        asked.photographs,
    )  # fmt: skip


if __name__ == "__main__":
    main()
