"""Heap a bin in the simulator, name a target, and let a simulated UR3e retrieve it.

The same loop runs a real arm: put `cpor.robot.robot_file.build_ur` in place of the simulated robot and your
segmenter in place of the simulator's masks. docs/robot.md says how, and what to do first.
"""

import sys
from pathlib import Path

import numpy as np

from cpor.decision import Defer
from cpor.robot.cycle import Cycle, LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, replay
from cpor.sim.arm.simulated_robot import SimulatedRobot, SimulatorMasks
from cpor.sim.camera.look import plain_look
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.system import System


def say(cycle: Cycle) -> None:
    """One line a cycle."""
    names = {o.id: o.name for o in cycle.scene.objects}
    done = cycle.outcome.kind if cycle.outcome else "looks again"
    action = cycle.action
    if action is None:
        what = "does not see the target"
    elif isinstance(action, Defer):
        what = f"defers ({action.reason})"
    else:
        what = f"{type(action).__name__.lower()}s the {names[action.obj]}"
        what += f" (right with {cycle.decision.scores[action.obj]:.2f})"
    print(f"{cycle.index}: {what}: {done}", *cycle.notes, sep="\n   ")


def free_folder(wanted: Path) -> Path:
    """The folder, or one numbered after it where it is there already."""
    k = 1
    while (place := wanted if k == 1 else wanted.with_name(f"{wanted.name}_{k}")).exists():
        k += 1
    return place


def main() -> None:
    """Retrieve one target; the first argument is a new folder for the record, the second a seed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else free_folder(Path("out/close_the_loop"))
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    heap = make_heap(seed, HeapSettings(tier="easy"))
    print(f"a bin of {len(heap.world.objects)} objects; get the {heap.target_name}")

    poses = {obj: heap.world.pose(obj) for obj in heap.world.objects}
    world = build_world(heap.world.objects, poses, heap.world.bin, arm=True)
    rng = np.random.default_rng(seed)
    robot = SimulatedRobot(world, heap.camera, plain_look(), sensor_preset("default"), rng)
    # Everything embedded; the arm acts only where it is sure enough, and asks otherwise.
    system = System(SimulatorMasks(robot), mode="balanced")
    result = retrieve(
        robot,
        system,
        heap.target,
        LoopSettings(ids_are_kept=True),
        RunFolder(folder, about={"seed": seed}),
        on_cycle=say,
    )
    print(f"{result.ended}: {result.detail}; the arm is {result.robot.state}")

    again = replay(folder, System("given", mode="balanced"))
    print(f"decided again from {folder}: {sum(each.differs for each in again)} of {len(again)} differ")


if __name__ == "__main__":
    main()
