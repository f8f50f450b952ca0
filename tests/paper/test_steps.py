"""Decisions of a run judged by the truth, on moments small enough to see what is wrong."""

import numpy as np
import pytest

from cpor.decision import Certificate, Decision, Defer, Grasp, Remove
from cpor.paper.scenarios import list_steps
from cpor.records import PairBelief
from cpor.robot.cycle import Cycle
from cpor.scene import BlockedBy, Observation, Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.sim.staged_run import Moment

TARGET = 1


def cycle(action, scores, beliefs=(), decided=None):
    nothing = Certificate("exact", 0.0, None, True, True)
    decision = Decision(decided or action, scores, frozenset(), nothing, "exact", 0.0, 0.5, None, None)
    scene = Scene(Observation(np.zeros((2, 2, 3), np.uint8)))
    told = tuple(
        PairBelief(blocked=i, blocker=j, p=p, p_fused=p, carried=carried) for i, j, p, carried in beliefs
    )
    return Cycle(0, scene, TARGET, decision, action, beliefs=told)


def moment(truth, owner=None, unseen=None, target=TARGET):
    owner = owner or {1: 1, 2: 2, 3: 3}
    known = Recognition(owner, unseen or {}, {true: k for k, true in owner.items()})
    return Moment(frozenset(BlockedBy(*pair) for pair in truth), known, target)


GRASPS = Grasp(1), {1: 0.9, 2: 0.1, 3: 0.0}
REMOVES = Remove(3), {1: 0.1, 2: 0.0, 3: 0.9}


@pytest.mark.parametrize(
    ("seen", "so"),
    [
        (cycle(*GRASPS, [(1, 2, 0.1, False)]), moment([(1, 2)])),
        (cycle(*GRASPS), moment([(1, 4)], unseen={4: 5})),
        (cycle(*REMOVES, [(1, 3, 0.9, False)]), moment([(1, 2)])),
        (cycle(*REMOVES, [(1, 3, 0.9, False)]), moment([(1, 2)], {1: 1, 2: 2, 3: None})),
        (cycle(*REMOVES, [(1, 3, 0.9, False)]), moment([(1, 2)], {1: 1, 2: 2, 3: 1})),
        (cycle(*GRASPS), moment([(2, 3)], target=2)),
        (cycle(*GRASPS), moment([(1, 2), (2, 1)])),
        (cycle(Remove(3), {1: 0.9, 3: 0.05}, decided=Grasp(1)), moment([])),
    ],
)
def test_every_wrong_action_is_noted(seen, so):
    (step,) = list_steps([seen], {0: so})
    assert step.wrong and step.did == ("grasp" if seen.action == Grasp(1) else "remove")


def test_a_deferral_is_judged_by_what_it_kept_the_robot_from():
    seen = cycle(Defer("weak_evidence"), {1: 0.4, 2: 0.35, 0: 0.5}, [(1, 2, 0.4, False)])
    (held_back,) = list_steps([seen], {0: moment([(1, 2)])})
    assert (held_back.did, held_back.reason, held_back.score) == ("defer", "weak_evidence", 0.4)
    assert held_back.wrong
    (needless,) = list_steps([seen], {0: moment([])})
    assert not needless.wrong
    assert list_steps([Cycle(0, seen.scene)], {0: moment([])}) == ()  # nothing was decided
