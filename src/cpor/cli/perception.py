"""The commands `experiment perception` and `experiment chain`: what our networks see, and its worth."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cpor.errors import InvalidSettingError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def add_to(experiment: typer.Typer) -> None:
    """Register the commands with the other experiments."""
    experiment.command()(perception)
    experiment.command()(chain)


def perception(
    split: Annotated[Path, typer.Option(help="Labelled data set, as `cpor simulate` makes it.")],
    out: Annotated[
        Path, typer.Option(help="Folder to write; the same command again goes on where it stopped.")
    ],
    segmenter: Annotated[
        str, typer.Option(help="Whose masks: ours, given (the true ones), or depth (classical).")
    ] = "ours",
    scorer: Annotated[bool, typer.Option(help="Let our scorer score the relations, or not.")] = True,
    weights: Annotated[Path | None, typer.Option(help="ONNX network in place of our segmenter.")] = None,
    scorer_weights: Annotated[Path | None, typer.Option(help="ONNX network in place of our scorer.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """See a labelled data set through a segmenter: scene folders to fit and decide with, and mask quality.

    Writes OUT/scores.csv.gz too, the log of every pair of objects, which `experiment chain` reads.
    """
    import numpy as np

    from cpor.experiments.mask_table import masks_to_json, measure_masks
    from cpor.experiments.pair_log import log_pairs, write_pair_log
    from cpor.experiments.perceived import SEGMENTERS, PerceptionSettings, perceive_split
    from cpor.viz.progress import progress_bars

    kind = next((each for each in SEGMENTERS if each == segmenter), None)
    if kind is None:
        raise InvalidSettingError(f"--segmenter is {segmenter!r}; choose one of: {', '.join(SEGMENTERS)}")
    settings = PerceptionSettings(
        segmenter=kind, scorer=scorer, segmenter_file=weights, scorer_file=scorer_weights
    )
    with progress_bars(quiet=as_json) as progress:
        seen = perceive_split(split, out, settings, workers, progress)
        write_pair_log(log_pairs(seen, progress), out / "scores.csv.gz")
    figures = measure_masks(seen.records, np.random.default_rng(0))
    if as_json:
        about = {"masks": seen.masks, "scorer": seen.scorer, "n": len(seen.records)}
        typer.echo(json.dumps(about | {"figures": masks_to_json(figures)}, indent=2))
        return
    from rich.console import Console

    from cpor.viz.perception_table import mask_table

    Console().print(mask_table(figures, len(seen.records), seen.masks))


def chain(
    scores: Annotated[Path, typer.Option(help="Log of pairs, as `experiment perception` writes it.")],
    model: Annotated[
        Path | None, typer.Option(help="Fitted model. [default: the bundled one for our networks]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go from raw scores to CPOR step by step, on a log of pairs (Table cpor-ablation, panel A)."""
    import numpy as np

    from cpor.experiments.chain import measure_chain
    from cpor.experiments.pair_log import read_pair_log
    from cpor.model import FittedModel, bundled_model
    from cpor.viz.progress import progress_bars

    cases = read_pair_log(scores)
    fitted = FittedModel.load(model or bundled_model("embedded"))
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        progress("deciding", done, len(cases))

    with progress_bars(quiet=as_json) as progress:
        found = measure_chain(cases, fitted, np.random.default_rng(0), tell)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    from rich.console import Console

    from cpor.viz.perception_table import chain_table

    Console().print(chain_table(found))
