"""The command `decide`: from whatever is given to what to do next, and why."""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli import options as cli
from cpor.cli.dialogue import (
    ask_back,
    converse,
    how_to_reply,
    read_line,
    read_session,
    write_session,
)
from cpor.cli.first_use import start_loops, waiting
from cpor.errors import CporError, InvalidSettingError

if TYPE_CHECKING:
    from cpor.answer import Answer, DecideSettings
    from cpor.system import System
    from cpor.view import View
    from cpor.words.grounding_answers import Request


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(rich_help_panel=cli.DECIDE)(cli.with_groups(decide))


@dataclass(frozen=True)
class AskOptions(cli.Asked):
    """Options for the object asked for, and for replies."""

    request: Annotated[
        str | None,
        cli.opt("The object asked for, in words. (default: as request.txt says)", metavar="WORDS"),
    ] = None
    tell: Annotated[
        list[str] | None,
        cli.opt(
            'Reply to its question: yes, no, 3, "1 on 7", "not 1 on 7", "not 3". May be repeated.',
            metavar="REPLY",
        ),
    ] = None
    session: Annotated[
        Path | None,
        cli.opt("Keep request and replies here; the next call goes on from them.", metavar="FILE"),
    ] = None

    def begin(self, view: "View") -> "tuple[Request, list[str]]":
        """The request and the replies to decide on: those of the session too, where it goes on."""
        asked, told = self.asked(), list(self.tell or ())
        if self.session is not None and self.session.is_file() and not asked.ways:
            asked, before = read_session(self.session, view.sources.frame)
            told = before + told
        return asked, told


@dataclass(frozen=True)
class ShowOptions:
    """Options for what is printed and written."""

    out: Annotated[Path | None, cli.opt("Write decision.png, .json and .html here.", metavar="DIR")] = None
    why: Annotated[bool, cli.opt("Show all scores, and what would change the decision.", "--why")] = False
    as_json: cli.AsJson = False
    graphs: Annotated[int, cli.more("List so many of the likeliest arrangements.", min=0)] = 3
    rerun: cli.RerunOption = None


@dataclass(frozen=True)
class InferOptions:
    """Options for inference and its limits."""

    tau: cli.Tau = None
    questions: Annotated[
        int | None, cli.more("Ask the scorer at most so many questions that matter.", min=0)
    ] = None
    ignore_checks: Annotated[bool, cli.more("Act although a check failed.", "--ignore-checks")] = False
    method: cli.MethodName = "auto"
    deadline_ms: Annotated[float | None, cli.more("Answer within so many milliseconds.")] = None
    require_certificate: Annotated[
        bool, cli.more("Act only where that is proven to be the exact answer.", "--require-certificate")
    ] = False
    prior: Annotated[float | None, cli.more("Assume this probability where there is no answer.")] = None
    cycles: Annotated[
        float,
        cli.more("Share of their probability that arrangements without any order keep.", min=0.0, max=1.0),
    ] = 0.0

    def settings(self, pipeline: str) -> "DecideSettings":
        """How to decide, in a pipeline."""
        from cpor.answer import DecideSettings
        from cpor.infer.policy import parse_method

        method = parse_method(cli.choose_pipeline(pipeline, None, self.method)[1])
        limits = self.deadline_ms, self.require_certificate, self.prior
        asks = self.questions, self.ignore_checks
        return DecideSettings(method, *limits, *asks, cycles=self.cycles)


def decide(
    source: Annotated[
        list[Path],
        cli.arg(
            "FOLDER | RGB [DEPTH] | BAG | camera:NAME | SCENE.json",
            "Folder of a scene or of frames, image files, a bag, a live camera, or a file "
            "with relation probabilities.",
        ),
    ],
    asks: AskOptions,
    shows: ShowOptions,
    parts: cli.SystemOptions,
    infers: InferOptions,
    given: cli.Given,
    follow: Annotated[bool, cli.opt("Follow the object through all frames of a folder.", "--follow")] = False,
    all_into: Annotated[
        Path | None,
        cli.opt(
            "Decide in every frame of a folder; a folder for each, and decisions.csv.", "--all", metavar="DIR"
        ),
    ] = None,
) -> None:
    """Decide what to do about an object of a scene, and say why.

    If the request may mean several objects, or no action is sure enough, it asks. On a terminal it reads the
    reply; elsewhere give it with --tell. Without an answer to which object is meant the exit code is 2.
    """
    if len(source) == 1 and source[0].suffix == ".json" and not source[0].is_dir():
        plain = asks, given, parts, follow, all_into, infers.questions, shows.out, shows.rerun
        same = cli.SystemOptions(mode=parts.mode, pipeline=parts.pipeline)
        if plain != (AskOptions(), cli.Given(), same, False, None, None, None, None):
            raise InvalidSettingError(
                f"{source[0]} is a scene file, which names its target and its probabilities itself; drop the "
                "options about pictures, targets, scorers and models"
            )
        answer = _decide_scene_file(source[0], parts, infers)
    else:
        if infers.questions is not None and parts.scorer is None:
            raise InvalidSettingError("--questions needs --scorer, which says who is asked")
        if shows.rerun is not None:
            from cpor.viz.rerun_scene import check_recording

            check_recording(shows.rerun)
        is_many = follow or all_into is not None
        of_one = (asks.tell, asks.session, shows.out, shows.rerun, shows.why or None)
        if is_many and any(each is not None for each in of_one):
            raise InvalidSettingError(
                "--tell, --session, --out, --rerun and --why are about one frame; drop them, or choose it by "
                "--frame"
            )
        asks.asked()  # what is wrong with it is said before the networks are read
        settings = infers.settings(parts.pipeline)
        with waiting("Loading the networks"):
            system = parts.make(given.choose_segmenter())
        if is_many:
            found = decide_frames(system, source[0], given, asks.asked(), infers.tau, settings, follow)
            if all_into is None:
                print_frames(found, shows.as_json)
            elif write_frames(found, all_into, shows.graphs, shows.as_json):
                raise typer.Exit(1)
            return
        with waiting("Looking for the objects"):
            view = cli.look(system, source, given)
        answer = _decide_picture(system, view, asks, infers.tau, settings, on_terminal=not shows.as_json)
    if shows.rerun is not None or shows.out is not None:
        _write(answer, shows)
    _print(answer, shows)
    if answer.decision is None:
        raise typer.Exit(2)


def _decide_scene_file(file: Path, parts: cli.SystemOptions, infers: InferOptions) -> "Answer":
    from cpor.io.scene_file import read_scene_file

    posterior = read_scene_file(file)
    start_loops(len(posterior.objects))
    from cpor.answer import decide_given
    from cpor.learn.modes import DEFAULT_MODE

    settings = infers.settings(parts.pipeline)
    return decide_given(posterior, mode=parts.mode or DEFAULT_MODE, tau=infers.tau, settings=settings)


def _decide_picture(
    system: "System",
    view: "View",
    asks: AskOptions,
    tau: float | None,
    settings: "DecideSettings",
    on_terminal: bool,
) -> "Answer":
    """Decide on a view and its replies; where a person can be asked, ask."""
    asked, told = asks.begin(view)
    with waiting("Deciding"):
        answer = system.decide(view, asked, tau=tau, settings=settings, replies=told)
    if on_terminal and sys.stdin.isatty() and sys.stdout.isatty():
        answer, more = converse(answer, read_line)
        told = [*told, *more]
    if asks.session is not None:
        write_session(asks.session, view.sources.frame, asked, told)
    return answer


def _write(answer: "Answer", shows: ShowOptions) -> None:
    """Write the files that were asked for."""
    from cpor.viz.answer_page import marks_of_answer, write_answer

    if shows.rerun is not None and answer.decision is not None and answer.view is not None:
        from cpor.viz.rerun_scene import write_scene

        marks = marks_of_answer(answer)
        write_scene(shows.rerun, answer.view.scene, marks, answer.decision, answer.p_success)
    if shows.out is not None:
        write_answer(answer, shows.out, shows.graphs)


def _print(answer: "Answer", shows: ShowOptions) -> None:
    """Print the answer, with a small picture where the terminal shows one."""
    if shows.as_json:
        cli.print_json(answer.to_json(shows.graphs))
        return
    if answer.decision is None:
        typer.echo(ask_back(answer))
    else:
        from cpor.infer.explain import explain
        from cpor.viz.card import decision_card, short_card
        from cpor.viz.words import say_checks

        assert answer.posterior is not None
        k = shows.graphs if shows.why else 0
        explanation = explain(answer.posterior, answer.decision, k=k, prior=answer.prior)
        if shows.why:
            notes = (*say_checks(answer.checks), *answer.notes)
            cli.print_rich(decision_card(explanation, answer.p_success, notes, answer.names))
        else:
            question = None if answer.asks is None else answer.asks.question
            ways = how_to_reply(answer, on_terminal=False)
            cli.print_rich(short_card(answer, explanation, question, ways))
            typer.echo("--why shows all scores and what would change the decision.")
    if answer.view is not None and sys.stdout.isatty():
        from cpor.viz.answer_page import draw_answer
        from cpor.viz.terminal_picture import picture_way, show_picture

        if picture_way(sys.stdout) is not None:
            show_picture(draw_answer(answer))
    if shows.out is not None:
        typer.echo(f"Wrote {shows.out / 'decision.html'}, decision.png and decision.json.")


TABLE = "decisions.csv"
"""One row a frame, beside the folders of the frames."""

_COLUMNS = (
    "frame", "action", "object", "name", "score", "promised_error", "target", "target_name", "question",
    "checks", "error",
)  # fmt: skip


def decide_frames(
    system: "System",
    folder: Path,
    given: cli.Given,
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
        views = (cli.look(system, *each) for each in sources)
        followed = system.follow(views, asked, tau=tau, settings=settings)
        yield from ((name, len(names), answer) for name, answer in zip(names, followed, strict=True))
        return
    for name, source in zip(names, sources, strict=True):
        try:
            found: Answer | CporError = system.decide(
                cli.look(system, *source), asked, tau=tau, settings=settings
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
    from cpor.records import record_action
    from cpor.viz.words import say_checks

    names, checks = answer.names, " ".join(say_checks(answer.checks))
    row: dict[str, object] = {"frame": name, "action": "which", "checks": checks}
    row["question"] = None if answer.asks is None else answer.asks.question
    if answer.action is not None and answer.target is not None:
        made = record_action(answer.action)
        row |= {"action": made.type, "object": made.object, "target": answer.target}
        row |= {"name": names.get(made.object, ""), "target_name": names.get(answer.target, "")}
        row["score"] = f"{answer.scores[made.object]:.6f}" if made.object in answer.scores else None
        row["promised_error"] = None if answer.promise is None else answer.promise.alpha
    return row
