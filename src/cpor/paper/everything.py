"""Every table and figure of the paper that the data at hand allow (`cpor paper`)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cpor.errors import InvalidSettingError
from cpor.fitting import ReliabilityData
from cpor.paper.cases import NO_SHIFT
from cpor.paper.cross_scorer import compare_scorers, scorer_table
from cpor.paper.decoding import SHIFT
from cpor.paper.geometry_log import measure_geometry
from cpor.paper.pair_log import read_made_with, read_pair_log
from cpor.paper.probability_ablation import NEEDS_GEOMETRY, TITLE, calibrator_table, measure_stages
from cpor.paper.reproduce import reproduce, reproduce_from
from cpor.paper.robot_table import paper_table, read_records, summarise
from cpor.paper.selective import SelectiveRow
from cpor.paper.simulated import to_benchmark
from cpor.paper.table import Table, paper_rows

SHIPPED = Path(__file__).with_name("simulated_test.csv.gz")
"""Log of the 1,800 cases of the test split, seeds from 2,000,000; see docs/benchmark.md for the commands."""

RELEASED = (
    "the paper links its code at https://anonymous.4open.science/r/cpor-grasp-1E41, and a comment in its "
    "source names https://github.com/pairs-lab/cpor-grasp"
)
"""Where to look for the released files."""

BACKBONE = "Gemini Robotics-ER-1.6"
ORDER = (
    "path-bench",
    "obj-bench",
    "geometry",
    "reliability-baselines",
    "reliability",
    "prob-ablation",
    "cpor-ablation A",
    "cpor-ablation B",
    "mu",
    "paired",
    "topk",
    "selective",
    "cross-vlm",
    "robot",
)
"""Tables of the paper."""


class PaperTables(NamedTuple):
    """Everything on the page.

    Attributes:
        first: What the figures were computed from.
        tables: In the paper's order.
        selective: Curves of Fig. selective.
        pools: What Fig. reliability draws.
    """

    first: str
    tables: tuple[Table, ...]
    selective: Mapping[str, SelectiveRow]
    pools: tuple[ReliabilityData, ...]


def paper_tables(
    data: Path | None = None,
    scenes: Path | None = None,
    robot: Path | None = None,
    tell: Callable[[str], None] = lambda step: None,
) -> PaperTables:
    """Compute all tables."""
    found = _from_release(data, tell) if data is not None else _from_simulation(tell)
    tables = {table.label: table for table in found.tables}
    if scenes is not None:
        tell("geometry alone")
        tables["geometry"] = measure_geometry(scenes)
    else:
        rows = paper_rows("geometry", {}, {}, "Give labelled scene folders with --scenes.")
        tables["geometry"] = Table("geometry", "Geometry alone", rows)
    records = [] if robot is None else read_records(robot)
    tables["robot"] = paper_table(summarise(records, np.random.default_rng(0)))
    return found._replace(tables=tuple(tables[label] for label in ORDER))


def _from_release(data: Path, tell: Callable[[str], None]) -> PaperTables:
    scores, truth = data / "scores_synthetic.csv", data / "gt_synthetic.jsonl"
    for file in (scores, truth):
        if not file.is_file():
            raise InvalidSettingError(f"{data} has no {file.name}; {RELEASED}")
    tell("the released log")
    found = reproduce(scores, truth, SHIFT, "unobstructed")
    tell("calibrators")
    train, valid = (data / "calibration" / f"{part}_adaptive.csv" for part in ("train", "valid"))
    if train.is_file() and valid.is_file():
        ablation = calibrator_table(train, valid)
    else:
        ablation = Table("prob-ablation", TITLE, paper_rows("prob-ablation", {}, {}, NEEDS_GEOMETRY))
    tell("scorers")
    scorers = compare_scorers({BACKBONE: scores}, truth, "unobstructed", SHIFT)
    first = f"Computed from the authors' released files in {data}. {found.say_missing()}"
    return PaperTables(first, (*found.tables(), ablation, scorers), found.selective, found.pools[:2])


def _from_simulation(tell: Callable[[str], None]) -> PaperTables:
    tell("our simulated benchmark")
    benchmark = to_benchmark(read_pair_log(SHIPPED))
    made = read_made_with(SHIPPED)
    tell("stage by stage")
    stages = measure_stages(benchmark.cases, benchmark.scores)
    tell("the whole pipeline")
    found = reproduce_from(benchmark.cases, stages.fused, NO_SHIFT, "wrong", expected=False)
    tell("scorers")
    scorers = scorer_table(benchmark.cases, {"our network": benchmark.scores}, "wrong", NO_SHIFT)
    said = "versions not recorded" if made is None else ", ".join(f"{k} {v}" for k, v in made.items())
    first = (
        "Without the released files: computed on our simulated benchmark, with our networks in place of a "
        f"VLM and of UOAIS-FT ({said}). {benchmark.say_left_out()} Give the folder of the "
        f"released files with --data: {RELEASED}."
    )
    note = "Our simulated benchmark, not the paper's data. No decoding shift."
    tables = (*found.tables(stages.earlier), stages.table, scorers)
    others = tuple(table.on_other_data(note) for table in tables)
    return PaperTables(first, others, found.selective, found.pools[:2])
