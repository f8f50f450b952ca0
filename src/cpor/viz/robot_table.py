"""The robot table and the comparison of first decisions, for people."""

from collections.abc import Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cpor.experiments.deciders import MethodName
from cpor.experiments.first_decisions import REFERENCE, FirstDecisions
from cpor.experiments.robot_table import METHOD_NAMES, RobotRow, WilsonRate
from cpor.metrics import Interval, PairedComparison
from cpor.sim.dataset.manifest import TIERS

TRUTH_NAMES = {"occlusion": "occlusion", "any": "occlusion or sweep"}

_PAPER = (
    "The paper's robot (UR3, 45 real scenarios, easy / medium / hard / average): "
    "CPOR-Grasp 93.3 / 73.3 / 66.7 / 77.8 %, Gemini Robotics-ER-1.6 86.7 / 60.0 / 53.3 / 66.7 %, "
    "UNOGrasp 86.7 / 66.7 / 33.3 / 62.2 %. Rows of VLM backbones need a key."
)


def robot_table(rows: Mapping[MethodName, RobotRow]) -> Group:
    """Success and retrieval by tier, what went wrong, and how CPOR compares on the same scenarios."""
    columns = (*TIERS, "all")
    table = Table(title="Success: retrieved, and every action right [95% interval]", title_justify="left")
    retrieved = Table(title="Retrieved, whatever was moved on the way", title_justify="left")
    for each in (table, retrieved):
        for name in ("", *columns):
            each.add_column(name, justify="right" if name else "left")
    causes = Table(title="Why not (causes); mean actions per scenario", title_justify="left", box=None)
    sorts = ("perception", "reasoning", "grasp", "physics")
    for name in ("", *sorts, "wrong", "deferrals", "asked", "needless", "pointed", "actions"):
        causes.add_column(name, justify="right" if name else "left")
    paired = []
    for method, row in rows.items():
        name = METHOD_NAMES[method]
        table.add_row(name, *(_rate(row.success[c]) for c in columns))
        retrieved.add_row(name, *(_rate(row.retrieved[c]) for c in columns))
        counts = [str(row.causes.get(c, 0)) for c in sorts]
        counts += [str(n) for n in (row.wrong, row.deferrals, row.asked, row.needless, row.pointed)]
        causes.add_row(name, *counts, f"{row.mean_actions:.1f}")
        if row.paired is not None:
            paired.append(Text(f"CPOR against {name}: {_paired(row.paired)}."))
    return Group(table, retrieved, causes, *paired, Text(_PAPER, style="dim"))


def first_decisions_table(found: FirstDecisions) -> Group:
    """Share of right first actions by truth, method and tier."""
    parts: list[Table | Text] = []
    columns = (*found.n, "all")
    for kind, by_method in found.rsr.items():
        counts = ", ".join(f"{n} {tier}" for tier, n in found.n.items())
        title = f"First action right by {TRUTH_NAMES[kind]} ({counts}) [95% interval]"
        table = Table(title=title, title_justify="left")
        for name in ("", *columns):
            table.add_column(name, justify="right" if name else "left")
        for method, by_tier in by_method.items():
            cells = (f"{share:.3f} {_interval(ci)}" for share, ci in (by_tier[c] for c in columns))
            table.add_row(METHOD_NAMES[method], *cells)
        parts.append(table)
        for method, compared in found.paired[kind].items():
            parts.append(
                Text(f"{METHOD_NAMES[REFERENCE]} against {METHOD_NAMES[method]}: {_paired(compared)}.")
            )
    return Group(*parts)


def _rate(rate: WilsonRate) -> str:
    return f"{rate.share:.1%} {_interval(rate.ci)} n={rate.n}" if rate.n else "-"


def _interval(ci: Interval) -> str:
    return f"[{ci.low:.3f}, {ci.high:.3f}]"


def _paired(found: PairedComparison) -> str:
    change = f"{found.delta:+.4f} [{found.ci.low:+.4f}, {found.ci.high:+.4f}]"
    return f"{found.corrections} corrections, {found.regressions} regressions, {change}, n = {found.n}"
