"""The figures of a report: reliability, risk and coverage, captured errors, cost by scene size."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from cpor.learn.reliability import ece
from cpor.paper.risk_coverage import RiskCoverage
from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import (
    SizeCost,
    best_scores,
    cost_by_size,
    object_scores,
    selective_curve,
)
from cpor.viz.svg import Plot, even_ticks, reliability_plot

_MOST_POINTS = 400
"""Points drawn of a curve: more than the plot has pixels would be for nothing."""


ReportFigure: TypeAlias = tuple[str, str, str]
"""Title, what a plot says, and its SVG."""


def report_figures(records: Sequence[CaseRecord]) -> list[ReportFigure]:
    """Every figure that the run has the data for."""
    figures = []
    for title, (score, right) in (
        ("Reliability of object scores", object_scores(records)),
        ("Reliability of the best action", best_scores(records)),
    ):
        if score.size:
            figures.append(reliability_figure(title, score, right))
    curve = selective_curve(*best_scores(records))
    if curve is not None:
        figures += [risk_figure(curve), capture_figure(curve)]
    if costs := cost_by_size(records):
        figures.append(cost_figure(costs))
    return figures


def reliability_figure(
    title: str, score: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]
) -> ReportFigure:
    """How often what was given probability p was right; the dashed line is perfect."""
    caption = (
        f"n {score.size}, ECE {ece(score, right):.4f}. Bars: share that was right in each tenth. Dots: at "
        "the mean probability, larger where there are more. On the dashed line, probabilities mean "
        "what they say."
    )
    return title, caption, reliability_plot(title, score, right).render()


def risk_figure(curve: RiskCoverage) -> ReportFigure:
    """Error rate by coverage, the surest first."""
    title = "Risk and coverage"
    # Of the first few cases a rate says little; it must not stretch the axis.
    highest = float(curve.risk[curve.coverage >= 0.05].max())
    ticks = even_ticks(max(highest, 0.02))
    plot = Plot(title, "coverage: share acted on", "risk: share wrong", (0, 1), (0, ticks[-1]), y_ticks=ticks)
    overall = float(curve.risk[-1])
    plot.line([(0.0, overall), (1.0, overall)], "reference")
    shown = [(x, min(y, ticks[-1])) for x, y in _thin(curve.coverage, curve.risk)]
    plot.line(shown, "curve")
    caption = (
        f"Act on the surest cases only. AURC {curve.area:.4f}; acting on all is wrong in {overall:.4f} "
        "(dashed: the same at random)."
    )
    return title, caption, plot.render()


def capture_figure(curve: RiskCoverage) -> ReportFigure:
    """Share of errors avoided by the share deferred."""
    title = "Error capture"
    plot = Plot(title, "share deferred, the least sure first", "share of errors avoided")
    overall = float(curve.risk[-1])
    plot.line([(0.0, 0.0), (1.0, 1.0)], "reference")
    if overall > 0.0:
        plot.line([(0.0, 0.0), (overall, 1.0), (1.0, 1.0)], "limit")
        points = list(_thin(1.0 - curve.coverage, curve.captured))
        plot.line([(1.0, 1.0), *points], "curve")
    at = [float(np.interp(d, (1.0 - curve.coverage)[::-1], curve.captured[::-1])) for d in (0.1, 0.2, 0.3)]
    caption = (
        f"Deferring 10 / 20 / 30% avoids {at[0]:.3f} / {at[1]:.3f} / {at[2]:.3f} of the errors. "
        "Dashed: deferring at random. Dotted: knowing the errors."
    )
    return title, caption, plot.render()


def cost_figure(costs: Sequence[SizeCost]) -> ReportFigure:
    """Counted work by number of objects."""
    title = "Growth of cost with scene size"
    sizes = [cost.n_objects for cost in costs]
    highest = max(max(cost.log10_graphs, cost.log10_subsets) for cost in costs)
    ticks = even_ticks(max(highest, 1.0))
    x_range = (min(sizes) - 0.5, max(sizes) + 0.5)
    every = max(1, (max(sizes) - min(sizes)) // 8 + 1)
    x_ticks = range(min(sizes), max(sizes) + 1, every)
    axes = "objects in the scene", "log10 of counted steps"
    plot = Plot(title, *axes, x_range, (0.0, ticks[-1]), x_ticks, ticks)
    for name, line, dot in (("log10_graphs", "limit", "other"), ("log10_subsets", "curve", "dot")):
        plot.line([(cost.n_objects, getattr(cost, name)) for cost in costs], line)
        for cost in costs:
            hint = f"{cost.n_objects} objects, {cost.n} cases: 10^{getattr(cost, name):.1f}"
            plot.dot(cost.n_objects, getattr(cost, name), dot, hint)
    unproven = sum(cost.uncertified for cost in costs)
    caption = (
        "Medians. Solid: bound on the steps of exact inference, 3^(objects that matter to the target). "
        "Dotted: graphs that enumeration looks at, 2^relations. "
        f"{unproven} of {sum(cost.n for cost in costs)} cases have an action that is not proven."
    )
    return title, caption, plot.render()


def _thin(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> list[tuple[float, float]]:
    """Few enough points of a curve, its ends among them."""
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).round().astype(int))
    return [(float(x[k]), float(y[k])) for k in chosen]
