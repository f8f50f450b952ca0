"""Runs over whole datasets, and the tables and figures that come of them."""
