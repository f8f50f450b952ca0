"""A report as one HTML page that needs nothing else: no script, no font, no other host."""

from collections import Counter
from html import escape
from pathlib import Path

from cpor.io.whole_files import write_text
from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import Report, SummaryTable, is_cyclic, summary_tables
from cpor.viz.graph_drawing import draw_graph
from cpor.viz.report_case import case_details, case_marks, html_table, say_decision
from cpor.viz.report_figures import ReportFigure, report_figures
from cpor.viz.report_style import FILTERS, STYLE, filter_rules

N_GALLERY = 24
N_DETAILS = 2000
"""Cases shown in full unless asked otherwise: about 10 MB, which browsers open at once."""

_FIRST = ("wrong", "error", "deferred")


def write_page(report: Report, path: Path, n_details: int = N_DETAILS) -> None:
    """Write the page, all of it or nothing.

    Args:
        report: What to show.
        path: The file.
        n_details: Cases shown in full, the telling ones first.
    """
    write_text(path, report_page(report, n_details))


def report_page(report: Report, n_details: int = N_DETAILS) -> str:
    """The page; the same run gives the same page."""
    listed = telling_first(report.records)[:n_details]
    # Nothing may be loaded or run, whatever a label says: the first line of defence is escaping.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>CPOR-Grasp report</title><style>{STYLE}{filter_rules()}</style></head><body>",
            '<a class="skip" href="#cases">Skip to the cases</a>',
            _head(report),
            '<main><h2 id="summary">Summary</h2><div class="tables">',
            *(_table(table) for table in summary_tables(report)),
            '</div><h2 id="figures">Figures</h2><div class="figures">',
            *(_figure(figure) for figure in report_figures(report.records)),
            "</div>",
            _gallery(listed),
            _cases(report, listed),
            "</main></body></html>\n",
        ]
    )


def telling_first(records: tuple[CaseRecord, ...]) -> list[tuple[int, CaseRecord]]:
    """Cases with their numbers: wrong ones, errors, deferred ones, contradictory ones, then the rest."""

    def rank(entry: tuple[int, CaseRecord]) -> int:
        outcome = entry[1].outcome
        if outcome in _FIRST:
            return _FIRST.index(outcome)
        return len(_FIRST) if is_cyclic(entry[1]) else len(_FIRST) + 1

    return sorted(enumerate(records), key=rank)


def _head(report: Report) -> str:
    header = report.header
    settings = header.settings
    chosen = [
        (
            "dataset",
            f"{header.dataset.kind}, {header.dataset.n_items} items, {header.dataset.fingerprint[:16]}",
        ),
        ("tau", "the model's" if settings.tau is None and settings.model else f"{settings.tau or 0.5:g}"),
        ("method", settings.method),
        ("seed", str(settings.seed)),
        ("versions", ", ".join(f"{name} {number}" for name, number in header.versions.items())),
    ]
    if settings.tau == 0.0:
        chosen[1] = ("tau", "0: always act")
    if settings.model is not None:
        chosen.append(("model", settings.model[:16]))
    if settings.shift is not None:
        chosen.append(("prior shift", f"{settings.shift:g}"))
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in chosen)
    links = "".join(
        f'<a href="#{name.lower()}">{name}</a>' for name in ("Summary", "Figures", "Gallery", "Cases")
    )
    return (
        f"<header><h1>What came of {len(report.records)} cases</h1><dl>{rows}</dl><nav>{links}</nav></header>"
    )


def _table(table: SummaryTable) -> str:
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="wide">{html_table(table.columns, table.rows, table.title)}{note}</div>'


def _figure(figure: ReportFigure) -> str:
    return (
        f"<figure><h3>{escape(figure.title)}</h3>{figure.svg}"
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _gallery(listed: list[tuple[int, CaseRecord]]) -> str:
    cards = []
    for number, record in choose_gallery(listed):
        said = f"{record.case}: {say_decision(record)}"
        mark = f'<span class="mark {record.outcome}">{record.outcome}</span>'
        cards.append(
            f"<figure>{draw_graph(record)}<figcaption>{mark}"
            f'<a href="#case-{number}">{escape(said)}</a></figcaption></figure>'
        )
    if not cards:
        return '<h2 id="gallery">Gallery</h2><p class="note">No case has relations to draw.</p>'
    return f'<h2 id="gallery">Gallery</h2>{_LEGEND}<div class="gallery">{"".join(cards)}</div>'


_LEGEND = (
    '<p class="note legend"><span>An arrow points from an object to what may obstruct it; the thicker, the '
    "likelier.</span> <span>Double frame: the target. Filled: acted on. Green frame and ✓: right next.</span>"
    " <span>Green arrow: true. Red, dashed: on a cycle. Dotted: no answer. Pale box: does not matter to the "
    "target.</span></p>"
)


def choose_gallery(listed: list[tuple[int, CaseRecord]]) -> list[tuple[int, CaseRecord]]:
    """Some of each kind, in turn, the richest graphs that can still be read first; an image once."""
    kinds: dict[tuple[str, ...], list[tuple[int, CaseRecord]]] = {}
    for entry in listed:
        record = entry[1]
        if record.relations and len(record.objects) <= 12 and record.target is not None:
            kinds.setdefault(case_marks(record), []).append(entry)
    for entries in kinds.values():
        entries.sort(key=lambda entry: abs(len(entry[1].relations) - 6))
    chosen: list[tuple[int, CaseRecord]] = []
    images: set[str] = set()
    while any(kinds.values()) and len(chosen) < N_GALLERY:
        for entries in kinds.values():
            while entries and entries[0][1].group in images:
                entries.pop(0)
            if entries and len(chosen) < N_GALLERY:
                images.add(entries[0][1].group)
                chosen.append(entries.pop(0))
    return chosen


def _cases(report: Report, listed: list[tuple[int, CaseRecord]]) -> str:
    total = len(report.records)
    order = "wrong, without decision, deferred, contradictory"
    note = f"{len(listed)} of {total} cases, the telling ones first: {order}."
    if len(listed) < total:
        note += f" The other {total - len(listed)} are in the table that cpor report RUN --csv FILE writes."
    counts = Counter(mark for _, record in listed for mark in case_marks(record))
    buttons = '<input type="radio" name="show" id="show-all" checked>'
    buttons += '<label class="filter" for="show-all">all</label>'
    buttons += "".join(
        f'<input type="radio" name="show" id="show-{name}">'
        f'<label class="filter" for="show-{name}">{name} ({counts[name]})</label>'
        for name in FILTERS
        if counts[name]
    )
    cases = "\n".join(case_details(record, f"case-{number}") for number, record in listed)
    return (
        f'<h2 id="cases">Cases</h2><p class="note">{escape(note)}</p><div>{buttons}'
        f'<div class="cases">{cases}</div></div>'
    )
