"""Commands below `experiment` that measure our networks and the simulated robot."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from cpor.cli import options as cli
from cpor.errors import InvalidSettingError, one_of
from cpor.viz.progress import counting, progress_bars

ModelOption = Annotated[Path | None, cli.opt("Model file. (default: bundled, fitted on the dev split)")]


def add_to(experiment: typer.Typer) -> None:
    """Register the commands with the other experiments."""
    experiment.command()(robot)
    experiment.command()(first_decisions)
    experiment.command()(episodes)
    experiment.command()(perception)
    experiment.command()(chain)


def perception(
    split: Annotated[Path, cli.opt("Labelled data set that `cpor simulate` made.")],
    out: Annotated[Path, cli.opt("Folder to write. The same command resumes a stopped run.")],
    segmenter: Annotated[str, cli.opt("Masks: ours, given (the true ones), or depth (classical).")] = "ours",
    scorer: Annotated[bool, cli.opt("Let our network score the relations.")] = True,
    weights: Annotated[Path | None, cli.opt("ONNX network in place of our segmenter.")] = None,
    scorer_weights: Annotated[Path | None, cli.opt("ONNX network in place of our scorer.")] = None,
    workers: cli.WorkersOption = 1,
    engine: cli.EngineOption = "local",
    as_json: cli.AsJson = False,
) -> None:
    """Segment a labelled data set, and measure the masks.

    It writes scene folders that every other command reads, and OUT/scores.csv.gz, the log of every pair of
    objects, which `experiment chain` reads.
    """
    import numpy as np

    from cpor.evidence.learnt import LearntGeometry
    from cpor.paper.means import mean_of
    from cpor.paper.pair_log import log_pairs, write_pair_log
    from cpor.paper.perceived import SEGMENTERS, PerceptionSettings, perceive_split
    from cpor.paper.segmentation import measure_masks

    kind = one_of("--segmenter", segmenter, SEGMENTERS)
    settings = PerceptionSettings(
        segmenter=kind, scorer=scorer, segmenter_file=weights, scorer_file=scorer_weights
    )
    with progress_bars(quiet=as_json) as progress:
        seen = perceive_split(split, out, settings, workers, progress, engine)
        geometry = LearntGeometry()
        made = {"segmenter": seen.masks, "scorer": seen.scorer, "geometry": geometry.fingerprint}
        write_pair_log(log_pairs(seen, progress, geometry), out / "scores.csv.gz", made)
    rng = np.random.default_rng(0)
    figures = measure_masks([(record.name, record.quality) for record in seen.records], rng)
    figures["target_found"] = mean_of([(record.name, float(record.found)) for record in seen.records], rng)
    from cpor.viz.tables import mask_table

    about = {"masks": seen.masks, "scorer": seen.scorer, "n": len(seen.records)}
    cli.print_result(
        as_json,
        lambda: about | {"figures": {k: {"value": each.value, "ci": each.ci} for k, each in figures.items()}},
        lambda: mask_table(figures, len(seen.records), seen.masks),
    )


def chain(
    scores: Annotated[Path, cli.opt("Log of pairs that `experiment perception` wrote.")],
    model: Annotated[Path | None, cli.opt("Model file. (default: bundled, for our networks)")] = None,
    any_versions: Annotated[bool, cli.opt("Accept a log of other networks.", "--any-versions")] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Compare raw, calibrated, fused, summed and acyclic scores (Table cpor-ablation, panel A)."""
    import numpy as np

    from cpor.model import FittedModel, bundled_model
    from cpor.paper.chain import measure_chain
    from cpor.paper.pair_log import read_pair_log, refuse_other_versions

    cases = read_pair_log(scores)
    fitted = FittedModel.load(model or bundled_model("embedded"))
    if not any_versions:
        refuse_other_versions(scores, fitted)
    with progress_bars(quiet=as_json) as progress:
        tell = counting(progress, "deciding", len(cases))
        found = measure_chain(cases, fitted, np.random.default_rng(0), tell)
    from cpor.viz.tables import chain_table

    cli.print_result(as_json, found.to_json, lambda: chain_table(found))


def robot(
    out: Annotated[Path, cli.opt("File of records. The same command resumes a stopped run.")],
    model: ModelOption = None,
    per_tier: Annotated[int, cli.opt("Scenarios per tier; the paper has 15.", min=1)] = 15,
    methods: Annotated[str, cli.opt("Rows of the table, separated by commas; or all.")] = "all",
    tau: Annotated[float, cli.opt("Act only above this score.")] = 0.0,
    budget: Annotated[int, cli.opt("Attempts on objects in each scenario.", min=1)] = 12,
    finger_friction: Annotated[float, cli.opt("Friction of the gripper's pads.")] = 0.5,
    eyes: cli.EyesName = "networks",
    person: Annotated[bool, cli.opt("Where the loop defers, take the true answer.", "--person")] = False,
    workers: cli.WorkersOption = 1,
    engine: cli.EngineOption = "local",
    as_json: cli.AsJson = False,
) -> None:
    """Compare ways of deciding with the simulated arm, on the same scenes (Table robot)."""
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    import numpy as np

    from cpor.io.pool import Pool
    from cpor.model import bundled_model
    from cpor.paper.methods import METHODS, NEED_SCORES
    from cpor.paper.robot_table import run_robot_table, summarise, table_to_json
    from cpor.paper.scenarios import ScenarioSettings
    from cpor.sim.staged_run import Eyes

    chosen = one_of("--eyes", eyes, get_args(Eyes))
    known = METHODS if chosen == "networks" else tuple(m for m in METHODS if m not in NEED_SCORES)
    names = known if methods == "all" else tuple(m for m in known if m in methods.split(","))
    if methods != "all" and len(names) != len(methods.split(",")):
        raise InvalidSettingError(
            f"--methods is {methods!r}; choose from: {', '.join(known)} (with --eyes {chosen})"
        )
    settings = ScenarioSettings(
        model=model or bundled_model("embedded" if chosen == "networks" else "geometry"),
        tau=tau,
        budget=budget,
        finger_friction=finger_friction,
        eyes=chosen,
        person=person,
    )
    with progress_bars(quiet=as_json) as progress:
        records = run_robot_table(out, settings, per_tier, names, Pool(workers, engine), progress)
    rows = summarise(records, np.random.default_rng(0))
    from cpor.viz.tables import robot_table

    cli.print_result(as_json, lambda: table_to_json(rows), lambda: robot_table(rows))


def first_decisions(
    scenes: Annotated[Path, cli.opt("Data set that `cpor simulate` made.")],
    model: ModelOption = None,
    as_json: cli.AsJson = False,
) -> None:
    """Compare the first actions of the robot table's rows on every case of a data set (Table paired)."""
    import numpy as np

    from cpor.model import FittedModel, bundled_model
    from cpor.paper.first_decisions import forced_systems, measure_first_decisions
    from cpor.sim.dataset.manifest import read_manifest, read_split

    total = len(read_manifest(scenes).cases)
    scored = next(iter(read_split(scenes))).scene.semantic_scores is not None
    fitted = FittedModel.load(model or bundled_model("embedded" if scored else "geometry"))
    systems = forced_systems(fitted, scored, fitted.p_unanswered)
    with progress_bars(quiet=as_json) as progress:
        tell = counting(progress, "deciding", total)
        found = measure_first_decisions(read_split(scenes), systems, np.random.default_rng(0), tell)
    from cpor.viz.tables import first_decisions_table

    cli.print_result(as_json, found.to_json, lambda: first_decisions_table(found))


def episodes(
    out: Annotated[Path, cli.opt("File of judged retrievals. The same command resumes.")],
    model: ModelOption = None,
    count: Annotated[int, cli.opt("Number of retrievals.", min=1)] = 60,
    mode: cli.ModeName = None,
    tau: cli.Tau = None,
    eyes: cli.EyesName = "networks",
    workers: cli.WorkersOption = 1,
    as_json: cli.AsJson = False,
) -> None:
    """Run whole retrievals on the simulated arm and judge them, for `cpor fit --episodes`."""
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    from cpor.learn.modes import DEFAULT_MODE, parse_mode
    from cpor.paper.scenarios import run_episodes
    from cpor.sim.staged_run import DemoSettings, Eyes

    chosen = one_of("--eyes", eyes, get_args(Eyes))
    settings = DemoSettings(eyes=chosen, mode=parse_mode(mode or DEFAULT_MODE), tau=tau)
    with progress_bars(quiet=as_json) as progress:
        done = run_episodes(out, count, settings, model, workers, progress)
    wrong = sum(bool(each.wrong) for each in done)
    retrieved = sum(each.ended == "retrieved" for each in done)
    if as_json:
        cli.print_json({"n": len(done), "wrong": wrong, "retrieved": retrieved})
    else:
        typer.echo(f"{len(done)} retrievals: {wrong} with a wrong action, {retrieved} retrieved. See {out}.")
