"""The commands `cpor reproduce`, `evaluate` and `experiment`: read arguments, call the library, print."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import experiments
from cpor.cli import options as cli
from cpor.cli.first_use import waiting
from cpor.errors import InvalidSettingError, one_of

if TYPE_CHECKING:
    from cpor.paper.cases import SolvedCases
    from cpor.paper.table import Table

ScoresOption = Annotated[Path, cli.opt("CSV table with the columns sample_id, edge, edge_confidence, label.")]
TruthOption = Annotated[Path, cli.opt("UNOBench ground truth: JSON lines or a JSON list.")]
ShiftOption = Annotated[float, cli.opt("Edge prior to take out; 0.5: none; the paper: 0.09.")]
MissingOption = Annotated[str, cli.opt("A case without an answer counts as: wrong, skip or unobstructed.")]


def reproduce(
    scores: Annotated[Path | None, cli.opt("Released CSV: sample_id, edge, edge_confidence, label.")] = None,
    truth: Annotated[Path | None, cli.opt("The released ground truth: JSON lines or a JSON list.")] = None,
    shift: ShiftOption = 0.09,
    missing: MissingOption = "wrong",
    export: Annotated[Path | None, cli.opt("Write predictions for UNOGrasp's evaluator here.")] = None,
    decoder: Annotated[str, cli.opt("Whose predictions to export: paper or expected.")] = "paper",
    out: Annotated[Path | None, cli.opt("Also write a page of all figures.", metavar="FILE.html")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Compute the paper's figures from a score log, and print both side by side."""
    if scores is None or truth is None:
        from cpor.paper.everything import RELEASED

        raise InvalidSettingError(
            "give the authors' two released files, which we do not ship: --scores scores_synthetic.csv "
            f"--truth gt_synthetic.jsonl; {RELEASED}"
        )
    from cpor.paper.evaluate import parse_missing
    from cpor.paper.reproduce import export as write_export
    from cpor.paper.reproduce import parse_decoder
    from cpor.paper.reproduce import reproduce as run

    chosen, option = parse_decoder(decoder), parse_missing(missing)
    with waiting("Computing every figure from the log"):
        found = run(scores, truth, shift, option)
    if export is not None:
        write_export(found, chosen, export)
    if out is not None:
        from cpor.io.whole_files import write_text
        from cpor.viz.paper_page import paper_page

        write_text(out, paper_page(found.tables(), found.say_missing(), found.selective, found.pools[:2]))
    if as_json:
        cli.print_json(found.to_json())
        return
    from cpor.paper.table import table_group

    typer.echo(
        f"{found.say_missing()} Shift {found.shift:g}; the authors chose theirs, 0.09, on the test split."
    )
    cli.print_rich(*(table_group(table) for table in found.tables()))
    if out is not None:
        typer.echo(f"Wrote {out}: every figure with a verdict.")


def paper(
    data: Annotated[Path | None, cli.opt("Released files. (default: our simulated benchmark)")] = None,
    scenes: Annotated[Path | None, cli.opt("Labelled scenes, for the table of geometry alone.")] = None,
    robot: Annotated[Path | None, cli.opt("Records of `cpor experiment robot`, for the robot table.")] = None,
    out: Annotated[Path, cli.opt("Page to write.", metavar="FILE.html")] = Path("paper.html"),
    as_json: cli.AsJson = False,
) -> None:
    """Compute every table and figure of the paper that the data allow, and write one page.

    The page shows our figures beside the paper's. Fig. selective also goes to FILE_selective.csv.
    """
    from cpor.io.whole_files import write_text
    from cpor.paper.everything import paper_tables
    from cpor.paper.selective import curves_csv
    from cpor.viz.paper_page import paper_page

    say = None if as_json else (lambda step: typer.echo(f"computing: {step}", err=True))
    found = paper_tables(data, scenes, robot, say or (lambda step: None))
    write_text(out, paper_page(found.tables, found.first, found.selective, found.pools))
    write_text(out.with_name(f"{out.stem}_selective.csv"), curves_csv(found.selective))
    if as_json:
        tables = {table.label: table.to_json() for table in found.tables}
        cli.print_json({"first": found.first, "tables": tables})
        return
    typer.echo(found.first)
    _print_tables(found.tables, as_json=False)
    typer.echo(f"Wrote {out}.")


def evaluate(
    predictions: Annotated[
        Path, cli.arg("PREDICTIONS", "Predictions of UNOGrasp (JSONL), or a challenge file.")
    ],
    truth: Annotated[Path, cli.arg("TRUTH", "UNOBench ground truth.")],
    missing: MissingOption = "wrong",
    tiers: Annotated[str, cli.opt("difficulty (the paper's) or new_difficulty (UNOBench's).")] = "difficulty",
    annotations: Annotated[Path | None, cli.opt("Instance maps; predictions by points need them.")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Score predictions of any method; missing and unreadable ones are listed."""
    from cpor.paper.evaluate import evaluate_file, parse_missing, parse_tier_field, problems_to_json
    from cpor.paper.predictions import read_predictions
    from cpor.paper.unobench import instance_reader, read_truth

    option, field = parse_missing(missing), parse_tier_field(tiers)
    cases = read_truth(truth)
    file = read_predictions(predictions, cases, instance_reader(annotations) if annotations else None)
    found = evaluate_file(cases, file, option, field)
    noted = problems_to_json(cases, file, option)
    from cpor.paper.table import evaluation_table

    cli.print_result(as_json, lambda: {**found.to_json(), **noted}, lambda: evaluation_table(found, noted))


def probability_ablation(
    fit: Annotated[Path | None, cli.opt("CSV to fit to: image, prob_edge, N_cand, label.")] = None,
    test: Annotated[Path | None, cli.opt("CSV table of other images to measure on.")] = None,
    pairs: Annotated[Path | None, cli.opt("Log of pairs instead: every row, cross-fitted.")] = None,
    truth: Annotated[str, cli.opt("Relations of a log of pairs: occlusion, or any.")] = "any",
    as_json: cli.AsJson = False,
) -> None:
    """Compare calibrators and fusion, stage by stage (Table prob-ablation)."""
    if pairs is None and fit is not None and test is not None:
        from cpor.paper.probability_ablation import calibrator_table

        _print_tables([calibrator_table(fit, test)], as_json)
        return
    if pairs is None or fit is not None or test is not None:
        raise InvalidSettingError("give either --fit together with --test, or --pairs")
    from cpor.paper.pair_log import read_pair_log
    from cpor.paper.probability_ablation import measure_stages
    from cpor.paper.simulated import to_benchmark

    kind = one_of("--truth", truth, ("any", "occlusion"))
    found = to_benchmark(read_pair_log(pairs), occlusion_only=kind == "occlusion")
    with waiting("Fitting and solving every case"):
        table = measure_stages(found.cases, found.scores).table
    _print_tables([table._replace(notes=(*table.notes, found.say_left_out()))], as_json)


def cross_scorer(
    truth: TruthOption,
    scores: Annotated[list[str], cli.opt("NAME=FILE: a score log; repeat it. The first is the reference.")],
    missing: MissingOption = "wrong",
    shift: ShiftOption = 0.09,
    as_json: cli.AsJson = False,
) -> None:
    """Compare score logs of several scorers on one truth (Table cross-vlm)."""
    from cpor.paper.cross_scorer import compare_scorers, parse_scorers
    from cpor.paper.evaluate import parse_missing

    table = compare_scorers(parse_scorers(scores), truth, parse_missing(missing), shift)
    _print_tables([table], as_json)


def geometry(
    scenes: Annotated[Path, cli.opt("Folder of labelled scene folders with masks.")],
    masks: Annotated[str, cli.opt("Masks: true, ours, classical, boxes; with commas, or all.")] = "true",
    as_json: cli.AsJson = False,
) -> None:
    """Decide every object of every scene from masks and depth alone (Table geometry)."""
    from cpor.paper.geometry_log import MASK_SOURCES, measure_geometry
    from cpor.viz.progress import progress_bars

    names = MASK_SOURCES if masks == "all" else masks.split(",")
    chosen = [one_of("--masks", name, MASK_SOURCES) for name in names]
    with progress_bars(quiet=as_json) as progress:
        table = measure_geometry(scenes, chosen, progress)
    _print_tables([table], as_json)


def selective(
    scores: ScoresOption,
    truth: TruthOption,
    shift: ShiftOption = 0.09,
    missing: MissingOption = "unobstructed",
    out: Annotated[Path | None, cli.opt("Write selective.csv and .html here.", metavar="DIR")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Defer the least certain cases, and count the errors kept and caught (Fig. selective)."""
    import numpy as np

    from cpor.paper.selective import curves_csv, measure_selective, selective_table

    rows = measure_selective(_solve(scores, truth, shift, missing), np.random.default_rng(0))
    if out is not None:
        from cpor.io.whole_files import write_text
        from cpor.viz.paper_page import curves_page

        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "selective.csv", curves_csv(rows))
        write_text(out / "selective.html", curves_page(rows))
    _print_tables([selective_table(rows)], as_json)


def mechanism(
    scores: ScoresOption,
    truth: TruthOption,
    shift: ShiftOption = 0.09,
    missing: MissingOption = "unobstructed",
    as_json: cli.AsJson = False,
) -> None:
    """Measure what acyclicity adds with and without conflicts (Tables cpor-ablation, panel B, and mu)."""
    from cpor.paper.mechanism import conflict_table, mu_by_tier, mu_table

    solved = _solve(scores, truth, shift, missing)
    mu = mu_by_tier([case.difficulty for case in solved.cases], solved.exact.mu)
    _print_tables([conflict_table(solved), mu_table(mu)], as_json)


def independence(
    scores: Annotated[Path | None, cli.opt("Score log; needs --truth.")] = None,
    truth: Annotated[Path | None, cli.opt("Ground truth of the score log.")] = None,
    pairs: Annotated[Path | None, cli.opt("Log of pairs instead.")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Measure how independent relations are that share an object, and what it means (Assumption 1).

    The second table is of a log-linear model that lets them be correlated: what it changes in decisions.
    """
    import numpy as np

    from cpor.paper.independence import couplings_table, independence_table
    from cpor.paper.pair_log import read_pair_log
    from cpor.paper.simulated import to_benchmark
    from cpor.paper.unobench import read_fused_scores, read_truth

    if pairs is not None and scores is None and truth is None:
        found = to_benchmark(read_pair_log(pairs), occlusion_only=False)
        cases, log = found.cases, found.scores
    elif pairs is None and scores is not None and truth is not None:
        cases = read_truth(truth)
        log = read_fused_scores(scores, len(cases))
    else:
        raise InvalidSettingError("give either --scores together with --truth, or --pairs")
    rng = np.random.default_rng(0)
    _print_tables([independence_table(cases, log, rng), couplings_table(cases, log, rng)], as_json)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=cli.DATA_SETS)(paper)
    app.command(rich_help_panel=cli.DATA_SETS)(reproduce)
    app.command(rich_help_panel=cli.DATA_SETS)(evaluate)
    experiment = typer.Typer(
        no_args_is_help=True, help="Compute one table of the paper, and print its figures beside ours."
    )
    for command in (probability_ablation, cross_scorer, geometry, selective, mechanism, independence):
        experiment.command()(command)
    experiments.add_to(experiment)
    app.add_typer(experiment, name="experiment", rich_help_panel=cli.DATA_SETS)


def _solve(scores: Path, truth: Path, shift: float, missing: str) -> "SolvedCases":
    from cpor.paper.cases import free_where_unknown, read_scored, solve_cases
    from cpor.paper.evaluate import parse_missing

    scored = read_scored(scores, truth, shift)
    option = parse_missing(missing)
    if option == "wrong":
        raise InvalidSettingError(
            "--missing wrong has no meaning here: a case without scores has no probability. Choose skip or "
            "unobstructed"
        )
    return solve_cases(free_where_unknown(scored) if option == "unobstructed" else scored)


def _print_tables(tables: "Sequence[Table]", as_json: bool) -> None:
    """Print tables; as JSON the one table, or several by label."""
    if as_json:
        several = {table.label: table.to_json() for table in tables}
        cli.print_json(several if len(tables) > 1 else tables[0].to_json())
        return
    from cpor.paper.table import table_group

    cli.print_rich(*(table_group(table) for table in tables))
