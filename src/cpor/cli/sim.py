"""The commands `simulate`, `demo` and `story`: scenes of clutter, the loop closed on one, a run as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from cpor.cli import options as cli
from cpor.cli.first_use import start_loops
from cpor.errors import InvalidSettingError, one_of

if TYPE_CHECKING:
    from cpor.sim.dataset.make import DatasetPlan
    from cpor.sim.dataset.manifest import Tier


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (demo, simulate, story):
        app.command(rich_help_panel=cli.SIMULATE)(command)


def simulate(
    out: Annotated[Path, cli.opt("Folder to write. The same command resumes a stopped run.")],
    split: Annotated[str | None, cli.opt("Standard split: dev (550 cases) or test (1,800).")] = None,
    scenes: Annotated[int | None, cli.opt("Number of scenes, for a data set of your own.")] = None,
    seed: Annotated[int, cli.opt("Random seed for the scenes.", min=0)] = 0,
    tier: Annotated[str, cli.opt("How deep the target lies: easy, medium, hard, or all in turn.")] = "all",
    container: Annotated[str, cli.more("Where the objects lie: bin or table.")] = "bin",
    density: Annotated[str, cli.more("Number of objects: loose, dense or heaped.")] = "dense",
    sensor: Annotated[
        str, cli.more("Camera faults: none, default, harsh, realsense, phoxi, kinect or zed.")
    ] = "default",
    size: Annotated[str, cli.more("Image size in pixels.")] = "640x480",
    lift: Annotated[bool, cli.more("Also test what lifts what; takes seconds per scene.", "--lift")] = False,
    removed: Annotated[
        int, cli.more("Take out up to so many blockers first, in a right order.", min=0, max=30)
    ] = 0,
    workers: cli.WorkersOption = 1,
    engine: cli.EngineOption = "local",
    as_json: cli.AsJson = False,
) -> None:
    """Make labelled scene folders of simulated clutter."""
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    from cpor.sim.dataset.make import write_dataset
    from cpor.viz.progress import progress_bars

    own = {"--seed": seed == 0, "--tier": tier == "all", "--container": container == "bin"}
    own |= {"--density": density == "dense", "--sensor": sensor == "default", "--size": size == "640x480"}
    own |= {"--removed": removed == 0}
    if split is not None and (scenes is not None or not all(own.values())):
        changed = "--scenes" if scenes is not None else next(name for name, same in own.items() if not same)
        raise InvalidSettingError(f"--split fixes all settings; drop {changed}")
    if split is None and scenes is None:
        raise InvalidSettingError("give --scenes N, or --split dev or test")
    plan = _plan(split, scenes or 0, seed, tier, (container, density, sensor, size, lift), removed)
    with progress_bars(quiet=as_json) as progress:
        manifest = write_dataset(plan, out, workers, progress, engine)
    if as_json:
        counts = {"cases": len(manifest.cases), "n_cases": manifest.n_cases, "n_cyclic": manifest.n_cyclic}
        cli.print_json({"out": str(out), **counts})
        return
    tiers = ", ".join(f"{count} {name}" for name, count in manifest.n_cases.items() if count)
    cyclic = ", ".join(f"{count} in {name}" for name, count in manifest.n_cyclic.items())
    typer.echo(f"{len(manifest.cases)} scenes in {out}: {tiers}. With cyclic truth, kept: {cyclic}.")


def demo(
    seed: Annotated[int, cli.opt("Random seed for heap and noise. 5 ends well.", min=0)] = 5,
    tier: Annotated[str, cli.opt("How deep the target lies: easy, medium, hard or any.")] = "hard",
    out: Annotated[Path | None, cli.opt("Folder for story and record. (default: a new one in out/)")] = None,
    model: Annotated[Path | None, cli.more("Model file that `cpor fit` wrote. (default: bundled)")] = None,
    eyes: cli.EyesName = "networks",
    mode: Annotated[str | None, cli.opt("Risk: cautious, balanced or bold. (default: balanced)")] = None,
    tau: cli.Tau = None,
    film: Annotated[bool, cli.more("Add an animation of the arm to the story.")] = True,
    rerun: cli.RerunOption = None,
    as_json: cli.AsJson = False,
) -> None:
    """Fetch a buried object from a simulated bin with a simulated robot arm.

    No person answers here, so that it acts where it is likelier right than wrong.
    The exit code is 1 if the object was not retrieved. The story says why.
    """
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    start_loops()
    from cpor.apps.demo import DemoShow
    from cpor.learn.modes import UNATTENDED_MODE, parse_mode
    from cpor.sim.staged_run import Eyes

    chosen = parse_tier(tier, "any")
    seen_by = one_of("--eyes", eyes, get_args(Eyes))
    if seen_by == "networks":
        from cpor.perception.onnx_segmenter import OnnxSegmenter

        _ = OnnxSegmenter().notes  # where it cannot be read, that is said before a heap is made
    show = DemoShow(out or _free_folder(Path("out"), f"demo_{seed}"), quiet=as_json, film=film, rerun=rerun)
    told = show.run(seed, chosen, model, seen_by, parse_mode(mode or UNATTENDED_MODE), tau)
    if as_json:
        cli.print_json(told)
    if not told["retrieved"]:
        raise typer.Exit(1)


def story(
    run: Annotated[Path, typer.Argument(help="Folder of a recorded run.")],
    out: Annotated[Path, cli.opt("HTML page to write, such as story.html.")],
) -> None:
    """Write a recorded run as one HTML page, with a picture of every step."""
    from cpor.viz.story import story_of_run, write_story

    told = story_of_run(run)
    if out.is_dir():
        raise InvalidSettingError(f"{out} is a folder; --out must be a file")
    cli.require_parent(out)
    write_story(told, out)
    typer.echo(f"{len(told.cycles)} steps. Wrote {out}.")


def _free_folder(parent: Path, name: str) -> Path:
    """A folder that is not there yet."""
    k = 1
    while (place := parent / (name if k == 1 else f"{name}_{k}")).exists():
        k += 1
    return place


def _plan(
    split: str | None, scenes: int, seed: int, tier: str, how: tuple[str, str, str, str, bool], removed: int
) -> "DatasetPlan":
    from cpor.sim.dataset.make import SplitName, plan_dataset, plan_split
    from cpor.sim.dataset.manifest import DatasetSettings

    container, density, sensor, size, lift = how
    width, height = _size(size)
    fields = DatasetSettings.model_fields
    settings = DatasetSettings(
        container=one_of("--container", container, get_args(fields["container"].annotation)),
        density=one_of("--density", density, get_args(fields["density"].annotation)),
        sensor=one_of("--sensor", sensor, get_args(fields["sensor"].annotation)),
        width=width,
        height=height,
        lift=lift,
        removed=removed,
    )
    if split is not None:
        return plan_split(one_of("--split", split, get_args(SplitName)), settings)
    return plan_dataset(scenes, seed, parse_tier(tier, "all"), settings)


def parse_tier(name: str, every: Literal["all", "any"]) -> "Tier | None":
    """The tier named; None where `every` word for all of them was given."""
    from cpor.sim.dataset.manifest import TIERS

    choices: tuple[Tier | Literal["all", "any"], ...] = (*TIERS, every)
    chosen = one_of("--tier", name, choices)
    return None if chosen == "all" or chosen == "any" else chosen


def _size(words: str) -> tuple[int, int]:
    try:
        width, height = (int(word) for word in words.lower().split("x"))
    except ValueError:
        raise InvalidSettingError(f"--size is {words!r}; give it like 640x480") from None
    if not (64 <= width <= 4096 and 48 <= height <= 4096):
        raise InvalidSettingError(f"--size is {words}; it must lie between 64x48 and 4096x4096")
    return width, height
