"""Compiled loops of the inference: numba only, no Python objects, no policy."""
