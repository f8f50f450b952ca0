"""The commands `cpor reproduce` and `cpor evaluate`: read arguments, call the library, print."""

import json
from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
MissingOption = Annotated[
    str, typer.Option(help="What a case without answer counts as: wrong, skip or unobstructed.")
]


def reproduce(
    scores: Annotated[Path, typer.Option(help="CSV: sample_id, edge, edge_confidence, label.")],
    truth: Annotated[Path, typer.Option(help="UNOBench ground truth, JSON lines or a JSON list.")],
    shift: Annotated[
        float, typer.Option(help="Edge prior taken out of every probability; 0.5: none. The paper's: 0.09.")
    ] = 0.09,
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


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(reproduce)
    app.command()(evaluate)


def _print_json(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
