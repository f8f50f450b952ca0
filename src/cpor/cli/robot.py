"""The commands `experiment robot` and `experiment first-decisions`: what deciding better is worth."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from cpor.cli.options import AsJson, EngineOption, ModeName, Tau, WorkersOption, print_json, print_rich
from cpor.errors import InvalidSettingError, one_of

ModelOption = Annotated[
    Path | None, typer.Option(help="Model file. (default: a bundled model, fitted on the dev split)")
]


def add_to(experiment: typer.Typer) -> None:
    """Register the commands with the other experiments."""
    experiment.command()(robot)
    experiment.command()(first_decisions)
    experiment.command()(episodes)


def robot(
    out: Annotated[Path, typer.Option(help="File of records. The same command resumes a stopped run.")],
    model: ModelOption = None,
    per_tier: Annotated[int, typer.Option(min=1, help="Scenarios per tier; the paper has 15.")] = 15,
    methods: Annotated[str, typer.Option(help="Rows of the table, separated by commas; or all.")] = "all",
    tau: Annotated[float, typer.Option(help="Act only above this score.")] = 0.0,
    budget: Annotated[int, typer.Option(min=1, help="Attempts on objects in each scenario.")] = 12,
    finger_friction: Annotated[float, typer.Option(help="Friction of the gripper's pads.")] = 0.5,
    eyes: Annotated[
        str, typer.Option(help="networks: our networks find and score; truth: true masks, no scores.")
    ] = "networks",
    person: Annotated[
        bool,
        typer.Option("--person", help="Where the loop defers, take the true answer, and count the question."),
    ] = False,
    workers: WorkersOption = 1,
    engine: EngineOption = "local",
    as_json: AsJson = False,
) -> None:
    """Compare six ways of deciding with the simulated arm, on the same scenes (Table robot)."""
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    import numpy as np

    from cpor.experiments.deciders import METHODS
    from cpor.experiments.robot_table import run_robot_table, summarise, table_to_json
    from cpor.experiments.scenarios import ScenarioSettings
    from cpor.model import bundled_model
    from cpor.sim.staged_run import Eyes
    from cpor.viz.progress import progress_bars

    names = METHODS if methods == "all" else tuple(m for m in METHODS if m in methods.split(","))
    if methods != "all" and len(names) != len(methods.split(",")):
        raise InvalidSettingError(f"--methods is {methods!r}; choose from: {', '.join(METHODS)}")
    chosen = one_of("--eyes", eyes, get_args(Eyes))
    settings = ScenarioSettings(
        model=model or bundled_model("embedded" if chosen == "networks" else "geometry"),
        tau=tau,
        budget=budget,
        finger_friction=finger_friction,
        eyes=chosen,
        person=person,
    )
    with progress_bars(quiet=as_json) as progress:
        records = run_robot_table(out, settings, per_tier, names, workers, progress, engine)
    rows = summarise(records, np.random.default_rng(0))
    if as_json:
        print_json(table_to_json(rows))
        return
    from cpor.viz.robot_table import robot_table

    print_rich(robot_table(rows))


def first_decisions(
    scenes: Annotated[Path, typer.Option(help="Data set that `cpor simulate` made.")],
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare the first actions of the robot table's rows on every case of a data set (Table paired)."""
    import numpy as np

    from cpor.experiments.first_decisions import LabelledCase, measure_first_decisions
    from cpor.experiments.scenarios import fitted_pipeline
    from cpor.model import bundled_model
    from cpor.sim.dataset.manifest import read_manifest, read_split
    from cpor.viz.progress import progress_bars

    total = len(read_manifest(scenes).cases)
    scored = next(iter(read_split(scenes))).scene.semantic_scores is not None
    pipeline = fitted_pipeline(model or bundled_model("embedded" if scored else "geometry"), 0.0)
    with progress_bars(quiet=as_json) as progress:
        done = 0

        def tell() -> None:
            nonlocal done
            done += 1
            progress("deciding", done, total)

        cases = (LabelledCase(*case) for case in read_split(scenes))
        found = measure_first_decisions(cases, pipeline, np.random.default_rng(0), tell)
    if as_json:
        print_json(found.to_json())
        return
    from cpor.viz.robot_table import first_decisions_table

    print_rich(first_decisions_table(found))


def episodes(
    out: Annotated[Path, typer.Option(help="File of judged retrievals. The same command resumes.")],
    model: ModelOption = None,
    count: Annotated[int, typer.Option(min=1, help="Number of retrievals.")] = 60,
    mode: ModeName = None,
    tau: Tau = None,
    eyes: Annotated[
        str, typer.Option(help="networks: our networks find and score; truth: true masks, no scores.")
    ] = "networks",
    workers: WorkersOption = 1,
    as_json: AsJson = False,
) -> None:
    """Run whole retrievals on the simulated arm and judge them, for `cpor fit --episodes`."""
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    from cpor.experiments.episodes import run_episodes
    from cpor.risk.modes import DEFAULT_MODE, parse_mode
    from cpor.sim.staged_run import DemoSettings, Eyes
    from cpor.viz.progress import progress_bars

    chosen = one_of("--eyes", eyes, get_args(Eyes))
    settings = DemoSettings(eyes=chosen, mode=parse_mode(mode or DEFAULT_MODE), tau=tau)
    with progress_bars(quiet=as_json) as progress:
        done = run_episodes(out, count, settings, model, workers, progress)
    wrong = sum(bool(each.wrong) for each in done)
    retrieved = sum(each.ended == "retrieved" for each in done)
    if as_json:
        print_json({"n": len(done), "wrong": wrong, "retrieved": retrieved})
    else:
        typer.echo(f"{len(done)} retrievals: {wrong} with a wrong action, {retrieved} retrieved. See {out}.")
