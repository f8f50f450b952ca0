"""What pages that need nothing else are made of: frame, pictures inside, bars of scores."""

import base64
from collections.abc import Callable, Iterable
from html import escape

from cpor.decision import Decision, Defer
from cpor.pipeline import UNSEEN
from cpor.relations import Label
from cpor.viz.card import NOBODY_SEGMENTED
from cpor.viz.overlay_marks import thing_colour
from cpor.viz.words import percent, ranked_scores

STORY_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --dim: #5b6472; --page: #ffffff; --card: #f5f7fa;
  --line: #d5dbe3; --main: #1f6fb2; --soft: #bcd6ec; --bad: #a8201a; --good: #0b6e4f; --tau: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --dim: #a0a9b6; --page: #14181f;
  --card: #1d232c; --line: #38414e; --main: #6bb3f0; --soft: #2c5578; --bad: #ff8a80; --good: #6fd39a;
  --tau: #f0bf5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 0 0 .4rem; }
p { margin: .4rem 0; } .note, figcaption { color: var(--dim); font-size: .9rem; }
.banner { font-size: 1.1rem; font-weight: 600; padding: .5rem .8rem; border-left: 6px solid;
  background: var(--card); border-radius: 4px; }
.good { color: var(--good); } .bad { color: var(--bad); }
dl { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: .6rem 0 1.4rem; }
dl div { display: flex; gap: .4rem; white-space: nowrap; }
dt { color: var(--dim); } dt::after { content: ":"; } dd { margin: 0; font-weight: 600; }
.step { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.2rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem;
  margin: 0 0 1.2rem; align-items: start; }
@media (max-width: 60rem) { .step { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; } img { display: block; width: 100%; height: auto; border-radius: 6px; }
.bars { width: 100%; border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums;
  margin: .6rem 0; }
caption { text-align: left; color: var(--dim); padding-bottom: .2rem; }
.bars th { text-align: left; font-weight: 400; padding: .15rem .5rem .15rem 0; }
.bars .chosen th, .bars .chosen .number { font-weight: 700; }
.id { display: inline-block; min-width: 1.6em; text-align: center; border: 1px solid var(--dim);
  border-radius: 1em; font-size: .8em; color: #181c24; }
.number { text-align: right; padding-right: .5rem; white-space: nowrap; } .track { width: 38%; }
.bar { position: relative; display: block; height: .85rem; background: var(--page);
  border: 1px solid var(--line); border-radius: 3px; overflow: hidden; }
.bar i { position: absolute; top: 0; bottom: 0; left: 0; } .maybe { background: var(--soft); }
.sure { background: var(--main); } .bar .tau { width: 2px; background: var(--tau); }
.outcome { font-weight: 600; } .truth { font-size: .9rem; color: var(--dim); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
@media print { .step { break-inside: avoid; } }
"""


MOST_ROWS = 8
"""Bars beside that of the target."""

LEAST = 0.01
"""Actions less likely than this have no bar of their own."""


def whole_page(title: str, parts: Iterable[str]) -> str:
    """A page without script, font or other host.

    Args:
        title: Title of the window.
        parts: HTML of the body.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STORY_STYLE}</style></head><body>",
            *parts,
            "</body></html>\n",
        ]
    )


def _badge(obj: Label) -> str:
    """The id in the colour that the thing has in every picture."""
    red, green, blue = thing_colour(obj if isinstance(obj, int) else 0)
    return f'<span class="id" style="background:rgb({red},{green},{blue})">{escape(str(obj))}</span>'


def score_bars(decision: Decision, target: Label, name: Callable[[Label], str]) -> str:
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


def image(content: bytes, words: str) -> str:
    """A WebP picture with alternative text."""
    return f'<img src="{data_url(content)}" alt="{escape(words)}">'


def data_url(content: bytes) -> str:
    """A WebP picture as an address."""
    return f"data:image/webp;base64,{base64.b64encode(content).decode()}"
