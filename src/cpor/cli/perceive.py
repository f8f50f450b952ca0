"""The commands `perceive` and `gallery`: find the objects of a frame, and show what was found."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli.sim import RerunOption
from cpor.errors import CporError, InvalidSettingError, SceneFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpor.perception.choice import SegmenterChoice
    from cpor.reading import Answer, Question
    from cpor.scene import Scene
    from cpor.viz.gallery import Exhibit

OVERLAY = "overlay.png"
RECORD = "perception.json"

SegmenterName = Annotated[
    str | None,
    typer.Option("--segmenter", help="embedded, depth, or another that is installed. [default: embedded]"),
]
MasksFile = Annotated[Path | None, typer.Option(help="Masks of another program: COCO JSON or npz.")]
WeightsFile = Annotated[Path | None, typer.Option(help="ONNX network for the embedded segmenter.")]
IgnoreGiven = Annotated[
    bool, typer.Option("--ignore-given-masks", help="Segment although the scene folder has masks.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(perceive)
    app.command()(gallery)


def perceive(
    source: Annotated[
        list[Path], typer.Argument(metavar="SCENE_FOLDER | RGB [DEPTH]", help="Scene folder, or image files.")
    ],
    out: Annotated[Path, typer.Option(help="Scene folder to write, with masks and an overlay picture.")],
    segmenter: SegmenterName = None,
    masks: MasksFile = None,
    weights: WeightsFile = None,
    ignore_given_masks: IgnoreGiven = False,
    depth_unit_m: Annotated[float, typer.Option(help="Metres that one step of DEPTH means.")] = 0.001,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier call wrote.")
    ] = False,
    rerun: RerunOption = None,
    as_json: AsJson = False,
) -> None:
    """Find the objects of a frame: visible masks, amodal masks, scores."""
    if rerun is not None:
        from cpor.viz.rerun_file import check_recording

        check_recording(rerun)
    from cpor.perception.choice import SegmenterChoice
    from cpor.perception.object_list import list_objects
    from cpor.viz.gallery import draw_found

    start = time.perf_counter()
    given = _read(source, depth_unit_m)
    times = {"read": 1e3 * (time.perf_counter() - start)}
    choice = SegmenterChoice(segmenter, masks, weights, ignore_given_masks)
    scene, name, spent = choice.segment(given)
    times |= spent
    start = time.perf_counter()
    picture = draw_found(scene)
    times["overlay"] = 1e3 * (time.perf_counter() - start)
    start = time.perf_counter()
    _write(scene, out, overwrite)
    picture.save(out / OVERLAY)
    if rerun is not None:
        from cpor.viz.rerun_scene import write_scene

        write_scene(rerun, scene)
    times["write"] = 1e3 * (time.perf_counter() - start)
    height, width = scene.observation.shape
    record = {
        "segmenter": name,
        "image": {"width": width, "height": height, "has_depth": scene.observation.depth is not None},
        "objects": list_objects(scene),
        "times_ms": {stage: round(value, 3) for stage, value in times.items()},
    }
    (out / RECORD).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(record | {"out": str(out)}, indent=2, ensure_ascii=False, allow_nan=False))
        return
    hidden = sum(bool(o.occluded) for o in scene.objects)
    stages = ", ".join(f"{stage} {value:.0f}" for stage, value in times.items())
    typer.echo(
        f"{len(scene.objects)} objects, {hidden} partly hidden, found by {name}. Wrote {out}. ({stages} ms)"
    )


def gallery(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of scene folders.")],
    out: Annotated[Path, typer.Option(help="Page to write: one file, works offline.")],
    segmenter: SegmenterName = None,
    weights: WeightsFile = None,
    ignore_given_masks: IgnoreGiven = False,
) -> None:
    """Write a page with what is found in every scene folder of a folder."""
    from cpor.perception.choice import SegmenterChoice
    from cpor.reading import list_scene_folders
    from cpor.viz.gallery import write_gallery
    from cpor.viz.progress import progress_bars

    paths = list_scene_folders(folder)
    if not out.parent.is_dir():
        raise InvalidSettingError(f"the folder {out.parent} does not exist; make it, or choose another --out")
    choice = SegmenterChoice(segmenter, None, weights, ignore_given_masks)
    failed = []

    def exhibits() -> "Iterator[Exhibit]":
        for k, path in enumerate(paths):
            exhibit = _exhibit(path, choice)
            failed.extend([path.name] if exhibit.problem else [])
            yield exhibit
            progress("segmenting", k + 1, len(paths))

    with progress_bars() as progress:
        write_gallery(exhibits(), out, f"Objects found in {folder.name}")
    typer.echo(f"{len(paths)} scenes, {len(failed)} of them failed: wrote {out}")
    if failed:
        raise typer.Exit(1)


def _exhibit(path: Path, choice: "SegmenterChoice") -> "Exhibit":
    from cpor.data.scene_folder import read_scene_folder
    from cpor.viz.gallery import Exhibit

    try:
        scene, name, times = choice.segment(read_scene_folder(path))
    except CporError as error:
        return Exhibit(path.name, None, problem=str(error))
    depth = "with depth" if scene.observation.depth is not None else "without depth"
    note = f"{len(scene.objects)} objects by {name}, {depth}, {sum(times.values()):.0f} ms"
    return Exhibit(path.name, scene, note)


def _read(source: list[Path], depth_unit_m: float) -> "Scene":
    from cpor.data.frame_files import read_frame
    from cpor.data.scene_folder import read_scene_folder
    from cpor.scene import Scene

    if len(source) == 1 and not source[0].is_file():
        return read_scene_folder(source[0])
    if len(source) > 2:
        raise InvalidSettingError("give a scene folder, or a photograph and at most one depth image")
    return Scene(read_frame(source[0], source[1] if len(source) == 2 else None, depth_unit_m))


def _write(scene: "Scene", out: Path, overwrite: bool) -> None:
    """Write the scene folder; what an earlier call added to it does not stand in the way."""
    from cpor.data.scene_folder import write_scene_folder

    if overwrite and out.is_dir():
        try:
            for name in (OVERLAY, RECORD):
                (out / name).unlink(missing_ok=True)
        except OSError as error:
            raise SceneFileError(f"{out} cannot be written: {error.strerror}") from error
    write_scene_folder(scene, out, overwrite=overwrite)


def check_rerun(file: Path, scene: Path) -> None:
    """Say what is wrong with a recording of a scene before any work is done for it."""
    from cpor.viz.rerun_file import check_recording

    if not scene.is_dir():
        raise InvalidSettingError(f"--rerun goes with a scene folder; {scene} is not one, and shows nothing")
    check_recording(file)


def write_rerun(file: Path, question: "Question", answer: "Answer") -> None:
    """Write the recording of a scene and what was decided in it."""
    from cpor.viz.overlay import Marks, relations_to_draw
    from cpor.viz.rerun_scene import write_scene

    posterior, decision = question.posterior, answer.decision
    assert question.scene is not None and isinstance(posterior.target, int)
    marks = Marks(posterior.target, decision.action, relations_to_draw(posterior))
    write_scene(file, question.scene, marks, decision, answer.p_success)
