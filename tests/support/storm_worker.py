"""Scores pairs of a grid of objects and prints what came of it: one of several processes in a storm."""

import json
import sys

from cpor.semantics.config import ScorerConfig
from cpor.semantics.scorer_registry import make_scorer
from support.vlm_scenes import all_pairs, grid_of_objects


def score(settings, n_objects, n_pairs, backwards=False):
    scene = grid_of_objects(n_objects)
    pairs = all_pairs(scene)[:n_pairs]
    scorer = make_scorer(ScorerConfig(**settings))
    said = scorer.score(scene, pairs[::-1] if backwards else pairs)
    return {
        "scores": [[*pair, score] for pair, score in said.scores.items()],
        "calls": said.spent.calls,
        "tokens": said.spent.tokens,
        "refused": said.spent.refused,
        "remembered": said.spent.remembered,
        "unexplained": sum(
            not reply.problems
            for reply in said.replies
            if all(said.scores[pair] is None for pair in reply.pairs)
        ),
    }


if __name__ == "__main__":
    print(json.dumps(score(**json.loads(sys.argv[1]))))
