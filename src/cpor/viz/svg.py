"""Plots as inline SVG: colours come from the page's style sheet, so that they follow light and dark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

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

    def render(self) -> str:
        """The SVG."""
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = [
            f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(self.title)}">'
        ]
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
