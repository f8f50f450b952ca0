"""Scores as bars of text, and the table of them that every terminal view shows."""

from rich.table import Table
from rich.text import Text

from cpor.decision import Decision, Defer
from cpor.pipeline import UNSEEN
from cpor.relations import Label
from cpor.viz.words import NameOf, ranked_scores

_WIDTH = 24


def score_bar(low: float, high: float, tau: float) -> Text:
    """Filled up to what is sure, shaded up to what is possible, a mark at tau."""
    bar = Text()
    mark = min(int(tau * _WIDTH), _WIDTH - 1)
    for k in range(_WIDTH):
        at = (k + 0.5) / _WIDTH
        filled = "█" if at <= low else "▒" if at <= high else "·"
        bar.append("│" if k == mark and filled == "·" else filled, style="bold" if k == mark else "")
    return bar


def score_table(decision: Decision, target: Label, name: NameOf, most: int, least: float = 0.0) -> Table:
    """The actions, the likeliest first: the target starred, the choice marked, the least counted only."""
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("action", min_width=10, overflow="fold")
    table.add_column("P(right)", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    chosen = None if isinstance(decision.action, Defer) else decision.action.obj
    ranked = [row for row in ranked_scores(decision, len(decision.scores)) if row[0] != UNSEEN]
    shown = [row for row in ranked if row[2] >= least][:most] or ranked[:1]
    for obj, low, high in shown:
        sign = ("▶" if obj == chosen else " ") + ("★" if obj == target else " ")
        verb = "grasp" if obj == target else "remove"
        words = Text(f"{verb} {name(obj)}", style="bold" if obj == chosen else "")
        table.add_row(sign, words, say_score(decision, obj), score_bar(low, high, decision.tau))
    if rest := len(ranked) - len(shown):
        table.add_row("", Text(f"… {rest} more", style="dim"), "", "")
    return table


def say_score(decision: Decision, obj: Label) -> str:
    """The score of an object; where that is not known exactly, the interval that is proven."""
    low, high = decision.interval(obj)
    return f"{decision.scores[obj]:.1%}" if high - low < 5e-4 else f"{low:.1%} to {high:.1%}"
