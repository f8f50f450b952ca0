"""Fetch a buried object with the simulated arm, driven by a behaviour tree (extras sim and trees)."""

import time

import py_trees
from py_trees.common import Status

from cpor.bridges.trees import Cell, fetch_tree
from cpor.sim.staged_run import DemoSettings, set_stage
from cpor.system import System

stage = set_stage(seed=1, settings=DemoSettings(tier="medium", eyes="truth"))
cell = Cell(stage.robot, System(stage.segmenter, "none"), stage.find_target)
root = fetch_tree(cell, ask=lambda answer: None, most_failures=6)  # nobody is there: it looks again
while root.status in (Status.INVALID, Status.RUNNING):
    root.tick_once()
    time.sleep(0.05)
print(py_trees.display.unicode_tree(root, show_status=True))
print("delivered:", stage.robot.in_tray(stage.heap.target, "delivery"))
