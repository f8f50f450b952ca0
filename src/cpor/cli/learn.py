"""The commands `fit`, `calibrate` and `drift`: learn from labelled scenes, and notice when they change."""

import math
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import options as cli
from cpor.errors import InvalidSettingError, one_of
from cpor.viz.progress import progress_bars

if TYPE_CHECKING:
    from cpor.fitting import FitSettings
    from cpor.model import FittedModel


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, calibrate, drift):
        app.command(rich_help_panel=cli.LEARN)(command)


def calibrate(
    scores: Annotated[Path, cli.arg("SCORES.csv", "Table with the columns image, prob_edge, N_cand, label.")],
    method: Annotated[str, cli.opt("adaptive-platt, platt, temperature or isotonic.")] = "adaptive-platt",
    penalty: Annotated[float | None, cli.opt("Penalty of adaptive-platt. (default: cross-validated)")] = None,
    out: Annotated[Path | None, cli.opt("Write the calibrator to this file.")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Fit a calibrator to a table of labelled scores."""
    from cpor.fitting.score_log import calibrate_log, read_score_log
    from cpor.viz.tables import calibration_table, calibration_to_json

    found = calibrate_log(read_score_log(scores), method, penalty)
    if out is not None:
        found.calibrator.save(out)
    cli.print_result(as_json, lambda: calibration_to_json(found), lambda: calibration_table(found))


def fit(
    scenes: Annotated[Path | None, cli.arg("LABELLED_SCENES", "Folder of labelled scene folders.")] = None,
    out: Annotated[Path, cli.opt("Model file to write.")] = Path("model.json"),
    alpha: Annotated[float, cli.opt("Promise at most this share of wrong actions.")] = 0.1,
    delta: Annotated[float, cli.opt("Allow this probability that the promise does not hold.")] = 0.1,
    seed: Annotated[int, cli.more("Random seed for the split and the targets.", min=0)] = 0,
    condition: Annotated[bool, cli.more("Also look at the target's chain of blockers.")] = False,
    truth: Annotated[
        str, cli.opt("True relations to learn: occlusion, sweep, or any of both.")
    ] = "occlusion",
    coverage: Annotated[
        float | None,
        cli.more("Add candidate pairs until at most this share of scenes lacks a true relation."),
    ] = None,
    by_kind: Annotated[bool, cli.more("Promise the rate for free and for buried targets apart.")] = False,
    worked: Annotated[
        Path | None,
        cli.more("More labelled scenes, of heaps a robot worked on: kinds of their own.", metavar="FOLDER"),
    ] = None,
    geometry: Annotated[
        str, cli.opt("Geometry: paper (its formula), learnt (our network) or both.")
    ] = "both",
    prior: Annotated[
        str | None,
        cli.opt("Model to start from: bundled, none, or a file. (default: bundled if a person labelled)"),
    ] = None,
    pipeline: cli.PipelineName = "default",
    sign: Annotated[
        Path | None,
        cli.opt(
            "Sign the model with this Ed25519 key, as `ssh-keygen -t ed25519` writes it, for other "
            "machines. (default: sealed for this account)"
        ),
    ] = None,
    sources: cli.SourceNames = None,
    episodes: Annotated[
        Path | None, cli.opt("Judged retrievals (*.jsonl) of --prior; promises whole ones.", metavar="FOLDER")
    ] = None,
    plots: Annotated[Path | None, cli.more("Reliability plots. (default: beside the model)")] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Learn calibration, fusion and a promised error rate from labelled scenes.

    With --pipeline paper: only what the paper fits, its semantic calibrator and its fusion.
    """
    from cpor.evidence.learnt import parse_geometry
    from cpor.evidence.source import load_sources
    from cpor.fitting import FitSettings, fit_model
    from cpor.io.scene_folder import list_scene_folders, read_scenes
    from cpor.truth import parse_truth
    from cpor.viz.svg import write_reliability_plots
    from cpor.viz.tables import fit_table, fit_to_json

    settings = FitSettings(
        alpha,
        delta,
        seed,
        condition,
        geometry_kind=parse_geometry(geometry),
        truth=parse_truth(truth),
        sources=load_sources(sources or ()),
        coverage=coverage,
        by_kind=by_kind,
        worked=frozenset(f"worked/{each.name}" for each in (list_scene_folders(worked) if worked else ())),
    )
    cli.require_parent(out)
    if episodes is not None:
        _promise_retrievals(episodes, prior, (alpha, delta), out, sign, as_json)
        return
    if scenes is None:
        raise InvalidSettingError("give LABELLED_SCENES, or --episodes with --prior")
    if one_of("--pipeline", pipeline, ("default", "paper")) == "paper":
        from cpor.fitting.paper import fit_paper

        with progress_bars(quiet=as_json) as progress:
            found = fit_paper(read_scenes(scenes, progress), parse_truth(truth), seed)
        found.save(out)
        if as_json:
            cli.print_json(found.model_dump())
        else:
            typer.echo(f"Fitted to {found.n_scenes} scenes, {found.n_pairs} pairs. Wrote {out}.")
        return
    start = _prior(scenes, prior)
    typer.echo(_say_labels(scenes, settings, from_prior=start is not None), err=True)
    if start is not None:
        if condition or geometry != "both" or sources or coverage is not None:
            raise InvalidSettingError(
                "--condition, --geometry, --coverage and --source are those of the prior model; drop them"
            )
        if by_kind or worked:
            raise InvalidSettingError(
                "--by-kind and --worked need a model fitted from nothing; add --prior none"
            )
        _fit_lab(scenes, start, settings, out, sign, as_json)
        return
    with progress_bars(quiet=as_json) as progress:
        untouched = read_scenes(scenes, progress)
        others = read_scenes(worked, progress) if worked else iter(())
        given = chain(untouched, ((f"worked/{name}", scene) for name, scene in others))
        report = fit_model(given, settings, progress)
    _save(report.model, out, sign)
    folder = plots or out.parent / f"{out.stem}_plots"
    write_reliability_plots(report.reliability, folder)
    cli.print_result(as_json, lambda: fit_to_json(report), lambda: fit_table(report, out, folder))


def _promise_retrievals(
    folder: Path, prior: str | None, levels: tuple[float, float], out: Path, sign: Path | None, as_json: bool
) -> None:
    """Add a promise over whole retrievals to a model that was run."""
    from cpor.learn.retrievals import promise_retrievals
    from cpor.model import FittedModel, bundled_model
    from cpor.robot.judged_retrievals import read_retrievals

    if prior in (None, "none"):
        raise InvalidSettingError("--episodes needs the model that ran them; give --prior bundled, or a file")
    model = FittedModel.load(bundled_model("embedded") if prior == "bundled" else Path(str(prior)))
    runs = read_retrievals(sorted(folder.glob("*.jsonl")))
    others = sum(each.model != model.tested_digest for each in runs)
    if others:
        raise InvalidSettingError(f"{others} of {len(runs)} retrievals in {folder} are of another model")
    if unjudged := [each.run for each in runs if each.wrong is None]:
        raise InvalidSettingError(
            f"nobody judged {unjudged[0]}; write whether an action was wrong, true or false"
        )
    outcomes: dict[float, list[tuple[bool, str]]] = {}
    for each in runs:
        outcomes.setdefault(each.tau, []).append((bool(each.wrong), each.where))
    promise = promise_retrievals(outcomes, *levels)
    _save(model.model_copy(update={"retrievals": promise}).sealed(), out, sign)
    if as_json:
        cli.print_json(promise.model_dump(mode="json"))
    else:
        typer.echo(
            f"{'Promised' if promise.promised else 'Nothing is promised'}: {promise.reason}. Wrote {out}."
        )


def _prior(scenes: Path, prior: str | None) -> "FittedModel | None":
    """The model to start from; None: from nothing."""
    from cpor.apps.lab import is_labelled_by_hand
    from cpor.io.scene_folder import list_scene_folders, read_scene_folder
    from cpor.model import FittedModel, bundled_model

    if prior is None:
        first = read_scene_folder(list_scene_folders(scenes)[0])
        prior = "bundled" if is_labelled_by_hand(first) else "none"
    if prior == "none":
        return None
    return FittedModel.load(bundled_model("embedded") if prior == "bundled" else Path(prior))


def _say_labels(scenes: Path, settings: "FitSettings", from_prior: bool) -> str:
    """How many labels the promise needs, what those at hand can support, and what ten more would buy."""
    from cpor.fitting.from_prior import FIT_SHARE
    from cpor.fitting.labelled import SHARES
    from cpor.io.scene_folder import list_scene_folders
    from cpor.learn.control import least_executed, least_rate
    from cpor.learn.modes import percent

    n, share = len(list_scene_folders(scenes)), 1.0 - FIT_SHARE if from_prior else SHARES[-1]
    needed = least_executed(settings.alpha, settings.delta)
    best, after_ten = (percent(least_rate(int(share * labels), settings.delta)) for labels in (n, n + 10))
    return (
        f"{n} labelled scenes, of which about {int(share * n)} test the promise. A promise of "
        f"{percent(settings.alpha)} needs {needed} tested scenes acted on without an error, so at least "
        f"{math.ceil(needed / share)} labelled ones. At best these support {best}; with ten more {after_ten}."
    )


def _save(model: "FittedModel", out: Path, sign: Path | None) -> None:
    """Write the model, sealed for this account or signed."""
    model = model if sign is None else model.sealed(sign)
    model.save(out)
    if model.unproven is not None:
        typer.echo(f"{out} will promise nothing: {model.unproven}.", err=True)


def _fit_lab(
    scenes: Path, prior: "FittedModel", settings: "FitSettings", out: Path, sign: Path | None, as_json: bool
) -> None:
    from cpor.apps.lab import fit_lab, read_why
    from cpor.io.scene_folder import read_scenes
    from cpor.viz.tables import lab_table, lab_to_json

    why = read_why(scenes)
    drawn = None if why is None else {name for name, reason in why.items() if reason == "drawn"}
    with progress_bars(quiet=as_json) as progress:
        report = fit_lab(read_scenes(scenes, progress), prior, settings, drawn, progress)
    _save(report.model, out, sign)
    cli.print_result(as_json, lambda: lab_to_json(report), lambda: lab_table(report, out))


def drift(
    scenes: Annotated[Path, cli.arg("SCENES", "Folder of scene folders.")],
    model: Annotated[Path, cli.opt("Model file that `cpor fit` wrote.")],
    level: Annotated[float, cli.opt("Allow this probability of a false alarm.")] = 0.01,
    seed: Annotated[int, cli.opt("Random seed for the targets and the test.", min=0)] = 0,
    as_json: cli.AsJson = False,
) -> None:
    """Test whether new scenes still look like those the model was fitted to."""
    import numpy as np

    from cpor.fitting.fit import decide_random_targets
    from cpor.io.scene_folder import read_scenes
    from cpor.model import FittedModel

    rng, fitted = np.random.default_rng(seed), FittedModel.load(model)
    with progress_bars(quiet=as_json) as progress:
        results = decide_random_targets(fitted, read_scenes(scenes, progress), rng)
    report = fitted.check_drift(results, rng, level)
    if as_json:
        cli.print_json(asdict(report))
    else:
        typer.echo(report.reason)
