"""Removal sequences of several steps."""
