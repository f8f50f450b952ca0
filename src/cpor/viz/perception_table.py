"""Tables of masks and of the ablation chain, for people."""

from collections.abc import Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cpor.experiments.chain import FIGURES, STEPS, ChainTable, MeanOfCases
from cpor.experiments.mask_table import KINDS, MaskFigure

_FIGURE_NAMES = {
    "relation_f1": "relation F1",
    "object_f1": "object F1",
    "right_action": "right first action",
    "right_action_occlusion": "by occlusion alone",
}


def mask_table(figures: Mapping[str, MaskFigure], n: int, masks: str) -> Group:
    """Overlap, boundary and F@.75 by kind of mask, and the figures over objects below."""
    table = Table(title=f"Masks of {masks}, {n} frames [95% interval]", title_justify="left")
    columns = ["overlap P / R", "overlap F", "boundary P / R", "boundary F", "F@.75"]
    for name in ("", *columns):
        table.add_column(name, justify="right" if name else "left")
    for kind in KINDS:
        cells = []
        for part in ("overlap", "boundary"):
            both = (figures[f"{kind} {part} {figure}"] for figure in ("precision", "recall"))
            cells += [" / ".join(_number(each.value) for each in both), _show(figures[f"{kind} {part} f1"])]
        table.add_row(kind, *cells, _show(figures[f"{kind} f@.75"]))
    rest = [name for name in figures if name.split()[0] not in KINDS]
    return Group(table, *(Text(f"{name.replace('_', ' ')}: {_show(figures[name])}") for name in rest))


def chain_table(found: ChainTable) -> Group:
    """A column for each step, so that it fits into 80 columns; relation probabilities below."""
    scorer = found.scorer or "none"
    title = f"From raw scores to CPOR, scores of {scorer}: {found.n} cases, {found.n_lost} targets not found"
    table = Table(title=title, title_justify="left")
    for name in ("", *STEPS):
        table.add_column(name, justify="right" if name else "left")
    rows = [found.rows[step] for step in STEPS]
    for figure in FIGURES:
        table.add_row(_FIGURE_NAMES[figure], *(_show(row.figures[figure].get("all")) for row in rows))
    for name in ("ece", "nll", "auroc"):
        table.add_row(f"relation {name.upper()}", *(_number((row.relations or {}).get(name)) for row in rows))
    note = (
        "Truth: occlusion or sweep, by what objects truly are. A target that was not found counts as wrong."
    )
    return Group(table, Text(note, style="dim"))


def _show(figure: MaskFigure | MeanOfCases | None) -> str:
    if figure is None or figure.value is None or figure.ci is None:
        return "-"
    return f"{figure.value:.3f} [{figure.ci.low:.3f}, {figure.ci.high:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
