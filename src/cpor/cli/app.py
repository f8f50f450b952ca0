"""The command line: reads arguments, calls the library, prints. `cpor --help` lists the commands."""

import importlib
import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import perceive, reproduce, score, serve, sim
from cpor.cli import run as run_commands
from cpor.errors import CporError, InvalidSettingError

if TYPE_CHECKING:
    from cpor.reading import Request, Unclear

app = typer.Typer(
    name="cpor",
    help="Grasp the target, remove a blocker, or ask: decisions in clutter with probabilities one can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


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
    point: Annotated[
        str | None, typer.Option(metavar="X,Y", help="A pixel that shows the object asked for.")
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="The object asked for, in words. [default: the folder's request.txt]"
        ),
    ] = None,
    segmenter: perceive.SegmenterName = None,
    weights: perceive.WeightsFile = None,
    ignore_given_masks: perceive.IgnoreGiven = False,
    model: Annotated[
        str | None,
        typer.Option(help="File of a fitted model, or none. [default: the bundled one for masks and scores]"),
    ] = None,
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
        str | None,
        typer.Option(
            help="Who scores relations in a folder: a name, a TOML file, or none. "
            "[default: its scores.json, else our own network]"
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=0, help="Ask the scorer only what matters, and no more than this.")
    ] = None,
    graphs: Annotated[int, typer.Option(min=0, help="How many of the likeliest arrangements to list.")] = 3,
    rerun: sim.RerunOption = None,
    as_json: AsJson = False,
) -> None:
    """Decide what to do for the target of a scene, and say why.

    A scene folder without masks is segmented. Where a request may mean several objects, or none, it is asked
    back, nothing is decided, and the exit code is 2.
    """
    _start_numba_without_blas()
    if rerun is not None:
        perceive.check_rerun(rerun, scene)
    from cpor.data.scene_file import decision_to_json
    from cpor.inference.decide import parse_method
    from cpor.inference.graphs import likeliest_graphs
    from cpor.reading import Asking, DecideSettings, Unclear, read_question

    if questions is not None and scorer is None:
        raise InvalidSettingError("--questions needs --scorer: whom to ask")
    asking = Asking(scorer, questions) if scorer is not None else None
    choice = None
    if segmenter is not None or weights is not None or ignore_given_masks:
        from cpor.perception.choice import SegmenterChoice

        choice = SegmenterChoice(segmenter, None, weights, ignore_given_masks)
    question = read_question(scene, _request(target, point, request), model, tau, asking, choice)
    if isinstance(question, Unclear):
        _ask_back(question, as_json)
        raise typer.Exit(2)
    answer = question.answer(DecideSettings(parse_method(method), deadline_ms, require_certificate, prior))
    if rerun is not None:
        perceive.write_rerun(rerun, question, answer)
    if as_json:
        known = question.posterior.with_prior(prior)
        top = () if known.has_unanswered else likeliest_graphs(known, graphs)
        extra: dict[str, object] = {
            "target": question.posterior.target,
            "p_success": answer.p_success,
            "tau_success": answer.tau_success,
            "promise": answer.promise and {"alpha": answer.promise[0], "confidence": answer.promise[1]},
            "notes": list(answer.notes),
        }
        if question.scene is not None:
            from cpor.perception.object_list import list_objects

            times = {stage: round(value, 3) for stage, value in answer.times_ms.items()}
            extra |= {"objects": list_objects(question.scene), "masks": question.masks, "times_ms": times}
        _print_json(decision_to_json(answer.decision, top) | extra)
        return
    from cpor.inference.explain import explain
    from cpor.viz.card import decision_card

    explanation = explain(question.posterior, answer.decision, k=graphs, prior=prior)
    _print(decision_card(explanation, answer.p_success, answer.tau_success, answer.notes))


def _request(target: int | None, point: str | None, words: str | None) -> "Request":
    from cpor.reading import Request

    if sum(way is not None for way in (target, point, words)) > 1:
        raise InvalidSettingError("ask in one way only: --target, --point or --request")
    if point is None:
        return Request(target, None, words)
    from cpor.perception.grounding import parse_point

    return Request(None, parse_point(point), None)


def _ask_back(unclear: "Unclear", as_json: bool) -> None:
    """Say what is not clear about a request, with the objects it may mean."""
    from cpor.perception.object_list import list_objects

    objects = {each["id"]: each for each in list_objects(unclear.scene)}
    if as_json:
        candidates = [{**objects[k], "fit": fit} for k, fit in unclear.fit.items()]
        said = {"action": None, "target": None, "question": unclear.question, "candidates": candidates}
        _print_json(said | {"objects": list(objects.values()), "notes": list(unclear.said)})
        return
    lines = [unclear.question[:1].upper() + unclear.question[1:]]
    for o in [objects[k] for k in unclear.fit] or objects.values():
        name = f" ({o['name']})" if o["name"] else ""
        where = f"at {o['point'][0]},{o['point'][1]}" if o["point"] else "shows nowhere"
        lines.append(f"  object {o['id']}{name} {where}")
    typer.echo("\n".join([*lines, *unclear.said, "Say --target ID or --point X,Y."]))


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
    masks: Annotated[
        str | None, typer.Option(help="Whose masks the scenes have, to be written into the model.")
    ] = None,
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

    settings = FitSettings(alpha, delta, seed, condition, truth=parse_truth(truth), masks=masks)
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


reproduce.add_to(app)
run_commands.add_to(app)
score.add_to(app)
perceive.add_to(app)
sim.add_to(app)
serve.add_to(app)


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
