"""The figures behind our claims: kept in docs/evidence.json, shown in docs/evidence.md.

docs/evidence.json holds parts by name, each with the date of its last run and its rows; a rerun of a part
replaces that part alone. A figure is met or missed where a machine can tell; see `judge`.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIGURES, PAGE = DOCS / "evidence.json", DOCS / "evidence.md"
RERUN = "python benchmarks/evidence_table.py --only {}"

CLAIMS = {
    "exact": "Probabilities, certificates and plans equal brute force and independent solvers.",
    "calibrated": "Probabilities match frequencies, and a promised error rate is kept.",
    "paper": "The published figures come out again from the published data.",
    "sees": "Masks, hidden parts and geometric relations found in RGB-D frames.",
    "decides": "How often the first action is right.",
    "acts": "The simulator, the arm and whole runs that fetch the target.",
    "asks": "VLMs: what they are asked, how replies are read, what a failed call does.",
    "serves": "The service, the page, reports, resumed runs and your own plug-ins.",
    "fast": "Times, and times against other solvers.",
    "safe": "Never free by omission: checks of the input, blockers that nobody segmented, lower bounds, "
    "confirmation of a delivery, faults of camera and arm, dead-man stop.",
}
"""What we claim, and what it means. Every figure belongs to one."""

Verdict = Literal["missed", "met", "in words", "reported"]
"""In the order of the page. `in words`: asked in words that only a reader can compare."""


class Row(NamedTuple):
    """One figure beside the one asked for. `note`: why it is older than the code it is about."""

    claim: str
    point: str
    asked: str
    measured: str
    note: str = ""


@dataclass(frozen=True)
class Part:
    """Rows that are measured together. `date`: YYYY-MM-DD. `rerun`: a command, if it is not `RERUN`."""

    date: str
    rows: tuple[Row, ...]
    rerun: str = ""


class Wanted(NamedTuple):
    """A long measurement that the page misses while it is not there."""

    claim: str
    what: str


def check_claim(claim: str) -> str:
    """The claim, if there is one of that name."""
    if claim not in CLAIMS:
        raise ValueError(f"unknown claim {claim!r}; the claims are: {', '.join(CLAIMS)}")
    return claim


def say(measured: object) -> str:
    """A figure as the page shows it; several with slashes between them."""
    if isinstance(measured, float):
        return f"{measured:.3g}"
    if isinstance(measured, list | tuple):
        return " / ".join("-" if each is None else str(each) for each in measured)
    if isinstance(measured, dict | set | frozenset):
        raise TypeError(f"say in words what was measured, or note a row for each figure; got {measured!r}")
    return str(measured)


# -- met or missed

_N = r"[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_UNITS = {
    **{"%": ("share", 0.01), "ms": ("time", 1e-3), "s": ("time", 1.0), "min": ("time", 60.0)},
    **{"mm": ("length", 1e-3), "m": ("length", 1.0), "kB": ("size", 1e3), "MB": ("size", 1e6)},
    **{"GB": ("size", 1e9), "MiB": ("size", 2.0**20), "GiB": ("size", 2.0**30)},
}
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_END = r"(?: (?:a|per) \w+)?(?: \(.*\))?"
_LIMIT = re.compile(
    rf"(?:median )?(>=|<=|>|<|at least|at most|above|over|below|under|)\s*({_N})\s*({_UNIT})?{_END}"
)
_RANGE = re.compile(rf"({_N}) to ({_N})\s*({_UNIT})?{_END}")
_FIGURE = re.compile(rf"(?<![\w.@])({_N})(?:\s*({_UNIT})(?!\w))?(?: of ({_N}))?")
_SIGNS = {"at least": ">=", "at most": "<=", "above": ">", "over": ">", "below": "<", "under": "<", "": "="}
_NOTHING = ("", "-", "reported", "for comparison")


def judge(asked: str, measured: str) -> Verdict:
    """Whether a figure meets what was asked.

    Read by machine: a limit (`>= 0.85`, `at most 2 %`, `< 300 ms`), a number (equal), a range (`1 to 2 mm`),
    several numbers with slashes between (equal after rounding as asked), `all` against `k of n`, and words
    that the measured ones begin with. The first number measured counts: of `0.83 [0.80, 0.86]` the point
    estimate, not its interval. A number asked and none measured is missed.
    """
    asked, measured = asked.strip(), measured.strip()
    if asked in _NOTHING or asked.startswith("paper"):
        return "reported"
    if (several := _several(asked)) is not None:
        return _met(_alike(several, measured))
    found = _FIGURE.search(measured)
    if limit := _LIMIT.fullmatch(asked):
        sign, number, unit = limit.groups()
        value = _value(found, unit)
        return _met(value is not None and _holds(value, _SIGNS.get(sign, sign), _scaled(number, unit)))
    if between := _RANGE.fullmatch(asked):
        low, high, unit = between.groups()
        value = _value(found, unit)
        return _met(value is not None and _scaled(low, unit) <= value <= _scaled(high, unit))
    if asked in ("all", "every one") and found and found[3]:
        return _met(_float(found[1]) == _float(found[3]))
    return "met" if measured.casefold().startswith(asked.casefold()) else "in words"


def _met(met: bool) -> Verdict:
    return "met" if met else "missed"


def _float(text: str) -> float:
    return float(text.replace(",", ""))


def _scaled(number: str, unit: str | None) -> float:
    return _float(number) * (_UNITS[unit][1] if unit else 1.0)


def _value(found: re.Match[str] | None, asked: str | None) -> float | None:
    """What was measured, in base units. Without a unit it has the one asked; a share is also `k of n`."""
    if found is None:
        return None
    number, unit, whole = found.groups()
    if asked is None:
        return _scaled(number, "%" if unit == "%" else None)
    if asked == "%" and unit is None:
        return _float(number) / (_float(whole) if whole else 1.0)
    unit = unit or asked
    if _UNITS[unit][0] != _UNITS[asked][0]:
        raise ValueError(f"asked in {asked}, measured in {unit}: {found.string!r}")
    return _scaled(number, unit)


def _holds(value: float, sign: str, limit: float) -> bool:
    if abs(value - limit) <= 1e-9 * abs(limit):  # 50 % is 0.5, whatever 50 * 0.01 is in binary
        return "=" in sign
    return value > limit if ">" in sign else value < limit if "<" in sign else False


def _several(text: str) -> list[str] | None:
    """Numbers with slashes between, `-` where there is none."""
    items = text.split(" / ")
    return items if len(items) > 1 and all(re.fullmatch(rf"{_N}|-", item) for item in items) else None


def _alike(asked: Sequence[str], measured: str) -> bool:
    got = _several(measured)
    if got is None or len(got) != len(asked):
        return False
    for want, have in zip(asked, got, strict=True):
        if "-" in (want, have):
            if want != have:
                return False
        elif round(_float(have), len(want.partition(".")[2])) != _float(want):
            return False
    return True


# -- kept figures


def read_parts(file: Path) -> dict[str, Part]:
    """Parts by name; a file that is not there has none."""
    if not file.is_file():
        return {}
    parts = {}
    for name, part in json.loads(file.read_text(encoding="utf-8")).items():
        rows = tuple(Row(*row) for row in part["rows"])
        for row in rows:
            check_claim(row.claim)
        measured = date.fromisoformat(part["date"]) if "date" in part else date.today()
        parts[name] = Part(measured.isoformat(), rows, part.get("rerun", ""))
    return parts


def write_parts(parts: Mapping[str, Part], file: Path) -> None:
    """One row a line, parts by name, so that a rerun changes its own lines alone."""
    told = []
    for name, part in sorted(parts.items()):
        rerun = f' "rerun": {json.dumps(part.rerun, ensure_ascii=False)},' if part.rerun else ""
        rows = (list(row if row.note else row[:4]) for row in part.rows)
        listed = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
        told.append(f'{json.dumps(name)}: {{"date": "{part.date}",{rerun} "rows": [\n{listed}\n]}}')
    whole = file.with_suffix(".part")
    whole.write_text("{\n" + ",\n".join(told) + "\n}\n", encoding="utf-8")
    whole.replace(file)


def keep(new: Mapping[str, Sequence[Sequence[str]]], file: Path = FIGURES, rerun: str = "") -> None:
    """Keep rows (claim, point, asked, measured) measured today, in place of the parts of the same names.

    `rerun`: the command that measures them, if it is not `RERUN`.
    """
    today = date.today().isoformat()
    parts = {name: Part(today, tuple(Row(*row) for row in rows), rerun) for name, rows in new.items()}
    for part in parts.values():
        for row in part.rows:
            check_claim(row.claim)
    write_parts(read_parts(file) | parts, file)


# -- the page

_HEAD = """# Evidence

What we claim, and what was measured: {rows} figures, those that miss what was asked first. {old} of them
are older than the code they are about; their date says so.

`met` and `missed` are computed: the point estimate meets the figure asked, whatever its interval.
`in words`: asked in words that only a reader can compare. `reported`: nothing was asked, or the paper's
figure is of other data. Times are of one machine with 2 cores; ratios travel better than times.

Figures are kept in `evidence.json`. The last column names the part that a figure belongs to. Rerun a part:
`{rerun}`; everything: `make evidence`."""


def write_page(parts: Mapping[str, Part], wanted: Mapping[str, Wanted]) -> str:
    """The page in Markdown. `wanted`: long measurements by part; those not there are named with a command."""
    by_claim: dict[str, list[tuple[Verdict, str, Row]]] = {claim: [] for claim in CLAIMS}
    for name, part in sorted(parts.items()):
        for row in part.rows:
            by_claim[row.claim].append((judge(row.asked, row.measured), name, row))
    total = sum(map(len, by_claim.values()))
    old = sum(bool(row.note) for part in parts.values() for row in part.rows)
    lines = [_HEAD.format(rows=total, old=old, rerun=RERUN.format("PART")), ""]
    lines += ["| claim | figures | met | missed |", "|---|---|---|---|"]
    for claim, rows in by_claim.items():
        n = Counter(verdict for verdict, _, _ in rows)
        lines.append(f"| [{claim}](#{claim}) | {len(rows)} | {n['met']} | {n['missed']} |")
    order = Verdict.__args__  # type: ignore[attr-defined]
    for claim, rows in by_claim.items():
        lines += ["", f"## {claim.capitalize()}", "", CLAIMS[claim]]
        for name, (of, what) in wanted.items():
            if of == claim and name not in parts:
                lines += ["", f"Not measured yet: {what}. Run `{RERUN.format(name)}`."]
        if rows:
            lines += ["", "| result | what | asked | measured | date | part |", "|---|---|---|---|---|---|"]
        for verdict, name, row in sorted(rows, key=lambda each: order.index(each[0])):
            when = f"{parts[name].date}; {row.note}" if row.note else parts[name].date
            asked = row.asked if row.asked not in _NOTHING else ""
            cells = (verdict, row.point, asked, row.measured, when, f"`{name}`")
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    others = [(name, part.rerun) for name, part in sorted(parts.items()) if part.rerun]
    if others:
        lines += ["", "## Parts with a command of their own", ""]
        lines += [f"- `{name}`: `{command}`" for name, command in others]
    return "\n".join(lines) + "\n"
