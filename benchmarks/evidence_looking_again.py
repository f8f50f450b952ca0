"""Looking from elsewhere first: whole scenarios and questions to a person, with and without it.

Both runs of a scenario begin with the same heap and the same noise; a person who knows the truth is asked
where the loop defers three times in a row. A scenario in which no look is expected to pay is run once.
Records are kept, one JSON a line, in out/ and not made again.

Run: nice python benchmarks/evidence_looking_again.py [--per-tier 60] [--workers 2]
"""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from evidence_identity import kept_records
from long_parts import Row, measure_parts

from cpor.asking import worth
from cpor.decision import Decision, Defer
from cpor.errors import SimulationError
from cpor.paper.loop_causes import Step, list_steps
from cpor.paper.robot_table import WilsonRate
from cpor.paper.scenarios import Person
from cpor.robot.cycle import Cycle
from cpor.sim.dataset.manifest import TIERS
from cpor.sim.staged_run import DemoSettings, demonstrate, set_stage

RECORDS = Path(__file__).resolve().parents[1] / "out" / "looking_again.jsonl"

FIRST_SEED = 4_400_000
"""Of scenarios that nothing was learnt from."""

PAYS = 0.02
"""Gain from which it looks, in units of a wrong action."""

LOOKED = re.compile(r"it looked from .* expected to gain (\d\.\d+)")


def scenario(seed: int) -> dict[str, Any] | None:
    """Both runs of one scenario; None where no heap came of it."""
    tier = TIERS[(seed - FIRST_SEED) % len(TIERS)]
    try:
        around = run(seed, DemoSettings(tier, look_cost=PAYS))
        alone = run(seed, DemoSettings(tier)) if around["looked"] else around
    except SimulationError:
        return None
    return {"seed": seed, "tier": tier, "with": around, "without": alone}


def run(seed: int, settings: DemoSettings) -> dict[str, Any]:
    """One run: what came of it, and what each look from elsewhere was expected to gain and gained."""
    stage = set_stage(seed, settings)
    person = Person(stage)
    done = demonstrate(stage, settings, ask=person)
    wrong = sum(verdict.is_wrong for k, verdict in done.verdicts.items() if k not in person.told)
    cycles = done.result.cycles
    steps = {step.cycle: step for step in list_steps(cycles, done.moments, frozenset(person.told))}
    expected = {c.index: float(m[1]) for c in cycles for note in c.notes if (m := LOOKED.match(note))}
    looks = []
    for before, after in pairwise(cycles):
        if before.index in expected and before.index in steps and after.index in steps:
            then, now = (_as_done(c, steps[c.index]) for c in (before, after))
            true = [_value(done, steps[c.index]) for done, c in ((now, after), (then, before))]
            looks.append(
                {
                    "expected": expected[before.index],
                    "believed": worth(now) - worth(then),
                    "true": true[0] - true[1],
                }
            )
    return {
        "success": done.delivered and wrong == 0,
        "retrieved": done.delivered,
        "wrong": wrong,
        "asked": person.asked,
        "needless": sum(step.by_person and not step.own_wrong for step in steps.values()),
        "actions": done.result.actions,
        "looked": len(expected),
        "looks": looks,
    }


def _as_done(cycle: Cycle, step: Step) -> Decision:
    """The decision of a cycle; a deferral where the loop deferred all the same, or asked."""
    assert cycle.decision is not None
    deferred = step.did == "defer" or step.by_person
    return replace(cycle.decision, action=Defer("weak_evidence")) if deferred else cycle.decision


def _value(decision: Decision, step: Step) -> float:
    """What a decision is worth by the truth: acting 1 or 0, deferring what it costs to ask."""
    return worth(decision) if isinstance(decision.action, Defer) else float(not step.wrong)


def rows_of(records: list[dict[str, Any]]) -> list[Row]:
    """What the scenarios say."""
    rows: list[Row] = []
    here = f"looking from elsewhere where it pays more than {PAYS}, mode cautious"
    for name, group in [(tier, [r for r in records if r["tier"] == tier]) for tier in TIERS] + [
        ("all", records)
    ]:
        told = []
        for way in ("without", "with"):
            runs = [r[way] for r in group]
            rate = WilsonRate.of([each["success"] for each in runs])
            asked, needless, wrong = (
                sum(each[key] for each in runs) for key in ("asked", "needless", "wrong")
            )
            told.append(
                f"{way}: {rate.hits} right, {sum(each['retrieved'] for each in runs)} retrieved, {asked} "
                f"questions ({needless} needless), {wrong} wrong actions"
            )
        rows.append(("asks", f"{here}, {len(group)} scenarios, {name}", "", "; ".join(told)))
    better = sum(r["with"]["success"] and not r["without"]["success"] for r in records)
    worse = sum(r["without"]["success"] and not r["with"]["success"] for r in records)
    looked = sum(r["with"]["looked"] > 0 for r in records)
    told = f"{looked} of {len(records)}; right only with it {better}, only without it {worse}"
    rows.append(("asks", f"{here}: scenarios in which it looked", "", told))
    looks = [look for r in records for look in r["with"]["looks"]]
    if looks:
        mean = {
            key: float(np.mean([look[key] for look in looks])) for key in ("expected", "believed", "true")
        }
        told = "expected {expected:.3f}, as believed after it {believed:+.3f}, by the truth {true:+.3f}"
        point = f"{here}, {len(looks)} looks: gain in units of a wrong action"
        rows.append(("asks", point, "", told.format(**mean)))
    return rows


def measure_looking_again(per_tier: int = 60, workers: int = 1) -> list[Row]:
    """Measure the rows."""
    count = per_tier * len(TIERS)
    return rows_of(kept_records(RECORDS, FIRST_SEED, count, scenario, workers))


if __name__ == "__main__":
    measure_parts({"looking_again": measure_looking_again}, __doc__)
