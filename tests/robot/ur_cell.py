"""A dry UR over boxes on a table."""

import numpy as np
from support.box_table import Box

from cpor.robot.ur import facing_down

TOOL = facing_down(0.0, 0.0, 0.16) @ np.diag([1.0, -1.0, -1.0, 1.0])


def one_box():
    return {1: Box((40, 56), (54, 66), 0.04, (200, 30, 30))}


class Progress:
    """How far an asynchronous motion is, as ur-rtde tells it."""

    def __init__(self, count, running):
        self.count, self.running = count, running

    def isAsyncOperationRunning(self):
        return self.running

    def equals(self, other):
        return (self.count, self.running) == (other.count, other.running)
