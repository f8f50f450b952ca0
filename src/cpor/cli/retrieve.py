"""The command `retrieve`: the loop on any robot, dry first."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import options as cli
from cpor.errors import InvalidSettingError

if TYPE_CHECKING:
    from cpor.robot.cycle import Cycle, RunResult
    from cpor.system import System


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(rich_help_panel=cli.SIMULATE)(cli.with_groups(retrieve))


def retrieve(
    parts: cli.SystemOptions,
    asks: cli.Asked,
    robot: Annotated[
        str, cli.opt("simulated, ur, ros2, template, another, or module:attribute.", metavar="NAME")
    ],
    config: Annotated[Path | None, cli.opt("Options of robot and loop.", metavar="FILE.toml")] = None,
    live: Annotated[bool, cli.opt("Move the arm. (default: a dry run, one decision)", "--live")] = False,
    yes: Annotated[bool, cli.opt("Do not ask after the dry run that comes before --live.", "--yes")] = False,
    record: Annotated[Path | None, cli.opt("Record every cycle here.", metavar="FOLDER")] = None,
    judge: Annotated[
        bool, cli.opt("Ask afterwards whether an action was wrong (with --live).", "--judge")
    ] = False,
    segmenter: cli.SegmenterName = None,
    as_json: cli.AsJson = False,
) -> None:
    """Run the loop on a robot: perceive, decide, act, look again, until the target is out.

    Without --live nothing moves: it looks once and says what it would do. With --live that comes first, then
    it asks. Exit codes: 0 retrieved, or a dry run found what to do and a way to do it; 1 asked, stopped, or
    not found; 2 the input is wrong; 3 camera, robot or program failed.

    An arm needs proven scores: with --pipeline paper the beliefs are the paper's, and inference is exact.
    """
    from dataclasses import replace

    from cpor.robot.judged_retrievals import FILE, read_retrievals, say_promise
    from cpor.robot.loop import retrieve as run_loop
    from cpor.robot.robot_file import can_run_dry, open_robot, read_robot_file
    from cpor.robot.run_folder import RunFolder
    from cpor.viz.words import ENDS, sentence

    options, settings = read_robot_file(config)
    system = parts.make(segmenter)
    keep_verdict = _judge_after(record, robot, system) if judge else None
    judged = None if record is None else record.parent / FILE
    past = read_retrievals([judged]) if judged is not None and judged.is_file() else []
    promised = say_promise(robot, system, past)
    if promised is not None and not as_json:
        typer.echo(promised)
    asked = asks.asked().required()

    def run(is_live: bool, folder: Path | None) -> tuple[int, dict[str, object]]:
        arm = open_robot(robot, options, is_live)
        dry = arm.status().dry_run
        result = run_loop(
            arm,
            system,
            asked,
            replace(settings, budget=1, max_deferrals=1, looks_for_target=1) if dry else settings,
            None if folder is None else RunFolder(folder, {"robot": robot, "request": asks.request or ""}),
            None if as_json else partial(_say, dry=dry),
            confirm=_confirm,
        )
        said = {"ended": result.ended, "detail": result.detail, "actions": result.actions, "dry_run": dry}
        said["promise"] = promised
        code = _exit_code(result, dry)
        if not as_json:
            why = "" if dry and code == 0 else sentence(result.detail)
            typer.echo(
                f"Dry run: nothing moved. {why}".rstrip() if dry else f"{why} {sentence(ENDS[result.ended])}"
            )
        return code, said

    if live and can_run_dry(robot):
        code, _ = run(False, None)
        if code in (INPUT, FAULT):
            raise typer.Exit(code)
        if not yes and not typer.confirm("That was a dry run. Move the arm now?"):
            raise typer.Exit(ASKED)
    code, said = run(live, record)
    if live and keep_verdict is not None:
        keep_verdict(str(said["ended"]))
    if as_json:
        cli.print_json(said)
    if code:
        raise typer.Exit(code)


def _judge_after(record: Path | None, robot: str, system: "System") -> Callable[[str], None]:
    """A function that asks after a run whether an action was wrong, and keeps the reply."""
    from cpor.robot.judged_retrievals import FILE, Retrieval, keep_retrieval, set_up

    if record is None:
        raise InvalidSettingError("--judge keeps its answer beside the record; give --record too")
    fitted, tau, where = set_up(robot, system)
    if fitted is None or tau is None:
        raise InvalidSettingError("--judge needs a fitted model; drop --model none")
    run_by = {"run": record.name, "where": where, "model": fitted.tested_digest}

    def keep(ended: str) -> None:
        wrong = typer.confirm("Was any action of this run wrong?", err=True)
        keep_retrieval(record.parent / FILE, Retrieval(**run_by, tau=tau, wrong=wrong, ended=ended))

    return keep


ASKED, INPUT, FAULT = 1, 2, 3
"""Exit codes, besides 0; see `retrieve`."""


def _exit_code(result: "RunResult", dry: bool) -> int:
    from cpor.errors import InvalidSceneError, InvalidSettingError, SceneFileError
    from cpor.robot.cycle import Ended

    if result.ended == Ended.FAULT:
        wrong_input = InvalidSceneError, InvalidSettingError, SceneFileError
        cause = result.error and (result.error.__cause__ or result.error)
        return INPUT if isinstance(cause, wrong_input) else FAULT
    found_a_way = any(cycle.outcome is not None and cycle.outcome.kind == "done" for cycle in result.cycles)
    return 0 if result.retrieved or (dry and found_a_way) else ASKED


def _confirm(question: str) -> bool:
    """Ask a person; where no person is there, the answer is no."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False


def _say(cycle: "Cycle", dry: bool) -> None:
    """One line on a cycle that is over; in a dry run, on what it would do."""
    from cpor.decision import Defer
    from cpor.viz.words import namer, say_outcome, say_step, say_why, sentence, with_names

    name = namer(cycle.scene)
    step = "Nothing was decided" if cycle.action is None else say_step(cycle.action, name)
    acts = cycle.action is not None and not isinstance(cycle.action, Defer)
    said = [f"It would {step[0].lower()}{step[1:]}" if dry and acts else step]
    if isinstance(cycle.action, Defer) and cycle.decision is not None and cycle.target is not None:
        said.append(say_why(cycle.decision, cycle.target, name))
    if cycle.outcome is not None and not (dry and cycle.outcome.kind == "done"):
        said.append(say_outcome(cycle, name))
    said += [with_names(note, name) for note in cycle.notes]
    typer.echo(f"{cycle.index + 1}. {' '.join(sentence(each) for each in said)}")
