"""What came of a run: rates with intervals, the curves behind the figures, and summary tables."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from cpor.decision import WHY_DEFERRED
from cpor.learn.bootstrap import Interval
from cpor.learn.reliability import summarise_reliability
from cpor.paper.means import WilsonRate, mean_of
from cpor.paper.risk_coverage import RiskCoverage, risk_coverage
from cpor.paper.runs.folder import RunHeader, read_run_folder
from cpor.paper.runs.record import CaseRecord

_RESAMPLES = 1000


@dataclass(frozen=True)
class Report:
    """A finished run: what was run, and every case in order."""

    header: RunHeader
    records: tuple[CaseRecord, ...]

    @property
    def n_images(self) -> int:
        """Groups of cases that are independent of each other."""
        return len({record.group for record in self.records})


def read_report(run_folder: Path) -> Report:
    """Read a finished run."""
    header, records = read_run_folder(run_folder)
    return Report(header, tuple(records))


def measure_rate(
    records: Iterable[CaseRecord], is_hit: Callable[[CaseRecord], bool]
) -> tuple[WilsonRate, Interval | None]:
    """The share of cases for which something holds, and its 95 % interval from resampling whole images.

    The latter is None where all cases agree: resampling knows only what it has seen.
    """
    cases = list(records)
    rate = WilsonRate.of([is_hit(record) for record in cases])
    if not 0 < rate.hits < rate.n:
        return rate, None
    told = [(record.group, float(is_hit(record))) for record in cases]
    return rate, mean_of(told, np.random.default_rng(0), _RESAMPLES).ci  # the same run gives the same report


def object_scores(
    records: Sequence[CaseRecord],
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Score of every object, and whether acting on it next is right; over cases with known truth."""
    scores: list[float] = []
    right: list[bool] = []
    for record in records:
        if record.decision is not None and record.truth is not None:
            scores.extend(record.decision.scores.values())
            right.extend(label in record.truth.right for label in record.objects)
    return np.array(scores, np.float64), np.array(right, np.bool_)


def best_scores(
    records: Sequence[CaseRecord],
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Score of each case's best action, taken or not, and whether it is right; where that is known."""
    judged = [
        (record.best.score, record.best.right)
        for record in records
        if record.best is not None and record.best.right is not None
    ]
    scores, right = zip(*judged, strict=True) if judged else ((), ())
    return np.array(scores, np.float64), np.array(right, np.bool_)


def selective_curve(score: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> RiskCoverage | None:
    """What acting on the surest cases only would bring, by share of wrong actions. None of nothing."""
    return risk_coverage(score, np.where(right, 0.0, 1.0)) if score.size else None


@dataclass(frozen=True)
class SizeCost:
    """What cases of one size cost, in counted steps, so that it is the same on any machine.

    Attributes:
        n_objects: The size.
        n: Cases of it.
        log10_graphs: Median of log10 of the graphs that enumeration would have to look at, 2^relations.
        log10_subsets: Median of log10 of the steps that bound the exact recursion, 3^objects that matter.
        uncertified: Cases whose action is not proven to be that of exact inference.
    """

    n_objects: int
    n: int
    log10_graphs: float
    log10_subsets: float
    uncertified: int


def cost_by_size(records: Sequence[CaseRecord]) -> list[SizeCost]:
    """Growth of cost with the number of objects."""
    by_size: dict[int, list[CaseRecord]] = defaultdict(list)
    for record in records:
        if record.objects:
            by_size[len(record.objects)].append(record)
    return [
        SizeCost(
            size,
            len(cases),
            float(np.median([len(case.relations) for case in cases])) * math.log10(2.0),
            float(np.median([case.n_reachable for case in cases])) * math.log10(3.0),
            sum(not is_certified(case) for case in cases),
        )
        for size, cases in sorted(by_size.items())
    ]


def is_certified(record: CaseRecord) -> bool:
    """Whether the action is proven to be that of exact inference."""
    return record.decision is not None and record.decision.certificate.kind in ("exact", "action", "defer")


def is_cyclic(record: CaseRecord) -> bool:
    """Whether its relations can contradict each other."""
    mu = None if record.decision is None else record.decision.mu
    return bool(mu) if mu is not None else bool(edges_on_cycles(record))


def edges_on_cycles(record: CaseRecord) -> frozenset[int]:
    """Positions of the candidate relations that lie on a cycle: their blocker leads back to the blocked."""
    after: dict[object, list[object]] = defaultdict(list)
    for relation in record.relations:
        after[relation.blocked].append(relation.blocker)

    def reached_from(start: object) -> set[object]:
        seen, todo = {start}, [start]
        while todo:
            todo.extend(more := [label for label in after[todo.pop()] if label not in seen])
            seen.update(more)
        return seen

    reach = {label: reached_from(label) for label in list(after)}
    return frozenset(
        k
        for k, relation in enumerate(record.relations)
        if relation.blocked in reach.get(relation.blocker, ())
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


def _rate_cells(measured: tuple[WilsonRate, Interval | None]) -> tuple[str, str, str, str]:
    rate, by_image = measured
    if not rate.n:
        return "0 of 0", "-", "-", "-"
    told = "-" if by_image is None else _interval(by_image)
    return f"{rate.hits} of {rate.n}", f"{rate.share:.4f}", _interval(rate.ci), told


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
