"""Commands below `experiment` that measure our networks and the simulated robot."""

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
    experiment.command()(perception)
    experiment.command()(chain)


def perception(
    split: Annotated[Path, typer.Option(help="Labelled data set that `cpor simulate` made.")],
    out: Annotated[Path, typer.Option(help="Folder to write. The same command resumes a stopped run.")],
    segmenter: Annotated[
        str, typer.Option(help="Masks: ours, given (the true ones), or depth (classical).")
    ] = "ours",
    scorer: Annotated[bool, typer.Option(help="Let our network score the relations.")] = True,
    weights: Annotated[Path | None, typer.Option(help="ONNX network in place of our segmenter.")] = None,
    scorer_weights: Annotated[Path | None, typer.Option(help="ONNX network in place of our scorer.")] = None,
    workers: WorkersOption = 1,
    engine: EngineOption = "local",
    as_json: AsJson = False,
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
    from cpor.viz.progress import progress_bars

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
    if as_json:
        about = {"masks": seen.masks, "scorer": seen.scorer, "n": len(seen.records)}
        print_json(
            about
            | {"figures": {name: {"value": each.value, "ci": each.ci} for name, each in figures.items()}}
        )
        return
    from cpor.viz.tables import mask_table

    print_rich(mask_table(figures, len(seen.records), seen.masks))


def chain(
    scores: Annotated[Path, typer.Option(help="Log of pairs that `experiment perception` wrote.")],
    model: Annotated[
        Path | None, typer.Option(help="Model file. (default: the bundled model for our networks)")
    ] = None,
    any_versions: Annotated[
        bool, typer.Option("--any-versions", help="Accept a log of other networks than the model's.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare raw, calibrated, fused, summed and acyclic scores (Table cpor-ablation, panel A)."""
    import numpy as np

    from cpor.model import FittedModel, bundled_model
    from cpor.paper.chain import measure_chain
    from cpor.paper.pair_log import read_pair_log, refuse_other_versions
    from cpor.viz.progress import progress_bars

    cases = read_pair_log(scores)
    fitted = FittedModel.load(model or bundled_model("embedded"))
    if not any_versions:
        refuse_other_versions(scores, fitted)
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        progress("deciding", done, len(cases))

    with progress_bars(quiet=as_json) as progress:
        found = measure_chain(cases, fitted, np.random.default_rng(0), tell)
    if as_json:
        print_json(found.to_json())
        return
    from cpor.viz.tables import chain_table

    print_rich(chain_table(found))


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
    from cpor.viz.progress import progress_bars

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
    if as_json:
        print_json(table_to_json(rows))
        return
    from cpor.viz.tables import robot_table

    print_rich(robot_table(rows))


def first_decisions(
    scenes: Annotated[Path, typer.Option(help="Data set that `cpor simulate` made.")],
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Compare the first actions of the robot table's rows on every case of a data set (Table paired)."""
    import numpy as np

    from cpor.model import FittedModel, bundled_model
    from cpor.paper.first_decisions import LabelledCase, forced_systems, measure_first_decisions
    from cpor.sim.dataset.manifest import read_manifest, read_split
    from cpor.viz.progress import progress_bars

    total = len(read_manifest(scenes).cases)
    scored = next(iter(read_split(scenes))).scene.semantic_scores is not None
    fitted = FittedModel.load(model or bundled_model("embedded" if scored else "geometry"))
    systems = forced_systems(fitted, scored, fitted.p_unanswered)
    with progress_bars(quiet=as_json) as progress:
        done = 0

        def tell() -> None:
            nonlocal done
            done += 1
            progress("deciding", done, total)

        cases = (LabelledCase(*case) for case in read_split(scenes))
        found = measure_first_decisions(cases, systems, np.random.default_rng(0), tell)
    if as_json:
        print_json(found.to_json())
        return
    from cpor.viz.tables import first_decisions_table

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
    from cpor.learn.modes import DEFAULT_MODE, parse_mode
    from cpor.paper.scenarios import run_episodes
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
