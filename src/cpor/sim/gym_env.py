"""The simulated heap as an environment of Gymnasium (extra `gym`): the import registers `cpor/Retrieve-v0`.

Get one object out of a heap: grasp it, remove another, or ask; judged by the truth of the moment.

Actions, by the ids of objects in `masks`, with K = `MOST_OBJECTS`:

    0 .. K-1      grasp the object 1 .. K
    K .. 2K-1     remove the object 1 .. K
    2K            ask a person who knows the truth; the arm does what they say

Reward: 1 when the target arrives, -1 for a wrong action, -`ask_cost` for a question, else 0. Wrong is what
`cpor.truth.is_wrong` says by occlusion or sweep at that moment, as in the robot table, and an id that `masks`
does not show.
"""

from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from cpor.decision import Action, Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.robot.safe_stop import stopping
from cpor.scene import Scene
from cpor.sim.arm.pick import Tray
from cpor.sim.dataset.manifest import Tier
from cpor.sim.dataset.recognition import Verdict, judge
from cpor.sim.staged_run import DemoSettings, Eyes, Stage, set_stage
from cpor.truth import right_actions

MOST_OBJECTS = 24
"""Largest id that an action can name; a dense bin holds up to 12 objects, a network may find more pieces."""

FARTHEST = 10.0
"""Upper end of the depth's range. [m]"""

GymObservation: TypeAlias = dict[str, Any]


def grasp(obj: int) -> int:
    """The action that grasps an object."""
    return obj - 1


def remove(obj: int) -> int:
    """The action that removes an object."""
    return MOST_OBJECTS + obj - 1


ASK = 2 * MOST_OBJECTS
"""The action that asks."""


class RetrieveEnv(gymnasium.Env[GymObservation, np.int64]):
    """A heap, a camera, a UR3e and a target.

    Observation: `rgb`, `depth` (metres, 0 where the camera gives none), `masks` (id of each pixel's object,
    0: background) and `request`, the id of the object asked for, as a person points at it; 0: it does not
    show.

    `info`: `words` (the request), `wrong` and `asked` (counts), `wrong_because`, `retrieved`, `success`
    (retrieved without a wrong action), `heap` (its seed).

    Args:
        tier: How deep the target is buried: easy, medium, hard; None: as it falls.
        masks: Whose masks: `truth` of the simulator, or those of our `networks`.
        sensor: How the camera fails; `none` for a perfect one, see docs/simulator.md.
        motion: Whether the arm moves; False takes objects out without it, which is much faster and never
            misses a grasp.
        ask_cost: What a question costs, in wrong actions.
        budget: Steps until the episode is cut off.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}  # noqa: RUF012 - as the base class has it

    def __init__(
        self,
        tier: Tier | None = "medium",
        masks: Eyes = "truth",
        sensor: str = "default",
        motion: bool = True,
        ask_cost: float = 0.25,
        budget: int = 12,
        render_mode: str | None = None,
    ) -> None:
        if masks not in ("truth", "networks"):
            raise InvalidSettingError(f"unknown masks {masks!r}; one of: truth, networks")
        self._settings = DemoSettings(tier, sensor, budget=budget, eyes=masks)
        self.motion, self._ask_cost, self.render_mode = motion, ask_cost, render_mode
        shape = (480, 640)
        self.observation_space = spaces.Dict(
            {
                "rgb": spaces.Box(0, 255, (*shape, 3), np.uint8),
                "depth": spaces.Box(0.0, FARTHEST, shape, np.float32),
                "masks": spaces.Box(0, 255, shape, np.int32),
                "request": spaces.Discrete(MOST_OBJECTS + 1),
            }
        )
        self.action_space = spaces.Discrete(2 * MOST_OBJECTS + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GymObservation, GymObservation]:
        """A new heap; `options["heap"]` is its seed, as `cpor demo --seed` and the robot table count them."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        self._heap = int((options or {}).get("heap", drawn))
        self._stage = set_stage(self._heap, self._settings)
        self._steps = self._wrong = self._asked = 0
        self._because = ""
        return self._look(), self._info()

    def step(self, action: np.int64 | int) -> tuple[GymObservation, float, bool, bool, GymObservation]:
        """Do an action, and look again."""
        self._steps += 1
        reward, chosen = 0.0, self._named(int(action))
        if isinstance(chosen, Defer):
            self._asked += 1
            reward -= self._ask_cost
            told = self._told()
            if told is not None:
                self._act(told)
        else:
            verdict = self._judged(chosen)
            if verdict.is_wrong:
                self._wrong += 1
                self._because = verdict.because
                reward -= 1.0
            if chosen.obj in self.scene.ids:
                self._act(chosen)
        stage = self._stage
        arrived = stage.robot.in_tray(stage.heap.target, "delivery")
        ended = arrived or not stage.robot.in_bin(stage.heap.target)
        seen = self._look()
        return seen, reward + arrived, ended, not ended and self._steps >= self._settings.budget, self._info()

    def render(self) -> np.ndarray | None:
        """The last photograph, for `render_mode` "rgb_array"."""
        return np.array(self.scene.observation.rgb) if self.render_mode == "rgb_array" else None

    @property
    def stage(self) -> Stage:
        """Heap, robot and truth: for evaluation, not for a policy."""
        return self._stage

    def _look(self) -> GymObservation:
        self.scene: Scene = self._stage.look_at_it()
        target = self._stage.find_target(self.scene)
        self.request = target if target is not None and target <= MOST_OBJECTS else 0
        observation, ids = self.scene.observation, self.scene.visible_ids
        assert observation.depth is not None and ids is not None
        return {
            "rgb": np.array(observation.rgb),
            "depth": np.nan_to_num(np.clip(observation.depth, 0.0, FARTHEST), nan=0.0).astype(np.float32),
            "masks": np.array(ids, np.int32),
            "request": np.int64(self.request),
        }

    def _named(self, action: int) -> Action:
        if action == ASK:
            return Defer("weak_evidence")
        return Grasp(action + 1) if action < MOST_OBJECTS else Remove(action - MOST_OBJECTS + 1)

    def _judged(self, action: Grasp | Remove) -> Verdict:
        if action.obj not in self.scene.ids:
            return Verdict(True, f"masks show no object {action.obj}")
        names = {each.id: each.name or str(each.id) for each in self.scene.objects}
        truth = self._stage.truth_in(self.scene)
        target = self._stage.recognise(self.scene).find(self._stage.heap.target)
        return judge(action, target, truth, lambda obj: names.get(obj, str(obj)))

    def _told(self) -> Grasp | Remove | None:
        """A right action on an object that shows; None: there is none."""
        target = self._stage.recognise(self.scene).find(self._stage.heap.target)
        right = sorted(right_actions(target, self._stage.truth_in(self.scene)) & {*self.scene.ids})
        return None if not right else Grasp(target) if right == [target] else Remove(right[0])

    def _act(self, action: Grasp | Remove) -> None:
        robot, obj = self._stage.robot, int(action.obj)  # type: ignore[call-overload]
        tray: Tray = "delivery" if isinstance(action, Grasp) else "discard"
        if self.motion:
            with stopping(robot):
                (robot.grasp if tray == "delivery" else robot.remove)(self.scene, obj)
                if robot.status().state != "ready":
                    robot.unlock()
                    robot.home()
        elif (owner := self._stage.recognise(self.scene).owner[obj]) is not None:
            robot.take_away(owner, tray)

    def _info(self) -> GymObservation:
        stage = self._stage
        retrieved = stage.robot.in_tray(stage.heap.target, "delivery")
        return {
            "words": stage.target_name,
            "wrong": self._wrong,
            "wrong_because": self._because,
            "asked": self._asked,
            "retrieved": retrieved,
            "success": retrieved and self._wrong == 0,
            "heap": self._heap,
        }


gymnasium.register("cpor/Retrieve-v0", "cpor.sim.gym_env:RetrieveEnv")
