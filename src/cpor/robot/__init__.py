"""Robots: what one must be able to do, simulated and real ones, and the perceive-decide-act loop."""
