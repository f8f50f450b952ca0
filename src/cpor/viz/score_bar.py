"""A score as a bar of text."""

from rich.text import Text

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
