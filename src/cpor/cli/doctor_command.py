"""The command `doctor`: what is wrong with an input, a data set, a camera or this installation."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import options as cli
from cpor.cli.first_use import waiting
from cpor.errors import InvalidSettingError, say_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cpor.apps.doctor import Examined

MOST_PICTURES = 12
"""Pictures written for a data set."""

_SIGNS = {"pass": "✓", "doubt": "?", "fail": "✗"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(rich_help_panel=cli.DECIDE)(doctor)


def doctor(
    source: Annotated[
        list[Path] | None,
        cli.arg(
            "[FOLDER | RGB [DEPTH] | camera:NAME]",
            "What to examine: a frame, a data set or a live camera. (default: this installation)",
        ),
    ] = None,
    out: Annotated[
        Path | None, cli.opt("Write doctor.json, and pictures of findings.", metavar="DIR")
    ] = None,
    depth_unit_m: cli.DepthUnit = None,
    frame: cli.FrameNumber = None,
    frames_only: Annotated[bool, cli.more("Check picture and depth only.", "--frames-only")] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Say what is wrong with an input and how to mend it; without one, what this installation lacks.

    The exit code is 1 if an input cannot be used, or something needed is missing or damaged.
    """
    if not source:
        _installation(as_json)
        return
    if len(source) > 2:
        raise InvalidSettingError("give a folder, or a photograph and at most one depth image")
    from cpor.apps.doctor import summarize
    from cpor.io.whole_files import make_folder, write_text

    if out is not None:
        make_folder(out)
    examined = []
    pictures = 0
    for each in _examine(source, depth_unit_m, frame, frames_only):
        examined.append(each)
        shown = each.state != "pass" or len(examined) == 1
        if shown and out is not None and each.scene is not None and pictures < MOST_PICTURES:
            pictures += _write_picture(each, out)
        if not as_json:
            _print(each)
    report = {**summarize(examined), "examined": [each.to_json() for each in examined]}
    if out is not None:
        write_text(out / "doctor.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    if as_json:
        cli.print_json(report)
    else:
        if len(examined) > 1:
            _print_summary(report)
        if out is not None:
            typer.echo(f"Wrote {say_count(pictures, 'picture')} and doctor.json into {out}.")
        elif any(each.state != "pass" for each in examined):
            typer.echo("A picture that shows it: add --out DIR.")
    if any(each.state == "fail" for each in examined):
        raise typer.Exit(1)


def _examine(
    source: list[Path], depth_unit_m: float | None, frame: int | None, frames_only: bool
) -> "Iterator[Examined]":
    with waiting("Loading the checks"):
        from cpor.apps.doctor import examine, examine_scene
        from cpor.io.frame_files import list_inputs
        from cpor.scene import Scene
        from cpor.system import System

        system = None if frames_only else System()
    if (name := cli.camera_name(source)) is not None:
        from cpor.robot.cameras import opened_camera

        with opened_camera(name) as camera:
            first, second = camera.frame(), camera.frame()
        yield examine_scene(system, Scene(second), "camera", source=name, previous=first)
        return
    if len(source) == 2 or frame is not None or not source[0].exists():
        with waiting(f"Examining {source[0].name}"):
            found = examine(system, source[0], source[1] if len(source) == 2 else None, depth_unit_m, frame)
        yield found
        return
    previous = None
    for path, number in list_inputs(source[0]):
        with waiting(f"Examining {path.name}"):
            found = examine(system, path, None, depth_unit_m, number, previous if number else None)
        previous = None if found.scene is None else found.scene.observation
        yield found


def _write_picture(each: "Examined", out: Path) -> int:
    from cpor.io.whole_files import write_bytes
    from cpor.viz.doctor_picture import draw_frame
    from cpor.viz.overlay import encode_picture

    assert each.scene is not None
    name = each.name.replace(", ", "_").replace(" ", "_").removesuffix(".png") or "frame"
    write_bytes(out / f"{name}.png", encode_picture(draw_frame(each.scene), kind="PNG"))
    return 1


def _print(each: "Examined") -> None:
    """What is wrong with one input, for people."""
    if each.error:
        typer.echo(f"✗ {each.name}: {each.error}")
        return
    found = say_count(len(each.findings), "finding") if each.findings else "nothing is wrong"
    typer.echo(f"{_SIGNS[each.state]} {each.name}: {found}")
    for note in each.notes if each.findings else ():
        typer.echo(f"  · {note}")
    for check, fix in each.findings:
        typer.echo(f"  {_SIGNS[check.state]} {check.name}: {check.says}\n      Fix: {fix}")
    for check, fix in each.hints:
        typer.echo(f"  · {check.name}: {check.says}\n      For a promise: {fix}")


def _print_summary(report: dict[str, object]) -> None:
    from rich.table import Table

    states, checks = report["states"], report["checks"]
    assert isinstance(states, dict) and isinstance(checks, dict)
    typer.echo(
        f"{report['inputs']} inputs: {states.get('pass', 0)} in order, {states.get('doubt', 0)} in doubt, "
        f"{states.get('fail', 0)} failed."
    )
    if checks:
        table = Table("check", "inputs", "such as")
        for name, names in sorted(checks.items(), key=lambda item: -len(item[1])):
            table.add_row(name, str(len(names)), ", ".join(names[:3]))
        cli.print_rich(table)


def _installation(as_json: bool) -> None:
    from dataclasses import asdict

    from cpor.apps.doctor import examine_installation

    parts = examine_installation()
    if as_json:
        cli.print_json([asdict(part) for part in parts])
    else:
        for part in parts:
            sign = {"ok": "✓", "missing": "·", "damaged": "✗"}[part.state]
            typer.echo(f"{sign} {part.name}: {part.says}")
            if part.fix:
                typer.echo(f"    {part.fix}")
    if any(part.state == "damaged" or (part.state == "missing" and part.name == "needed") for part in parts):
        raise typer.Exit(1)
