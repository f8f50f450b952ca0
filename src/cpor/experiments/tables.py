"""Tables for the terminal: the paper's figures beside ours, and the scores of a prediction file."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from cpor.experiments.evaluate import FIGURES, Evaluation
from cpor.experiments.table import Table, show, words

BOTH_NAMES = {
    "object_p": "object P (paper OR-P, UNOGrasp SR-P)",
    "object_r": "object R (paper OR-R, UNOGrasp SR-R)",
    "object_f1": "object F1 (paper OR-F1, UNOGrasp SR-F1)",
    "relation_p": "relation P (paper SR-P, UNOGrasp OP)",
    "relation_r": "relation R (paper SR-R, UNOGrasp OR)",
    "relation_f1": "relation F1 (paper SR-F1, UNOGrasp F1)",
    "mp_ned": "MP-NED",
}


def table_group(table: Table) -> Group:
    """One table: a line a figure, so that it fits into 80 columns. Rows without figures of ours come last."""
    shown = RichTable(
        "", "figure", "paper", "ours", "difference", title=f"{table.title} (Table {table.label})"
    )
    shown.title_justify = "left"
    absent: dict[str, list[str]] = {}
    why: dict[str, list[str]] = {}
    for row in table.rows:
        if not row.ours:
            absent.setdefault(row.why, []).append(row.name)
            continue
        found = list(row.verdicts())
        if row.why and any(judged == "differs" for *_, judged in found):
            why.setdefault(row.why, []).append(row.name)
        for k, (figure, ours, paper, judged) in enumerate(found):
            gap = "" if ours is None or paper is None else show(ours - paper, "+")
            shown.add_row(
                "" if k else row.name,
                words(figure),
                show(paper),
                show(ours),
                "=" if judged == "matches" else gap,
            )
        shown.add_section()
    missing = (f"Not computed: {'; '.join(names)}. {reason}" for reason, names in absent.items())
    differs = (f"{'; '.join(names)}: {reason}" for reason, names in why.items())
    return Group(shown, *(Text(line) for line in (*differs, *missing, *table.notes)))


def evaluation_table(found: Evaluation, noted: Mapping[str, Any]) -> Group:
    """Means of a prediction file, and what was wrong in it."""
    table = RichTable("figure", title="Scores", title_justify="left")
    columns = {**found.tiers, "overall": found.overall, "balanced": found.balanced}
    for name in columns:
        table.add_column(name, justify="right")
    for name in FIGURES:
        table.add_row(BOTH_NAMES[name], *(show(getattr(means, name)) for means in columns.values()))
    table.add_row("cases counted", *(str(means.n) for means in columns.values()))
    missing = noted["missing"]
    lines = [
        Text(
            f"{noted['answered']} of {len(found.cases)} cases have a record; {missing['count']} have none"
            f"{_few(missing['first'], missing['count'])}. What is missing counts as {noted['counted_as']!r}."
        ),
        Text(
            "balanced: mean over UNOBench's own tiers No-Occ, Easy, Medium and Hard; the challenge's ranking."
        ),
    ]
    for kind, problem in noted["problems"].items():
        first = [f"line {p['line']}: {p['detail']}" for p in problem["first"]]
        lines.append(Text(f"{kind}: {problem['count']}{_few(first, problem['count'])}"))
    return Group(table, *lines)


def _few(first: Sequence[object], count: int) -> str:
    if not first:
        return ""
    more = ", …" if count > len(first) else ""
    return f" ({'; '.join(map(str, first))}{more})"
