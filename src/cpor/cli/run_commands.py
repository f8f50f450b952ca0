"""The commands `run` and `report`: every case of a dataset decided, and a page about it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import options as cli
from cpor.errors import InvalidSettingError

if TYPE_CHECKING:
    from cpor.io.scene_folder import Progress
    from cpor.paper.runs.dataset import Dataset


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=cli.DATA_SETS)(run)
    app.command(rich_help_panel=cli.DATA_SETS)(report)


def run(
    out: Annotated[Path, cli.opt("Run folder to write. The same command resumes a stopped run.")],
    dataset: Annotated[
        Path | None,
        cli.arg("DATASET", "Folder of scene folders, a bag, or a JSONL file with one scene per line."),
    ] = None,
    scores: Annotated[Path | None, cli.more("Score log instead of DATASET; needs --truth.")] = None,
    truth: Annotated[Path | None, cli.more("Ground truth of the score log.")] = None,
    shift: Annotated[
        float | None, cli.more("Edge prior to take out. (default: none; the paper: 0.09)")
    ] = None,
    missing: Annotated[str, cli.more("A case without scores counts as: error or unobstructed.")] = "error",
    workers: cli.WorkersOption = 1,
    engine: cli.EngineOption = "local",
    mode: cli.ModeName = None,
    tau: cli.Tau = None,
    segmenter: cli.SegmenterName = None,
    scorer: cli.ScorerName = None,
    method: cli.MethodName = "auto",
    model: Annotated[Path | None, cli.opt("Model file that `cpor fit` wrote; for scene folders.")] = None,
    pipeline: cli.PipelineName = "default",
    seed: Annotated[int, cli.more("Random seed for the target of each scene folder.")] = 0,
    color: cli.ColorTopic = None,
    depth: cli.DepthTopic = None,
    all_targets: Annotated[bool, cli.opt("Decide for every object of a scene.", "--all-targets")] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Decide every case of a data set; a stopped run can be resumed.

    The exit code is 1 if some cases failed. The run folder lists them as errors.
    """
    from cpor.infer.policy import parse_method
    from cpor.io.pool import Pool
    from cpor.learn.modes import DEFAULT_MODE, parse_mode
    from cpor.paper.runs.questions import RunSettings, parse_missing
    from cpor.paper.runs.run import RunPlan
    from cpor.paper.runs.run import run as run_all
    from cpor.viz.progress import progress_bars

    pool = Pool(workers, engine)
    pictures = scores is None and (dataset is None or dataset.suffix != ".jsonl")
    named, method = cli.choose_pipeline(pipeline, None if model is None else str(model), method)
    model = Path(named) if named is not None and (pictures or model is not None) else None
    settings = RunSettings(
        mode=parse_mode(mode or DEFAULT_MODE),
        tau=tau,
        method=parse_method(method),
        segmenter=segmenter,
        scorer=scorer,
        seed=seed,
        all_targets=all_targets,
        shift=shift,
        missing=parse_missing(missing),
    )
    with progress_bars(quiet=as_json) as progress:
        cases = _dataset(dataset, scores, truth, color, depth, progress)
        plan = RunPlan(cases, settings, model)
        tally = run_all(plan, out, pool, progress)
    if as_json:
        cli.print_json(asdict(tally))
    else:
        outcomes = ", ".join(f"{count} {name}" for name, count in tally.outcomes.items())
        typer.echo(f"{tally.n_cases} cases: {outcomes}. See them with: cpor report {out} --out report.html")
    if tally.n_errors:
        raise typer.Exit(1)


def report(
    run_folder: Annotated[Path, cli.arg("RUN", "Run folder that `cpor run` wrote.")],
    out: Annotated[Path | None, cli.opt("HTML page to write; it works offline.")] = None,
    csv: Annotated[Path | None, cli.opt("CSV table to write, one row per case.")] = None,
    parquet: Annotated[Path | None, cli.opt("Parquet table to write; needs pyarrow.")] = None,
    latex: Annotated[Path | None, cli.opt("LaTeX summary tables to write.")] = None,
    details: Annotated[int, cli.opt("Most cases to show in full on the page.", min=0)] = 2000,
) -> None:
    """Write the results of a run: a page with tables, figures and cases; CSV, Parquet, LaTeX."""
    from cpor.paper.runs.report import read_report
    from cpor.paper.runs.report_files import write_csv, write_latex, write_parquet
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
    typer.echo(f"{len(found.records)} cases. Wrote {', '.join(written)}.")


def _dataset(
    dataset: Path | None,
    scores: Path | None,
    truth: Path | None,
    color: str | None,
    depth: str | None,
    progress: "Progress",
) -> "Dataset":
    from cpor.paper.runs.dataset import read_dataset, read_logged_dataset

    if dataset is not None and cli.looks_like_bag(dataset) and scores is None and truth is None:
        from cpor.bridges.bags import read_bag_dataset

        return read_bag_dataset(dataset, color, depth)
    if color is not None or depth is not None:
        raise InvalidSettingError("--color and --depth are for bags; drop them, or give a bag")
    if dataset is not None and scores is None and truth is None:
        return read_dataset(dataset, progress)
    if dataset is None and scores is not None and truth is not None:
        return read_logged_dataset(scores, truth)
    raise InvalidSettingError("give either DATASET, or --scores together with --truth")
