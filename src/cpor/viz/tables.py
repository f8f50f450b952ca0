"""Results of calibrating, fitting, perceiving and of robot runs: tables for people, JSON for programs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cpor.fitting import FitReport
from cpor.fitting.from_prior import LabReport
from cpor.fitting.score_log import LogCalibration
from cpor.learn.bootstrap import Interval, PairedComparison
from cpor.learn.modes import percent
from cpor.learn.reliability import ReliabilitySummary
from cpor.paper.chain import FIGURES, STEPS, ChainTable
from cpor.paper.first_decisions import REFERENCE, FirstDecisions
from cpor.paper.means import Mean, WilsonRate
from cpor.paper.methods import MethodName
from cpor.paper.robot_table import METHOD_NAMES, RobotRow
from cpor.paper.segmentation import KINDS
from cpor.sim.dataset.manifest import TIERS


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, box: bool = True) -> Table:
    """A table whose first column is text, and whose others are numbers."""
    table = Table(title=title, title_justify="left")
    table.box = table.box if box else None
    for k, name in enumerate(columns):
        table.add_column(name, justify="right" if k else "left")
    for row in rows:
        table.add_row(*row)
    return table


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
    rows = [("before", *_cells(found.before)), ("after", *_cells(found.after))]
    parts: list[Any] = [_table(title, ("", "NLL", "Brier", "ECE", "AUROC"), rows)]
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
    table = _table(
        "On scenes each stage was not fitted to",
        ("stage", "n", "NLL", "Brier", "ECE", "AUROC"),
        [(each.name, str(each.summary.n), *_cells(each.summary)) for each in report.reliability],
    )
    promise = report.model.promise
    if promise.tau is not None:
        said = (
            f"Promised: at most {percent(promise.alpha)} wrong among the actions taken, with confidence "
            f"{1 - promise.delta:.0%}, acting above {promise.tau:.3f}; {promise.coverage:.0%} of scenes are "
            f"acted on ({promise.n_wrong} of {promise.n_executed} wrong in {promise.n} test scenes)."
        )
    else:
        said = f"No error rate can be promised: {promise.reason}."
    for kind, (_, acted, wrong) in promise.strata.items():
        said += f" {kind.capitalize()}: {wrong} of {acted} wrong."
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
    rows = []
    for name, it in (("started from", report.prior), ("yours", report.own)):
        low, high = it.right_interval
        rows.append((name, f"{it.right:.0%} ({low:.0%} to {high:.0%})", f"{it.nll:.3f}", f"{it.ece:.3f}"))
    table = _table(title, ("model", "right first actions", "NLL", "ECE"), rows)
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


TRUTH_NAMES = {"occlusion": "occlusion", "any": "occlusion or sweep"}

_PAPER = (
    "The paper's robot (UR3, 45 real scenarios, easy / medium / hard / average): "
    "CPOR-Grasp 93.3 / 73.3 / 66.7 / 77.8 %, Gemini Robotics-ER-1.6 86.7 / 60.0 / 53.3 / 66.7 %, "
    "UNOGrasp 86.7 / 66.7 / 33.3 / 62.2 %. Rows of VLM backbones need a key."
)


def robot_table(rows: Mapping[MethodName, RobotRow]) -> Group:
    """Success and retrieval by tier, what went wrong, and how CPOR compares on the same scenarios."""
    tiers = (*TIERS, "all")
    sorts = ("perception", "reasoning", "grasp", "physics")
    right, retrieved, causes, paired = [], [], [], []
    for method, row in rows.items():
        name = METHOD_NAMES[method]
        right.append((name, *(_rate(row.success[tier]) for tier in tiers)))
        retrieved.append((name, *(_rate(row.retrieved[tier]) for tier in tiers)))
        counts = [row.causes.get(sort, 0) for sort in sorts]
        counts += [row.wrong, row.deferrals, row.asked, row.needless, row.pointed]
        causes.append((name, *map(str, counts), f"{row.mean_actions:.1f}"))
        if row.paired is not None:
            paired.append(Text(f"CPOR against {name}: {_paired(row.paired)}."))
    others = ("wrong", "deferrals", "asked", "needless", "pointed", "actions")
    why = "Why not (causes); mean actions per scenario"
    return Group(
        _table("Success: retrieved, and every action right [95% interval]", ("", *tiers), right),
        _table("Retrieved, whatever was moved on the way", ("", *tiers), retrieved),
        _table(why, ("", *sorts, *others), causes, box=False),
        *paired,
        Text(_PAPER, style="dim"),
    )


def first_decisions_table(found: FirstDecisions) -> Group:
    """Share of right first actions by truth, method and tier."""
    parts: list[Table | Text] = []
    columns = (*found.n, "all")
    for kind, by_method in found.rsr.items():
        counts = ", ".join(f"{n} {tier}" for tier, n in found.n.items())
        title = f"First action right by {TRUTH_NAMES[kind]} ({counts}) [95% interval]"
        rows = [
            (METHOD_NAMES[method], *(_show(by_tier[c]) for c in columns))
            for method, by_tier in by_method.items()
        ]
        parts.append(_table(title, ("", *columns), rows))
        for method, compared in found.paired[kind].items():
            parts.append(
                Text(f"{METHOD_NAMES[REFERENCE]} against {METHOD_NAMES[method]}: {_paired(compared)}.")
            )
    return Group(*parts)


def _rate(rate: WilsonRate) -> str:
    return f"{rate.share:.1%} {_interval(rate.ci)} n={rate.n}" if rate.n else "-"


def _interval(ci: Interval) -> str:
    return f"[{ci.low:.3f}, {ci.high:.3f}]"


def _paired(found: PairedComparison) -> str:
    change = f"{found.delta:+.4f} [{found.ci.low:+.4f}, {found.ci.high:+.4f}]"
    return f"{found.corrections} corrections, {found.regressions} regressions, {change}, n = {found.n}"


_FIGURE_NAMES = {
    "relation_f1": "relation F1",
    "object_f1": "object F1",
    "right_action": "right first action",
    "right_action_occlusion": "by occlusion alone",
}


def mask_table(figures: Mapping[str, Mean], n: int, masks: str) -> Group:
    """Overlap, boundary and F@.75 by kind of mask, and the figures over objects below."""
    columns = ["", "overlap P / R", "overlap F", "boundary P / R", "boundary F", "F@.75"]
    rows = []
    for kind in KINDS:
        cells = [kind]
        for part in ("overlap", "boundary"):
            both = (figures[f"{kind} {part} {figure}"] for figure in ("precision", "recall"))
            cells += [" / ".join(_number(each.value) for each in both), _show(figures[f"{kind} {part} f1"])]
        rows.append([*cells, _show(figures[f"{kind} f@.75"])])
    table = _table(f"Masks of {masks}, {n} frames [95% interval]", columns, rows)
    rest = [name for name in figures if name.split()[0] not in KINDS]
    return Group(table, *(Text(f"{name.replace('_', ' ')}: {_show(figures[name])}") for name in rest))


def chain_table(found: ChainTable) -> Group:
    """A column for each step, so that it fits into 80 columns; relation probabilities below."""
    scorer = found.scorer or "none"
    title = f"From raw scores to CPOR, scores of {scorer}: {found.n} cases, {found.n_lost} targets not found"
    steps = [found.rows[step] for step in STEPS]
    rows = [
        (_FIGURE_NAMES[figure], *(_show(each.figures[figure].get("all")) for each in steps))
        for figure in FIGURES
    ]
    rows += [
        (f"relation {name.upper()}", *(_number((each.relations or {}).get(name)) for each in steps))
        for name in ("ece", "nll", "auroc")
    ]
    table = _table(title, ("", *STEPS), rows)
    note = (
        "Truth: occlusion or sweep, by what objects truly are. A target that was not found counts as wrong."
    )
    return Group(table, Text(note, style="dim"))


def _show(figure: Mean | None) -> str:
    if figure is None or figure.value is None or figure.ci is None:
        return "-"
    return f"{figure.value:.3f} [{figure.ci.low:.3f}, {figure.ci.high:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
