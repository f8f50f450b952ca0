"""The command line: reads arguments, calls the library, prints. `cpor --help` lists the commands."""

import importlib
import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cpor import cli_perceive, cli_reproduce, cli_run, cli_score, cli_sim, cli_train
from cpor.errors import CporError, InvalidSettingError

app = typer.Typer(
    name="cpor",
    help="Grasp the target, remove a blocker, or ask: decisions in clutter with probabilities one can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ModelFile = Annotated[Path | None, typer.Option(help="Fitted model, as `cpor fit` writes it.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from cpor import __version__

        typer.echo(f"cpor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def decide(
    scene: Annotated[
        Path, typer.Argument(metavar="SCENE", help="Scene file with relation probabilities, or scene folder.")
    ],
    target: Annotated[int | None, typer.Option(help="Id of the object asked for, in a scene folder.")] = None,
    model: ModelFile = None,
    tau: Annotated[
        float | None,
        typer.Option(help="Act only above this probability of being right. [default: the model's, or 0.5]"),
    ] = None,
    method: Annotated[str, typer.Option(help="auto, exact, or topk (the paper's Algorithm 1).")] = "auto",
    deadline_ms: Annotated[float | None, typer.Option(help="Answer within this many milliseconds.")] = None,
    require_certificate: Annotated[
        bool, typer.Option("--require-certificate", help="Defer unless proven to be the exact answer.")
    ] = False,
    prior: Annotated[
        float | None, typer.Option(help="Probability to assume where there was no answer.")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help="Ask this scorer about a scene folder: a name or a TOML file.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=0, help="Ask the scorer only what matters, and no more than this.")
    ] = None,
    graphs: Annotated[int, typer.Option(min=0, help="How many of the likeliest arrangements to list.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Decide what to do for the target of a scene, and say why."""
    _start_numba_without_blas()
    from cpor.data.scene_file import decision_to_json
    from cpor.inference.decide import parse_method
    from cpor.inference.graphs import likeliest_graphs
    from cpor.reading import Asking, DecideSettings, read_question

    if questions is not None and scorer is None:
        raise InvalidSettingError("--questions needs --scorer: whom to ask")
    asking = Asking(scorer, questions) if scorer is not None else None
    question = read_question(scene, target, model, tau, asking)
    answer = question.answer(DecideSettings(parse_method(method), deadline_ms, require_certificate, prior))
    if as_json:
        known = question.posterior.with_prior(prior)
        top = () if known.has_unanswered else likeliest_graphs(known, graphs)
        extra = {
            "p_success": answer.p_success,
            "tau_success": answer.tau_success,
            "promise": answer.promise and {"alpha": answer.promise[0], "confidence": answer.promise[1]},
            "notes": list(answer.notes),
        }
        _print_json(decision_to_json(answer.decision, top) | extra)
        return
    from cpor.inference.explain import explain
    from cpor.viz.card import decision_card

    explanation = explain(question.posterior, answer.decision, k=graphs, prior=prior)
    _print(decision_card(explanation, answer.p_success, answer.tau_success, answer.notes))


@app.command()
def calibrate(
    scores: Annotated[
        Path, typer.Argument(metavar="SCORES.csv", help="Columns image, prob_edge, N_cand, label.")
    ],
    method: Annotated[
        str, typer.Option(help="adaptive-platt, platt, temperature or isotonic.")
    ] = "adaptive-platt",
    penalty: Annotated[
        float | None, typer.Option(help="Of adaptive-platt. [default: by cross-validation over images]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the calibrator to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a calibrator to labelled scores, and compare before with after."""
    from cpor.data.score_log import read_score_log
    from cpor.fitting.score_log import calibrate_log
    from cpor.viz.tables import calibration_table, calibration_to_json

    found = calibrate_log(read_score_log(scores), method, penalty)
    if out is not None:
        found.calibrator.save(out)
    if as_json:
        _print_json(calibration_to_json(found))
    else:
        _print(calibration_table(found))


@app.command()
def fit(
    scenes: Annotated[
        Path, typer.Argument(metavar="LABELLED_SCENES", help="Folder of labelled scene folders.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the model.")] = Path("model.json"),
    alpha: Annotated[float, typer.Option(help="Allowed rate of wrong actions among those executed.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Allowed probability that the promise is broken.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of the split into parts and of the targets.")] = 0,
    condition: Annotated[
        bool, typer.Option(help="Also condition relations on the target's chain (ours), or not (the paper).")
    ] = False,
    truth: Annotated[
        str, typer.Option(help="True relations to learn: occlusion, sweep, or any of the two.")
    ] = "occlusion",
    plots: Annotated[
        Path | None, typer.Option(help="Folder for reliability plots. [default: beside the model]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit calibration, fusion and a promised error rate to labelled scenes, each on its own part."""
    from cpor.fitting import FitSettings, fit_model
    from cpor.reading import read_scenes
    from cpor.truth import parse_truth
    from cpor.viz.progress import progress_bars
    from cpor.viz.reliability import write_reliability_plots
    from cpor.viz.tables import fit_table, fit_to_json

    settings = FitSettings(alpha, delta, seed, condition, truth=parse_truth(truth))
    if not out.parent.is_dir():
        raise InvalidSettingError(f"the folder {out.parent} does not exist; make it, or choose another --out")
    with progress_bars(quiet=as_json) as progress:
        report = fit_model(read_scenes(scenes, progress), settings, progress)
    report.model.save(out)
    folder = plots or out.parent / f"{out.stem}_plots"
    write_reliability_plots(report.reliability, folder)
    if as_json:
        _print_json(fit_to_json(report))
    else:
        _print(fit_table(report, out, folder))


@app.command()
def drift(
    scenes: Annotated[Path, typer.Argument(metavar="SCENES", help="Folder of scene folders.")],
    model: Annotated[Path, typer.Option(help="Fitted model, as `cpor fit` writes it.")],
    level: Annotated[float, typer.Option(help="Probability of a false alarm.")] = 0.01,
    seed: Annotated[int, typer.Option(min=0, help="Of the targets and of the permutations.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say whether new scenes still look like those that the model's promise was made from."""
    import numpy as np

    from cpor.reading import run_on_random_targets
    from cpor.viz.progress import progress_bars

    rng = np.random.default_rng(seed)
    with progress_bars(quiet=as_json) as progress:
        fitted, results = run_on_random_targets(scenes, model, rng, progress)
    report = fitted.check_drift(results, rng, level)
    if as_json:
        _print_json(asdict(report))
    else:
        typer.echo(report.reason)


cli_reproduce.add_to(app)
cli_run.add_to(app)
cli_score.add_to(app)
cli_perceive.add_to(app)
cli_train.add_to(app)
cli_sim.add_to(app)


def _start_numba_without_blas() -> None:
    """Save a fifth of the start-up: numba looks for a BLAS in SciPy, and no kernel of ours uses one."""
    if "scipy.linalg" in sys.modules or "numba" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del sys.modules["scipy.linalg"]


def _print_json(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _print(renderable: object) -> None:
    from rich.console import Console

    Console().print(renderable)


def main() -> None:
    """Run the command line; an error of ours becomes one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our characters gets "?"
    try:
        app()
    except CporError as error:
        message = "".join(c if c.isprintable() else " " for c in str(error))
        sys.stderr.write(f"error: {message}\n")
        raise SystemExit(2) from None
    except OSError as error:  # standard output closed or full
        sys.stderr.write(f"error: cannot write the answer: {error.strerror}\n")
        raise SystemExit(1) from None
