"""Plots as inline SVG: colours come from the page's style sheet, so that they follow light and dark."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from cpor.fitting import ReliabilityData
from cpor.learn.reliability import reliability_bins, summarise_reliability

_WIDTH, _HEIGHT = 340, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 14, 42


@dataclass
class Plot:
    """Two axes to draw on; `render` gives the SVG.

    Attributes:
        title: What screen readers say.
        x_label, y_label: What the axes show.
        x_range, y_range: What they span.
        x_ticks, y_ticks: Where they are marked.
    """

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
    y_ticks: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
    _parts: list[str] = field(default_factory=list)

    def line(self, points: Iterable[tuple[float, float]], style: str) -> None:
        """A line through points, of a class of the style sheet."""
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        self._parts.append(f'<polyline class="{style}" points="{path}"/>')

    def bar(self, left: float, right: float, height: float, style: str, hint: str) -> None:
        """A bar from the lower end of the y axis, with words to show when pointed at."""
        x, y = self._x(left), self._y(height)
        width, down = self._x(right) - x, self._y(self.y_range[0]) - y
        self._parts.append(
            f'<rect class="{style}" x="{x + 1:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" '
            f'height="{max(down, 0):.1f}"><title>{escape(hint)}</title></rect>'
        )

    def dot(self, x: float, y: float, style: str, hint: str, radius: float = 3.5) -> None:
        """A point, with words to show when pointed at."""
        self._parts.append(
            f'<circle class="{style}" cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="{radius:.1f}">'
            f"<title>{escape(hint)}</title></circle>"
        )

    def label(self, x: float, y: float, text: str, style: str, anchor: str = "start") -> None:
        """Words at a point."""
        self._parts.append(
            f'<text class="{style}" x="{self._x(x):.1f}" y="{self._y(y) - 6:.1f}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def render(self, style: str = "") -> str:
        """The SVG; with a style of its own it is a file that needs no page."""
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        alone = ' xmlns="http://www.w3.org/2000/svg"' if style else ""
        parts = [
            f'<svg{alone} class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(self.title)}">'
        ]
        if style:
            parts.append(f"<style>{style}</style>")
        for tick in self.y_ticks:
            y = self._y(tick)
            parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
        for tick in self.x_ticks:
            x = self._x(tick)
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
        parts += self._parts
        parts.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
        middle = (_TOP + bottom) / 2
        parts.append(
            f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>"
            f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y_label)}</text></svg>"
        )
        return "\n".join(parts)

    def _x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - low) / (high - low)

    def _y(self, value: float) -> float:
        low, high = self.y_range
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)


def even_ticks(highest: float, most: int = 5) -> list[float]:
    """Ticks from 0 to at least `highest`, at 1, 2 or 5 times a power of ten."""
    step = 1e-3
    factors = (2.0, 2.5, 2.0)
    k = 0
    while step * most < highest:
        step *= factors[k % 3]
        k += 1
    ticks = [0.0]
    while ticks[-1] < highest - 1e-12:
        ticks.append(round(ticks[-1] + step, 9))
    return ticks


def reliability_plot(
    title: str, p: Shaped[np.ndarray, " n"], right: Shaped[np.ndarray, " n"], top: float = 1.0
) -> Plot:
    """How often what was given probability p came true, below the value `top`; dashed is perfect."""
    plot = Plot(title, "probability given", "share that was right", y_range=(0.0, top))
    bins = reliability_bins(p, right)
    plot.line([(0.0, 0.0), (1.0, 1.0)], "reference")
    most = max(int(bins.count.max()), 1)
    for k in np.flatnonzero(bins.count):
        rate, mean, count = float(bins.rate[k]), float(bins.p_mean[k]), int(bins.count[k])
        hint = f"{count} given {mean:.3f} on average, {rate:.3f} right"
        plot.bar(float(bins.edge[k]), float(bins.edge[k + 1]), rate, "bar", hint)
        plot.dot(mean, rate, "dot", hint, 2.5 + 4.0 * (count / most) ** 0.5)
    return plot


def reliability_svg(name: str, p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]) -> str:
    """The same as an SVG file of its own, with its figures; NaN (no answer) is left out and counted."""
    summary = summarise_reliability(p, label)
    answered = ~np.isnan(np.asarray(p, np.float64))
    plot = reliability_plot(name, np.asarray(p)[answered], np.asarray(label)[answered], top=1.2)
    area = "" if summary.auroc is None else f" · AUROC {summary.auroc:.3f}"
    said = f"n {summary.n} · ECE {summary.ece:.4f} · Brier {summary.brier:.4f}{area}"
    plot.label(0.02, 1.12, name, "title")
    plot.label(0.02, 1.04, said, "title")
    return plot.render(_STANDALONE)


_STANDALONE = (
    "svg{background:#fff;font:11px sans-serif}.bar{fill:#4477aa}.dot{fill:#cc6677}.grid{stroke:#ddd}"
    ".axis{stroke:#222}.reference{fill:none;stroke:#222;stroke-dasharray:4 3}"
)
"""Colours of a plot outside of a page."""


def write_reliability_plots(stages: Sequence[ReliabilityData], folder: Path) -> None:
    """One SVG a stage, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in stages:
        name = re.sub(r"[^a-z0-9]+", "_", data.name.lower()).strip("_")
        (folder / f"{name}.svg").write_text(reliability_svg(data.name, data.p, data.label), encoding="utf-8")
