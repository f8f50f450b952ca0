"""Geometry alone (Table geometry): what masks and depth decide without any semantic score.

The paper varies where the amodal masks come from; here the masks are given with the scenes and the
settings of the cues vary.
"""

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from cpor.data.scene_set import Progress, read_scenes
from cpor.decoding.paper import decode_paper
from cpor.decoding.prediction import maximal_paths
from cpor.errors import SceneFileError, list_labels
from cpor.evidence import GEOMETRY_PRESETS
from cpor.metrics import Interval, auroc, bootstrap_mean, mp_ned, object_score, relation_score
from cpor.pipeline import PairBeliefs, Pipeline, measure_with
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, Scene
from cpor.truth import on_chain, right_actions

FIGURES = ("relation_f1", "object_f1", "mp_ned")

PAPER: dict[str, dict[str, dict[str, float]]] = {
    method: {
        "synthetic": dict(zip(FIGURES, values[:3], strict=True)),
        "real": dict(zip(FIGURES, values[3:], strict=True)),
    }
    for method, values in {
        "UOAIS": (0.5403, 0.6435, 0.2776, 0.2796, 0.3607, 0.4234),
        "D3G": (0.4362, 0.6321, 0.2732, 0.3207, 0.5494, 0.3099),
        "UOAIS-FT": (0.5711, 0.6920, 0.2378, 0.5084, 0.6282, 0.2649),
    }.items()
}
"""Table geometry, on UNOBench."""

ORIGIN = (
    "The paper's figures are other data: UNOBench with the masks of the networks named. The difference is "
    "to its UOAIS-FT on the synthetic set, and tells of the scenes and masks as much as of the cues."
)
SEED = 0
"""Of the bootstrap, so that the same files give the same intervals."""


@dataclass(frozen=True, eq=False)
class GeometryRow:
    """One preset over every target of every scene.

    Attributes:
        preset: Name in GEOMETRY_PRESETS.
        n_targets: Targets that count.
        n_unanswered: Targets left out because a relation of their scene has no answer.
        n_cyclic: Targets left out because the true relations on their chain go round in a circle.
        figures: Means of FIGURES, relations over the targets that are obstructed; None without any.
        ci: Their intervals, scenes resampled.
        n_pairs: Candidate pairs, of all scenes.
        auroc: Of p_geometry over these; None where only one class is there.
    """

    preset: str
    n_targets: int
    n_unanswered: int
    n_cyclic: int
    figures: Mapping[str, float | None]
    ci: Mapping[str, Interval | None]
    n_pairs: int
    auroc: float | None

    def to_json(self) -> dict[str, Any]:
        """Ours, the paper's UOAIS-FT on the synthetic set, and the difference."""
        paper = PAPER["UOAIS-FT"]["synthetic"]
        gap = {name: None if value is None else value - paper[name] for name, value in self.figures.items()}
        return {
            "name": self.preset,
            "ours": {**self.figures, "auroc": self.auroc},
            "ci": dict(self.ci),
            "paper": paper,
            "difference": gap,
            **{name: getattr(self, name) for name in ("n_targets", "n_unanswered", "n_cyclic", "n_pairs")},
        }


@dataclass(frozen=True, eq=False)
class GeometryAlone:
    """The table, over `n_scenes` scenes."""

    rows: tuple[GeometryRow, ...]
    n_scenes: int

    def to_json(self) -> dict[str, Any]:
        """Rows, the paper's whole table, and what to know about them."""
        counted = [
            f"{row.preset}: {row.n_targets} targets of {self.n_scenes} scenes; left out "
            f"{row.n_unanswered} with unanswered relations and {row.n_cyclic} with a cyclic truth; "
            f"{row.n_pairs} candidate pairs."
            for row in self.rows
        ]
        return {
            "rows": [row.to_json() for row in self.rows],
            "n_scenes": self.n_scenes,
            "paper_table": PAPER,
            "notes": [*counted, "No edge prior is taken out.", ORIGIN],
        }


def measure_geometry(folder: str | Path, progress: Progress = lambda *_: None) -> GeometryAlone:
    """Decide every target of every labelled scene from geometry alone, with each preset.

    Args:
        folder: Holds scene folders with instances.png and relations.json.
        progress: Told of every scene read.
    """
    pipelines = {
        name: Pipeline(measure=measure_with(settings), score=lambda scene: None)
        for name, settings in GEOMETRY_PRESETS.items()
    }
    tallies = {name: _Tally() for name in pipelines}
    n_scenes = 0
    for name, scene in read_scenes(Path(folder), progress):
        truth = _truth_of(name, scene)
        n_scenes += 1
        for preset, pipeline in pipelines.items():
            tallies[preset].add(name, pipeline.believe(scene), truth)
    rng = np.random.default_rng(SEED)
    return GeometryAlone(tuple(tally.row(preset, rng) for preset, tally in tallies.items()), n_scenes)


class _Tally:
    """What one preset got, target by target."""

    def __init__(self) -> None:
        self.n_targets = self.n_unanswered = self.n_cyclic = 0
        self.values: dict[str, list[tuple[str, float]]] = {name: [] for name in FIGURES}
        self.p: list[np.ndarray] = []
        self.label: list[np.ndarray] = []

    def add(self, name: str, beliefs: PairBeliefs, truth: Set[BlockedBy]) -> None:
        chosen = beliefs.geometry.is_candidate
        self.p.append(beliefs.geometry.p_geometry[chosen])
        self.label.append(_label(beliefs.ids, truth)[chosen])
        for target in beliefs.ids:
            # As in the paper: of the objects that were segmented, and of nothing else.
            posterior = ObstructionPosterior(beliefs.ids, target, beliefs.p_fused)
            chain = on_chain(target, truth)
            if posterior.has_unanswered:
                self.n_unanswered += 1
                continue
            if _is_cyclic(chain):
                self.n_cyclic += 1
                continue
            self.n_targets += 1
            found = decode_paper(posterior)
            paths = maximal_paths(target, _blockers(chain))
            relations = relation_score(found.relations, paths)
            if relations is not None:
                self.values["relation_f1"].append((name, relations.f1))
            self.values["object_f1"].append(
                (name, object_score(found.objects, right_actions(target, truth)).f1)
            )
            self.values["mp_ned"].append((name, mp_ned(found.paths, paths)))

    def row(self, preset: str, rng: np.random.Generator) -> GeometryRow:
        figures: dict[str, float | None] = {}
        ci: dict[str, Interval | None] = {}
        for name, told in self.values.items():
            values = np.array([value for _, value in told], np.float64)
            scenes = np.array([scene for scene, _ in told])
            figures[name] = float(values.mean()) if told else None
            ci[name] = bootstrap_mean(values, scenes, rng) if told else None
        p, label = np.concatenate(self.p), np.concatenate(self.label)
        area = auroc(p, label) if label.any() and not label.all() else None
        return GeometryRow(
            preset, self.n_targets, self.n_unanswered, self.n_cyclic, figures, ci, p.size, area
        )


def _truth_of(name: str, scene: Scene) -> frozenset[BlockedBy]:
    if scene.true_occlusion is None or scene.visible_ids is None:
        lacks = "relations.json" if scene.true_occlusion is None else "instances.png"
        raise SceneFileError(f"{name} has no {lacks}; geometry is told from labelled scenes with masks")
    if unlabelled := set(scene.ids) - scene.true_occlusion.objects:
        raise SceneFileError(
            f"relations.json of {name} does not list the objects {list_labels(sorted(unlabelled))}, so "
            "nothing is known of them; label them, or leave the scene out"
        )
    return scene.true_occlusion.pairs


def _label(ids: tuple[int, ...], truth: Set[BlockedBy]) -> Bool[np.ndarray, "n n"]:
    """Whether each relation is true. Shape (n, n)."""
    return np.array([[BlockedBy(i, j) in truth for j in ids] for i in ids], np.bool_).reshape(
        len(ids), len(ids)
    )


def _blockers(chain: Set[BlockedBy]) -> dict[int, list[int]]:
    blockers: dict[int, list[int]] = defaultdict(list)
    for blocked, blocker in chain:
        blockers[blocked].append(blocker)
    return blockers


def _is_cyclic(chain: Set[BlockedBy]) -> bool:
    """Whether removing free objects over and over gets stuck."""
    left = set(chain)
    while left:
        obstructed = {blocked for blocked, _ in left}
        kept = {pair for pair in left if pair.blocker in obstructed}
        if kept == left:
            return True
        left = kept
    return False
