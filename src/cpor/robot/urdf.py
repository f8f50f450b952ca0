"""The joints between two links of a robot description (URDF), and postures that bring the tool to a pose.

Postures by damped least squares from a posture nearby, so that neighbouring poses have neighbouring postures.
"""

from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from cpor.errors import InvalidSettingError

NEAR_M, NEAR_RAD = 1e-4, 1e-3
"""A posture reaches a pose where the tool is nearer than this. [m], [rad]"""

STEPS = 60
"""Steps of the search from one posture; from nearby it needs about five."""

DAMPING = 0.02
"""Damping of the least squares near singular postures. [m]"""

FARTHEST_STEP = 0.3
"""No joint changes by more in one step. [rad] or [m]"""

_TURNS = ("revolute", "continuous")


@dataclass(frozen=True, eq=False)
class JointChain:
    """The movable joints from a base link to a tool link.

    Attributes:
        names: Names of the joints.
        turns: Whether each turns; else it slides.
        low, high: Limits of each. Shape (n,). [rad] or [m]
        before: Fixed pose before each joint. Shape (n, 4, 4). [m]
        axes: Axis of each in its own frame. Shape (n, 3).
        after: Pose of the tool behind the last joint. Shape (4, 4). [m]
    """

    names: tuple[str, ...]
    turns: tuple[bool, ...]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    before: Float[np.ndarray, "n 4 4"]
    axes: Float[np.ndarray, "n 3"]
    after: Float[np.ndarray, "4 4"]

    @property
    def reach(self) -> float:
        """The tool is never farther from the base. [m]."""
        slides = sum(high for high, turns in zip(self.high, self.turns, strict=True) if not turns)
        along = np.linalg.norm([*self.before[:, :3, 3], self.after[:3, 3]], axis=1).sum()
        return float(along + slides)

    def forward(self, joints: Float[np.ndarray, " n"]) -> Float[np.ndarray, "4 4"]:
        """Pose of the tool in the base. Shape (4, 4). [m]."""
        return self._frames(joints)[-1]

    def solve(
        self, T_base_tool: Float[np.ndarray, "4 4"], near: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"] | None:
        """A posture for a pose, within the limits, reached from a posture nearby; None where none is found.

        Args:
            T_base_tool: Where the tool is to be. Shape (4, 4). [m]
            near: Where the search begins. Shape (n,). [rad] or [m]
        """
        joints: np.ndarray = np.clip(near, self.low, self.high)
        for _ in range(STEPS):
            frames = self._frames(joints)
            here = frames[-1]
            turn = Rotation.from_matrix(T_base_tool[:3, :3] @ here[:3, :3].T).as_rotvec()
            error = np.concatenate([T_base_tool[:3, 3] - here[:3, 3], turn])
            if np.linalg.norm(error[:3]) < NEAR_M and np.linalg.norm(error[3:]) < NEAR_RAD:
                return joints
            jacobian = self._jacobian(frames)
            damped = jacobian @ jacobian.T + DAMPING**2 * min(1.0, float(error @ error)) * np.eye(6)
            step = jacobian.T @ np.linalg.solve(damped, error)
            step *= min(1.0, FARTHEST_STEP / max(float(np.abs(step).max()), 1e-12))
            joints = np.clip(joints + step, self.low, self.high)
        return None

    def _frames(self, joints: Float[np.ndarray, " n"]) -> list[Float[np.ndarray, "4 4"]]:
        """Each joint's own frame before it moves, then the tool."""
        T, frames = np.eye(4), []
        for turns, before, axis, q in zip(self.turns, self.before, self.axes, joints, strict=True):
            T = T @ before
            frames.append(T)
            moved = np.eye(4)
            if turns:
                moved[:3, :3] = Rotation.from_rotvec(q * axis).as_matrix()
            else:
                moved[:3, 3] = q * axis
            T = T @ moved
        return [*frames, T @ self.after]

    def _jacobian(self, frames: list[Float[np.ndarray, "4 4"]]) -> Float[np.ndarray, "6 n"]:
        tip = frames[-1][:3, 3]
        columns = []
        for turns, frame, axis in zip(self.turns, frames, self.axes, strict=False):
            along = frame[:3, :3] @ axis
            moves = np.cross(along, tip - frame[:3, 3]) if turns else along
            columns.append(np.concatenate([moves, along if turns else np.zeros(3)]))
        return np.array(columns).T


def read_chain(urdf: str, base: str, tool: str) -> JointChain:
    """The joints between two links of a robot description.

    Args:
        urdf: The description, XML.
        base: Name of the link that stands still.
        tool: Name of the link whose frame is the tool: z out of the gripper, x where the fingers close.

    Raises:
        InvalidSettingError: It is no robot description, or has no such way.
    """
    try:
        root = ElementTree.fromstring(urdf)
    except ElementTree.ParseError as error:
        raise InvalidSettingError(f"the robot description is no XML: {error}") from None
    above = {_link(each, "child"): each for each in root.iter("joint") if each.find("child") is not None}
    way, link = [], tool
    while link != base:
        if link not in above:
            known = ", ".join(sorted(str(each.get("name")) for each in root.iter("link")))
            raise InvalidSettingError(f"no joints lead from {base!r} to {tool!r}; the links are: {known}")
        way.append(above[link])
        link = _link(above[link], "parent")
    fixed, found = np.eye(4), []
    for joint in reversed(way):
        fixed = fixed @ _origin(joint)
        if joint.get("type") == "fixed":
            continue
        found.append((joint, fixed, _numbers(joint.find("axis"), "xyz", (1.0, 0.0, 0.0))))
        fixed = np.eye(4)
    if not found:
        raise InvalidSettingError(f"no joint between {base!r} and {tool!r} moves; check the links' names")
    joints, before, axes = zip(*found, strict=True)
    low, high = np.array([_limits(joint) for joint in joints]).T
    return JointChain(
        tuple(str(joint.get("name")) for joint in joints),
        tuple(joint.get("type") in _TURNS for joint in joints),
        low,
        high,
        np.array(before),
        np.array([axis / np.linalg.norm(axis) for axis in axes]),
        fixed,
    )


def _link(joint: ElementTree.Element, which: str) -> str:
    found = joint.find(which)
    return "" if found is None else str(found.get("link"))


def _numbers(
    element: ElementTree.Element | None, name: str, default: tuple[float, ...]
) -> Float[np.ndarray, " n"]:
    text = None if element is None else element.get(name)
    return np.array(default if text is None else [float(each) for each in text.split()])


def _origin(joint: ElementTree.Element) -> Float[np.ndarray, "4 4"]:
    T = np.eye(4)
    origin = joint.find("origin")
    T[:3, :3] = Rotation.from_euler("xyz", _numbers(origin, "rpy", (0.0, 0.0, 0.0))).as_matrix()
    T[:3, 3] = _numbers(origin, "xyz", (0.0, 0.0, 0.0))
    return T


def _limits(joint: ElementTree.Element) -> tuple[float, float]:
    limit = joint.find("limit")
    if joint.get("type") == "continuous" or limit is None:
        return -2.0 * np.pi, 2.0 * np.pi
    return float(limit.get("lower", 0.0)), float(limit.get("upper", 0.0))
