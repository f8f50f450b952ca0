"""An answer for people to keep: a picture, its JSON, and one HTML page that needs nothing else."""

import json
import re
from html import escape
from pathlib import Path

from PIL import Image

from cpor.answer import Answer
from cpor.decision import Remove
from cpor.infer.explain import explain
from cpor.infer.plan import LARGEST_PLAN, plan
from cpor.io.whole_files import make_folder, write_bytes, write_text
from cpor.pipeline import UNSEEN
from cpor.viz.card import changes_of, say_change, say_graph, say_next, say_question
from cpor.viz.overlay import LEAST_P, WIDTH, Marks, draw_scene, encode_picture, relations_to_draw
from cpor.viz.page_parts import decision_html, image, whole_page
from cpor.viz.words import (
    NameOf,
    namer,
    percent,
    say_certificate,
    say_checks,
    say_step,
    say_success,
    sentence,
)

PICTURE, RECORD, PAGE = "decision.png", "decision.json", "decision.html"
"""What `write_answer` writes."""

WAYS = 3
"""Likeliest graphs that the page lists."""


def draw_answer(answer: Answer, width: int | None = None) -> Image.Image:
    """The photograph in its own colours: outlines, numbers, names, obstructions, the action.

    As wide as the photograph, so that its pixels can be asked for, unless `width` says otherwise. [px]
    """
    assert answer.view is not None
    return draw_scene(
        answer.view.scene, marks_of_answer(answer), width or answer.view.scene.observation.shape[1]
    )


def marks_of_answer(answer: Answer) -> Marks:
    """What to draw on the picture of an answer."""
    posterior, target = answer.posterior, answer.target
    relations = {} if posterior is None else relations_to_draw(posterior)
    return Marks(target if isinstance(target, int) else None, answer.action, relations)


def write_answer(answer: Answer, folder: Path, graphs: int = 3) -> Image.Image:
    """Write picture, JSON with so many graphs, and page of an answer into a folder; return the picture."""
    make_folder(folder)
    picture = draw_answer(answer)
    write_bytes(folder / PICTURE, encode_picture(picture, kind="PNG"))
    said = json.dumps(answer.to_json(graphs), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(folder / RECORD, said + "\n")
    write_text(folder / PAGE, answer_page(answer))
    return picture


def answer_page(answer: Answer) -> str:
    """The page."""
    assert answer.view is not None
    picture = draw_answer(answer, WIDTH)
    name = namer(answer.view.scene)
    action, target = answer.action, answer.target
    headline = "Please say which object" if action is None else say_step(action, name)
    parts = [f"<header><h1>{escape(headline)}</h1>"]
    if target is not None:
        parts.append(f"<p>Asked for: {escape(name(target))}.</p>")
    shown = image(encode_picture(picture), f"The photograph with what was found on it. {headline}.")
    parts.append(f'</header><main><section class="step"><figure>{shown}</figure><div>')
    if answer.question is not None:
        parts.append(f"<p>{escape(sentence(answer.question))}</p>")
        meant = [each.id for each in answer.candidates] or answer.view.scene.ids
        listed = "".join(f"<li>{obj}: {escape(name(obj))}</li>" for obj in meant)
        parts.append(f"<ul>{listed}</ul>" if listed else "")
    elif answer.decision is not None and target is not None:
        sure = say_success(answer.p_success, answer.decision), say_certificate(answer.decision)
        parts.append(decision_html(answer.decision, target, name, *sure))
    parts += [
        _changes(answer),
        _checks(answer),
        _relations(answer),
        _notes(answer),
        "</div></section></main>",
    ]
    return whole_page(headline, parts)


def _changes(answer: Answer) -> str:
    """The next steps, what would change the decision, what is worth asking, and how the objects may lie."""
    if answer.posterior is None or answer.decision is None or answer.view is None:
        return ""
    name = namer(answer.view.scene)
    explanation = explain(answer.posterior, answer.decision, k=WAYS, prior=answer.prior)
    rows = "".join(f"<li>{escape(sentence(say_change(each, name)))}</li>" for each in changes_of(explanation))
    changes = f"<h2>What would change this</h2><ul>{rows}</ul>" if rows else ""
    ask, question = explanation.ask_next, answer.asks
    worth = f"<h2>Worth asking</h2><p>{escape(sentence(say_question(ask, name)))}</p>" if ask else ""
    next_step = say_next(answer.decision.action, None if question is None else question.question)
    said = [say_graph(graph, name) for graph in explanation.graphs]
    listed = "".join(f"<li>{share}: {escape(relations)}</li>" for share, relations in said)
    ways = f"<h2>Likeliest ways the objects may lie</h2><ul>{listed}</ul>" if listed else ""
    return f"<p><b>{escape(next_step)}</b></p>{_after(answer, name)}{changes}{worth}{ways}"


def _after(answer: Answer, name: NameOf) -> str:
    """What comes after a removal, by the plan of best value; empty where that asks or begins otherwise."""
    action = answer.action
    assert answer.posterior is not None and answer.decision is not None
    if not isinstance(action, Remove) or len(answer.posterior.objects) > LARGEST_PLAN:
        return ""
    way = plan(answer.posterior, tau=answer.decision.tau, prior=answer.prior)
    if way.ask or not way.steps or way.steps[0].obj != action.obj:
        return ""
    later = [*(f"remove {name(step.obj)}" for step in way.steps[1:]), f"grasp {name(way.target)}"]
    words = f"After that: {', then '.join(later)}. The whole plan is right with probability"
    return f"<p>{escape(words)} {escape(percent(way.p_valid))}.</p>"


def _checks(answer: Answer) -> str:
    """What is wrong or doubtful about the input."""
    said = say_checks(answer.checks)
    if not said:
        count = len(answer.checks)
        return f'<p class="outcome good">✓ {count} checks of the input passed.</p>' if count else ""
    rows = "".join(f"<li>{_prose(each)}</li>" for each in said)
    return f"<h2>About the input</h2><ul>{rows}</ul>"


def _relations(answer: Answer) -> str:
    """Obstructions, the likeliest first."""
    if answer.posterior is None or answer.view is None:
        return ""
    name = namer(answer.view.scene)
    likely = [
        r for r in answer.posterior.relations() if r.p is not None and r.p >= LEAST_P and r.blocker != UNSEEN
    ]
    rows = "".join(
        f"<li>{escape(sentence(name(r.blocker))[:-1])} lies in the way of {escape(name(r.blocked))}: "
        f"{escape(percent(r.p))}</li>"
        for r in sorted(likely, key=lambda r: -(r.p or 0.0))[:8]
        if r.p is not None
    )
    return f"<h2>What obstructs what</h2><ul>{rows}</ul>" if rows else ""


def _notes(answer: Answer) -> str:
    return "".join(f'<p class="note">{_prose(sentence(note))}</p>' for note in answer.notes)


def _prose(words: str) -> str:
    """Words for a page; what stands between backticks is something to type."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
