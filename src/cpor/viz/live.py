"""A running loop in the terminal: what is seen, how the scores stand, what is done and what came of it.

On a terminal a view that is redrawn in place; elsewhere, in a pipe or a log, plain lines.
"""

from dataclasses import replace
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from cpor.decision import Defer
from cpor.relations import Label
from cpor.robot.cycle import Cycle
from cpor.viz.card import score_table
from cpor.viz.words import (
    namer,
    names_in,
    say_all,
    say_certificate,
    say_outcome,
    say_step,
    sentence,
    with_names,
)

_MOST_ROWS = 8
_MOST_PAST = 5
"""Steps and objects shown while it runs: the view must fit a terminal of 24 lines or so."""


class LiveView:
    """Shows a loop while it runs; use it in a `with` statement."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._title = title
        self._past: list[Text] = []
        self._now: RenderableType = Text("Looking …", style="dim")
        self._status = ""
        self._shown = -1
        self._names: dict[Label, str] = {}
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> "LiveView":
        if self._live is None:
            self._line(self._title)
        else:
            self._live.__enter__()
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._draw(whole=True)
            self._live.__exit__(kind, error, trace)

    def decided(self, cycle: Cycle) -> None:
        """A decision was made; nothing moves yet."""
        self._shown = cycle.index
        decision, target = cycle.decision, cycle.target
        if decision is None or target is None or cycle.action is None:
            return
        name = namer(cycle.scene)
        decision = replace(decision, action=cycle.action)
        headline = say_step(cycle.action, name)
        why = say_all(decision, target, name, cycle.p_success)
        deferred = isinstance(cycle.action, Defer)
        self._status = "" if deferred else "The arm moves …"
        if self._live is None:
            self._line(f"step {cycle.index + 1}: {headline}. {why}")
            return
        self._now = Group(
            Text(f"Step {cycle.index + 1}: {headline}", style="bold yellow" if deferred else "bold green"),
            Text(why),
            Text(),
            score_table(decision, target, lambda obj: f"{obj} {name(obj).removeprefix('the ')}", _MOST_ROWS),
            Text(say_certificate(decision), style="dim"),
        )
        self._draw()

    def acted(self, cycle: Cycle, verdict: str = "") -> None:
        """A cycle is over; `verdict` judges its action by the truth."""
        if self._shown != cycle.index:  # a deferral: nothing was announced
            self.decided(cycle)
        name = namer(cycle.scene, self._names)
        self._names |= names_in(cycle.scene)
        headline = "No decision" if cycle.action is None else say_step(cycle.action, name)
        outcome = cycle.outcome
        said = (sentence(with_names(each, name)) for each in (verdict, *cycle.notes) if each)
        words = " ".join((say_outcome(cycle, name), *said))
        if self._live is None:
            self._line(f"  {words}")
            return
        mark = "·" if outcome is None else "✓" if outcome.kind == "done" else "✗"
        self._past.append(Text(f"{mark} {cycle.index + 1}. {headline}. {words}"))
        self._status = ""
        self._draw()

    def _line(self, words: str) -> None:
        self._console.print(escape(words), soft_wrap=True, highlight=False)

    def _draw(self, whole: bool = False) -> None:
        if self._live is None:
            return
        past = self._past if whole else self._past[-_MOST_PAST:]
        parts: list[RenderableType] = [*past]
        if past:
            parts.append(Text())
        parts.append(self._now)
        if self._status:
            parts += [Text(), Text(self._status, style="cyan")]
        width = min(100, self._console.width)
        self._live.update(Panel(Group(*parts), title=escape(self._title), title_align="left", width=width))
        self._live.refresh()
