"""The paper's figures beside ours, as one page."""

from collections import Counter
from html import escape
from itertools import groupby

from cpor.experiments.reproduce import Reproduction
from cpor.experiments.verdicts import Judged, Verdict, judge, missing_said
from cpor.viz.page_parts import whole_page

_MARKS: dict[Judged, str] = {
    "matches": "✓ matches",
    "differs": "✗ differs",
    "cannot be known": "? cannot be known",
}


def paper_page(found: Reproduction) -> str:
    """The page.

    Args:
        found: What the released log and the truth give.
    """
    rows = judge(found)
    count = Counter(row.judged for row in rows)
    said = f"{count['matches']} match, {count['differs']} differ, {count['cannot be known']} cannot be known"
    parts = [
        "<header><h1>The paper's figures, computed anew</h1>",
        f"<p>{len(rows)} figures: {said}.</p>",
        f"<p>{escape(missing_said(found))}</p></header><main>",
    ]
    for table, group in groupby(rows, key=lambda row: row.table):
        listed = "".join(_row(row) for row in group)
        head = "<tr><th>figure</th><th>paper</th><th>ours</th><th>verdict</th><th>why</th></tr>"
        parts.append(f"<section><h2>{escape(table)}</h2><table>{head}{listed}</table></section>")
    return whole_page("The paper's figures, computed anew", [*parts, "</main>"])


def _row(row: Verdict) -> str:
    numbers = "".join(f'<td class="number">{_show(value)}</td>' for value in (row.paper, row.ours))
    return (
        f'<tr><th scope="row">{escape(row.figure)}</th>{numbers}<td>{_MARKS[row.judged]}</td>'
        f"<td>{escape(row.why)}</td></tr>"
    )


def _show(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
