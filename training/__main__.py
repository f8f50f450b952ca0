"""`python -m training heaps|segmenter|export`: trains and exports the segmenter.

The relation networks have a command of their own: `python -m training.run_relations`. Run both at once with
one folder of views (`--photographs`, `--views`): each learns from what the other makes.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Train the embedded networks (needs the extra `train`).", no_args_is_help=True)


Data = Annotated[Path, typer.Option("--data", help="Folder of heaps; `python -m training heaps` makes them.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for weights, curves and pictures.")]
Seconds = Annotated[float, typer.Option("--seconds", help="How long to train.")]


@app.command("heaps")
def train_heaps(
    out: Out,
    seconds: Seconds = 150.0,
    workers: Annotated[int, typer.Option()] = 4,
    seed: Annotated[int, typer.Option()] = 7,
) -> None:
    """Settle random heaps to train on, on all cores."""
    from training.make_data import make_all

    typer.echo(f"{make_all(out, seconds, workers, seed)} heaps in {out}")


@app.command("segmenter")
def train_segmenter(
    data: Data,
    out: Out,
    seconds: Seconds = 900.0,
    views: Annotated[int, typer.Option(help="Pictures held in memory, 1.4 MB each.")] = 36_000,
    batch: Annotated[int, typer.Option()] = 64,
    begin: Annotated[
        Path | None, typer.Option(help="Folder with weights, or exported file, to go on from.")
    ] = None,
    colour: Annotated[
        Path | None, typer.Option(help="ImageNet weights of EfficientNet-Lite0 (.pth).")
    ] = None,
    photographs: Annotated[
        Path | None, typer.Option(help="Folder where `training.run_relations --views` leaves its views.")
    ] = None,
) -> None:
    """Train the segmenter; goes on where it stopped if the folder holds a run."""
    from training.config import Config
    from training.segmenter import train

    config = Config()
    config = replace(config, train=replace(config.train, views=views, batch=batch))
    out.mkdir(parents=True, exist_ok=True)
    train(config, data, out, seconds, seconds, out / "state.pt", begin, colour, photographs)
    typer.echo(
        f"weights, segmenter.jsonl and samples.png in {out}; "
        f"next: python -m training export --weights {out} --out DIR"
    )


@app.command()
def export(
    weights: Annotated[Path, typer.Option("--weights", help="Folder a training left.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for segmenter.onnx.")],
    score_threshold: Annotated[
        float | None, typer.Option(help="From which score something is an object; by default as trained.")
    ] = None,
) -> None:
    """Write trained networks as ONNX and check that they say what torch says."""
    from training.export import export_all

    for line in export_all(weights, out, score_threshold):
        typer.echo(line)


if __name__ == "__main__":
    app()
