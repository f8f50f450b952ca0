"""Limits are checked before a motion, and a violation is an error that says which."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpor.errors import InvalidSettingError, RobotError
from cpor.robot.limits import Box, Limits
from cpor.robot.ur import facing_down

POST = Box((0.2, -0.05, 0.0), (0.25, 0.05, 0.3), "the camera post")
LIMITS = Limits(Box((0.1, -0.3, 0.02), (0.5, 0.3, 0.4), "the workspace"), (POST,), margin=0.01)


def test_a_pose_inside_passes():
    LIMITS.check_pose(facing_down(0.35, 0.1, 0.1))


@pytest.mark.parametrize(
    "place", [(0.09, 0.1, 0.1), (0.35, 0.31, 0.1), (0.35, 0.1, 0.025), (0.35, 0.1, 0.41)]
)
def test_a_pose_outside_or_within_the_margin_is_refused(place):
    with pytest.raises(RobotError, match="outside of the workspace"):
        LIMITS.check_pose(facing_down(*place))


def test_a_pose_in_a_forbidden_box_is_refused_by_its_name():
    with pytest.raises(RobotError, match="the camera post"):
        LIMITS.check_pose(facing_down(0.255, 0.0, 0.1))


def test_a_pose_without_numbers_is_refused():
    pose = facing_down(0.3, 0.1, 0.1)
    pose[0, 0] = np.nan
    with pytest.raises(RobotError, match="finite"):
        LIMITS.check_pose(pose)


def test_too_much_tilt_is_refused():
    pose = facing_down(0.35, 0.1, 0.1)
    pose[:3, :3] = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    with pytest.raises(RobotError, match="tilted by 90 degrees"):
        LIMITS.check_pose(pose)


def test_a_way_through_a_forbidden_box_is_refused_and_one_over_it_is_not():
    left, right = facing_down(0.22, -0.2, 0.1), facing_down(0.22, 0.2, 0.1)
    with pytest.raises(RobotError, match="leads through the camera post"):
        LIMITS.check_line(left, right)
    LIMITS.check_line(facing_down(0.22, -0.2, 0.35), facing_down(0.22, 0.2, 0.35))


def test_an_arm_outside_may_come_back_in():
    LIMITS.check_line(facing_down(0.05, 0.1, 0.5), facing_down(0.35, 0.1, 0.1))


@pytest.mark.parametrize(("speed", "acceleration"), [(0.11, 0.1), (0.0, 0.1), (0.05, 0.4), (np.nan, 0.1)])
def test_too_fast_is_refused(speed, acceleration):
    with pytest.raises(RobotError, match="not within the limits"):
        LIMITS.check_speed(speed, acceleration)
    LIMITS.check_speed(0.1, 0.3)


@pytest.mark.parametrize("setting", [{"speed": 5.0}, {"margin": -0.1}, {"joint_speed": 0.0}])
def test_limits_that_limit_nothing_are_refused(setting):
    with pytest.raises(InvalidSettingError):
        Limits(**setting)


def test_a_box_inside_out_is_refused():
    with pytest.raises(InvalidSettingError, match="low < high"):
        Box((0.0, 0.0, 0.0), (1.0, -1.0, 1.0))


places = st.tuples(*[st.floats(-1.0, 1.0)] * 3).map(np.array)


@given(places, places)
def test_a_line_meets_a_box_whenever_a_point_on_it_is_inside(start, end):
    box = Box((-0.3, -0.2, -0.5), (0.4, 0.3, 0.1))
    on_it = any(box.contains(start + t * (end - start)) for t in np.linspace(0.0, 1.0, 101))
    assert box.meets(start, end) or not on_it
    assert box.meets(start, end) == box.meets(end, start) or not on_it
