"""Labelled data sets of simulated scenes, and matching what was found with what is there."""
