"""Clutter that knows the truth: objects, heaps, a camera and an arm, in MuJoCo (extra `sim`)."""
