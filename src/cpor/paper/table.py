"""A table of the paper: our figures beside the printed ones, with a verdict for each."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from cpor.learn.bootstrap import Interval
from cpor.paper.evaluate import FIGURES, Evaluation

Judged: TypeAlias = Literal[
    "matches", "differs", "other data", "other machine", "not computed", "not in the paper"
]
Figures: TypeAlias = Mapping[str, float | None]

TIMES = ("ms_mean", "ms_max")
"""Figures that depend on the machine: a match with the paper would be chance."""

WORDS = {
    "ece": "ECE",
    "nll": "NLL",
    "brier": "Brier score",
    "auroc": "AUROC",
    "mp_ned": "MP-NED",
    "p": "P",
    "r": "R",
    "f1": "F1",
    "tv": "d_TV",
    "ci": "CI",
    "k": "K",
    "ms": "ms",
    "aurc": "AURC",
    "ecr": "ECR",
}


def _parse(text: str) -> dict[str, dict[str, dict[str, str]]]:
    tables: dict[str, dict[str, dict[str, str]]] = {}
    rows: dict[str, dict[str, str]] = {}
    figures: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith("["):
            label, names = line[1:].split("]")
            figures, rows = names.split(), tables.setdefault(label, {})
        else:
            name, values = line.split(" | ")
            rows[name] = {f: v for f, v in zip(figures, values.split(), strict=True) if v != "-"}
    return tables


PUBLISHED: Mapping[str, Mapping[str, Mapping[str, str]]] = _parse(
    Path(__file__).with_name("published.txt").read_text(encoding="utf-8")
)
"""Every number that the paper's tables print, by table label, row and figure; rates as fractions.

They are texts, since the number of digits printed says how close ours must come to match. Table topk has the
digits of its commented form.
"""


class Row(NamedTuple):
    """One row of a table.

    Attributes:
        name: As in the table.
        ours: By figure; None where the figure does not exist. Empty: not computed.
        paper: The printed values by figure; empty where the paper has no such row.
        why: Why ours is missing, or is not the paper's.
        ci: Intervals of our figures.
        comparable: Whether ours is computed from the paper's data.
    """

    name: str
    ours: Figures
    paper: Mapping[str, str]
    why: str = ""
    ci: Mapping[str, Interval] = {}
    comparable: bool = True

    def verdicts(self) -> Iterator[tuple[str, float | None, float | None, Judged]]:
        """Figure, ours, the paper's and how they compare."""
        for figure in dict.fromkeys((*self.paper, *self.ours)):
            ours, printed = self.ours.get(figure), self.paper.get(figure)
            judged = judge(ours, printed)
            if not self.comparable and judged in ("matches", "differs"):
                judged = "other data"
            elif figure in TIMES and judged in ("matches", "differs"):
                judged = "other machine"
            yield figure, ours, None if printed is None else _number(printed), judged


class Table(NamedTuple):
    """One table of the paper, or a figure of it as numbers.

    Attributes:
        label: Label in the paper's source, such as `prob-ablation`.
        title: What it shows.
        rows: Its rows.
        notes: What to know about it.
    """

    label: str
    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def on_other_data(self, note: str) -> "Table":
        """The same figures, of other data than the paper's: no verdict, and reasons left out."""
        rows = [row._replace(comparable=False, why="" if row.ours else row.why) for row in self.rows]
        return self._replace(rows=rows, notes=(note, *self.notes))

    def to_json(self) -> dict[str, Any]:
        """`rows` with `name`, `ours`, `paper`, `difference`, `verdict`, `why` and `ci`; and `notes`."""
        rows = []
        for row in self.rows:
            found = list(row.verdicts())
            rows.append(
                {
                    "name": row.name,
                    "ours": dict(row.ours),
                    "paper": {f: p for f, _, p, _ in found if p is not None} or None,
                    "difference": {
                        f: None if o is None or p is None else o - p for f, o, p, _ in found if f in row.ours
                    },
                    "verdict": {f: judged for f, _, _, judged in found},
                    "why": row.why,
                    "ci": dict(row.ci),
                }
            )
        return {"label": self.label, "title": self.title, "rows": rows, "notes": list(self.notes)}


def judge(ours: float | None, printed: str | None) -> Judged:
    """Compare with a printed value: they match within one unit of its last digit, counts exactly."""
    if ours is None or printed is None:
        return "not computed" if printed is not None else "not in the paper"
    digits = len(printed.partition(".")[2])
    tolerance = 1.01 * 10.0**-digits if digits else 0.0
    return "matches" if abs(ours - float(printed)) <= tolerance else "differs"


def is_printed(ours: float, printed: str | None) -> bool:
    """Whether a figure is the printed one, rounded alike."""
    return printed is not None and round(ours, len(printed.partition(".")[2])) == float(printed)


def _number(printed: str) -> float:
    return float(printed) if "." in printed else int(printed)


def paper_rows(label: str, ours: Mapping[str, Figures], why: Mapping[str, str], missing: str) -> list[Row]:
    """Every row of a table of the paper, and our own rows below.

    Args:
        label: Label of the table.
        ours: Figures by row.
        why: Why a row differs or is missing, by row.
        missing: Why the other rows are missing.
    """
    printed = PUBLISHED[label]
    rows = [
        Row(name, ours.get(name, {}), values, why.get(name, "" if name in ours else missing))
        for name, values in printed.items()
    ]
    return rows + [Row(name, ours[name], {}, why.get(name, "")) for name in ours if name not in printed]


def words(figure: str) -> str:
    """The name of a figure for people: `relation_f1` is `relation F1`."""
    if figure in WORDS:
        return WORDS[figure]
    if figure.endswith("mp_ned"):
        return f"{figure.removesuffix('mp_ned').replace('_', ' ')}MP-NED"
    return " ".join(WORDS.get(part, part) for part in figure.split("_"))


def show(value: float | None, sign: str = "") -> str:
    """A figure with four decimals, a count without any, a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:{sign}}" if isinstance(value, int) else f"{value:{sign}.4f}"


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
        for k, (figure, ours, paper, _) in enumerate(found):
            gap = "" if ours is None or paper is None else show(ours - paper, "+")
            shown.add_row(
                "" if k else row.name,
                words(figure),
                show(paper),
                show(ours),
                "=" if ours is not None and is_printed(ours, row.paper.get(figure)) else gap,
            )
        shown.add_section()
    missing = (f"Not computed: {'; '.join(names)}. {reason}" for reason, names in absent.items())
    differs = (f"{'; '.join(names)}: {reason}" for reason, names in why.items())
    lines = [Text(line) for line in (*differs, *missing, *table.notes)]
    # A table without a figure of ours is only its title and the reasons.
    return Group(shown if shown.row_count else Text(str(shown.title)), *lines)


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
