"""Tables for people: the paper's figure beside ours with the difference, both naming schemes."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cpor.experiments.evaluate import FIGURES, Evaluation
from cpor.experiments.published import PAPER, UNOGRASP_OVERALL_MP_NED
from cpor.experiments.reproduce import Reproduction
from cpor.experiments.verdicts import missing_said

BOTH_NAMES = {
    "object_p": "object P (paper OR-P, UNOGrasp SR-P)",
    "object_r": "object R (paper OR-R, UNOGrasp SR-R)",
    "object_f1": "object F1 (paper OR-F1, UNOGrasp SR-F1)",
    "relation_p": "relation P (paper SR-P, UNOGrasp OP)",
    "relation_r": "relation R (paper SR-R, UNOGrasp OR)",
    "relation_f1": "relation F1 (paper SR-F1, UNOGrasp F1)",
    "mp_ned": "MP-NED",
}


def reproduction_tables(found: Reproduction) -> Group:
    """Every figure of a reproduction beside the paper's."""
    ours = found.to_json()
    noted = f"{missing_said(found)} Shift {found.shift:g}; the authors chose theirs, 0.09, on the test split."
    printed, computed = UNOGRASP_OVERALL_MP_NED
    return Group(
        Text(noted),
        *(_decoding_table(found, tier) for tier in (*found.decoders["paper"].tiers, "overall")),
        _compare(
            "Relations as logged", ours["relations"], PAPER["relations"], ("ece", "nll", "brier", "auroc")
        ),
        _compare("Objects (marginals)", ours["objects"], PAPER["objects"], ("ece", "nll", "brier", "auroc")),
        _compare("Chosen actions", ours["actions"], {}, ("ece", "nll", "brier", "auroc")),
        _structure_table(ours["structure"]),
        _topk_table(ours["structure"]["topk"]),
        _paired_table(ours["paired"]),
        Text(
            f"The paper prints {printed} for UNOGrasp's overall MP-NED; the tiers of that row give "
            f"{computed}. Relation figures do not exist in the Easy tier: it has no relations."
        ),
    )


def evaluation_table(found: Evaluation, noted: Mapping[str, Any]) -> Group:
    """Means of a prediction file, and what was wrong in it."""
    table = _table("Scores", "figure", *found.tiers, "overall")
    columns = [*found.tiers.values(), found.overall]
    for name in FIGURES:
        table.add_row(BOTH_NAMES[name], *(_show(getattr(figures, name)) for figures in columns))
    table.add_row("cases counted", *(str(figures.n) for figures in columns))
    missing = noted["missing"]
    lines = [
        Text(
            f"{noted['answered']} of {len(found.cases)} cases have a record; {missing['count']} have none"
            f"{_few(missing['first'], missing['count'])}. What is missing counts as {noted['counted_as']!r}."
        )
    ]
    for kind, problem in noted["problems"].items():
        first = [f"line {p['line']}: {p['detail']}" for p in problem["first"]]
        lines.append(Text(f"{kind}: {problem['count']}{_few(first, problem['count'])}"))
    return Group(table, *lines)


def _decoding_table(found: Reproduction, tier: str) -> Table:
    paper = PAPER["overall"] if tier == "overall" else PAPER["tiers"].get(tier, {})
    ours = [
        evaluation.overall if tier == "overall" else evaluation.tiers[tier]
        for evaluation in found.decoders.values()
    ]
    table = _table(
        f"{tier}, n = {ours[0].n}",
        "figure",
        "paper",
        "its decoder, ours",
        "difference",
        "expected-score decoder",
    )
    for name in FIGURES:
        first, second = (getattr(figures, name) for figures in ours)
        table.add_row(
            BOTH_NAMES[name],
            _show(paper.get(name)),
            _show(first),
            _gap(first, paper.get(name)),
            _show(second),
        )
    return table


def _compare(title: str, ours: Mapping[str, Any], paper: Mapping[str, Any], names: Sequence[str]) -> Table:
    table = _table(f"{title}, n = {ours['n']}", "figure", "paper", "ours", "difference")
    for name in names:
        table.add_row(
            name.upper(), _show(paper.get(name)), _show(ours[name]), _gap(ours[name], paper.get(name))
        )
    return table


def _structure_table(ours: Mapping[str, Any]) -> Table:
    paper = PAPER["structure"]
    table = _table("Structure", "figure", "paper", "ours", "difference")
    for name in ("scenes", "mean_dags"):
        table.add_row(name, f"{paper[name]:g}", f"{ours[name]:.2f}", f"{ours[name] - paper[name]:+.2f}")
    for tier, count in ours["mu_positive"].items():
        theirs = paper["mu_positive"].get(tier, 0)
        table.add_row(f"scenes with mu > 0, {tier}", str(theirs), str(count), f"{count - theirs:+d}")
    for tier, mean in ours["mu_mean"].items():
        theirs = paper["mu_mean"].get(tier)
        table.add_row(f"mean mu, {tier}", _show(theirs), _show(mean), _gap(mean, theirs))
    return table


def _topk_table(ours: Mapping[str, Mapping[str, float]]) -> Table:
    names = ("tv_mean", "tv_max", "certified", "agree", "k")
    table = _table("Top-K: paper | ours (exhaustion is not counted as certified)", "K", *names)
    for k, row in ours.items():
        theirs = PAPER["structure"]["topk"][k]
        table.add_row(k, *(f"{_show(theirs[name])} | {_show(row[name])}" for name in names))
    return table


def _paired_table(ours: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table(
        "Next action, exact inference against: paper | ours",
        "",
        "corrections",
        "regressions",
        "delta RSR",
        "95% CI",
    )
    for name, row in ours.items():
        theirs = PAPER["paired"][name]
        spans = [f"[{low:+.4f}, {high:+.4f}]" for low, high in (theirs["ci"], row["ci"])]
        table.add_row(
            name,
            *(f"{theirs[key]} | {row[key]}" for key in ("corrections", "regressions")),
            f"{theirs['delta']:+.4f} | {row['delta']:+.4f}",
            " | ".join(spans),
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k else "left")
    return table


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _gap(ours: float | None, paper: float | None) -> str:
    return "-" if ours is None or paper is None else f"{ours - paper:+.4f}"


def _few(first: Sequence[object], count: int) -> str:
    if not first:
        return ""
    more = ", …" if count > len(first) else ""
    return f" ({'; '.join(map(str, first))}{more})"
