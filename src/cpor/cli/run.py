"""The commands `run` and `report`: every case of a dataset decided, and a page about it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.errors import InvalidSettingError

if TYPE_CHECKING:
    from cpor.experiments.runs.dataset import Dataset, Progress
    from cpor.experiments.runs.engine import Engine


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(run)
    app.command()(report)


def run(
    out: Annotated[Path, typer.Option(help="Run folder; the same command again goes on where it stopped.")],
    dataset: Annotated[
        Path | None,
        typer.Argument(metavar="DATASET", help="Folder of scene folders, or JSONL file with a scene a line."),
    ] = None,
    scores: Annotated[Path | None, typer.Option(help="Score log, instead of DATASET; needs --truth.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Ground truth of the score log.")] = None,
    shift: Annotated[
        float | None, typer.Option(help="Prior shift of the log's scores. [default: none; the paper: 0.09]")
    ] = None,
    missing: Annotated[
        str, typer.Option(help="What a case without scores in the log is: error or unobstructed.")
    ] = "error",
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    engine: Annotated[str, typer.Option(help="local, or ray: on the cluster RAY_ADDRESS names.")] = "local",
    tau: Annotated[
        float | None,
        typer.Option(help="Act only above this probability of being right. [default: the model's, or 0.5]"),
    ] = None,
    method: Annotated[str, typer.Option(help="auto, exact, or topk (the paper's Algorithm 1).")] = "auto",
    model: Annotated[
        Path | None, typer.Option(help="Fitted model, as `cpor fit` writes it; for scene folders.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the target asked for in each scene folder.")] = 0,
    all_targets: Annotated[
        bool, typer.Option("--all-targets", help="Ask for every object of a scene folder in turn.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Decide every case of a dataset; can be killed and resumed.

    Exits with 1 where some cases came to an error: they are in the run folder, as errors.
    """
    from cpor.experiments.runs.questions import QuestionSettings, parse_missing
    from cpor.experiments.runs.run import RunPlan
    from cpor.experiments.runs.run import run as run_all
    from cpor.inference.decide import parse_method
    from cpor.viz.progress import progress_bars

    chosen = _engine(engine, workers)
    asking = QuestionSettings(seed, all_targets, shift, parse_missing(missing))
    with progress_bars(quiet=as_json) as progress:
        cases = _dataset(dataset, scores, truth, progress)
        plan = RunPlan(cases, asking, tau, parse_method(method), model)
        tally = run_all(plan, out, chosen, progress)
    if as_json:
        typer.echo(json.dumps(asdict(tally), indent=2))
    else:
        outcomes = ", ".join(f"{count} {name}" for name, count in tally.outcomes.items())
        typer.echo(f"{tally.n_cases} cases: {outcomes}. See them with: cpor report {out} --out report.html")
    if tally.n_errors:
        raise typer.Exit(1)


def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, as `cpor run` makes it.")],
    out: Annotated[Path | None, typer.Option(help="Page to write: one file, works offline.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Table to write, a row a case.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="The same as Parquet; needs pyarrow.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Summary tables to write, for LaTeX.")] = None,
    details: Annotated[
        int, typer.Option(min=0, help="Cases shown in full on the page, the telling ones first.")
    ] = 2000,
) -> None:
    """Write what came of a run: a page with tables, figures and cases; CSV, Parquet, LaTeX."""
    from cpor.experiments.runs.report import read_report
    from cpor.experiments.runs.report_files import write_csv, write_latex, write_parquet
    from cpor.viz.report_page import write_page

    if not (out or csv or parquet or latex):
        raise InvalidSettingError("nothing to write; give --out report.html, --csv, --parquet or --latex")
    found = read_report(run_folder)
    if out is not None:
        write_page(found, out, details)
    if csv is not None:
        write_csv(found, csv)
    if parquet is not None:
        write_parquet(found, parquet)
    if latex is not None:
        write_latex(found, latex)
    written = [str(path) for path in (out, csv, parquet, latex) if path is not None]
    typer.echo(f"{len(found.records)} cases: wrote {', '.join(written)}")


def _dataset(
    dataset: Path | None, scores: Path | None, truth: Path | None, progress: "Progress"
) -> "Dataset":
    from cpor.experiments.runs.dataset import read_dataset
    from cpor.experiments.runs.score_log import read_logged_dataset

    if dataset is not None and scores is None and truth is None:
        return read_dataset(dataset, progress)
    if dataset is None and scores is not None and truth is not None:
        return read_logged_dataset(scores, truth)
    raise InvalidSettingError("give either DATASET, or --scores together with --truth")


def _engine(name: str, workers: int) -> "Engine":
    from cpor.experiments.runs.engine import ProcessEngine, SerialEngine
    from cpor.experiments.runs.ray_engine import RayEngine

    if workers < 1:
        raise InvalidSettingError(f"--workers is {workers}; give at least 1")
    if name == "ray":
        return RayEngine(workers if workers > 1 else None)
    if name != "local":
        raise InvalidSettingError(f"unknown engine {name!r}; choose one of: local, ray")
    return SerialEngine() if workers == 1 else ProcessEngine(workers)
