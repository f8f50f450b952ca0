"""Live runs of the simulated arm, each in a process of its own."""
