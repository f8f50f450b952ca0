"""Missing answers by going through every corner: each is 0 or 1, all scenes solved one by one."""

from itertools import product

import numpy as np
from jaxtyping import Float

from cpor import ObstructionPosterior, decide_many
from cpor.decision import Action, Defer


def solve_corners(
    posterior: ObstructionPosterior, tau: float
) -> tuple[Float[np.ndarray, "n 2"], Action | None]:
    """The range of each score over all corners, and the action if all corners agree on it.

    All reasons to defer count as one action, `Defer("no_evidence")`.
    """
    missing = np.argwhere(np.isnan(posterior.p_obstructs))
    scenes = []
    for values in product((0.0, 1.0), repeat=len(missing)):
        p = posterior.p_obstructs.copy()
        p[tuple(missing.T)] = values
        scenes.append(posterior.replace_p(p))
    decisions = decide_many(scenes, tau=tau, method="exact")
    scores = np.array([list(decision.scores.values()) for decision in decisions])
    actions = {
        Defer("no_evidence") if isinstance(decision.action, Defer) else decision.action
        for decision in decisions
    }
    agreed = actions.pop() if len(actions) == 1 else None
    return np.stack([scores.min(axis=0), scores.max(axis=0)], axis=1), agreed
