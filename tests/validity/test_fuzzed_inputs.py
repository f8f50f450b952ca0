"""A sample of benchmarks/evidence_fuzz.py: whatever is wrong with an input, the obstructed is not grasped."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpor.decision import Grasp, Remove
from cpor.errors import CporError
from cpor.io.scene_folder import read_scene_folder
from cpor.scene import BlockedBy, Scene
from cpor.system import System

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # the measurements import each other by their bare names

from evidence_fuzz import look  # noqa: E402
from faults import FAULTS, Broken, Fault, break_scene, merge_target  # noqa: E402

EXAMPLES = ROOT / "src" / "cpor" / "serve" / "examples"


@cache
def example(name: str) -> tuple[Scene, tuple[int, ...], frozenset[BlockedBy]]:
    """A scene of the page, the objects that clearly have to wait for another, and what obstructs whom."""
    system, view = look("true", read_scene_folder(EXAMPLES / name))
    answers = system.decide_all(view)
    wait = tuple(label for label, each in answers.items() if isinstance(each.action, Remove))
    pairs = {
        BlockedBy(each.blocked, each.blocker)
        for answer in answers.values() if answer.posterior is not None
        for each in answer.posterior.relations() if each.p is not None and each.p > 0.5
    }  # fmt: skip
    return view.scene, wait, frozenset(pair for pair in pairs if pair.blocker in view.scene.ids)  # type: ignore[arg-type]


faults = st.lists(
    st.builds(Fault, st.sampled_from(sorted(FAULTS)), st.floats(0.0, 1.0), st.integers(0, 2**31 - 1)),
    min_size=1,
    max_size=3,
    unique_by=lambda fault: fault.kind,
)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(faults, st.sampled_from(("true", "claimed", "forged")), st.data())
def test_what_is_obstructed_is_not_grasped_whatever_is_wrong(wrong, kind, data):
    scene, wait, truth = example("full-bin")
    target = data.draw(st.sampled_from(wait))
    broken = break_scene(scene, target, truth, example("loose-bin")[0], wrong)
    try:
        system, view = look(kind, broken.scene, broken.previous)
    except CporError:
        return  # refused, with a reason
    if target in view.scene.ids and not any(fault.kind == "ids swapped" for fault in wrong):
        answer = system.decide(view, target)
        assert not isinstance(answer.action, Grasp), [
            check for check in answer.checks if check.state != "pass"
        ]


@pytest.mark.slow
def test_a_second_look_gives_no_answer_for_most_targets_merged_with_their_blockers(evidence):
    """Every target of the shipped frames that has a blocker; those that lines give away do not count."""
    noticed: dict[bool, list[bool]] = {False: [], True: []}
    for name in ("full-bin", "touching-toys", "loose-bin"):
        scene, _, truth = example(name)
        for target in scene.ids:
            merged = merge_target(Broken(scene, target, truth), only_blockers=True)
            if merged is None or len(merged.scene.objects) == len(scene.objects):
                continue
            for second_look, found in noticed.items():
                system = System(second_look=second_look)
                believed = system.believe(system.look(replace(merged.scene, sources=None))).beliefs
                found.append(bool(np.isnan(believed.p_unseen[believed.ids.index(target)])))
    by_look = [second and not first for first, second in zip(noticed[False], noticed[True], strict=True)]
    assert len(by_look) > 15
    assert sum(by_look) >= 0.5 * len(by_look)
    measured = f"{sum(by_look)} of {len(by_look)}"
    evidence("safe", "targets merged with a blocker that a second look notices, shipped frames", "", measured)
