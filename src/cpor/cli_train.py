"""`cpor train segmenter`, `cpor train scorer`, `cpor export`: thin, what they do lives in `cpor.train`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

train_app = typer.Typer(help="Train the embedded networks (needs the extra `train`).", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(train_app, name="train")
    app.command()(export)


Data = Annotated[Path, typer.Option("--data", help="Folder of heaps; `cpor train heaps` makes them.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for weights, curves and pictures.")]
Seconds = Annotated[float, typer.Option("--seconds", help="How long to train.")]


@train_app.command("heaps")
def train_heaps(
    out: Out,
    seconds: Seconds = 150.0,
    workers: Annotated[int, typer.Option()] = 4,
    seed: Annotated[int, typer.Option()] = 7,
) -> None:
    """Settle random heaps to train on, on all cores."""
    from cpor.train.make_data import make_all

    typer.echo(f"{make_all(out, seconds, workers, seed)} heaps in {out}")


@train_app.command("segmenter")
def train_segmenter(
    data: Data,
    out: Out,
    seconds: Seconds = 900.0,
    views: Annotated[int, typer.Option(help="Pictures held in memory, 1.4 MB each.")] = 60_000,
    batch: Annotated[int, typer.Option()] = 64,
    begin: Annotated[Path | None, typer.Option(help="Folder with weights to fine-tune.")] = None,
) -> None:
    """Train the segmenter; goes on where it stopped if the folder holds a run."""
    from cpor.train.config import Config
    from cpor.train.segmenter import train

    config = Config()
    config = replace(config, train=replace(config.train, views=views, batch=batch))
    out.mkdir(parents=True, exist_ok=True)
    train(config, data, out, seconds, seconds, out / "state.pt", begin)
    typer.echo(
        f"weights, segmenter.jsonl and samples.png in {out}; next: cpor export --weights {out} --out DIR"
    )


@train_app.command("scorer")
def train_scorer(
    data: Data,
    out: Out,
    seconds: Seconds = 120.0,
    views: Annotated[int, typer.Option(help="Pictures held in memory, 1.4 MB each.")] = 20_000,
) -> None:
    """Train the relation scorer; it sees no depth."""
    from cpor.train.config import Config
    from cpor.train.scorer import train

    figures = train(Config(), data, out, seconds, views)
    typer.echo(f"weights and scorer.jsonl in {out}; on held-out heaps: {figures}")


def export(
    weights: Annotated[Path, typer.Option("--weights", help="Folder a training left.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for segmenter.onnx and scorer.onnx.")],
    score_threshold: Annotated[
        float | None, typer.Option(help="From which score something is an object; by default as trained.")
    ] = None,
) -> None:
    """Write trained networks as ONNX and check that they say what torch says."""
    from cpor.train.export import export_all

    for line in export_all(weights, out, score_threshold):
        typer.echo(line)
