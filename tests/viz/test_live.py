"""The live view: redrawn on a terminal, plain lines elsewhere, and truthful in both."""

import io

import pytest
from rich.console import Console
from support.box_table import BoxTable, TableMasks
from support.plain_system import Deciding, plain_system

from cpor.decision import Certificate, Decision, Defer
from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.viz.live import LiveView


def watch(terminal, decider=None, title="Fetching the red box", **settings):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    table = BoxTable()
    with LiveView(title, console) as view:
        retrieve(
            table,
            Deciding(TableMasks(table), decider) if decider else plain_system(TableMasks(table)),
            1,
            LoopSettings(**settings),
            on_cycle=view.acted,
            on_decision=view.decided,
        )
    return out.getvalue()


def never_sure(ids, target):
    proof = Certificate("exact", 0.0, None, True, True)
    scores = dict.fromkeys(ids, 0.3)
    return Decision(Defer("weak_evidence"), scores, frozenset(), proof, "exact", 0.5, 0.5, 0.0, 0.0)


def test_a_pipe_gets_plain_lines():
    said = watch(terminal=False)
    assert "\x1b" not in said
    assert said.startswith("Fetching the red box\n")
    assert [line[:7] for line in said.splitlines() if line.startswith("step")] == [
        "step 1:",
        "step 2:",
        "step 3:",
    ]
    assert said.count("It worked") == 3


def test_a_terminal_gets_the_objects_with_bars():
    said = watch(terminal=True)
    last = said[said.rindex("╭") :]
    assert "★" in last and "▶" in last and "█" in last
    assert "✓ 1. Remove" in last and "✓ 3. Grasp" in last


@pytest.mark.parametrize("terminal", [True, False])
def test_a_deferral_is_told_with_its_reason(terminal):
    said = watch(terminal, never_sure, max_deferrals=2)
    assert "Do not act" in said and "no action is likely enough to be right" in said
    assert "It worked" not in said


def test_a_name_with_markup_is_shown_as_it_is():
    assert "[bold]the mug[/bold]" in watch(terminal=False, title="[bold]the mug[/bold]", budget=1)
