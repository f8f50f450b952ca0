"""What a model's promised error rate needs: its threshold as a score, and in words."""

import math

import numpy as np

from cpor.decision import Decision, Defer, Grasp
from cpor.inference.certificate import choose
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.scene import Scene
from cpor.serve.api.deciding import say_label
from cpor.viz.words import percent, say_step, says_nothing

_HALVINGS = 60
"""More do not change a float between 0 and 1."""


def least_promised_score(pipeline: Pipeline) -> float | None:
    """The least score from which on the stages act, whether they grasp or remove.

    Success rates never fall with the score, but grasping and removing have their own: between the two
    thresholds one of them is acted on and the other is not.

    Args:
        pipeline: The stages as the promise was made for.

    Returns:
        The score; None where even the best is not acted on for both.
    """
    least, rate = pipeline.tau_success, pipeline.rate
    if least is None or rate is None:
        return pipeline.tau
    both = np.array([True, False])

    def acts(score: float) -> bool:
        return bool((rate.apply(np.full(2, score), is_target=both) > least).all())

    if not acts(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if acts(middle) else (middle, high)
    return high


def reason_not_promised(model: FittedModel, scene: Scene, masks: str, shrunk: int) -> str | None:
    """Why nothing is promised of decisions on a scene by the model's own thresholds; None where it is.

    Args:
        model: The fitted model.
        scene: The scene as it is analysed.
        masks: Whose masks it has.
        shrunk: Pixels of the picture to one of the scene, along each side.
    """
    reason = model.reason_not_covered(scene, model.pipeline(), masks=masks)
    if reason is None and shrunk > 1:
        return f"it was tested at full size, and this picture was analysed at 1/{shrunk} of its size"
    return reason


def say_need(model: FittedModel, promised_above: float | None, reason: str | None) -> str:
    """What the promise needs, in a sentence; or why there is none."""
    if reason is not None:
        return f"No error rate is promised: {reason}."
    promise = (
        f"That at most {model.promise.alpha:.0%} of the actions are wrong is promised for the model's own"
    )
    if promised_above is None:
        return f"{promise} threshold only, which no score stands for."
    return (
        f"{promise} threshold only: it acts on every score above {math.ceil(1000.0 * promised_above) / 10}%."
    )


def say_by_rate(posterior: ObstructionPosterior, decision: Decision, pipeline: Pipeline) -> str:
    """Why the success rate of the best action made the stages act or defer; empty where it did not matter."""
    least = pipeline.tau_success
    if least is None:
        return ""
    deferred = isinstance(decision.action, Defer)
    if deferred and (says_nothing(decision) or decision.unanswered_range is not None):
        return ""
    best = choose(posterior, list(decision.scores.values()), 0.0) if deferred else decision.action
    if best is None or isinstance(best, Defer):
        return ""
    score = decision.scores[best.obj]
    rate = pipeline.rate
    assert rate is not None  # tau_success needs it
    p = float(rate.apply(np.array([score]), is_target=np.array([isinstance(best, Grasp)]))[0])
    right, needed = percent(p), percent(least)
    if right == needed:  # too near to tell apart in whole percents
        right, needed = f"{p:.2%}", f"{least:.2%}"
    if deferred and p > least:
        return ""
    if not deferred:
        return f"In labelled scenes, such an action was right {right} of the time; it acts above {needed}."
    said = say_step(best, say_label)
    return (
        f"The best action ({said[:1].lower()}{said[1:]}) scores {percent(score)}. In labelled scenes, "
        f"such an action was right {right} of the time; it acts above {needed} only."
    )
