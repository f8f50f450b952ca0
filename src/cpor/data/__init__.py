"""Scenes and decisions on disk."""
