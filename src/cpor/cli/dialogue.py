"""The dialogue of `decide`: ask, read replies, and keep both in a file for the next call."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cpor.errors import InvalidSettingError, SceneFileError

if TYPE_CHECKING:
    from cpor.answer import Answer
    from cpor.words.grounding_answers import Request


def converse(answer: "Answer", read: Callable[[str], str]) -> "tuple[Answer, list[str]]":
    """Ask and read replies until it acts, has no question, or nothing more is replied.

    Returns:
        The last answer, and the replies that led to it.
    """
    replies: list[str] = []
    note = ""
    while answer.asks is not None:
        reply = read(note + ask_back(answer, on_terminal=True)).strip()
        if not reply:
            break
        try:
            answer, note = answer.tell(reply), ""
            replies.append(reply)
        except InvalidSettingError as error:
            note = f"{error}\n"
    return answer, replies


def read_line(question: str) -> str:
    """Show a question and read the reply on the terminal."""
    typer.echo(question)
    try:
        return input("> ")
    except EOFError:
        return ""


def ask_back(answer: "Answer", on_terminal: bool = False) -> str:
    """The open question of an answer, the objects it may mean, and how to reply."""
    from cpor.perception.segmenter import list_objects
    from cpor.viz.words import namer, say_checks, say_why

    assert answer.view is not None
    how = how_to_reply(answer, on_terminal)
    if answer.decision is not None and answer.target is not None:
        why = say_why(answer.decision, answer.target, namer(answer.view.scene))
        return f"{why}\n{answer.asks.question if answer.asks else None} {how}"
    assert answer.question is not None
    objects = {each["id"]: each for each in list_objects(answer.view.scene)}
    lines = [answer.question[:1].upper() + answer.question[1:]]
    for o in [objects[each.id] for each in answer.candidates] or objects.values():
        name = f" ({o['name']})" if o["name"] else ""
        where = f"at {o['point'][0]},{o['point'][1]}" if o["point"] else "not visible"
        lines.append(f"  object {o['id']}{name} {where}")
    return "\n".join([*lines, *say_checks(answer.checks), *answer.notes, how])


def how_to_reply(answer: "Answer", on_terminal: bool) -> str:
    """Which replies the open question of an answer takes, and where they are given."""
    question = answer.asks
    if question is None:
        return ""
    if question.blocked is not None:
        return "Reply yes or no." if on_terminal else "Reply with --tell yes or --tell no."
    yes = question.object is not None
    if on_terminal:
        number = "the number of another object" if yes else "a number"
        return f"Reply {'yes, no, ' if yes else ''}{number}, or other words for it."
    number = str(answer.candidates[0].id) if answer.candidates else "NUMBER"
    replies = "--tell yes or --tell no" if yes else f"--tell {number}"
    return f"Reply with {replies}, or name the object with --target ID, --point X,Y or --request WORDS."


_REMEDY = "delete it, or name the object to start anew"


def read_session(file: Path, frame: str) -> "tuple[Request, list[str]]":
    """The request and the replies that a session about this frame, named by its digest, has so far.

    Raises:
        SceneFileError: The file is damaged, or of another frame.
    """
    from cpor.io.whole_files import parse_strict, read_bytes
    from cpor.scene import PixelPoint
    from cpor.words.grounding_answers import Request

    said = parse_strict(read_bytes(file), name=file, remedy=_REMEDY)
    try:
        of, replies, point = said["frame"], said["replies"], said["point"]
        asked = Request(
            said["target"], None if point is None else PixelPoint(*map(float, point)), said["request"]
        )
        if not all(isinstance(each, str) for each in (of, *replies)):
            raise TypeError("a frame and replies are text")
    except (KeyError, TypeError, ValueError):
        raise SceneFileError(f"{file} is no session of `cpor decide`; {_REMEDY}") from None
    if of != frame:
        raise SceneFileError(f"{file} is about another picture; {_REMEDY}")
    return asked, list(replies)


def write_session(file: Path, frame: str, asked: "Request", replies: Sequence[str]) -> None:
    """Keep a request and its replies for the next call; see `read_session`."""
    from cpor.io.whole_files import write_text

    said = {"frame": frame, "target": asked.id, "point": asked.point, "request": asked.words}
    write_text(file, json.dumps(said | {"replies": list(replies)}, indent=1, ensure_ascii=False) + "\n")
