"""Bridges to other stacks: bags, ROS 2, agents, behaviour trees, grasps and data sets of others."""
