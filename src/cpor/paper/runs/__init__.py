"""Whole datasets decided case by case, resumable, and reports about them."""
