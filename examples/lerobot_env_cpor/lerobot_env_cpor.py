"""`cpor/Retrieve-v0` for LeRobot: `pip install ./examples/lerobot_env_cpor`, then `--env.type=cpor`.

Policies of LeRobot act with real numbers: the one number of an action is rounded to one of the actions of the
environment; 0 grasps object 1. They see the photograph, and the id asked for as `environment_state`.
"""

from dataclasses import dataclass, field

import gymnasium
import numpy as np
from gymnasium import spaces
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig

from cpor.sim.gym_env import ASK, RetrieveEnv

FEATURES = {
    "action": PolicyFeature(type=FeatureType.ACTION, shape=(1,)),
    "pixels": PolicyFeature(type=FeatureType.VISUAL, shape=(480, 640, 3)),
    "environment_state": PolicyFeature(type=FeatureType.ENV, shape=(1,)),
}


class LeRobotRetrieve(gymnasium.Wrapper):
    """The environment in the form that LeRobot reads; `info` also has `is_success`."""

    def __init__(self, **options) -> None:
        super().__init__(RetrieveEnv(**options))
        photograph = self.env.observation_space["rgb"]
        asked = spaces.Box(0.0, np.inf, (1,), np.float32)
        self.observation_space = spaces.Dict({"pixels": photograph, "environment_state": asked})
        self.action_space = spaces.Box(0.0, float(ASK), (1,), np.float32)

    def reset(self, **options):
        """A new heap."""
        seen, info = self.env.reset(**options)
        return _seen(seen), info | {"is_success": info["success"]}

    def step(self, action):
        """Do the nearest action."""
        nearest = int(np.clip(np.rint(np.ravel(action)[0]), 0, ASK))
        seen, reward, ended, cut_off, info = self.env.step(nearest)
        return _seen(seen), reward, ended, cut_off, info | {"is_success": info["success"]}


def _seen(seen):
    return {"pixels": seen["rgb"], "environment_state": np.array([seen["request"]], np.float32)}


gymnasium.register("cpor/LeRobotRetrieve-v0", LeRobotRetrieve)


@EnvConfig.register_subclass("cpor")
@dataclass
class CporEnv(EnvConfig):
    """Options of the environment, see `RetrieveEnv`."""

    task: str = "LeRobotRetrieve-v0"
    fps: int = 1
    features: dict[str, PolicyFeature] = field(default_factory=lambda: dict(FEATURES))
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            "action": "action",
            "pixels": "observation.image",
            "environment_state": "observation.environment_state",
        }
    )
    tier: str = "medium"
    sensor: str = "default"
    motion: bool = False
    budget: int = 12

    @property
    def gym_id(self) -> str:
        """Name in the registry of Gymnasium."""
        return f"cpor/{self.task}"

    @property
    def gym_kwargs(self) -> dict:
        """Options of the environment."""
        return {"tier": self.tier, "sensor": self.sensor, "motion": self.motion, "budget": self.budget}
