"""Every figure of the paper beside ours: it matches, it differs and why, or nobody can know."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cpor.experiments.published import DIFFERS, MECHANISM, PAPER, UNKNOWN
from cpor.experiments.reproduce import Reproduction

Judged: TypeAlias = Literal["matches", "differs", "cannot be known"]

_ROUNDING = 1.01e-4
"""Figures with four decimals match within this, since either may have been rounded the other way."""


_WORDS = {
    "object_p": "objects, precision",
    "object_r": "objects, recall",
    "object_f1": "objects, F1",
    "relation_p": "relations, precision",
    "relation_r": "relations, recall",
    "relation_f1": "relations, F1",
    "mp_ned": "distance of removal paths (MP-NED)",
    "ece": "ECE",
    "nll": "NLL",
    "brier": "Brier score",
    "auroc": "AUROC",
    "mu_positive": "scenes with mu > 0",
    "mu_mean": "mean mu",
    "scenes": "scenes with a candidate relation",
    "mean_dags": "mean number of acyclic graphs",
    "tv_mean": "total variation, mean",
    "tv_max": "total variation, largest",
    "certified": "share certified",
    "agree": "share with the action of exact inference",
    "k": "graphs looked at, mean",
    "no_dag": "against no acyclicity",
    "map": "against the likeliest graph alone",
    "delta": "difference of right actions",
}
"""Figures whose names in our records are short."""


@dataclass(frozen=True)
class Verdict:
    """One figure.

    Attributes:
        table: Of the paper.
        figure: What it is.
        paper, ours: None where there is none.
        judged: How they compare.
        why: Where they do not match.
    """

    table: str
    figure: str
    paper: float | None
    ours: float | None
    judged: Judged
    why: str = ""


def judge(found: Reproduction) -> tuple[Verdict, ...]:
    """All figures of the paper's synthetic experiments, in the order of its tables."""
    ours = found.to_json()
    rows: list[Verdict] = []
    for tier in (*PAPER["tiers"], "overall"):
        theirs = PAPER["overall"] if tier == "overall" else PAPER["tiers"][tier]
        figures = ours["overall"] if tier == "overall" else ours["tiers"][tier]
        counted = f"missing {found.missing}"
        rows += _compare("Path and object benchmark", f"{tier}: ", theirs, figures, counted)
    for group in ("relations", "objects"):
        rows += _compare("Reliability", f"{group}: ", PAPER[group], ours[group])
    structure = PAPER["structure"]
    for name in ("mu_positive", "mu_mean"):
        rows += _compare("Conflict", f"{_WORDS[name]}, ", structure[name], ours["structure"][name], name)
    for name in ("scenes", "mean_dags"):
        rows += _compare("Top-K", "", {name: structure[name]}, ours["structure"])
    for k, theirs in structure["topk"].items():
        rows += _compare("Top-K", f"K {k}: ", theirs, ours["structure"]["topk"][k], f"topk {k}")
    for name, theirs in PAPER["paired"].items():
        counts = {key: theirs[key] for key in ("corrections", "regressions", "delta")}
        rows += _compare(
            "Paired decisions", f"{_WORDS[name]}: ", counts, ours["paired"][name], f"paired {name}"
        )
    for stage, (relation, objects, ned) in MECHANISM["cumulative"].items():
        for figure, value in (("relation F1", relation), ("object F1", objects), ("MP-NED", ned)):
            rows.append(
                Verdict(
                    "Ablation", f"{stage}: {figure}", value, None, "cannot be known", UNKNOWN["cumulative"]
                )
            )
    rows += [
        Verdict(table, "all", None, None, "cannot be known", why) for table, why in UNKNOWN["tables"].items()
    ]
    return tuple(rows)


def missing_said(found: Reproduction) -> str:
    """What the cases without any candidate relation count as, and what that does to the figures."""
    none = f"{found.n_missing} of {len(found.cases)} cases have no candidate relation."
    said = f"{none} Here they count as {found.missing}."
    if found.missing != "unobstructed":
        said += " The paper's tables count them as unobstructed: --missing unobstructed compares with them."
    return said


def _compare(
    table: str, prefix: str, theirs: Mapping[str, Any], ours: Mapping[str, Any], group: str | None = None
) -> Iterator[Verdict]:
    for name, printed in theirs.items():
        if printed is None:
            continue
        value = float(ours[name])
        tolerance = 5.01e-3 if abs(printed) >= 10 else _ROUNDING
        judged: Judged = "matches" if abs(value - printed) <= tolerance else "differs"
        why = "" if judged == "matches" else DIFFERS.get(group or prefix.strip(": "), DIFFERS["otherwise"])
        yield Verdict(table, f"{prefix}{_WORDS.get(name, name)}", float(printed), value, judged, why)
