"""The commands `simulate`, `demo` and `story`: scenes of clutter, the loop closed on one, a run as a page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from cpor.errors import InvalidSettingError

if TYPE_CHECKING:
    from cpor.sim.dataset.make import DatasetPlan

RerunOption = Annotated[
    Path | None,
    typer.Option("--rerun", metavar="FILE.rrd", help="Also write a recording for the Rerun viewer."),
]

_Choice = TypeVar("_Choice", bound=str)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(simulate)
    app.command()(demo)
    app.command()(story)


def simulate(
    out: Annotated[
        Path, typer.Option(help="Folder of the data set; the same command again goes on where it stopped.")
    ],
    split: Annotated[
        str | None, typer.Option(help="The standard split: dev (550 cases) or test (1,800), all else fixed.")
    ] = None,
    scenes: Annotated[int | None, typer.Option(help="How many scenes, for a data set of your own.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the scenes.")] = 0,
    tier: Annotated[
        str, typer.Option(help="How deep the target lies: easy, medium, hard, or all three in turn.")
    ] = "all",
    container: Annotated[str, typer.Option(help="bin or table.")] = "bin",
    density: Annotated[str, typer.Option(help="loose, dense or heaped.")] = "dense",
    sensor: Annotated[str, typer.Option(help="Faults of the camera: none, default or harsh.")] = "default",
    size: Annotated[str, typer.Option(help="Of the images, in pixels.")] = "640x480",
    lift: Annotated[
        bool, typer.Option("--lift", help="Also find out what lifts what: an audit, seconds a scene.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; they do not change a byte.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Make scene folders of simulated clutter, with masks and true relations."""
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    from cpor.sim.dataset.make import write_dataset
    from cpor.viz.progress import progress_bars

    own = {"--seed": seed == 0, "--tier": tier == "all", "--container": container == "bin"}
    own |= {"--density": density == "dense", "--sensor": sensor == "default", "--size": size == "640x480"}
    if split is not None and (scenes is not None or not all(own.values())):
        changed = "--scenes" if scenes is not None else next(name for name, same in own.items() if not same)
        raise InvalidSettingError(f"--split is the standard one: {changed} does not go with it")
    if split is None and scenes is None:
        raise InvalidSettingError("give --scenes N, or --split dev or test")
    plan = _plan(split, scenes or 0, seed, tier, (container, density, sensor, size, lift))
    with progress_bars(quiet=as_json) as progress:
        manifest = write_dataset(plan, out, workers, progress)
    if as_json:
        counts = {"cases": len(manifest.cases), "n_cases": manifest.n_cases, "n_cyclic": manifest.n_cyclic}
        typer.echo(json.dumps({"out": str(out), **counts}, indent=2))
        return
    tiers = ", ".join(f"{count} {name}" for name, count in manifest.n_cases.items() if count)
    cyclic = ", ".join(f"{count} in {name}" for name, count in manifest.n_cyclic.items())
    typer.echo(f"{len(manifest.cases)} scenes in {out}: {tiers}. Cyclic truths, kept and flagged: {cyclic}.")


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Of the heap and of the camera's noise.")] = 7,
    tier: Annotated[str, typer.Option(help="How deep the target lies: easy, medium, hard or any.")] = "hard",
    out: Annotated[
        Path | None, typer.Option(help="Folder for story and record. [default: a new one in out/]")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Fitted model, as `cpor fit` writes it.")] = None,
    eyes: Annotated[
        str, typer.Option(help="networks: ours find and score objects; truth: true masks, no scores.")
    ] = "networks",
    film: Annotated[bool, typer.Option(help="Add an animation of the arm to the story.")] = True,
    rerun: RerunOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs, and nothing else.")
    ] = False,
) -> None:
    """Heap a bin in simulation, and fetch a buried object from it with a simulated robot arm.

    Exits with 1 where the object was not retrieved: the story says why.
    """
    from cpor.sim.physics.installed import require_mujoco

    require_mujoco()
    from cpor.apps.demo import DemoShow
    from cpor.sim.dataset.manifest import TIERS
    from cpor.sim.staged_run import Eyes

    chosen = None if tier == "any" else _one_of("--tier", tier, TIERS, "any")
    seen_by = _one_of("--eyes", eyes, get_args(Eyes))
    if seen_by == "networks":
        from cpor.perception.onnx_segmenter import OnnxSegmenter

        _ = OnnxSegmenter().notes  # where it cannot be read, that is said before a heap is made
    show = DemoShow(out or _free_folder(Path("out"), f"demo_{seed}"), quiet=as_json, film=film, rerun=rerun)
    told = show.run(seed, chosen, model, seen_by)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
    if not told["retrieved"]:
        raise typer.Exit(1)


def story(
    run: Annotated[Path, typer.Argument(help="Folder of a recorded run, finished or not.")],
    out: Annotated[Path, typer.Option(help="The page to write, like story.html.")],
) -> None:
    """Tell a recorded run as one HTML page, with a picture of every step."""
    from cpor.viz.story import story_of_run, write_story

    told = story_of_run(run)
    if out.is_dir():
        raise InvalidSettingError(f"{out} is a folder, and the page is a file; choose another --out")
    if not out.parent.is_dir():
        raise InvalidSettingError(f"there is no folder {out.parent}; make it, or choose another --out")
    write_story(told, out)
    typer.echo(f"{len(told.cycles)} steps in {out}")


def _free_folder(parent: Path, name: str) -> Path:
    """A folder that is not there yet."""
    k = 1
    while (place := parent / (name if k == 1 else f"{name}_{k}")).exists():
        k += 1
    return place


def _plan(
    split: str | None, scenes: int, seed: int, tier: str, how: tuple[str, str, str, str, bool]
) -> "DatasetPlan":
    from cpor.sim.dataset.make import DatasetSettings, SplitName, plan_dataset, plan_split
    from cpor.sim.dataset.manifest import TIERS

    container, density, sensor, size, lift = how
    width, height = _size(size)
    fields = DatasetSettings.model_fields
    settings = DatasetSettings(
        container=_one_of("--container", container, get_args(fields["container"].annotation)),
        density=_one_of("--density", density, get_args(fields["density"].annotation)),
        sensor=_one_of("--sensor", sensor, get_args(fields["sensor"].annotation)),
        width=width,
        height=height,
        lift=lift,
    )
    if split is not None:
        return plan_split(_one_of("--split", split, get_args(SplitName)), settings)
    chosen = None if tier == "all" else _one_of("--tier", tier, TIERS, "all")
    return plan_dataset(scenes, seed, chosen, settings)


def _size(words: str) -> tuple[int, int]:
    try:
        width, height = (int(word) for word in words.lower().split("x"))
    except ValueError:
        raise InvalidSettingError(f"--size is {words!r}; give it like 640x480") from None
    if not (64 <= width <= 4096 and 48 <= height <= 4096):
        raise InvalidSettingError(f"--size is {words}; it must lie between 64x48 and 4096x4096")
    return width, height


def _one_of(option: str, value: str, known: tuple[_Choice, ...], *others: str) -> _Choice:
    """The choice that was made; `others` are choices too, which the caller has looked for already."""
    for choice in known:
        if value == choice:
            return choice
    raise InvalidSettingError(f"{option} is {value!r}; choose one of: {', '.join((*known, *others))}")
