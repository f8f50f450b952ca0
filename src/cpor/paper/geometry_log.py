"""Geometry alone (Table geometry): what masks and depth decide without any semantic score.

The paper varies the network that the masks come from; here masks are the true ones, our network's, a
classical segmenter's, or bounding boxes of the true ones. A pair enters as in the paper: the blocker shows on
the hidden part of the other or in the ring around it, with depth on half of that; others do not obstruct.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool

from cpor.errors import SceneFileError, list_labels
from cpor.evidence import GEOMETRY_PRESETS, GeometrySettings, geometric_evidence
from cpor.io.scene_folder import Progress, read_scenes
from cpor.learn.bootstrap import Interval, bootstrap_mean
from cpor.learn.scoring import auroc
from cpor.paper.decoding import decode_paper
from cpor.paper.paths import NOTHING, Prediction, maximal_paths, mp_ned, object_score, relation_score
from cpor.paper.simulated import BACKGROUND, is_cyclic
from cpor.paper.table import Table, paper_rows
from cpor.paper_model import PAPER_GEOMETRY
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, MaskCrop, Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System
from cpor.truth import on_chain, right_actions

MaskSource: TypeAlias = Literal["true", "ours", "classical", "boxes"]
FORMULAS = {**GEOMETRY_PRESETS, "paper pipeline": PAPER_GEOMETRY}
MASK_SOURCES: tuple[MaskSource, ...] = get_args(MaskSource)
FIGURES = ("relation_f1", "object_f1", "mp_ned")
ORIGIN = (
    "Other data than the paper's, which are UNOBench with the masks of the networks named. A difference "
    "tells of the scenes and masks as much as of the cues.",
    "Every object of every scene is a target once. No edge prior is taken out.",
)
SEED = 0
"""Random seed of the bootstrap: the same files give the same intervals."""


def measure_geometry(
    folder: str | Path, masks: Sequence[MaskSource] = ("true",), progress: Progress = lambda *_: None
) -> Table:
    """Decide every target of every labelled scene from geometry alone, with each preset and kind of masks."""
    judged: dict[str, dict[str, list[tuple[str, float]]]] = {}
    pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    counts = {"scenes": 0, "targets": 0, "cyclic": 0}
    sources = {name: _masks_by(name) for name in masks}
    for name, scene in read_scenes(Path(folder), progress):
        truth = _truth_of(name, scene)
        chains = {target: on_chain(target, truth) for target in scene.ids}
        targets = [target for target, chain in chains.items() if not is_cyclic(chain)]
        counts["scenes"] += 1
        counts["targets"] += len(targets)
        counts["cyclic"] += len(chains) - len(targets)
        for kind, look in sources.items():
            found, owner = look(scene)
            for preset, settings in FORMULAS.items():
                row = f"{kind} masks, {preset} formula"
                p, label = _candidates(found, owner, settings, truth)
                pairs.setdefault(row, []).append((np.array(list(p.values())), label))
                values = judged.setdefault(row, {f: [] for f in FIGURES})
                for target in targets:
                    for figure, value in _judge(target, truth, p, owner).items():
                        values[figure].append((name, value))
    ours, ci = _means(judged, pairs)
    notes = (
        f"{counts['targets']} targets of {counts['scenes']} scenes; left out {counts['cyclic']} whose true "
        "relations have a cycle.",
        *ORIGIN,
    )
    table = paper_rows("geometry", ours, {}, "Needs UNOBench's images and that network.")
    rows = [row._replace(ci=ci.get(row.name, {}), comparable=False) for row in table]
    return Table("geometry", "Geometry alone", rows, notes)


def _means(
    judged: Mapping[str, Mapping[str, list[tuple[str, float]]]],
    pairs: Mapping[str, list[tuple[np.ndarray, np.ndarray]]],
) -> tuple[dict[str, dict[str, float | None]], dict[str, dict[str, Interval]]]:
    """The figures of every row, and their intervals."""
    rng = np.random.default_rng(SEED)
    ours: dict[str, dict[str, float | None]] = {}
    ci: dict[str, dict[str, Interval]] = {}
    for row, values in judged.items():
        scores, label = (np.concatenate(each) for each in zip(*pairs[row], strict=True))
        both = label.any() and not label.all()
        ours[row] = {f: float(np.mean([v for _, v in each])) if each else None for f, each in values.items()}
        ours[row] |= {"auroc": auroc(scores, label) if both else None, "n_pairs": scores.size}
        ci[row] = {
            f: bootstrap_mean(np.array([v for _, v in each]), np.array([s for s, _ in each]), rng)
            for f, each in values.items()
            if each
        }
    return ours, ci


MeasureScene: TypeAlias = Callable[[Scene], tuple[Scene, Mapping[int, int]]]
"""A scene with other masks, and the true object that each object in it is; above BACKGROUND: none."""


def _masks_by(source: MaskSource) -> MeasureScene:
    if source == "true":
        return lambda scene: (scene, {k: k for k in scene.ids})
    if source == "boxes":
        return lambda scene: (_boxed(scene), {k: k for k in scene.ids})
    return partial(_segmented, System("embedded" if source == "ours" else "depth", "none"))


def _segmented(system: System, scene: Scene) -> tuple[Scene, Mapping[int, int]]:
    found = system.look(scene.observation).scene
    assert found.visible_ids is not None and scene.visible_ids is not None
    known = Recognition.match(found.ids, found.visible_ids, scene.ids, scene.visible_ids)
    return found, {k: BACKGROUND + k if true is None else true for k, true in known.owner.items()}


def _boxed(scene: Scene) -> Scene:
    """Every mask as its bounding box; nearer boxes cover those behind."""
    assert scene.visible_ids is not None
    depth = scene.observation.depth
    boxes, far = {}, {}
    for obj in scene.objects:
        shown = scene.visible_ids == obj.id
        whole = shown if obj.amodal is None else shown | obj.amodal.to_mask(shown.shape)
        boxes[obj.id] = _box(whole)
        readings = depth[shown] if depth is not None else np.array([])
        readings = readings[np.isfinite(readings)]
        far[obj.id] = float(np.median(readings)) if readings.size else np.inf
    ids = np.zeros_like(scene.visible_ids)
    for k in sorted(boxes, key=lambda k: -far[k]):
        ids[boxes[k]] = k
    objects = tuple(replace(obj, amodal=MaskCrop.from_mask(boxes[obj.id])) for obj in scene.objects)
    return replace(scene, objects=objects, visible_ids=ids)


def _box(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    box = np.zeros_like(mask)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size:
        box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    return box


def _candidates(
    scene: Scene, owner: Mapping[int, int], settings: GeometrySettings, truth: Set[BlockedBy]
) -> tuple[dict[BlockedBy, float], Bool[np.ndarray, " n"]]:
    """Probability of each candidate pair of true objects, the largest of its pieces, and whether it holds."""
    evidence = geometric_evidence(scene, settings)
    p: dict[BlockedBy, float] = {}
    for i, j in np.argwhere(evidence.is_candidate):
        pair = BlockedBy(owner[evidence.ids[i]], owner[evidence.ids[j]])
        if pair.blocked != pair.blocker:
            p[pair] = max(float(evidence.p_geometry[i, j]), p.get(pair, 0.0))
    return p, np.array([pair in truth for pair in p], np.bool_)


def _judge(
    target: int, truth: Set[BlockedBy], p: Mapping[BlockedBy, float], owner: Mapping[int, int]
) -> dict[str, float]:
    """Figures of one target; a target that was not found is wrong throughout."""
    said: Prediction = NOTHING
    if target in owner.values():
        objects = sorted({target, *(obj for pair in p for obj in pair)})
        relations = [(*pair, value) for pair, value in p.items()]
        said = decode_paper(ObstructionPosterior.from_relations(objects, target, relations))
    paths = maximal_paths(target, on_chain(target, truth))
    figures = {
        "object_f1": object_score(said.objects, right_actions(target, truth)).f1,
        "mp_ned": mp_ned(said.paths, paths),
    }
    relations_found = relation_score(said.relations, paths)
    return figures if relations_found is None else figures | {"relation_f1": relations_found.f1}


def _truth_of(name: str, scene: Scene) -> frozenset[BlockedBy]:
    if scene.true_occlusion is None or scene.visible_ids is None:
        lacks = "relations.json" if scene.true_occlusion is None else "instances.png"
        raise SceneFileError(f"{name} has no {lacks}; this table needs labelled scenes with masks")
    if unlabelled := set(scene.ids) - scene.true_occlusion.objects:
        raise SceneFileError(
            f"relations.json of {name} does not list the objects {list_labels(sorted(unlabelled))}, so "
            "nothing is known of them; label them, or leave the scene out"
        )
    return scene.true_occlusion.pairs
