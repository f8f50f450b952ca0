"""Results of calibrating and fitting, as tables for people and JSON for programs."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cpor.fitting import FitReport
from cpor.fitting.from_prior import LabReport
from cpor.fitting.score_log import LogCalibration
from cpor.metrics import ReliabilitySummary
from cpor.risk.modes import percent


def calibration_to_json(found: LogCalibration) -> dict[str, Any]:
    """Parameters, the figures before and after, and the cross-validation curve."""
    return {
        "method": found.method,
        "n": found.before.n,
        "n_unanswered": found.before.n_unanswered,
        "penalty": found.penalty,
        "parameters": found.parameters,
        "before": _figures(found.before),
        "after": _figures(found.after),
        "cross_validation": None
        if found.curve is None
        else {
            "penalty": list(found.curve.penalty),
            "nll": list(found.curve.nll),
            "chosen": found.curve.best,
        },
    }


def calibration_table(found: LogCalibration) -> Group:
    """The same for people."""
    title = f"{found.method}, n = {found.before.n} (fitted to these very rows)"
    table = Table(title=title, title_justify="left")
    for column in ("", "NLL", "Brier", "ECE", "AUROC"):
        table.add_column(column, justify="left" if not column else "right")
    for name, summary in (("before", found.before), ("after", found.after)):
        table.add_row(name, *_cells(summary))
    parts: list[Any] = [table]
    numbers = {name: value for name, value in found.parameters.items() if not isinstance(value, list)}
    if numbers:
        parts.append(Text("  ".join(f"{name} {value:.5f}" for name, value in numbers.items())))
    if found.curve is not None:
        curve = "  ".join(
            f"{p:g}: {loss:.4f}" for p, loss in zip(found.curve.penalty, found.curve.nll, strict=True)
        )
        parts.append(
            Text(f"Held-out NLL by penalty (5 folds by image): {curve}; least at {found.curve.best:g}.")
        )
        parts.append(Text(f"Used: {found.penalty or 0.0:g} (the paper: 1).", style="dim"))
    return Group(*parts)


def fit_to_json(report: FitReport) -> dict[str, Any]:
    """What was fitted and what is promised."""
    model = report.model
    return {
        "promise": model.promise.model_dump(),
        "fusion": model.fusion.model_dump(),
        "parts": {part: len(names) for part, names in model.parts.items()},
        "n_empty": report.n_empty,
        "reliability": {data.name: asdict(data.summary) for data in report.reliability},
    }


def fit_table(report: FitReport, out: Path, plots: Path) -> Group:
    """The same for people."""
    table = Table(title="On scenes each stage was not fitted to", title_justify="left")
    for column in ("stage", "n", "NLL", "Brier", "ECE", "AUROC"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for data in report.reliability:
        table.add_row(data.name, str(data.summary.n), *_cells(data.summary))
    promise = report.model.promise
    if promise.tau is not None:
        said = (
            f"Promised: at most {percent(promise.alpha)} wrong among the actions taken, with confidence "
            f"{1 - promise.delta:.0%}, acting above {promise.tau:.3f}; {promise.coverage:.0%} of scenes are "
            f"acted on ({promise.n_wrong} of {promise.n_executed} wrong in {promise.n} test scenes)."
        )
    else:
        said = f"No error rate can be promised: {promise.reason}."
    if report.n_empty:
        said += f" {report.n_empty} scenes without objects were left out."
    return Group(table, Text(said), Text(f"Model: {out}. Reliability plots: {plots}.", style="dim"))


def lab_to_json(report: LabReport) -> dict[str, Any]:
    """How a model fitted to a lab compares with the one it started from, and what it promises."""
    return {
        "promise": report.model.promise.model_dump(),
        "supported": report.supported,
        "weight": None if math.isinf(report.weight) else report.weight,
        "n_fit": report.n_fit,
        "n_held_out": report.n_held_out,
        "prior": asdict(report.prior),
        "own": asdict(report.own),
        "change": asdict(report.change),
    }


def lab_table(report: LabReport, out: Path) -> Group:
    """The same for people."""
    title = f"On {report.n_held_out} photographs that nothing was fitted to"
    table = Table(title=title, title_justify="left")
    for column in ("model", "right first actions", "NLL", "ECE"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, it in (("started from", report.prior), ("yours", report.own)):
        low, high = it.right_interval
        table.add_row(name, f"{it.right:.0%} ({low:.0%} to {high:.0%})", f"{it.nll:.3f}", f"{it.ece:.3f}")
    change, promise = report.change, report.model.promise
    said = [
        f"Right first actions change by {100 * change.delta:+.1f} points (95 % interval "
        f"{100 * change.ci.low:+.1f} to {100 * change.ci.high:+.1f}, {change.n} questions)."
    ]
    if promise.tau is not None:
        said.append(
            f"Promised on scenes like these: at most {percent(promise.alpha)} of the actions are wrong, "
            f"with confidence {1 - promise.delta:.0%}; {promise.coverage:.0%} of scenes are acted on."
        )
    else:
        said.append(f"No error rate of {percent(promise.alpha)} can be promised: {promise.reason}.")
        if report.supported is not None and report.supported < 0.5:
            said.append(f"These scenes support a promise of at most {report.supported:.0%}; see --alpha.")
    return Group(table, *map(Text, said), Text(f"Model: {out}.", style="dim"))


def _figures(summary: ReliabilitySummary) -> dict[str, float | None]:
    return {"nll": summary.nll, "brier": summary.brier, "ece": summary.ece, "auroc": summary.auroc}


def _cells(summary: ReliabilitySummary) -> list[str]:
    area = "-" if summary.auroc is None else f"{summary.auroc:.4f}"
    return [f"{summary.nll:.4f}", f"{summary.brier:.4f}", f"{summary.ece:.4f}", area]
