"""The figures behind our claims: at most 80, kept in docs/evidence.json and shown in docs/evidence.md.

A rerun of a part replaces the rows of that part. All of its rows go to out/evidence/. A figure is met or
missed where a machine can tell; see `judge`.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FIGURES, PAGE = ROOT / "docs" / "evidence.json", ROOT / "docs" / "evidence.md"
MEASURED = ROOT / "out" / "evidence"
"""Every row of every part measured here. Not kept in the repository."""

MOST_ROWS = 80
"""Rows on the page, at most."""

CLAIMS = {
    "exact": "Probabilities, certificates and plans equal brute force and independent solvers.",
    "calibrated": "Probabilities match frequencies, and a promised error rate is kept.",
    "paper": "Which published figures come out again from the released data; asked: the printed figure.",
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
    """One figure beside the one asked for."""

    claim: str
    point: str
    asked: str
    measured: str


@dataclass(frozen=True)
class Figure:
    """A row of the page.

    Attributes:
        row: The figure.
        part: Name of the part that measures it.
        date: When it was measured, YYYY-MM-DD.
        behaviour: What the product decided then; see `current_behaviour`. Empty for claims that do not
            depend on it.
    """

    row: Row
    part: str
    date: str
    behaviour: str = ""


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


# -- the figures of the page


def read_figures(file: Path = FIGURES) -> list[Figure]:
    """The rows of the page, in its order."""
    figures = []
    for claim, points in json.loads(file.read_text(encoding="utf-8")).items():
        check_claim(claim)
        for point, kept in points.items():
            row = Row(claim, point, kept["asked"], kept["measured"])
            figures.append(Figure(row, kept["part"], kept["date"], kept.get("behaviour", "")))
    return figures


def write_figures(figures: Iterable[Figure], file: Path = FIGURES) -> None:
    """Write the rows of the page, one a line, so that a rerun changes its own lines alone."""
    lines = []
    for claim in CLAIMS:
        points = []
        for each in figures:
            if each.row.claim == claim:
                kept = {"asked": each.row.asked, "measured": each.row.measured, "date": each.date}
                kept |= {"part": each.part} | ({"behaviour": each.behaviour} if each.behaviour else {})
                points.append(f"  {_json(each.row.point)}: {_json(kept)}")
        if points:
            lines.append(f"{_json(claim)}: {{\n" + ",\n".join(points) + "\n}")
    whole = file.with_suffix(".part")
    whole.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    whole.replace(file)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def keep(new: Mapping[str, Sequence[Sequence[str]]], file: Path = FIGURES, measured: Path = MEASURED) -> None:
    """Keep rows (claim, point, asked, measured) measured today, by part.

    All of them go to `measured`. Those whose claim and point are on the page replace the row there.

    Raises:
        ValueError: A row has an unknown claim, or a row of the page belongs to the part and was not measured.
    """
    parts = {name: [Row(*row) for row in rows] for name, rows in new.items()}
    for row in (row for rows in parts.values() for row in rows):
        check_claim(row.claim)
    measured.mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        target = measured / f"{name.replace('/', '_')}.json"
        target.write_text(json.dumps({"part": name, "rows": rows}, ensure_ascii=False, indent=1) + "\n")
    page = read_figures(file)
    write_figures([_measured_again(each, parts) for each in page], file)


def _measured_again(figure: Figure, parts: Mapping[str, Sequence[Row]]) -> Figure:
    if figure.part not in parts:
        return figure
    for row in parts[figure.part]:
        if (row.claim, row.point) == (figure.row.claim, figure.row.point):
            return _measured_today(row, figure.part)
    raise ValueError(f"{figure.part} no longer measures {figure.row.point!r}; take it off the page: --hide")


def _measured_today(row: Row, part: str) -> Figure:
    depends = row.claim in DEPENDS_ON_BEHAVIOUR and not part.startswith("tests/")  # tests run on each change
    return Figure(row, part, date.today().isoformat(), current_behaviour() if depends else "")


def show(part: str, point: str, file: Path = FIGURES, measured: Path = MEASURED) -> None:
    """Put a measured row on the page."""
    found = json.loads((measured / f"{part.replace('/', '_')}.json").read_text(encoding="utf-8"))
    rows = [Row(*row) for row in found["rows"] if row[1] == point]
    if not rows:
        known = "\n  ".join(row[1] for row in found["rows"])
        raise ValueError(f"{part} has no row {point!r}; it has:\n  {known}")
    there = [each for each in read_figures(file) if each.row[:2] != rows[0][:2]]
    if len(there) >= MOST_ROWS:
        raise ValueError(f"the page has {len(there)} rows, and at most {MOST_ROWS}; hide one first")
    write_figures([*there, _measured_today(rows[0], part)], file)


def hide(point: str, file: Path = FIGURES) -> None:
    """Take a row off the page."""
    page = read_figures(file)
    rest = [each for each in page if each.row.point != point]
    if len(rest) == len(page):
        raise ValueError(f"the page has no row {point!r}")
    write_figures(rest, file)


DEPENDS_ON_BEHAVIOUR = ("calibrated", "sees", "decides", "acts", "safe")
"""Claims whose figures change with what the product decides."""


@cache
def current_behaviour() -> str:
    """A digest of what the product decides now: actions and scores for the scenes that come with it."""
    import cpor

    system = cpor.System()
    decided = []
    for folder in sorted((ROOT / "examples" / "scenes" / "sim").glob("scene_*")):
        view = system.look(folder / "rgb.png", folder / "depth.png")
        for target in view.seen.ids:
            answer = system.decide(view, target).to_json()
            scores = {name: round(score, 2) for name, score in answer["scores"].items()}
            decided.append([folder.name, target, answer["action"], scores])
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:8]


# -- the page

_HEAD = """# Evidence

{rows} figures, by claim, those that miss what was asked first. The benchmarks write all finer figures to
`out/evidence/`.

`met` and `missed` are computed: the point estimate meets the figure asked, whatever its interval.
`in words`: a person has to compare. `reported`: nothing was asked, or the paper's figure is of other data.
Times are of one machine with 2 cores; ratios travel better than times.

The last column names the part that measures a figure. Rerun a part:
`python benchmarks/evidence_table.py --only PART`; everything: `make evidence`."""


def write_page(figures: Sequence[Figure]) -> str:
    """The page in Markdown."""
    lines = [_HEAD.format(rows=len(figures)), ""]
    lines += ["| claim | figures | met | missed |", "|---|---|---|---|"]
    judged = [(judge(each.row.asked, each.row.measured), each) for each in figures]
    for claim in CLAIMS:
        n = Counter(verdict for verdict, each in judged if each.row.claim == claim)
        lines.append(f"| [{claim}](#{claim}) | {n.total()} | {n['met']} | {n['missed']} |")
    order = Verdict.__args__  # type: ignore[attr-defined]
    for claim, meaning in CLAIMS.items():
        lines += ["", f"## {claim.capitalize()}", "", meaning]
        rows = [(verdict, each) for verdict, each in judged if each.row.claim == claim]
        if rows:
            lines += ["", "| result | what | asked | measured | date | part |", "|---|---|---|---|---|---|"]
        for verdict, each in sorted(rows, key=lambda pair: order.index(pair[0])):
            asked = each.row.asked if each.row.asked not in _NOTHING else ""
            cells = (verdict, each.row.point, asked, each.row.measured, each.date, f"`{each.part}`")
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def find_old(figures: Iterable[Figure]) -> list[Figure]:
    """The figures measured when the product decided otherwise."""
    return [each for each in figures if each.behaviour and each.behaviour != current_behaviour()]
