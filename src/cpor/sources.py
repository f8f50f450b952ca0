"""Where the masks and scores of a scene come from, told by content: a promise is an equality over this.

A label can be written on anything. A digest of the frame, the masks and the scores, and a fingerprint of what
made them (weights, thresholds, full configuration), can be compared with what a model was tested with.

A record in a file is a label too, whatever digests it holds: an edited mask can come with another one. So a
promise needs masks and scores that this process made, or makes again alike (`cpor.promise.prove_sources`).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from cpor.scene import Observation, Scene, Sources

_BYTES = 16
"""Bytes of a digest: two different contents share one with probability 2^-128."""


def digest_frame(observation: Observation) -> str:
    """Digest of a frame: its colours and its depth readings."""
    arrays = [observation.rgb]
    if observation.depth is not None:
        arrays.append(np.nan_to_num(observation.depth))
    return _digest(arrays)


def digest_masks(scene: Scene) -> str | None:
    """Digest of the masks of a scene; None where it has none."""
    if scene.visible_ids is None:
        return None
    arrays = [scene.visible_ids, np.array(scene.ids, np.int64)]
    for o in scene.objects:
        if o.amodal is not None:
            arrays += [np.array([o.id, o.amodal.top, o.amodal.left]), o.amodal.pixels]
    return _digest(arrays)


def digest_scores(scene: Scene) -> str | None:
    """Digest of the semantic scores of a scene, pairs asked in vain included; None where it has none."""
    if scene.semantic_scores is None:
        return None
    pairs = sorted(scene.semantic_scores.scores)
    values = [scene.semantic_scores.scores[pair] for pair in pairs]
    return _digest([np.array(pairs, np.int64), np.array([-1.0 if v is None else v for v in values])])


def describe_sources(
    scene: Scene, segmenter: str | None, scorer: str | None, made_here: Iterable[str] = ()
) -> Sources:
    """The record of a scene as it is now; see `Sources`."""
    return Sources(
        digest_frame(scene.observation),
        digest_masks(scene),
        segmenter if scene.visible_ids is not None else None,
        digest_scores(scene),
        scorer if scene.semantic_scores is not None else None,
        frozenset(made_here),
    )


def fingerprint(maker: object) -> str | None:
    """What a segmenter or scorer says that it is, down to its weights; None where it does not say.

    A class that is not of this package is named before what it says: it cannot pass for one of ours.
    """
    value, kind = getattr(maker, "fingerprint", None), type(maker)
    if not isinstance(value, str) or not value:
        return None
    is_ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return value if is_ours else f"{kind.__module__}.{kind.__qualname__}: {value}"


def fingerprint_settings(name: str, settings: object, weights: Path | None = None) -> str:
    """A readable name with a digest of weights and settings: `embedded 2 @3f2a…`."""
    content = json.dumps(settings, sort_keys=True, default=str).encode()
    return f"{name} @{_hex(content, _file_digest(weights).encode() if weights else b'')}"


def verified_sources(scene: Scene) -> Sources | None:
    """The record a scene came with, less what it says of another frame, other masks or other scores."""
    claimed = scene.sources
    if claimed is None or claimed.frame != digest_frame(scene.observation):
        return None
    if claimed.masks != digest_masks(scene):
        return Sources(claimed.frame)
    if claimed.scores != digest_scores(scene):
        made_here = claimed.made_here & {"masks"}
        return Sources(claimed.frame, claimed.masks, claimed.segmenter, made_here=made_here)
    return claimed


COPY_BITS = 6
"""Two pictures are copies of one where at most this many of 720 gradient signs differ."""


def near_copies(looks: Sequence[Bool[np.ndarray, " bits"]]) -> list[int]:
    """For each picture the first one it is a copy of, by `gradient_signs`; itself where of none."""
    first: list[int] = []
    for k, look in enumerate(looks):
        same = [j for j in range(k) if np.count_nonzero(look != looks[j]) <= COPY_BITS]
        first.append(first[same[0]] if same else k)
    return first


def gradient_signs(scene: Scene) -> Bool[np.ndarray, " bits"]:
    """Whether brightness, depth and ids rise from cell to cell of a grid of 16 x 16. Shape (720,)."""
    picture, ids = scene.observation, scene.visible_ids
    layers = [picture.rgb.mean(axis=2), np.zeros(picture.shape) if ids is None else ids.astype(np.float64)]
    depth = picture.depth
    layers.append(np.zeros(picture.shape) if depth is None else np.nan_to_num(depth.astype(np.float64)))
    signs = []
    for layer in layers:
        rows, cols = (np.minimum(np.linspace(0, n, 17).astype(int)[:-1], n - 1) for n in layer.shape)
        sums = np.add.reduceat(np.add.reduceat(layer, rows, axis=0), cols, axis=1)
        signs.append(np.diff(sums, axis=1).ravel() > 0.0)
    return np.concatenate(signs)


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=_BYTES)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()


def _hex(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=_BYTES)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


@cache
def _file_digest(path: Path) -> str:
    return _hex(path.read_bytes())
