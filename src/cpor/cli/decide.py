"""The command `decide`: from whatever is given to what to do next, and why."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpor.cli.first_use import start_loops, waiting
from cpor.cli.options import (
    DECIDE,
    MORE,
    AsJson,
    Given,
    MethodName,
    ModelFile,
    ModeName,
    PipelineName,
    RerunOption,
    ScorerName,
    SourceNames,
    Tau,
    choose_pipeline,
    look,
    make_system,
    print_json,
    print_rich,
    with_given,
)
from cpor.errors import InvalidSettingError

if TYPE_CHECKING:
    from cpor.answer import Answer, DecideSettings, View
    from cpor.corrections.replies import Decides
    from cpor.system import System
    from cpor.words.grounding_answers import Request


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(rich_help_panel=DECIDE)(with_given(decide))


def decide(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER | RGB [DEPTH] | BAG | realsense | SCENE.json",
            help="Folder of a scene or of frames, image files, a bag, a live camera, or a file with relation "
            "probabilities.",
        ),
    ],
    given: Given,
    target: Annotated[int | None, typer.Option(help="Id of the object asked for.")] = None,
    point: Annotated[
        str | None, typer.Option(metavar="X,Y", help="A pixel that shows the object asked for.")
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="The object asked for, in words. (default: as request.txt says)"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write decision.png, decision.json and decision.html here."),
    ] = None,
    mode: ModeName = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Follow the object through all frames of a folder; decide in each of them."
        ),
    ] = False,
    tau: Tau = None,
    scorer: ScorerName = None,
    questions: Annotated[
        int | None,
        typer.Option(
            min=0, rich_help_panel=MORE, help="Ask the scorer only what matters, at most so many questions."
        ),
    ] = None,
    model: ModelFile = None,
    sources: SourceNames = None,
    pipeline: PipelineName = "default",
    ignore_checks: Annotated[
        bool,
        typer.Option(
            "--ignore-checks", rich_help_panel=MORE, help="Act although a check of the input failed."
        ),
    ] = False,
    method: MethodName = "auto",
    deadline_ms: Annotated[
        float | None, typer.Option(rich_help_panel=MORE, help="Answer within so many milliseconds.")
    ] = None,
    require_certificate: Annotated[
        bool,
        typer.Option(
            "--require-certificate",
            rich_help_panel=MORE,
            help="Act only where the action is proven to be that of exact inference.",
        ),
    ] = False,
    prior: Annotated[
        float | None,
        typer.Option(rich_help_panel=MORE, help="Assume this probability where there is no answer."),
    ] = None,
    graphs: Annotated[
        int, typer.Option(min=0, rich_help_panel=MORE, help="List so many of the likeliest arrangements.")
    ] = 3,
    rerun: RerunOption = None,
    tell: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REPLY",
            help='Reply to its question: yes, no, 3, "1 on 7", "not 1 on 7", "not 3". May be repeated.',
        ),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Show all scores, arrangements and what would change the decision.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Decide what to do about an object of a scene, and say why.

    If the request may mean several objects, or no action is sure enough, it asks. On a terminal it reads the
    reply; elsewhere give it with --tell. Without an answer to which object is meant the exit code is 2.
    """
    if len(source) == 1 and source[0].suffix == ".json" and not source[0].is_dir():
        others = (target, point, request, scorer, questions, model, sources, rerun, out, tell)
        if given != Given() or any(each is not None for each in others):
            raise InvalidSettingError(
                f"{source[0]} is a scene file, which names its target and its probabilities itself; drop the "
                "options about pictures, targets, scorers and models"
            )
        from cpor.data.scene_file import read_scene_file

        posterior = read_scene_file(source[0])
        start_loops(len(posterior.objects))
        from cpor.answer import DecideSettings, decide_given
        from cpor.inference.decide import parse_method
        from cpor.risk.modes import DEFAULT_MODE

        _, method = choose_pipeline(pipeline, None, method)
        settings = DecideSettings(parse_method(method), deadline_ms, require_certificate, prior)
        answer = decide_given(posterior, mode=mode or DEFAULT_MODE, tau=tau, settings=settings)
    else:
        if questions is not None and scorer is None:
            raise InvalidSettingError("--questions needs --scorer, which says who is asked")
        if rerun is not None:
            from cpor.viz.rerun_file import check_recording

            check_recording(rerun)
        from cpor.answer import DecideSettings
        from cpor.corrections.replies import decide_after
        from cpor.inference.decide import parse_method
        from cpor.words.grounding import parse_point
        from cpor.words.grounding_answers import Request

        asked = Request(target, None if point is None else parse_point(point), request)

        model, method = choose_pipeline(pipeline, model, method)
        settings = DecideSettings(
            parse_method(method), deadline_ms, require_certificate, prior, questions, ignore_checks
        )
        with waiting("Loading the networks"):
            system = make_system(given.choose_segmenter(), scorer, model, mode, sources or ())
        if follow:
            _follow(system, source, given, asked, tau, settings, as_json)
            return
        with waiting("Looking for the objects"):
            view = look(system, source, given)
        decides = partial(_decide_again, system, view, tau, settings)
        with waiting("Deciding"):
            answer = decide_after(decides, asked, tell or ())
        if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
            answer = converse(decides, asked, tell or (), answer, _read_line)
    if rerun is not None and answer.decision is not None:
        _write_rerun(rerun, answer)
    if out is not None:
        from cpor.viz.answer_page import write_answer

        write_answer(answer, out, graphs)
    if as_json:
        print_json(answer.to_json(graphs))
    elif answer.decision is None:
        typer.echo(_ask_back(answer))
    else:
        from cpor.inference.explain import explain
        from cpor.viz.card import decision_card, short_card

        assert answer.posterior is not None
        explanation = explain(answer.posterior, answer.decision, k=graphs if why else 0, prior=prior)
        if why:
            notes = (*_say_checks(answer), *answer.notes)
            print_rich(decision_card(explanation, answer.p_success, notes, answer.names))
        else:
            question = None if answer.view is None else _open_question(answer)
            print_rich(short_card(answer, explanation, question, "Reply with --tell yes or --tell no."))
            typer.echo("--why shows all scores and what would change the decision.")
    if not as_json:
        _show(answer, out)
    if answer.decision is None:
        raise typer.Exit(2)


def _open_question(answer: "Answer") -> str | None:
    from cpor.corrections.replies import next_question

    question = next_question(answer)
    return None if question is None else question.question


def _decide_again(
    system: "System",
    view: "View",
    tau: float | None,
    settings: "DecideSettings",
    request: "Request",
    relations: Mapping[tuple[int, int], float | None],
) -> "Answer":
    return system.decide(view, request, tau=tau, relations=relations, settings=settings)


def converse(
    decides: "Decides", asked: "Request", told: Sequence[str], answer: "Answer", read: Callable[[str], str]
) -> "Answer":
    """Ask and read replies until it acts, has no question, or nothing more is replied.

    Args:
        decides: Decides for a request, with what was replied.
        asked: The object asked for first.
        told: Replies given so far.
        answer: The answer to them.
        read: Shows a question and reads the reply; empty: none.
    """
    from cpor.corrections.replies import decide_after, next_question
    from cpor.errors import InvalidSettingError

    replies = list(told)
    note = ""
    while (question := next_question(answer)) is not None:
        reply = read(f"{note}{_ask_back(answer) if answer.decision is None else question.question}").strip()
        if not reply:
            break
        try:
            answer, note = decide_after(decides, asked, (*replies, reply)), ""
            replies.append(reply)
        except InvalidSettingError as error:
            note = f"{error}\n"
    return answer


def _read_line(question: str) -> str:
    typer.echo(question)
    try:
        return input("> ")
    except EOFError:
        return ""


def _follow(
    system: "System",
    source: list[Path],
    given: Given,
    asked: "Request",
    tau: float | None,
    settings: "DecideSettings",
    as_json: bool,
) -> None:
    """One line a frame, as it is decided; with --json one object a line."""
    import json

    from cpor.data.frame_folder import find_frames
    from cpor.viz.words import namer, say_step

    if len(source) != 1 or not source[0].is_dir():
        raise InvalidSettingError("--follow needs a folder of frames")
    views = (
        look(system, source, replace(given, frame=number)) for number in range(len(find_frames(source[0])))
    )
    answers = system.follow(views, asked, tau=tau, settings=settings)
    for number, answer in enumerate(answers):
        if as_json:
            typer.echo(json.dumps(answer.to_json(0)))
        elif answer.action is None:
            typer.echo(f"frame {number}: {answer.question}")
        else:
            assert answer.view is not None
            name = namer(answer.view.scene)
            typer.echo(f"frame {number}: {say_step(answer.action, name)}, for {name(answer.target)}")


def _show(answer: "Answer", out: Path | None) -> None:
    """A small picture where the terminal shows one, and where the larger one is."""
    if answer.view is not None and sys.stdout.isatty():
        from cpor.viz.answer_page import draw_answer
        from cpor.viz.terminal_picture import picture_way, show_picture

        if picture_way(sys.stdout) is not None:
            show_picture(draw_answer(answer))
    if out is not None:
        typer.echo(f"Wrote {out / 'decision.html'}, decision.png and decision.json.")


def _say_checks(answer: "Answer") -> list[str]:
    """What is wrong or doubtful about the input, and what to do about it."""
    state = {"fail": "Failed", "doubt": "In doubt"}
    return [f"{state[c.state]}: {c.says} {c.remedy}".rstrip() for c in answer.checks if c.state in state]


def _ask_back(answer: "Answer", how: str = "Say --target ID, --point X,Y or --request WORDS.") -> str:
    """What is not clear about a request, with the objects it may mean."""
    from cpor.perception.object_list import list_objects

    assert answer.view is not None and answer.question is not None
    objects = {each["id"]: each for each in list_objects(answer.view.scene)}
    lines = [answer.question[:1].upper() + answer.question[1:]]
    for o in [objects[each.id] for each in answer.candidates] or objects.values():
        name = f" ({o['name']})" if o["name"] else ""
        where = f"at {o['point'][0]},{o['point'][1]}" if o["point"] else "not visible"
        lines.append(f"  object {o['id']}{name} {where}")
    return "\n".join([*lines, *_say_checks(answer), *answer.notes, how])


def _write_rerun(file: Path, answer: "Answer") -> None:
    """Write the recording of a scene and what was decided in it."""
    from cpor.viz.overlay import Marks, relations_to_draw
    from cpor.viz.rerun_scene import write_scene

    posterior, decision = answer.posterior, answer.decision
    assert answer.view is not None and posterior is not None and decision is not None
    assert isinstance(posterior.target, int)
    marks = Marks(posterior.target, decision.action, relations_to_draw(posterior))
    write_scene(file, answer.view.scene, marks, decision, answer.p_success)
