"""Programs for people that put the rooms together."""
