"""Reliability diagrams as SVG: how often what was given probability p came true."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from cpor.fitting import ReliabilityData
from cpor.learn.reliability import reliability_bins, summarise_reliability

_SIZE, _MARGIN = 260, 44


def write_reliability_plots(stages: Sequence[ReliabilityData], folder: Path) -> None:
    """One SVG a stage, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in stages:
        name = re.sub(r"[^a-z0-9]+", "_", data.name.lower()).strip("_")
        (folder / f"{name}.svg").write_text(reliability_svg(data.name, data.p, data.label), encoding="utf-8")


def reliability_svg(name: str, p: Shaped[np.ndarray, " n"], label: Shaped[np.ndarray, " n"]) -> str:
    """One diagram: a bar for each bin, its height the observed rate; grey bars below count the cases.

    Args:
        name: Title.
        p: Probabilities; NaN (no answer) is left out and counted. Shape (n,).
        label: What came true. Shape (n,).
    """
    summary = summarise_reliability(p, label)
    answered = ~np.isnan(np.asarray(p, np.float64))
    bins = reliability_bins(np.asarray(p)[answered], np.asarray(label)[answered])
    counts = np.asarray(bins.count)
    edges = np.linspace(0.0, 1.0, len(counts) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIZE + 2 * _MARGIN}" '
        f'height="{_SIZE + 2 * _MARGIN + 60}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(name)}</title>",
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_MARGIN}" y="18" font-size="13" font-weight="bold">{escape(name)}</text>',
        f'<text x="{_MARGIN}" y="34">{_figures(summary.n, summary.ece, summary.brier, summary.auroc)}</text>',
    ]
    for k in np.flatnonzero(counts):
        left, right = _x(edges[k]), _x(edges[k + 1])
        top = _y(float(bins.rate[k]))
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left - 1:.1f}" height="{_y(0) - top:.1f}" '
            'fill="#4477aa"/>'
        )
        mean = _x(float(bins.p_mean[k]))
        parts.append(f'<circle cx="{mean:.1f}" cy="{top:.1f}" r="3" fill="#cc6677"/>')
        share = 40 * counts[k] / counts.max()
        parts.append(
            f'<rect x="{left:.1f}" y="{_y(0) + 34:.1f}" width="{right - left - 1:.1f}" height="{share:.1f}" '
            f'fill="#bbbbbb"><title>{counts[k]} cases</title></rect>'
        )
    parts.append(
        f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#222" stroke-dasharray="4 3"/>'
        f'<rect x="{_x(0)}" y="{_y(1)}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#222"/>'
    )
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{_x(tick)}" y="{_y(0) + 14}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{_MARGIN - 6}" y="{_y(tick) + 4}" text-anchor="end">{tick:g}</text>')
    parts.append(
        f'<text x="{_x(0.5)}" y="{_y(0) + 28}" text-anchor="middle">probability given</text>'
        f'<text transform="translate(12 {_y(0.5)}) rotate(-90)" text-anchor="middle">came true</text></svg>'
    )
    return "\n".join(parts) + "\n"


def _figures(n: int, ece: float, brier: float, auroc: float | None) -> str:
    area = "" if auroc is None else f" · AUROC {auroc:.3f}"
    return f"n {n} · ECE {ece:.4f} · Brier {brier:.4f}{area}"


def _x(value: float) -> float:
    return _MARGIN + _SIZE * value


def _y(value: float) -> float:
    return _MARGIN + _SIZE * (1.0 - value)
