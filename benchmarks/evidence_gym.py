"""Three policies in `cpor/Retrieve-v0`: ours in cautious mode, the likeliest graph alone, and a random one.

With the masks of our networks and the default camera, without moving the arm. The likeliest graph (MAP) uses
the same evidence and model and always acts. The random one grasps the target, removes an object that shows or
asks, each as often. Heaps have the seeds from 0.

    python benchmarks/evidence_gym.py [--heaps 20] [--tier medium] [--dry]
"""

from collections.abc import Callable, Iterator

import gymnasium
import numpy as np
from evidence_page import Row
from harness import measure_parts

import cpor
from cpor.decision import Action, Defer, Grasp
from cpor.model import FittedModel, bundled_model
from cpor.paper.means import wilson_interval
from cpor.paper.methods import MethodSystem
from cpor.sim.gym_env import ASK, RetrieveEnv, grasp, remove

Policy = Callable[[RetrieveEnv], int]


def _as_action(action: Action) -> int:
    if isinstance(action, Defer):
        return ASK
    return grasp(action.obj) if isinstance(action, Grasp) else remove(action.obj)


def policies() -> dict[str, Policy]:
    """The three; where the object asked for does not show, the first two ask."""
    system = cpor.System()
    model = FittedModel.load(bundled_model("embedded"))
    likeliest = MethodSystem("single_map", model, prior=model.p_unanswered)
    rng = np.random.default_rng(0)

    def ours(env: RetrieveEnv) -> int:
        if not env.request:
            return ASK
        return _as_action(system.decide(system.look(env.scene.observation), env.request).action)

    def map_graph(env: RetrieveEnv) -> int:
        if not env.request:
            return ASK
        return _as_action(likeliest.decide(likeliest.look(env.scene), env.request).action)

    def random(env: RetrieveEnv) -> int:
        others = [obj for obj in env.scene.ids if obj != env.request]
        kinds = [ASK]
        if env.request:
            kinds.append(grasp(env.request))
        if others:
            kinds.append(remove(int(rng.choice(others))))
        return int(rng.choice(kinds))

    return {"ours, cautious": ours, "MAP graph": map_graph, "random": random}


def play(env: gymnasium.Env, policy: Policy, heap: int) -> tuple[float, dict]:
    """Reward and last `info` of one heap."""
    _, info = env.reset(options={"heap": heap})
    total, over = 0.0, False
    while not over:
        _, reward, ended, cut_off, info = env.step(policy(env.unwrapped))
        total, over = total + reward, ended or cut_off
    return total, info


def measure_gym(heaps: int = 20, tier: str = "medium") -> Iterator[Row]:
    """Play the heaps with each policy."""
    env = gymnasium.make("cpor.sim.gym_env:cpor/Retrieve-v0", tier=tier, masks="networks", motion=False)
    rng = np.random.default_rng(0)
    for name, policy in policies().items():
        rewards, infos = zip(*(play(env, policy, heap) for heap in range(heaps)), strict=True)
        good = sum(info["success"] for info in infos)
        low, high = wilson_interval(good, heaps)
        means = rng.choice(rewards, (2_000, heaps)).mean(axis=1)
        least, most = np.quantile(means, [0.025, 0.975])
        wrong, questions = (np.mean([info[key] for info in infos]) for key in ("wrong", "asked"))
        said = (
            f"reward {np.mean(rewards):.2f} [{least:.2f}, {most:.2f}]; success {good} of {heaps} "
            f"[{low:.2f}, {high:.2f}]; {wrong:.2f} wrong, {questions:.2f} questions"
        )
        yield "acts", f"cpor/Retrieve-v0, {tier}, our masks: {name}", "reported", said


if __name__ == "__main__":
    measure_parts({"gym": measure_gym}, __doc__)
