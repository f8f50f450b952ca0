"""The frames of a bag as a data set, so that `cpor run` decides each of them."""

import hashlib
from functools import partial
from pathlib import Path

from cpor.bridges.bag_cameras import BagError
from cpor.bridges.bags import Topics, open_bag, read_bag_frame
from cpor.paper.runs.dataset import Dataset, FrameItem


def read_bag_dataset(path: Path, color: str | None = None, depth: str | None = None) -> Dataset:
    """Every frame of a bag that has all its parts.

    Args:
        path: The bag.
        color: Topic of photographs; None: found by type.
        depth: Topic of depth; likewise.
    """
    bag = open_bag(path.resolve(), Topics(color, depth))
    digest = hashlib.sha256(repr(bag.topics).encode())
    for file in [bag.path] if bag.path.is_file() else sorted(bag.path.iterdir()):
        try:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as error:
            raise BagError(f"cannot read {file}: {error.strerror}") from None
    items = tuple(
        FrameItem(
            f"frame_{frame.number:04d}", partial(read_bag_frame, bag.path, bag.topics, bag.alignment, frame)
        )
        for frame in bag.frames
    )
    return Dataset("frames", digest.hexdigest(), items)
