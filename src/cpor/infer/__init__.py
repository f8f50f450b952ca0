"""Exact inference: decisions, bounds, likeliest graphs, plans, explanations."""
