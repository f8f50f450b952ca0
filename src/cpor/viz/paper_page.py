"""The paper's tables and figures beside ours, as one page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from cpor.fitting import ReliabilityData
from cpor.paper.selective import NAMES, SelectiveRow
from cpor.paper.table import Judged, Table, show, words
from cpor.viz.page_parts import whole_page
from cpor.viz.svg import Plot, reliability_svg

_CLASS: Mapping[Judged, str] = {"matches": "right", "differs": "wrong"}
_LINES = {"dag": "curve", "no_dag": "limit", "map": "reference"}


def paper_page(
    tables: Sequence[Table], first: str, curves: Mapping[str, SelectiveRow], pools: Sequence[ReliabilityData]
) -> str:
    """The page; `first` says what the figures were computed from."""
    count = Counter(judged for t in tables for row in t.rows for *_, judged in row.verdicts())
    said = ", ".join(f"{count[judged]} {words}" for judged, words in _SUMMARY.items() if count[judged])
    title = "The paper's tables, computed anew"
    parts = [
        f"<header><h1>{title}</h1><p>{escape(first)}</p>",
        f"<p>Figures: {said}. Each cell: ours, below it the paper's.</p></header><main>",
        *(_table(table) for table in tables),
        _diagrams(pools),
        _curves(curves),
        "</main>",
    ]
    return whole_page(title, parts, "report")


_SUMMARY: Mapping[Judged, str] = {
    "matches": "match",
    "differs": "differ",
    "other data": "are of other data than the paper's",
    "other machine": "are times of another machine than the paper's",
    "not computed": "are not computed",
    "not in the paper": "are ours alone",
}


def curves_page(rows: Mapping[str, SelectiveRow]) -> str:
    """Fig. selective alone, as a page."""
    return whole_page("Selective execution", [_curves(rows)], "report")


def _draw_curves(rows: Mapping[str, SelectiveRow]) -> tuple[str, str]:
    """Retained error by coverage, and error capture rate by defer rate."""
    risk = Plot(
        "Retained error",
        "coverage",
        "1 - object F1",
        y_range=(0.0, 0.5),
        y_ticks=(0, 0.1, 0.2, 0.3, 0.4, 0.5),
    )
    capture = Plot("Error capture", "defer rate D", "ECR(D)")
    for name, row in rows.items():
        coverage, kept = row.curve.coverage.tolist(), row.curve.risk.tolist()
        step = max(1, len(kept) // 400)
        risk.line(
            [(c, min(r, 0.5)) for c, r in zip(coverage[::step], kept[::step], strict=True)], _LINES[name]
        )
        if kept[-1] > 0.0:
            caught = [(1.0 - c, 1.0 - c * r / kept[-1]) for c, r in zip(coverage, kept, strict=True)]
            capture.line(caught[::step], _LINES[name])
    return risk.render(), capture.render()


def _table(table: Table) -> str:
    figures = list(dict.fromkeys(f for row in table.rows for f, *_ in row.verdicts()))
    head = "".join(f'<th class="number">{escape(words(f))}</th>' for f in figures)
    rows = []
    for row in table.rows:
        cells = {f: _cell(ours, paper, judged) for f, ours, paper, judged in row.verdicts()}
        rows.append(
            f'<tr><th scope="row">{escape(row.name)}</th>'
            + "".join(cells.get(f, "<td></td>") for f in figures)
            + f"<td>{escape(row.why)}</td></tr>"
        )
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return (
        f'<section id="{escape(table.label.replace(" ", "-"))}"><h2>{escape(table.title)} '
        f"(Table {escape(table.label)})</h2>"
        f'<div class="wide"><table><thead><tr><th></th>{head}<th></th></tr></thead>{"".join(rows)}'
        "</table></div>"
        f"{notes}</section>"
    )


def _cell(ours: float | None, paper: float | None, judged: Judged) -> str:
    style = f"number {_CLASS.get(judged, '')}".strip()
    return f'<td class="{style}">{show(ours)}<br><small>{show(paper)}</small></td>'


def _diagrams(pools: Sequence[ReliabilityData]) -> str:
    drawn = "".join(f"<figure>{reliability_svg(pool.name, pool.p, pool.label)}</figure>" for pool in pools)
    return f'<section><h2>Reliability (Fig. reliability)</h2><div class="figures">{drawn}</div></section>'


def _curves(rows: Mapping[str, SelectiveRow]) -> str:
    risk, capture = _draw_curves(rows)
    legend = f"Solid: {NAMES['dag']}. Dotted: {NAMES['no_dag']}. Dashed: {NAMES['map']}."
    drawn = "".join(
        f"<figure><h3>{title}</h3>{svg}<figcaption>{legend}</figcaption></figure>"
        for title, svg in (("(a) Retained error and coverage", risk), ("(b) Error capture rate", capture))
    )
    return (
        f'<section><h2>Selective execution (Fig. selective)</h2><div class="figures">{drawn}</div></section>'
    )
