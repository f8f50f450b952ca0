"""The simulated arm over a heap as a ROS 2 graph, in a process of its own, with faults.

Run: python ros2_cell.py DOMAIN [abort|vanish|late]; it ends when its standard input does.
"""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

SEED, TARGET, POINT = 5, 9, (170.0, 238.0)
"""A heap, an object with one other on it, and a pixel that shows it."""

LATE_S = 1.0


@contextmanager
def cell_process(domain, fault="none"):
    """The process, once its graph is up."""
    command = [sys.executable, __file__, str(domain), fault]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        if not process.stdin.closed:
            process.stdin.close()
        process.wait(60)
        process.stdout.close()


def delivered(process):
    """The truth, at the end: the objects in the delivery tray."""
    process.stdin.close()
    return [int(obj) for obj in process.stdout.readline().split()[1:]]


def main():
    from cpor.bridges.ros2_sim import SimulatedGraph
    from cpor.bridges.ros2_transport import DdsTransport
    from cpor.robot.protocol import Outcome
    from cpor.sim.arm.simulated_robot import build

    class FaultyGraph(SimulatedGraph):
        trajectories = 0

        def announce_poses(self):
            if fault == "late":
                threading.Timer(LATE_S, super().announce_poses).start()
            else:
                super().announce_poses()

        def follow(self, goal):
            self.trajectories += 1
            if fault == "abort" and self.trajectories == 6:
                return Outcome("fault", "joint 3 left its path")
            if fault == "vanish" and self.trajectories == 6:
                os._exit(3)  # as a driver that is killed
            return super().follow(goal)

    domain, fault = int(sys.argv[1]), sys.argv[2]
    robot = build(SEED, "easy", "none")
    if fault != "none":
        robot._dead_man._late_s = 5.0  # on a loaded machine
    graph = FaultyGraph(DdsTransport(domain), robot)
    print("up", flush=True)
    sys.stdin.read()
    print("delivered", *(obj for obj in robot.world.objects if robot.in_tray(obj, "delivery")), flush=True)
    graph.close()


if __name__ == "__main__":
    main()
