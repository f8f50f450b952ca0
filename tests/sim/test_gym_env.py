"""The environment of Gymnasium: its own checker finds nothing, and rewards follow the truth of the moment."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="pip install 'cpor-grasp[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from cpor.errors import InvalidSettingError  # noqa: E402
from cpor.sim.gym_env import ASK, MOST_OBJECTS, RetrieveEnv, grasp, remove  # noqa: E402
from cpor.truth import right_actions  # noqa: E402

HEAP = {"heap": 7}
"""Four objects have to go, one after the other, until its target is free."""


def made(**options):
    return gymnasium.make("cpor.sim.gym_env:cpor/Retrieve-v0", motion=False, **options).unwrapped


def wrong_removal(env):
    target = env.stage.heap.target
    right = right_actions(target, env.stage.truth_in(env.scene))
    return remove(next(obj for obj in env.scene.ids if obj not in right and obj != target))


@pytest.mark.slow
def test_gymnasiums_checker_finds_nothing():
    check_env(made(tier=None), skip_render_check=True)


@pytest.mark.slow
def test_a_person_leads_to_the_target_and_each_question_costs():
    env = made(tier="medium", render_mode="rgb_array")
    seen, info = env.reset(options=HEAP)
    assert info["words"] == "the yellow banana" and seen["request"] == env.stage.heap.target
    assert np.array_equal(env.render(), seen["rgb"]) and env.observation_space.contains(seen)
    total, steps, ended = 0.0, 0, False
    while not ended:
        seen, reward, ended, cut_off, info = env.step(ASK)
        total, steps = total + reward, steps + 1
        assert not cut_off
    assert info["success"] and info["asked"] == steps > 1
    assert total == pytest.approx(1.0 - 0.25 * steps)


@pytest.mark.slow
def test_wrong_actions_cost_one_and_spoil_the_success():
    env = made(tier="medium", budget=3)
    env.reset(options=HEAP)
    before = len(env.scene.ids)
    assert env.step(remove(MOST_OBJECTS))[1] == -1.0 and len(env.scene.ids) == before
    assert "show no object" in env._info()["wrong_because"]
    _, reward, ended, cut_off, info = env.step(wrong_removal(env))
    assert (reward, ended, cut_off, info["wrong"]) == (-1.0, False, False, 2)
    _, reward, ended, cut_off, info = env.step(grasp(env.request))
    assert reward == 0.0 and ended and not cut_off  # it arrives, and something lay on it
    assert info["retrieved"] and not info["success"] and info["wrong"] == 3


@pytest.mark.slow
def test_an_episode_is_cut_off_at_its_budget_and_the_arm_moves_where_asked():
    env = RetrieveEnv(tier="medium", budget=1)
    env.reset(options=HEAP)
    before = env.stage.robot.status().time_s
    _, _, ended, cut_off, _ = env.step(ASK)
    assert not ended and cut_off and env.stage.robot.status().time_s > before + 1.0


def test_unknown_masks_are_named():
    with pytest.raises(InvalidSettingError, match="one of: truth, networks"):
        RetrieveEnv(masks="mine")
