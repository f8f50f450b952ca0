"""The closed loop on the simulated arm: the robot table with both kinds of eyes, and why actions are wrong.

robot, robot_networks   the table with true masks and with our networks
loop_causes             every wrong action of scenarios to choose with
deliveries              how runs end: rightly or wrongly `retrieved`, unconfirmed, asked

Hours of one core in all. A scenario is a line of JSON in out/ as soon as it is over, and each part goes on
where it stopped, also with more scenarios; `--only deliveries --count` counts what there is.

Run: python benchmarks/evidence_loop_causes.py [--workers 2] [--per-tier 60] [--only robot,loop_causes]
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from long_parts import Row, measure_parts

from cpor.io.pool import Pool
from cpor.learn.modes import MODES
from cpor.model import FittedModel, bundled_model
from cpor.paper.loop_causes import count_causes, episode_risk
from cpor.paper.methods import MethodName
from cpor.paper.robot_table import (
    METHOD_NAMES,
    RobotRow,
    WilsonRate,
    read_records,
    run_robot_table,
    summarise,
)
from cpor.paper.scenarios import ScenarioRecord, ScenarioSettings
from cpor.sim.dataset.manifest import TIERS
from cpor.sim.staged_run import Eyes

DEV_SEED = 3_500_000
"""Seeds of scenarios to choose with, far from those that are reported."""

OUT = Path(__file__).resolve().parents[1] / "out"

ROWS: dict[Eyes, tuple[MethodName, ...]] = {
    "truth": ("geometry_argmax", "no_acyclicity", "single_map", "cpor", "oracle"),
    "networks": ("geometry_argmax", "raw_argmax", "single_map", "cpor"),
}
"""With true masks there are no semantic scores, so no row of raw ones."""

OFTEN: tuple[MethodName, ...] = ("single_map", "cpor")
"""Run on every scenario; the other rows on some of them."""

EYES: dict[Eyes, str] = {"truth": "true masks", "networks": "our networks"}

_MODELS: dict[Eyes, Literal["embedded", "geometry"]] = {"truth": "geometry", "networks": "embedded"}

ASKED: dict[Eyes, dict[str, str]] = {
    "truth": {"easy": ">= 95 %", "medium": ">= 88 %", "hard": ">= 82 %"},
    "networks": {"easy": ">= 93 %", "medium": ">= 78 %", "hard": ">= 70 %"},
}
"""Whole scenarios right."""

TAUS = 0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95


def table(eyes: Eyes, per_tier: int, baselines: int, workers: int) -> list[Row]:
    """The robot table: a person is asked only where the robot refuses to act, then as each mode asks."""
    file, settings = OUT / f"robot_table_{eyes}.jsonl", _settings(eyes)
    records = run_robot_table(file, settings, per_tier, OFTEN, Pool(workers))
    few = run_robot_table(file, settings, min(baselines, per_tier), ROWS[eyes], Pool(workers))
    records += [record for record in few if record.method not in OFTEN]
    rows: list[Row] = []
    for method, found in summarise(records, np.random.default_rng(0)).items():
        point = f"robot table, {EYES[eyes]}, {found.success['all'].n} scenarios, {METHOD_NAMES[method]}"
        rows.append(("acts", point, "reported", _in_words(found)))
        if method == "cpor":
            rows += [
                ("acts", f"{point}, whole scenarios right, {tier}", ASKED[eyes][tier], _share(rate))
                for tier, rate in found.success.items()
                if tier != "all"
            ]
            rows.append(("acts", f"{point}, retrieved", ">= 97 %", _share(found.retrieved["all"])))
    cpor = [record for record in records if record.method == "cpor"]
    name = f"robot table, {EYES[eyes]}, {len(cpor)} scenarios"
    for mode in MODES:
        tau = FittedModel.load(settings.model).modes[mode].tau
        file, asks = OUT / f"robot_table_{eyes}_{mode}.jsonl", _settings(eyes, tau)
        found = run_robot_table(file, asks, per_tier, ("cpor",), Pool(workers), known=_hold_at(cpor, tau))
        told = _in_words(summarise(found, np.random.default_rng(0))["cpor"])
        rows.append(("acts", f"{name}, CPOR asks in mode {mode} (tau {tau:.2f})", "reported", told))
    return [*rows, *_causes(name, cpor), *_coverage(name, records)]


def loop_causes(per_tier: int = 60, workers: int = 2) -> list[Row]:
    """Why actions are wrong, on seeds to choose with."""
    rows: list[Row] = []
    for eyes in EYES:
        file, settings = OUT / f"loop_causes_{eyes}.jsonl", _settings(eyes)
        forced = run_robot_table(file, settings, per_tier, ("cpor",), Pool(workers), first_seed=DEV_SEED)
        name = f"closed loop, {EYES[eyes]}, {len(forced)} scenarios to choose with"
        rows += [*_causes(name, forced), *_coverage(name, forced)]
    return rows


def deliveries(
    per_tier: int = 60, workers: int = 2, mode: str = "balanced", count: bool = False
) -> list[Row]:
    """How runs with our networks end, by the robot's word and by the truth: without a person, then with one.

    Args:
        per_tier: Scenarios a tier.
        workers: Processes.
        mode: Risk setting of the runs without a person. Where a person can be asked, any score is acted on.
        count: Run nothing; count what a stopped run left in its file.
    """
    asks = _settings("networks")
    alone = replace(asks, tau=FittedModel.load(asks.model).modes[mode].tau, person=False)
    rows: list[Row] = []
    for name, settings in ((f"mode {mode}, no person", alone), ("any score, a person is asked", asks)):
        file = OUT / f"deliveries_{'asked' if settings.person else mode}.jsonl"
        if count:
            records = read_records(file) if file.is_file() else []
        else:
            records = run_robot_table(file, settings, per_tier, ("cpor",), Pool(workers))
        for tier in ("all", *TIERS):
            found = [(each, _end(each)) for each in records if tier in ("all", each.tier)]
            told = [f"{end} {_share(WilsonRate.of([e == end for _, e in found]))}" for end in ENDS]
            told.append(f"right {_share(WilsonRate.of([each.success for each, _ in found]))}")
            point = f"runs with our networks, {name}, {tier}"
            rows.append(("acts", point, "0 wrongly called retrieved", "; ".join(told)))
    return rows


ENDS = (
    "retrieved",
    "wrongly called retrieved",
    "out, unconfirmed",
    "not out, unconfirmed",
    "deferred",
    "other",
)


def _end(record: ScenarioRecord) -> str:
    """How a run ended, by what the robot says and what is true."""
    if record.ended == "retrieved":
        return "retrieved" if record.retrieved else "wrongly called retrieved"
    if record.ended == "unconfirmed":
        return f"{'' if record.retrieved else 'not '}out, unconfirmed"
    return "deferred" if record.ended == "deferred" else "other"


def _settings(eyes: Eyes, tau: float = 0.0) -> ScenarioSettings:
    return ScenarioSettings(model=bundled_model(_MODELS[eyes]), tau=tau, eyes=eyes, person=True)


def _hold_at(records: Sequence[ScenarioRecord], tau: float) -> list[ScenarioRecord]:
    """The records that a run with a higher threshold would have given as well: no action scored below it."""
    return [
        record
        for record in records
        if all(step.score > tau for step in record.steps if step.did != "defer" and not step.by_person)
    ]


def _causes(name: str, records: Sequence[ScenarioRecord]) -> list[Row]:
    own = [s for record in records for s in record.steps if s.did != "defer" and not s.by_person]
    causes = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in count_causes(records).most_common())
    wrong = sum(step.wrong for step in own)
    looks = Counter((s.reason, s.wrong) for r in records for s in r.steps if s.did == "defer")
    told = ", ".join(
        f"{n} {str(reason).replace('_', ' ')} ({'rightly' if earned else 'needlessly'})"
        for (reason, earned), n in looks.most_common()
    )
    first = [not r.steps[0].own_wrong for r in records if r.steps]
    later = [not step.own_wrong for r in records for step in r.steps[1:]]
    return [
        ("acts", f"{name}: wrong actions by cause", "sorted", f"{wrong} of {len(own)}: {causes or 'none'}"),
        ("acts", f"{name}: looks that deferred", "reported", told or "none"),
        (
            "decides",
            f"{name}: likeliest action right, first look / later looks",
            "reported",
            f"{_share(WilsonRate.of(first))} / {_share(WilsonRate.of(later))}",
        ),
    ]


def _coverage(name: str, records: Sequence[ScenarioRecord]) -> list[Row]:
    """Risk and coverage of whole runs by the threshold; a MAP or argmax scores 0 or 1 and has one point."""
    rows: list[Row] = []
    for method in dict.fromkeys(record.method for record in records):
        mine, told = [record for record in records if record.method == method], []
        for tau in TAUS if method in ("cpor", "no_acyclicity") else (0.0,):
            through, failed, n = episode_risk(mine, tau)
            told.append(f"above {tau:g}: {through} of {n}, {failed} fail")
        point = f"{name}: runs that go through without asking, {METHOD_NAMES[method]}"
        rows.append(("acts", point, "reported", "; ".join(told)))
    return rows


def _in_words(row: RobotRow) -> str:
    tiers = " / ".join(f"{row.success[tier].hits} of {row.success[tier].n}" for tier in TIERS)
    told = (
        f"success {_share(row.success['all'])} ({tiers}), without any question {_share(row.unasked['all'])}, "
    )
    told += f"retrieved {_share(row.retrieved['all'])}; {row.wrong} wrong actions, {row.asked} questions "
    told += f"({row.needless} needless), pointed {row.pointed} times again"
    if row.paired is not None:
        change = f"{row.paired.delta:+.3f} [{row.paired.ci.low:+.3f}, {row.paired.ci.high:+.3f}]"
        told += f"; CPOR against it {row.paired.corrections} : {row.paired.regressions}, {change}"
    return told


def _share(rate: WilsonRate) -> str:
    return f"{rate.share:.1%} [{rate.ci.low:.3f}, {rate.ci.high:.3f}] of {rate.n}"


def robot(per_tier: int = 60, baselines: int = 15, workers: int = 2) -> list[Row]:
    """The robot table with true masks; `baselines` scenarios a tier of the other rows."""
    return table("truth", per_tier, baselines, workers)


def robot_networks(per_tier: int = 60, baselines: int = 15, workers: int = 2) -> list[Row]:
    """The robot table with our networks."""
    return table("networks", per_tier, baselines, workers)


PARTS = {
    "robot": robot,
    "robot_networks": robot_networks,
    "loop_causes": loop_causes,
    "deliveries": deliveries,
}


if __name__ == "__main__":
    measure_parts(PARTS, __doc__)
