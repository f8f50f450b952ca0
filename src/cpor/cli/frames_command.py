"""`decide` on every frame of a folder: each alone, or one object followed through them."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cpor.cli.options import Given, look
from cpor.errors import CporError, InvalidSettingError

if TYPE_CHECKING:
    from cpor.answer import Answer, DecideSettings
    from cpor.system import System
    from cpor.words.grounding_answers import Request

TABLE = "decisions.csv"
"""One row a frame, beside the folders of the frames."""

_COLUMNS = (
    "frame", "action", "object", "name", "score", "promised_error", "target", "target_name", "question",
    "checks", "error",
)  # fmt: skip


def decide_frames(
    system: "System",
    folder: Path,
    given: Given,
    asked: "Request",
    tau: float | None,
    settings: "DecideSettings",
    follow: bool,
) -> "Iterator[tuple[str, int, Answer | CporError]]":
    """Name of each frame, number of frames, and its answer, or why it cannot be read.

    With `follow` the frames show the same objects, one after the other.
    """
    from cpor.io.frame_files import name_inputs

    if given.frame is not None or not folder.is_dir():
        raise InvalidSettingError("--follow and --all take a folder of frames, and no --frame")
    if asked.id is not None and not follow:
        raise InvalidSettingError(
            "the number of an object is of one frame; give --point or --request, or follow it with --follow"
        )
    inputs = name_inputs(folder)
    names = list(inputs)
    sources = [([path], replace(given, frame=number)) for path, number in inputs.values()]
    if follow:
        views = (look(system, *each) for each in sources)
        followed = system.follow(views, asked, tau=tau, settings=settings)
        yield from ((name, len(names), answer) for name, answer in zip(names, followed, strict=True))
        return
    for name, source in zip(names, sources, strict=True):
        try:
            found: Answer | CporError = system.decide(
                look(system, *source), asked, tau=tau, settings=settings
            )
        except CporError as error:
            found = error
        yield name, len(names), found


def print_frames(found: "Iterator[tuple[str, int, Answer | CporError]]", as_json: bool) -> None:
    """One line a frame, as it is decided; with `as_json` one object a line."""
    from cpor.viz.words import namer, say_step

    for name, _, answer in found:
        if isinstance(answer, CporError):
            raise answer
        if as_json:
            typer.echo(json.dumps(answer.to_json(0)))
        elif answer.action is None or answer.view is None or answer.target is None:
            typer.echo(f"frame {name}: {answer.question}")
        else:
            called = namer(answer.view.scene)
            typer.echo(f"frame {name}: {say_step(answer.action, called)}, for {called(answer.target)}")


def write_frames(
    found: "Iterator[tuple[str, int, Answer | CporError]]", out: Path, graphs: int, quiet: bool
) -> int:
    """Write a folder for each frame and the table of all, then print a summary; how many frames failed."""
    from cpor.io.whole_files import write_text
    from cpor.viz.answer_page import write_answer
    from cpor.viz.progress import progress_bars

    table = io.StringIO()
    writer = csv.DictWriter(table, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    tally: Counter[str] = Counter()
    with progress_bars(quiet) as progress:
        for done, (name, total, answer) in enumerate(found, start=1):
            if not isinstance(answer, CporError):
                write_answer(answer, out / name, graphs)
            row = _row(name, answer)
            writer.writerow(row)
            tally[str(row["action"])] += 1
            progress("deciding", done, total)
    if not tally:
        raise InvalidSettingError("the folder holds no frame")
    write_text(out / TABLE, table.getvalue())
    said = ", ".join(f"{count} {kind}" for kind, count in tally.most_common())
    typer.echo(f"{tally.total()} frames: {said}. Wrote {out / TABLE} and a folder for each.", err=quiet)
    return tally["error"]


def _row(name: str, answer: "Answer | CporError") -> dict[str, object]:
    """A row of the table; what is not known is empty."""
    if isinstance(answer, CporError):
        return {"frame": name, "action": "error", "error": str(answer)}
    from cpor.cli.dialogue import say_checks
    from cpor.records import record_action

    names, checks = answer.names, " ".join(say_checks(answer))
    row: dict[str, object] = {"frame": name, "action": "which", "checks": checks}
    row["question"] = None if answer.asks is None else answer.asks.question
    if answer.action is not None and answer.target is not None:
        made = record_action(answer.action)
        row |= {"action": made.type, "object": made.object, "target": answer.target}
        row |= {"name": names.get(made.object, ""), "target_name": names.get(answer.target, "")}
        row["score"] = f"{answer.scores[made.object]:.6f}" if made.object in answer.scores else None
        row["promised_error"] = None if answer.promise is None else answer.promise.alpha
    return row
