"""The commands `cpor reproduce`, `evaluate` and `experiment`: read arguments, call the library, print."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cpor.cli import perception, robot

ScoresOption = Annotated[Path, typer.Option(help="CSV: sample_id, edge, edge_confidence, label.")]
TruthOption = Annotated[Path, typer.Option(help="UNOBench ground truth, JSON lines or a JSON list.")]
ShiftOption = Annotated[
    float, typer.Option(help="Edge prior taken out of every probability; 0.5: none. The paper's: 0.09.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
MissingOption = Annotated[
    str, typer.Option(help="What a case without answer counts as: wrong, skip or unobstructed.")
]


def reproduce(
    scores: ScoresOption,
    truth: TruthOption,
    shift: ShiftOption = 0.09,
    missing: MissingOption = "wrong",
    export: Annotated[
        Path | None, typer.Option(help="Write predictions for UNOGrasp's evaluator to this file.")
    ] = None,
    decoder: Annotated[str, typer.Option(help="Whose predictions to export: paper or expected.")] = "paper",
    as_json: AsJson = False,
) -> None:
    """Compute every published figure that a score log determines, the paper's beside ours."""
    from cpor.experiments.evaluate import parse_missing
    from cpor.experiments.reproduce import export as write_export
    from cpor.experiments.reproduce import parse_decoder
    from cpor.experiments.reproduce import reproduce as run

    chosen, option = parse_decoder(decoder), parse_missing(missing)
    found = run(scores, truth, shift, option)
    if export is not None:
        write_export(found, chosen, export)
    if as_json:
        _print_json(found.to_json())
        return
    from rich.console import Console

    from cpor.experiments.tables import reproduction_tables

    Console().print(reproduction_tables(found))


def evaluate(
    predictions: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="UNOGrasp's predictions.jsonl, or a challenge file.")
    ],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="UNOBench ground truth.")],
    missing: MissingOption = "wrong",
    tiers: Annotated[
        str, typer.Option(help="Tier field: difficulty (the paper's) or new_difficulty (UNOBench's own).")
    ] = "difficulty",
    annotations: Annotated[
        Path | None, typer.Option(help="Folder of instance maps, which files of points need.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score anybody's predictions; what is missing or unreadable is counted as asked and listed."""
    from cpor.data.predictions import read_predictions
    from cpor.data.unobench import instance_reader, read_truth
    from cpor.experiments.evaluate import evaluate_file, parse_missing, parse_tier_field, problems_to_json

    option, field = parse_missing(missing), parse_tier_field(tiers)
    cases = read_truth(truth)
    file = read_predictions(predictions, cases, instance_reader(annotations) if annotations else None)
    found = evaluate_file(cases, file, option, field)
    noted = problems_to_json(cases, file, option)
    if as_json:
        _print_json({**found.to_json(), **noted})
        return
    from rich.console import Console

    from cpor.experiments.tables import evaluation_table

    Console().print(evaluation_table(found, noted))


def probability_ablation(
    fit: Annotated[Path, typer.Option(help="CSV to fit to: image, prob_edge, N_cand, label.")],
    test: Annotated[Path, typer.Option(help="CSV to measure on, of other images.")],
    as_json: AsJson = False,
) -> None:
    """Compare calibrators of relation scores (Table prob-ablation)."""
    from cpor.experiments.probability_ablation import measure_probability_ablation

    _print_experiment("Relations by calibrator", measure_probability_ablation(fit, test).to_json(), as_json)


def cross_scorer(
    truth: TruthOption,
    scores: Annotated[list[str], typer.Option(help="NAME=FILE, a score log by scorer; repeat for more.")],
    missing: MissingOption = "wrong",
    as_json: AsJson = False,
) -> None:
    """Compare score logs of several scorers on one truth (Table cross-vlm)."""
    from cpor.experiments.cross_scorer import compare_scorers, parse_scorers
    from cpor.experiments.evaluate import parse_missing

    found = compare_scorers(parse_scorers(scores), truth, parse_missing(missing))
    _print_experiment("Scorers", found.to_json(), as_json)


def geometry(
    scenes: Annotated[Path, typer.Option(help="Folder of labelled scene folders with masks.")],
    as_json: AsJson = False,
) -> None:
    """Decide every object of every scene from masks and depth alone (Table geometry)."""
    from cpor.experiments.geometry import measure_geometry
    from cpor.viz.progress import progress_bars

    with progress_bars(quiet=as_json) as progress:
        found = measure_geometry(scenes, progress)
    _print_experiment("Geometry alone", found.to_json(), as_json)


def selective(
    scores: ScoresOption, truth: TruthOption, shift: ShiftOption = 0.09, as_json: AsJson = False
) -> None:
    """Defer the least certain: error kept and error caught (Fig. selective)."""
    from cpor.experiments.selective import selective_to_json

    _print_experiment("Selective execution", selective_to_json(scores, truth, shift), as_json)


def mechanism(
    scores: ScoresOption, truth: TruthOption, shift: ShiftOption = 0.09, as_json: AsJson = False
) -> None:
    """What acyclicity adds, where relations conflict and where not (Table cpor-ablation, panel B)."""
    from cpor.experiments.mechanism import mechanism_to_json

    _print_experiment("Acyclicity", mechanism_to_json(scores, truth, shift), as_json)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(reproduce)
    app.command()(evaluate)
    experiment = typer.Typer(no_args_is_help=True, help="One table of the paper, its figures beside ours.")
    for command in (probability_ablation, cross_scorer, geometry, selective, mechanism):
        experiment.command()(command)
    robot.add_to(experiment)
    perception.add_to(experiment)
    app.add_typer(experiment, name="experiment")


def _print_json(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _print_experiment(title: str, content: Mapping[str, Any], as_json: bool) -> None:
    """Rows of `ours`, `paper` and `difference`, as JSON or as a table with the notes below it."""
    if as_json:
        _print_json(content)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names = list(content["rows"][0]["ours"])
    table = Table("", *names, title=f"{title}: paper | ours (difference)", title_justify="left")
    for row in content["rows"]:
        paper, gap = row["paper"] or {}, row["difference"]
        cells = [_show(row["ours"][k]) for k in names]
        if paper:
            cells = [
                f"{_show(paper.get(k))} | {cell} ({_show(gap.get(k), '+')})"
                for k, cell in zip(names, cells, strict=True)
            ]
        table.add_row(Text(row["name"]), *cells)
    Console().print(table, *(Text(note) for note in content["notes"]), sep="\n")


def _show(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.4f}"
