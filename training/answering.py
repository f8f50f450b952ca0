"""What a trained segmenter finds in views that lie in files, left beside them for the relation networks.

`training.segmenter` answers when it has been trained; where only relations are trained anew, the segmenter of
before answers beside it: `python -m training.answering --weights segmenter.onnx --views DIR --seconds 500`.
"""

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from cpor.perception.mask_selection import Detections, Letterbox
from cpor.scene import Observation
from training.config import Config
from training.exported import load_exported
from training.measure import read
from training.network import PEAKS, SegmenterNet, peaks, prepare
from training.view_files import SCORE_THRESHOLD, metres, write_answers

THREADS = 3


def answer(
    net: SegmenterNet, folder: Path, device: torch.device, seed: int = 5, known: set[Path] | None = None
) -> int:
    """Answers for all files of views in a folder, in random order; says how many.

    Args:
        net: The segmenter.
        folder: Of the views.
        device: Where the network is.
        seed: Of the order.
        known: Files that need no answer any more; gets the others.
    """
    done = set() if known is None else known
    paths = sorted({*folder.glob("*.npz")} - done)
    done.update(paths)
    np.random.default_rng(seed).shuffle(paths)
    written: list[Future[None]] = []
    with ThreadPoolExecutor(THREADS) as threads:
        for path, (rgb, depth) in zip(paths, _ahead(threads, paths), strict=True):
            with torch.no_grad():
                seen = prepare(torch.as_tensor(rgb).to(device), torch.as_tensor(depth).to(device))
                maps = net(seen)
                parts = [each.cpu() for each in read(net, maps, *peaks(maps.heat, PEAKS))]
            found = []
            for scores, visible, amodal, hidden in zip(*parts, strict=True):
                keep = scores >= SCORE_THRESHOLD
                shown, whole = (each[keep].to(torch.float16).numpy() for each in (visible, amodal))
                found.append(Detections(scores[keep].numpy(), shown, whole, hidden[keep].numpy()))
            written.append(threads.submit(write_answers, path, found))
    for each in written:
        each.result()  # an answer that could not be written is no answer: say so
    return len(paths)


def _ahead(threads: ThreadPoolExecutor, paths: list[Path]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Files read a few before their turn."""
    waiting = [threads.submit(_on_input, path) for path in paths[: 2 * THREADS]]
    for k in range(len(paths)):
        yield waiting.pop(0).result()
        if k + 2 * THREADS < len(paths):
            waiting.append(threads.submit(_on_input, paths[k + 2 * THREADS]))


def _on_input(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and depth of a file as the product lays them on its network's input."""
    export = Config().export
    with np.load(path, allow_pickle=True) as held:
        rgb, depth = held["rgb"], metres(held["depth"])
    frame = Letterbox.fit(rgb.shape[1:3], (export.height, export.width))
    seen = [Observation(*each) for each in zip(rgb, depth, strict=True)]
    pictures = np.stack([frame.place_rgb(each.rgb) for each in seen])
    return pictures, np.stack([frame.place_depth(each.depth) for each in seen])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="exported segmenter")
    parser.add_argument("--views", type=Path, required=True, help="folder where run_relations leaves views")
    parser.add_argument("--seconds", type=float, default=500.0, help="how long to wait for more")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net: SegmenterNet | None = None
    known: set[Path] = set()
    start = time.monotonic()
    while time.monotonic() - start < asked.seconds:
        if net is None and (views := next(asked.views.glob("*.npz"), None)):
            rgb, depth = (torch.as_tensor(each).to(device) for each in _on_input(views))
            net = SegmenterNet(Config().network).to(device).eval()
            load_exported(net, asked.weights, prepare(rgb, depth))
        if net is None or not answer(net, asked.views, device, known=known):
            time.sleep(1.0)
    print(f"{len(known)} files answered")


if __name__ == "__main__":
    main()
