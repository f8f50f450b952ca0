"""From a posterior over obstruction graphs to one answer: next objects, relations, paths."""
