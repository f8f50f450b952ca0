"""Relation scorers: what vision-language models say of each pair of objects.

`registry.load_scorer(name)` makes one, `scorer.RelationScorer` is what each of them is, and docs/scorers.md
says how to set one up or write one.
"""
