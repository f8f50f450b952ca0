"""Retrieval as an environment of Gymnasium: our decisions, one line a step. Needs the extra `gym`."""

import sys

import gymnasium

import cpor
from cpor.decision import Defer, Grasp
from cpor.sim.gym_env import ASK, RetrieveEnv, grasp, remove


def choose(system: cpor.System, env: RetrieveEnv) -> int:
    """What CPOR-Grasp does; it asks where it defers, and where the object asked for does not show."""
    view = system.look(env.scene.observation)
    action = system.decide(view, env.request).action if env.request else None
    if action is None or isinstance(action, Defer):
        return ASK
    return grasp(action.obj) if isinstance(action, Grasp) else remove(action.obj)


def main() -> None:
    """Play one heap; the argument is its seed."""
    env = gymnasium.make("cpor.sim.gym_env:cpor/Retrieve-v0", tier="easy", masks="networks", motion=False)
    _, info = env.reset(options={"heap": int(sys.argv[1]) if len(sys.argv) > 1 else 7})
    print(f"get {info['words']}")
    system, total, over = cpor.System(), 0.0, False
    while not over:
        action = choose(system, env.unwrapped)
        _, reward, ended, cut_off, info = env.step(action)
        total, over = total + reward, ended or cut_off
        print(f"action {action}: reward {reward:+.2f}")
    print(
        f"reward {total:+.2f}, {info['asked']} questions, {info['wrong']} wrong, success: {info['success']}"
    )


if __name__ == "__main__":
    main()
