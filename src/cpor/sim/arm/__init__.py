"""The simulated UR3e: kinematics, motion, picks, and a film of them."""
