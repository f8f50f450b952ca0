"""The summary tables of a run, as text in cells; pages and papers are made from the same."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpor.decision import WHY_DEFERRED
from cpor.learn.reliability import summarise_reliability
from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import (
    Rate,
    Report,
    best_scores,
    measure_rate,
    object_scores,
    selective_curve,
)

_CERTIFICATES = {
    "exact": "scores are exact",
    "action": "proven: exact inference acts the same",
    "defer": "proven: exact inference defers too",
    "tolerance": "not proven: close enough by the tolerance asked for",
    "k_max": "not proven: as many graphs as allowed",
    "deadline": "not proven: out of time",
}

_TIERS = ("No-Occ", "Easy", "Medium", "Hard")
"""UNOBench's, the easiest first."""


@dataclass(frozen=True)
class SummaryTable:
    """A table: the first column names the row, the others hold numbers or words.

    Attributes:
        title: What it shows.
        columns: Their heads.
        rows: Cells, a tuple a row.
        note: What a reader has to know.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def summary_tables(report: Report) -> list[SummaryTable]:
    """Every table that has something to say about this run."""
    records = report.records
    tables = [
        _overview(report),
        _counts("What was done", "action", [record.action for record in records], {}),
        _counts("Why it deferred", "reason", _reasons(records), WHY_DEFERRED),
        _counts("What is proven", "certificate", _kinds(records), _CERTIFICATES),
        _reliability(records),
        _by("Difficulty", "tier", [(record.tier, record) for record in records]),
        _by("Scene size", "objects", [(len(record.objects) or None, record) for record in records]),
        _counts("Cases without a decision", "error", [r.error.type for r in records if r.error], {}),
    ]
    return [table for table in tables if table.rows]


def _overview(report: Report) -> SummaryTable:
    records = report.records
    judged = [record for record in records if record.outcome in ("right", "wrong")]
    rows = [
        ("coverage: acted, of all cases", *_rate_cells(measure_rate(records, lambda r: r.acted))),
        (
            "error rate: wrong, of the actions taken",
            *_rate_cells(measure_rate(judged, lambda r: r.outcome == "wrong")),
        ),
        ("deferred, of all cases", *_rate_cells(measure_rate(records, lambda r: r.outcome == "deferred"))),
        (
            "without a decision, of all cases",
            *_rate_cells(measure_rate(records, lambda r: r.outcome == "error")),
        ),
    ]
    unjudged = sum(record.outcome == "unjudged" for record in records)
    note = f"{len(records)} cases of {report.n_images} images. Intervals at 95%."
    if unjudged:
        note += f" The truth of {unjudged} actions is not known; they are not in the error rate."
    return SummaryTable("At a glance", ("", *_RATE_COLUMNS), tuple(rows), note)


_RATE_COLUMNS = ("cases", "rate", "Wilson", "by image")


def _rate_cells(rate: Rate) -> tuple[str, str, str, str]:
    if rate.value is None:
        return "0 of 0", "-", "-", "-"
    by_image = "-" if rate.by_image is None else _interval(rate.by_image)
    return f"{rate.hits} of {rate.n}", f"{rate.value:.4f}", _interval(rate.wilson), by_image


def _interval(limits: tuple[float, float]) -> str:
    return f"{limits[0]:.4f} to {limits[1]:.4f}"


def _reasons(records: Sequence[CaseRecord]) -> list[str]:
    found = (None if record.decision is None else record.decision.action.reason for record in records)
    return [reason for reason in found if reason is not None]


def _kinds(records: Sequence[CaseRecord]) -> list[str]:
    return [record.decision.certificate.kind for record in records if record.decision is not None]


def _counts(title: str, name: str, values: Sequence[str], meanings: Mapping[str, str]) -> SummaryTable:
    """How often each value occurs, the known ones in their order, then by name."""
    counts = Counter(values)
    order = [value for value in meanings if value in counts] + sorted(counts.keys() - meanings.keys())
    rows = [(value, *((meanings[value],) if meanings else ()), str(counts[value])) for value in order]
    rows = [(*row, f"{counts[row[0]] / len(values):.4f}") for row in rows]
    columns = (name, *(("meaning",) if meanings else ()), "cases", "share")
    return SummaryTable(title, columns, tuple(rows))


def _reliability(records: Sequence[CaseRecord]) -> SummaryTable:
    rows = []
    for name, (score, right) in (
        ("every object's score", object_scores(records)),
        ("the best action's score", best_scores(records)),
    ):
        if score.size:
            found = summarise_reliability(score, right)
            curve = selective_curve(score, right) if name.startswith("the best") else None
            rows.append(
                (
                    name,
                    str(found.n),
                    f"{found.positive_rate:.4f}",
                    f"{found.ece:.4f}",
                    f"{found.brier:.4f}",
                    f"{found.nll:.4f}",
                    "-" if found.auroc is None else f"{found.auroc:.4f}",
                    "-" if curve is None else f"{curve.area:.4f}",
                )
            )
    return SummaryTable(
        "Can the scores be trusted",
        ("", "n", "right", "ECE", "Brier", "NLL", "AUROC", "AURC"),
        tuple(rows),
        "The best action counts whether it was taken or not. Objects far from the target are easy zeros: "
        "the second row is the one that matters.",
    )


def _by(title: str, name: str, keyed: Sequence[tuple[str | int | None, CaseRecord]]) -> SummaryTable:
    """Coverage and error rate by something; cases without it are left out."""
    groups: dict[str | int, list[CaseRecord]] = {}
    for key, record in keyed:
        if key is not None:
            groups.setdefault(key, []).append(record)
    rows = []
    for key in sorted(groups, key=lambda k: (_TIERS.index(k) if k in _TIERS else len(_TIERS), k)):
        records = groups[key]
        judged = [record for record in records if record.outcome in ("right", "wrong")]
        acted = measure_rate(records, lambda r: r.acted)
        wrong = measure_rate(judged, lambda r: r.outcome == "wrong")
        rows.append((str(key), str(len(records)), _rate_cells(acted)[1], *_rate_cells(wrong)))
    columns = (name, "n", "coverage", "wrong, of actions", "error rate", "Wilson", "by image")
    return SummaryTable(title, columns, tuple(rows))
