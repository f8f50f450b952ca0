"""Labelled views in files: made by processes, read by both trainings, with what our segmenter found in them.

A file holds some views, all of one size: `rgb` (n, h, w, 3) uint8, `depth` (n, h, w) uint16 in `DEPTH_UNIT`,
`ids` (n, h, w) uint8, `amodal` (n, h / 2, w / 2) int32 whose bit k says that object k is there, hidden or
not, `kind` (n,), and of each view its `sweep` relations and, where they are known better than `amodal` tells,
its `hides`. Once trained, the segmenter leaves `ANSWERS` beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cpor.perception.mask_selection import Detections, Letterbox, MaskSettings, select_objects
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene, TrueRelations
from cpor.sim.dataset.recognition import Recognition
from cpor.sim.physics.true_relations import HIDDEN_SHARE
from training.config import Config

ANSWERS = ".answers"
DEPTH_UNIT = 0.00025
"""Of the stored depth; the farthest is 16 m. [m]"""

MOST_OBJECTS = 22
"""Views of more are left out: `training.segmenter` has no place for them."""

SCORE_THRESHOLD = 0.5
"""Of the masks relations are learnt with: what the package ships."""


def write_views(path: Path, scenes: Sequence[tuple[int, Scene]]) -> None:
    """Writes labelled scenes of one size, each with its kind, whole or not at all."""
    fit = [(kind, scene) for kind, scene in scenes if max(scene.ids, default=0) <= MOST_OBJECTS]
    sweep, hides = (np.empty(len(fit), object) for _ in range(2))
    rgb, depth, ids, amodal = [], [], [], []
    for k, (_, scene) in enumerate(fit):
        seen = scene.observation
        assert scene.visible_ids is not None and seen.depth is not None
        assert scene.true_occlusion is not None and scene.true_sweep is not None
        sweep[k], hides[k] = ([tuple(p) for p in t.pairs] for t in (scene.true_sweep, scene.true_occlusion))
        bits = np.zeros(seen.shape, np.int32)
        for o in scene.objects:
            if o.amodal is not None:
                bits |= o.amodal.to_mask(seen.shape).astype(np.int32) << o.id
        rgb.append(seen.rgb)
        depth.append(store_depth(seen.depth))
        ids.append(scene.visible_ids.astype(np.uint8))
        amodal.append(bits[::2, ::2])
    if fit:
        kinds = np.array([kind for kind, _ in fit], np.uint8)
        write_arrays(
            path, rgb=np.stack(rgb), depth=np.stack(depth), ids=np.stack(ids), amodal=np.stack(amodal),
            kind=kinds, sweep=sweep, hides=hides,
        )  # fmt: skip


def store_depth(depth: np.ndarray) -> np.ndarray:
    """Metres in units of `DEPTH_UNIT`, 0 where there is no reading or one too far."""
    units = np.rint(np.nan_to_num(depth, nan=0.0) / DEPTH_UNIT)
    return np.where(units < 65536.0, units, 0.0).astype(np.uint16)


def metres(stored: np.ndarray) -> np.ndarray:
    """Stored depth as cameras give it, 0 where there is no reading. [m]."""
    return stored.astype(np.float32) * np.float32(DEPTH_UNIT)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Writes arrays, whole or not at all: others look for the file."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, allow_pickle=True, **arrays)
    part.replace(path)


def read_views(path: str | Path) -> Iterator[tuple[int, int, Scene]]:
    """Place in the file, kind and labelled scene of each view with two objects or more."""
    with np.load(path, allow_pickle=True) as held:
        views = {name: held[name] for name in held.files}
    for k in range(len(views["ids"])):
        scene = _scene({name: value[k] for name, value in views.items()})
        if len(scene.objects) > 1:
            yield k, int(views["kind"][k]), scene


def _scene(view: Mapping[str, np.ndarray]) -> Scene:
    """One view as a labelled scene; hidden parts are known at every second pixel."""
    ids = view["ids"].astype(np.int32)
    whole: dict[int, np.ndarray] = {}
    hides: list[BlockedBy] = []
    coarse = ids[::2, ::2]
    shown = [int(k) for k in np.flatnonzero(np.bincount(ids.reshape(-1))) if k]
    for k in shown:
        mask = ((view["amodal"] >> k) & 1).astype(bool)
        counts = np.bincount(coarse[mask], minlength=1)
        front = np.flatnonzero(counts > HIDDEN_SHARE * max(1, int(counts.sum())))
        hides += [BlockedBy(k, int(j)) for j in front if j not in (0, k)]
        whole[k] = np.repeat(np.repeat(mask, 2, 0), 2, 1) | (ids == k)
    known = frozenset(shown)
    if "hides" in view:
        hides = [BlockedBy(int(i), int(j)) for i, j in view["hides"]]
    swept = [BlockedBy(int(i), int(j)) for i, j in view["sweep"]]
    return Scene(
        Observation(np.ascontiguousarray(view["rgb"]), metres(view["depth"])),
        tuple(DetectedObject(k, MaskCrop.from_mask(whole[k])) for k in shown),
        ids,
        true_occlusion=TrueRelations(known, frozenset(p for p in hides if known.issuperset(p))),
        true_sweep=TrueRelations(known, frozenset(p for p in swept if known.issuperset(p))),
    )


def write_answers(views: Path, found: Sequence[Detections]) -> None:
    """Leaves beside a file of views what the segmenter found in each."""
    ends = np.cumsum([len(each.scores) for each in found])
    arrays = {
        name: np.concatenate([getattr(each, name) for each in found])
        for name in ("scores", "visible", "amodal", "p_occluded")
    }
    write_arrays(views.with_suffix(ANSWERS), ends=ends, **arrays)


def read_answers(path: Path) -> list[Detections]:
    """What the segmenter found in each view of a file."""
    with np.load(path) as held:
        ends = held["ends"][:-1]
        parts = [
            np.split(held[name].astype(np.float32), ends)
            for name in ("scores", "visible", "amodal", "p_occluded")
        ]
    return [Detections(*each) for each in zip(*parts, strict=True)]


def as_seen(scene: Scene, found: Detections) -> Scene:
    """A labelled scene with the masks that our segmenter found in it, and the truth about those."""
    assert scene.visible_ids is not None
    assert scene.true_occlusion is not None and scene.true_sweep is not None
    export = Config().export
    frame = Letterbox.fit(scene.observation.shape, (export.height, export.width))
    settings = MaskSettings(score_threshold=SCORE_THRESHOLD, mask_threshold=export.mask_threshold)
    seen = select_objects(found, scene.observation, frame, settings)
    assert seen.visible_ids is not None
    known = Recognition.match(seen.ids, seen.visible_ids, scene.ids, scene.visible_ids)
    return replace(
        seen,
        true_occlusion=known.translate(scene.true_occlusion),
        true_sweep=known.translate(scene.true_sweep),
    )
