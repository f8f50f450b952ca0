"""The commands `perceive`, `gallery` and `examples`: find objects, show what was found, get scenes to try."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cpor
from cpor.cli import options as cli
from cpor.cli.first_use import waiting
from cpor.errors import CporError, InvalidSettingError, SceneFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpor.scene import Scene
    from cpor.view import View

OVERLAY = "overlay.png"
RECORD = "perception.json"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(rich_help_panel=cli.SEE)(cli.with_groups(perceive))
    app.command(rich_help_panel=cli.SEE)(gallery)
    app.command(rich_help_panel=cli.SEE)(examples)


def examples(
    out: Annotated[Path, cli.arg("FOLDER", "Folder to write.")] = Path("cpor-examples"),
) -> None:
    """Write example frames (simulated; colour, depth, camera, request) to a folder, to try commands on."""
    if out.exists():
        raise InvalidSettingError(f"{out} is there already; name another folder: cpor examples FOLDER")
    ours = Path(cpor.__file__).parent / "serve" / "examples"
    for scene in sorted(path for path in ours.iterdir() if path.is_dir()):
        (out / scene.name).mkdir(parents=True)
        for name in ("rgb.png", "depth.png", "camera.json", "request.txt"):  # our segmenter finds the objects
            shutil.copyfile(scene / name, out / scene.name / name)  # writable, wherever ours are
        typer.echo(str(out / scene.name))


def perceive(
    source: Annotated[
        list[Path],
        cli.arg(
            "FOLDER | RGB [DEPTH] | BAG | camera:NAME",
            "Folder of a scene or of frames, image files, a bag, or a live camera.",
        ),
    ],
    out: Annotated[Path, cli.opt("Scene folder to write, with masks and an overlay picture.")],
    given: cli.Given,
    coco: Annotated[Path | None, cli.more("Also write the masks as COCO.", metavar="FILE.json")] = None,
    bop: Annotated[Path | None, cli.more("Also write the masks as BOP.", metavar="FOLDER")] = None,
    overwrite: Annotated[bool, cli.more("Replace what an earlier call wrote.", "--overwrite")] = False,
    rerun: cli.RerunOption = None,
    as_json: cli.AsJson = False,
) -> None:
    """Find the objects of a frame, visible and hidden parts, and write them as a scene folder."""
    if rerun is not None:
        from cpor.viz.rerun_scene import check_recording

        check_recording(rerun)
    with waiting("Looking for the objects"):
        from cpor.perception.mask_files import write_bop, write_coco
        from cpor.perception.segmenter import list_objects
        from cpor.system import System
        from cpor.viz.overlay import Marks, draw_scene

        view = cli.look(System(given.choose_segmenter()), source, given)
    scene = replace(view.scene, sources=view.sources)
    times = dict(view.times_ms)
    start = time.perf_counter()
    picture = draw_scene(scene, Marks(all_hidden=True))
    times["overlay"] = 1e3 * (time.perf_counter() - start)
    start = time.perf_counter()
    _write(scene, out, overwrite)
    picture.save(out / OVERLAY)
    if coco is not None:
        write_coco(scene, coco)
    if bop is not None:
        write_bop(scene, bop)
    if rerun is not None:
        from cpor.viz.rerun_scene import write_scene

        write_scene(rerun, scene)
    times["write"] = 1e3 * (time.perf_counter() - start)
    height, width = scene.observation.shape
    record = {
        "segmenter": view.masks,
        "image": {"width": width, "height": height, "has_depth": scene.observation.depth is not None},
        "objects": list_objects(scene),
        "checks": [check.to_json() for check in view.checks],
        "times_ms": {stage: round(value, 3) for stage, value in times.items()},
    }
    (out / RECORD).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        cli.print_json(record | {"out": str(out)})
        return
    hidden = sum(bool(o.occluded) for o in scene.objects)
    stages = ", ".join(f"{stage} {value:.0f}" for stage, value in times.items())
    typer.echo(
        f"{len(scene.objects)} objects, {hidden} partly hidden, found by {view.masks}. "
        f"Wrote {out}. ({stages} ms)"
    )


def gallery(
    folder: Annotated[Path, cli.arg("FOLDER", "Folder of scene folders.")],
    out: Annotated[Path, cli.opt("HTML page to write; it works offline.")],
    segmenter: cli.SegmenterName = None,
    weights: cli.WeightsFile = None,
    ignore_given_masks: cli.IgnoreGiven = False,
) -> None:
    """Write a page that shows the objects found in every scene folder of a folder."""
    from cpor.io.scene_folder import list_scene_folders
    from cpor.system import System
    from cpor.viz.gallery import write_gallery
    from cpor.viz.progress import progress_bars

    paths = list_scene_folders(folder)
    cli.require_parent(out)
    given = cli.Given(segmenter=segmenter, weights=weights, ignore_given_masks=ignore_given_masks)
    system = System(given.choose_segmenter())
    failed = []

    def exhibits() -> "Iterator[tuple[str, Scene | None, str]]":
        for k, path in enumerate(paths, start=1):
            try:
                view = system.look(path)
            except CporError as error:
                failed.append(path.name)
                yield path.name, None, str(error)
            else:
                yield path.name, view.scene, _say_found(view)
            progress("segmenting", k, len(paths))

    with progress_bars() as progress:
        write_gallery(exhibits(), out, f"Objects found in {folder.name}")
    typer.echo(f"{len(paths)} scenes, {len(failed)} failed. Wrote {out}.")
    if failed:
        raise typer.Exit(1)


def _say_found(view: "View") -> str:
    depth = "with depth" if view.scene.observation.depth is not None else "without depth"
    took = sum(view.times_ms.values())
    return f"{len(view.scene.objects)} objects by {view.masks}, {depth}, {took:.0f} ms"


def _write(scene: "Scene", out: Path, overwrite: bool) -> None:
    """Write the scene folder; what an earlier call added to it does not stand in the way."""
    from cpor.io.scene_folder import write_scene_folder

    if overwrite and out.is_dir():
        try:
            for name in (OVERLAY, RECORD):
                (out / name).unlink(missing_ok=True)
        except OSError as error:
            raise SceneFileError(f"{out} cannot be written: {error.strerror}") from error
    write_scene_folder(scene, out, overwrite=overwrite)
