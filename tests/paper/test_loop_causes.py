"""Causes of wrong actions, on moments small enough to see the cause in them."""

import numpy as np
import pytest

from cpor.decision import Certificate, Decision, Defer, Grasp, Remove
from cpor.paper.loop_causes import WHYS, count_causes, episode_risk, list_steps
from cpor.paper.robot_table import ScenarioRecord
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


def moment(truth, owner=None, unseen=None, held=None, moved=False, target=TARGET):
    owner = owner or {1: 1, 2: 2, 3: 3}
    known = Recognition(owner, unseen or {}, {true: k for k, true in owner.items()}, held or {})
    return Moment(frozenset(BlockedBy(*pair) for pair in truth), known, target, moved)


GRASPS = Grasp(1), {1: 0.9, 2: 0.1, 3: 0.0}
REMOVES = Remove(3), {1: 0.1, 2: 0.0, 3: 0.9}


@pytest.mark.parametrize(
    ("why", "seen", "so"),
    [
        ("relation_missed", cycle(*GRASPS, [(1, 2, 0.1, False)]), moment([(1, 2)])),
        ("stale", cycle(*GRASPS, [(1, 2, 0.1, True)]), moment([(1, 2)])),
        ("pair_never_asked", cycle(*GRASPS), moment([(1, 2)])),
        ("pair_never_asked", cycle(*GRASPS, [(1, 2, None, False)]), moment([(1, 2)])),
        ("overruled", cycle(*GRASPS, [(1, 2, 0.7, False)]), moment([(1, 2)])),
        ("tie", cycle(Grasp(1), {1: 0.5, 2: 0.45}, [(1, 2, 0.4, False)]), moment([(1, 2)])),
        ("hidden", cycle(*GRASPS), moment([(1, 4)], unseen={4: 5})),
        ("mask_missed", cycle(*GRASPS), moment([(1, 4)], unseen={4: 5}, held={4: 0})),
        ("mask_merged", cycle(*GRASPS), moment([(1, 4)], unseen={4: 5}, held={4: 1})),
        # The relation that was judged is nearer to being known than the mask that is not there.
        ("relation_missed", cycle(*GRASPS, [(1, 2, 0.1, False)]), moment([(1, 2), (1, 4)], unseen={4: 5})),
        ("relation_invented", cycle(*REMOVES, [(1, 3, 0.9, False)]), moment([(1, 2)])),
        ("stale", cycle(*REMOVES, [(1, 3, 0.9, True)]), moment([(1, 2)])),
        ("mask_invented", cycle(*REMOVES, [(1, 3, 0.9, False)]), moment([(1, 2)], {1: 1, 2: 2, 3: None})),
        ("mask_split", cycle(*REMOVES, [(1, 3, 0.9, False)]), moment([(1, 2)], {1: 1, 2: 2, 3: 1})),
        # 3 lies on 2, as believed, but 2 is believed to be in the way since 4 is part of its mask.
        (
            "mask_merged",
            cycle(*REMOVES, [(1, 2, 0.9, False), (2, 3, 0.9, False)]),
            moment([(1, 4), (2, 3)], unseen={4: 5}, held={4: 2}),
        ),
        # One piece of 2 is thought to lie on the other one.
        (
            "mask_split",
            cycle(*REMOVES, [(1, 2, 0.9, False), (2, 4, 0.9, False), (4, 3, 0.9, False)]),
            moment([(1, 5), (1, 2)], {1: 1, 2: 2, 4: 2, 3: 3, 5: 5}),
        ),
        ("other", cycle(*REMOVES), moment([(1, 2)])),
        ("moved", cycle(*GRASPS), moment([(1, 2)], moved=True)),
        ("target_mistaken", cycle(*GRASPS), moment([(2, 3)], target=2)),
        ("no_right_action", cycle(*GRASPS), moment([(1, 2), (2, 1)])),
        ("tried_in_vain", cycle(Remove(3), {1: 0.9, 3: 0.05}, decided=Grasp(1)), moment([])),
    ],
)
def test_every_wrong_action_has_one_cause(why, seen, so):
    (step,) = list_steps([seen], {0: so})
    assert (step.wrong, step.why) == (True, why)
    assert why in WHYS


def test_a_deferral_is_judged_by_what_it_kept_the_robot_from():
    seen = cycle(Defer("weak_evidence"), {1: 0.4, 2: 0.35, 0: 0.5}, [(1, 2, 0.4, False)])
    (held_back,) = list_steps([seen], {0: moment([(1, 2)])})
    assert (held_back.did, held_back.reason, held_back.score) == ("defer", "weak_evidence", 0.4)
    assert held_back.wrong and held_back.why == "tie"
    (needless,) = list_steps([seen], {0: moment([])})
    assert not needless.wrong and needless.why is None
    assert list_steps([Cycle(0, seen.scene)], {0: moment([])}) == ()  # nothing was decided


def record(seed, *steps, success):
    told = [
        {"cycle": k, "did": did, "score": score, "wrong": wrong, "why": "tie" if wrong else None}
        for k, (did, score, wrong) in enumerate(steps)
    ]
    return ScenarioRecord.model_validate(
        {
            "tier": "easy", "seed": seed, "method": "cpor", "ended": "retrieved", "retrieved": True,
            "success": success, "actions": len(steps), "wrong": 0, "deferrals": 0, "failed_grasps": 0,
            "cause": None, "cyclic": False, "n_objects": 3, "detail": "", "steps": told,
        }
    )  # fmt: skip


def test_counts_and_the_risk_of_whole_episodes():
    records = [
        record(0, ("remove", 0.9, False), ("grasp", 0.8, False), success=True),
        record(1, ("remove", 0.6, True), ("grasp", 0.9, False), success=False),
        record(2, ("defer", 0.3, True), ("defer", 0.3, False), success=False),
    ]
    assert count_causes(records) == {"tie": 1}
    # Above 0.7 only the first run goes through without asking, and it is right.
    assert episode_risk(records, 0.7) == (1, 0, 3)
    assert episode_risk(records, 0.0) == (2, 1, 3)
