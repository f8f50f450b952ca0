"""What pages that need nothing else are made of: frame, tables, pictures inside, bars of scores."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from cpor.decision import Decision, Defer
from cpor.pipeline import UNSEEN
from cpor.relations import Label
from cpor.viz.overlay_marks import thing_colour
from cpor.viz.words import NOBODY_SEGMENTED, NameOf, percent, ranked_scores, say_why

MOST_ROWS = 8
"""Bars beside that of the target."""

LEAST = 0.01
"""Actions less likely than this have no bar of their own."""


def whole_page(title: str, parts: Iterable[str], kind: str = "") -> str:
    """A page without script, font or other host; `kind` is `report` for pages of tables."""
    # Nothing may be loaded or run, whatever a label says: the first line of defence is escaping.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{escape(title)}</title><style>{style}</style></head><body class="{kind}">',
            *parts,
            "</body></html>\n",
        ]
    )


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table; the first cell of each row is its head."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values, a pair a line."""
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)


def _badge(obj: Label) -> str:
    """The id in the colour that the thing has in every picture."""
    red, green, blue = thing_colour(obj if isinstance(obj, int) else 0)
    return f'<span class="id" style="background:rgb({red},{green},{blue})">{escape(str(obj))}</span>'


def score_bars(decision: Decision, target: Label, name: NameOf) -> str:
    """The scores as bars; what is sure filled, what is possible pale, a mark at tau."""
    chosen = None if isinstance(decision.action, Defer) else decision.action.obj
    ranked = ranked_scores(decision, len(decision.scores))
    doable = [row for row in ranked if row[0] != UNSEEN]
    shown = [row for k, row in enumerate(doable) if row[0] == target or (k < MOST_ROWS and row[2] >= LEAST)]
    rows = []
    for obj, low, high in shown:
        verb = "grasp" if obj == target else "remove"
        what = f"{_badge(obj)} {'★ ' if obj == target else ''}{verb} {escape(name(obj))}"
        said = f"{low:.0%}" if high - low < 5e-3 else f"{low:.0%} to {high:.0%}"
        style = ' class="chosen"' if obj == chosen else ""
        rows.append(
            f'<tr{style}><th scope="row">{what}</th><td class="number">{said}</td>'
            '<td class="track"><span class="bar">'
            f'<i class="maybe" style="width:{100 * high:.1f}%"></i>'
            f'<i class="sure" style="width:{100 * low:.1f}%"></i>'
            f'<i class="tau" style="left:{100 * decision.tau:.1f}%"></i></span></td></tr>'
        )
    notes = []
    if more := len(doable) - len(shown):
        notes.append(f"{more} other{'s are' if more > 1 else ' is'} less likely.")
    # Something unseen may be in the way, too; it cannot be removed, so it is no action.
    notes += [
        f"{NOBODY_SEGMENTED.capitalize()} has to go first with probability {percent(high)}."
        for obj, _, high in ranked
        if obj == UNSEEN and high >= LEAST
    ]
    note = f'<p class="note">{" ".join(notes)}</p>' if notes else ""
    head = (
        f"How likely each action is right; several can be (the mark: it acts above {percent(decision.tau)})"
    )
    return f'<table class="bars"><caption>{head}</caption>{"".join(rows)}</table>{note}'


def decision_html(decision: Decision, target: Label, name: NameOf, *sure: str) -> str:
    """Why, the scores as bars, and sentences on how sure it is."""
    why = f"<p>{escape(say_why(decision, target, name))}</p>{score_bars(decision, target, name)}"
    said = " ".join(filter(None, sure))
    return f'{why}<p class="note">{escape(said)}</p>' if said else why


def image(content: bytes, words: str) -> str:
    """A WebP picture with alternative text."""
    return f'<img src="{data_url(content)}" alt="{escape(words)}">'


def data_url(content: bytes) -> str:
    """A WebP picture as an address."""
    return f"data:image/webp;base64,{base64.b64encode(content).decode()}"
