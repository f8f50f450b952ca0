"""The commands `experiment perception` and `experiment chain`: what our networks see, and its worth."""

from pathlib import Path
from typing import Annotated

import typer

from cpor.cli.options import AsJson, EngineOption, WorkersOption, print_json, print_rich
from cpor.errors import one_of


def add_to(experiment: typer.Typer) -> None:
    """Register the commands with the other experiments."""
    experiment.command()(perception)
    experiment.command()(chain)


def perception(
    split: Annotated[Path, typer.Option(help="Labelled data set that `cpor simulate` made.")],
    out: Annotated[Path, typer.Option(help="Folder to write. The same command resumes a stopped run.")],
    segmenter: Annotated[
        str, typer.Option(help="Masks: ours, given (the true ones), or depth (classical).")
    ] = "ours",
    scorer: Annotated[bool, typer.Option(help="Let our network score the relations.")] = True,
    weights: Annotated[Path | None, typer.Option(help="ONNX network in place of our segmenter.")] = None,
    scorer_weights: Annotated[Path | None, typer.Option(help="ONNX network in place of our scorer.")] = None,
    workers: WorkersOption = 1,
    engine: EngineOption = "local",
    as_json: AsJson = False,
) -> None:
    """Segment a labelled data set, and measure the masks.

    It writes scene folders that every other command reads, and OUT/scores.csv.gz, the log of every pair of
    objects, which `experiment chain` reads.
    """
    import numpy as np

    from cpor.evidence.learnt import LearntGeometry
    from cpor.experiments.mask_table import masks_to_json, measure_masks
    from cpor.experiments.pair_log import log_pairs, write_pair_log
    from cpor.experiments.perceived import SEGMENTERS, PerceptionSettings, perceive_split
    from cpor.viz.progress import progress_bars

    kind = one_of("--segmenter", segmenter, SEGMENTERS)
    settings = PerceptionSettings(
        segmenter=kind, scorer=scorer, segmenter_file=weights, scorer_file=scorer_weights
    )
    with progress_bars(quiet=as_json) as progress:
        seen = perceive_split(split, out, settings, workers, progress, engine)
        geometry = LearntGeometry()
        made = {"segmenter": seen.masks, "scorer": seen.scorer, "geometry": geometry.fingerprint}
        write_pair_log(log_pairs(seen, progress, geometry), out / "scores.csv.gz", made)
    figures = measure_masks(seen.records, np.random.default_rng(0))
    if as_json:
        about = {"masks": seen.masks, "scorer": seen.scorer, "n": len(seen.records)}
        print_json(about | {"figures": masks_to_json(figures)})
        return
    from cpor.viz.perception_table import mask_table

    print_rich(mask_table(figures, len(seen.records), seen.masks))


def chain(
    scores: Annotated[Path, typer.Option(help="Log of pairs that `experiment perception` wrote.")],
    model: Annotated[
        Path | None, typer.Option(help="Model file. (default: the bundled model for our networks)")
    ] = None,
    any_versions: Annotated[
        bool, typer.Option("--any-versions", help="Accept a log of other networks than the model's.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare raw, calibrated, fused, summed and acyclic scores (Table cpor-ablation, panel A)."""
    import numpy as np

    from cpor.experiments.chain import measure_chain
    from cpor.experiments.pair_log import read_pair_log, refuse_other_versions
    from cpor.model import FittedModel, bundled_model
    from cpor.viz.progress import progress_bars

    cases = read_pair_log(scores)
    fitted = FittedModel.load(model or bundled_model("embedded"))
    if not any_versions:
        refuse_other_versions(scores, fitted)
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        progress("deciding", done, len(cases))

    with progress_bars(quiet=as_json) as progress:
        found = measure_chain(cases, fitted, np.random.default_rng(0), tell)
    if as_json:
        print_json(found.to_json())
        return
    from cpor.viz.perception_table import chain_table

    print_rich(chain_table(found))
