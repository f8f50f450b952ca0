"""The long measurements of our networks: masks on the test split, the ablation chain, other masks.

Hours of one core in all, so each part keeps what is done and goes on where it stopped. Figures go to
out/evidence/.

Run: python benchmarks/evidence_perception.py [--workers 2] [--only masks,chain,...]
Parts: masks, chain, others, frame_speed.
"""

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from long_parts import Row, measure_parts

from cpor.fitting import FitSettings, fit_model
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.paper.chain import ChainTable, measure_chain
from cpor.paper.geometry_log import measure_geometry
from cpor.paper.mask_table import MaskFigure, measure_masks
from cpor.paper.pair_log import log_pairs, read_pair_log, write_pair_log
from cpor.paper.perceived import (
    Perceived,
    PerceivedCase,
    PerceptionSettings,
    SegmenterKind,
    perceive_split,
)
from cpor.paper.segmentation import frame_quality
from cpor.perception.network_file import PACKAGED
from cpor.perception.segmenter import make_segmenter
from cpor.sim.dataset.make import DatasetSettings, SplitName, plan_split, simulate_case, write_dataset
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System

OUT = Path(__file__).resolve().parents[1] / "out"

MASK_POINTS = {
    "visible f@.75": ">= 0.87",
    "amodal overlap f1": ">= 0.88",
    "amodal_iou_much_hidden": ">= 0.72",
    **dict.fromkeys(
        (
            *("visible overlap precision", "visible overlap recall", "visible overlap f1"),
            *("visible boundary precision", "visible boundary recall", "visible boundary f1"),
            *("amodal overlap precision", "amodal overlap recall"),
            *("amodal boundary precision", "amodal boundary recall", "amodal boundary f1", "amodal f@.75"),
            *("invisible overlap f1", "invisible_iou", "occlusion_accuracy"),
            *("recall", "precision", "visible_iou", "amodal_iou", "amodal_iou_much_hidden_all"),
            "target_found",
        ),
        "reported",
    ),
}

OTHERS: dict[SegmenterKind, str] = {"given": "the true masks", "depth": "the classical depth segmenter"}

MASK_SCENES = 400
"""First scenes of the test split that masks are judged on."""

TIMED = 60
"""First scenes of the test split, all tiers in turn, that a decision is timed on."""


def masks(workers: int = 2) -> list[Row]:
    """Of the first test scenes; nothing but masks is looked at, so no scene is written."""
    with ProcessPoolExecutor(workers) as pool:
        records = list(pool.map(_segment_case, range(MASK_SCENES)))
    return _mask_rows(measure_masks(records, np.random.default_rng(0)), len(records))


def _segment_case(number: int) -> PerceivedCase:
    """A test scene as our segmenter sees it, against the truth."""
    scene, entry = simulate_case(plan_split("test").cases[number], DatasetSettings())
    seen = make_segmenter("embedded").segment(scene.observation)
    assert seen.visible_ids is not None and scene.visible_ids is not None
    known = Recognition.match(seen.ids, seen.visible_ids, scene.ids, scene.visible_ids)
    target, quality = known.find(entry.target), frame_quality(seen, scene)
    return PerceivedCase(
        name=entry.name, tier=entry.tier, target=target, found=target in seen.ids,
        owner=dict(known.owner), quality=quality,
    )  # fmt: skip


def chain(workers: int = 2) -> list[Row]:
    """From raw scores to CPOR with our masks, the bundled model."""
    return _chain_rows(_chain("ours", FittedModel.load(bundled_model("embedded")), workers), "our masks")


def others(workers: int = 2) -> list[Row]:
    """The paper's geometry ablation and its table of scorers, for other masks than ours."""
    rows = []
    for kind, name in OTHERS.items():
        seen = _see("dev", kind, workers)
        scenes = ((path.name, read_scene_folder(path)) for path in list_scene_folders(seen.folder))
        model = fit_model(scenes, FitSettings(alpha=0.2, truth="any", masks=kind)).model
        rows += _chain_rows(_chain(kind, model, workers), name)
        test = _see("test", kind, workers)
        found = measure_masks(test.records, np.random.default_rng(0))
        shown = ", ".join(
            f"{point} {found[point].value:.3f}" for point in ("visible f@.75", "recall", "precision")
        )
        rows.append(("sees", f"masks of {name}, {len(test.records)} test scenes", "for comparison", shown))
    for kind, name in {"ours": "our masks", **OTHERS}.items():
        table = measure_geometry(_see("test", kind, workers).folder)
        for row in (row for row in table.rows if row.ours):
            told = ", ".join(f"{k} {v:.3f}" for k, v in row.ours.items() if v is not None)
            rows.append(("sees", f"geometry alone by occlusion, {row.name}, {name}", "reported", told))
    return rows


def speed(workers: int = 2) -> list[Row]:
    """A frame of 640x480 to a decision, networks and kernels loaded; the process alone on its cores."""
    system = System()
    weights = sum(path.stat().st_size for path in PACKAGED.glob("*.onnx")) / 1e6
    plan, folder = plan_split("test"), OUT / "splits" / "timed"
    write_dataset(replace(plan, cases=plan.cases[: TIMED + 1]), folder, workers)
    totals: list[float] = []
    stages: dict[str, list[float]] = {}
    for path in list_scene_folders(folder):
        observation = read_scene_folder(path).observation
        began = time.perf_counter()
        view = system.look(observation)
        if not view.seen.ids:
            continue
        result = system.decide(view, view.seen.ids[0])
        totals.append(1e3 * (time.perf_counter() - began))
        rest = {"no stage": totals[-1] - sum(result.times_ms.values())}
        for stage, spent in (result.times_ms | rest).items():
            stages.setdefault(stage, []).append(spent)
    del totals[0]  # the first one compiles
    each = ", ".join(f"{stage} {statistics.median(spent):.0f}" for stage, spent in stages.items())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tenth = float(np.quantile(totals, 0.9))
    return [
        (
            "fast",
            f"640x480 RGB-D to decision, 2 cores, median of {len(totals)} test scenes",
            "<= 300 ms",
            f"{statistics.median(totals):.0f} ms (nine in ten below {tenth:.0f}); by stage: {each}",
        ),
        ("fast", "memory of the process that does so", "<= 1 GB", f"{memory:.2f} GB"),
        ("fast", "weights of all our networks", "<= 40 MB", f"{weights:.1f} MB"),
    ]


def _split(split: SplitName, workers: int) -> Path:
    folder = OUT / "splits" / split
    write_dataset(plan_split(split), folder, workers)
    return folder


def _see(split: SplitName, kind: SegmenterKind, workers: int) -> Perceived:
    settings = PerceptionSettings(segmenter=kind)
    return perceive_split(_split(split, workers), OUT / "seen" / f"{split}_{kind}", settings, workers)


def _chain(kind: SegmenterKind, model: FittedModel, workers: int) -> ChainTable:
    seen = _see("test", kind, workers)
    write_pair_log(log_pairs(seen, measure=model.pipeline().measure), seen.folder / "scores.csv.gz")
    return measure_chain(read_pair_log(seen.folder / "scores.csv.gz"), model, np.random.default_rng(0))


def _mask_rows(figures: Mapping[str, MaskFigure], n: int) -> list[Row]:
    rows = []
    for point, asked in MASK_POINTS.items():
        found = figures[point]
        if found.value is None or found.ci is None:
            continue
        shown = f"{found.value:.3f} [{found.ci.low:.3f}, {found.ci.high:.3f}]"
        rows.append(
            ("sees", f"masks on the test split ({n} scenes), {point.replace('_', ' ')}", asked, shown)
        )
    return rows


def _chain_rows(table: ChainTable, name: str) -> list[Row]:
    rows = []
    for step, row in table.rows.items():
        told = []
        for figure, by_tier in row.figures.items():
            found = by_tier["all"]
            told.append(
                f"{figure.replace('_', ' ')} {found.value:.3f} [{found.ci.low:.3f}, {found.ci.high:.3f}]"
            )
        if row.relations is not None:
            told.append(f"relation ECE {row.relations['ece']:.3f}")
        rows.append(
            ("decides", f"chain on {table.n} test cases, {name}, {step}", "reported", ", ".join(told))
        )
    rows.append(("decides", f"targets not found among them, {name}", "", f"{table.n_lost} of {table.n}"))
    return rows


PARTS: dict[str, Callable[..., list[Row]]] = {
    "masks": masks,
    "chain": chain,
    "others": others,
    "frame_speed": speed,
}


if __name__ == "__main__":
    measure_parts(PARTS, __doc__)
