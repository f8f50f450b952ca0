"""A step of the loop in plain words: what was decided and why, how sure that is, what came of it."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from cpor.decision import Action, Decision, Defer, Grasp
from cpor.pipeline import UNSEEN
from cpor.relations import Label
from cpor.scene import Scene

if TYPE_CHECKING:
    from cpor.gate.check import Check
    from cpor.robot.cycle import Cycle
    from cpor.robot.protocol import OutcomeKind
    from cpor.sim.dataset.recognition import Verdict


def clean(label: object) -> str:
    """A label as it can be shown: control characters would act on the terminal, so they are replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(label))


NOBODY_SEGMENTED = "something that nobody segmented"
"""What is called so may lie there, and has no place in the picture."""

NameOf: TypeAlias = Callable[[Label], str]
"""From an object's label to what it is called, such as `4 red box`."""


def say_success(p_success: float | None, decision: Decision) -> str:
    """How often such an action is right, where that was measured, and what that means for its score."""
    if p_success is None:
        return ""
    rate = percent(p_success)
    said = f"Checked on labelled scenes, actions with such a score were right {rate} of the time."
    score = 0.0 if isinstance(decision.action, Defer) else decision.scores.get(decision.action.obj, 0.0)
    return f"{said} So count on {rate}: the score promises too much." if score - p_success > 0.1 else said


def percent(p: float) -> str:
    """A probability in words; never 0% or 100%, which few things are."""
    return ">99%" if p > 0.99 else "<1%" if p < 0.01 else f"{p:.0%}"


OUTCOMES: "dict[OutcomeKind, str]" = {
    "done": "It worked",
    "missed": "The fingers closed on nothing",
    "dropped": "It was lost on the way",
    "no_grasp": "No grasp was found",
    "unreachable": "Every way to a grasp would collide",
    "stopped": "The robot was stopped",
    "fault": "The robot stopped itself",
}
"""What came of an attempt."""

ENDS: dict[str, str] = {
    "retrieved": "retrieved",
    "unconfirmed": "perhaps not retrieved: the robot says so, but no picture proves it",
    "budget": "not retrieved: the allowed number of actions is spent",
    "deferred": "not retrieved: the robot was unsure too often and asks for help",
    "stopped": "not retrieved: the robot was stopped",
    "fault": "not retrieved: the robot or its camera failed",
    "target_lost": "not retrieved: it is not visible",
    "empty": "not retrieved: no object is visible",
}
"""How a run ended, after the name of the target."""


def names_in(scene: Scene) -> dict[Label, str]:
    """The names of a scene's objects, of those that have one."""
    return {o.id: f"the {clean(o.title)}" for o in scene.objects if o.title}


def namer(scene: Scene, earlier: Mapping[Label, str] = MappingProxyType({})) -> NameOf:
    """A function that gives an object's name, also an earlier one, or `object 7` where it has none."""
    names = {**earlier, **names_in(scene), UNSEEN: NOBODY_SEGMENTED}
    return lambda obj: names[obj] if obj in names else f"object {clean(obj)}"


def with_names(words: str, name: NameOf) -> str:
    """A sentence of the robot's, which knows objects by number, with their names."""

    def named(found: re.Match[str]) -> str:
        said = name(int(found[2]))
        return said[:1].upper() + said[1:] if found[1] == "O" else said

    return re.sub(r"\b([oO])bject (\d+)\b", named, words)


def sentence(words: str) -> str:
    """Words with a capital, and a full stop unless they are a question."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}{'' if words.endswith('?') else '.'}" if words else ""


def say_step(action: Action, name: NameOf) -> str:
    """What was decided, as a headline."""
    if isinstance(action, Defer):
        return "Do not act"
    return f"{'Grasp' if isinstance(action, Grasp) else 'Remove'} {name(action.obj)}"


def say_why(decision: Decision, target: Label, name: NameOf) -> str:
    """Why, in a sentence or two."""
    action = decision.action
    if isinstance(action, Defer):
        best = say_likeliest(decision, target, name, _say_probability, percent(decision.tau))
        return f"Not sure enough to act: {decision.why_deferred}.{best}"
    score = _say_probability(decision, action.obj)
    if isinstance(action, Grasp):
        return f"With probability {score} nothing lies in the way of {name(target)}."
    grasp = _say_probability(decision, target)
    target_name = name(target)
    return (
        f"{target_name[:1].upper()}{target_name[1:]} is free with probability {grasp} only. "
        f"With probability {score} {name(action.obj)} is in its way, directly or through "
        "others, and free to be taken itself."
    )


def say_likeliest(
    decision: Decision, target: Label, name: NameOf, show: Callable[[Decision, Label], str], tau: str
) -> str:
    """Which action would be taken, and what it lacks, where that alone is why nothing is done."""
    action = decision.action
    doable = [obj for obj in decision.scores if obj != UNSEEN]
    if not (isinstance(action, Defer) and action.reason in ("near_tie", "weak_evidence") and doable):
        return ""
    best = max(doable, key=lambda obj: decision.scores[obj])
    verb = "grasp" if best == target else "remove"
    return (
        f" The likeliest, to {verb} {name(best)}, is right with probability "
        f"{show(decision, best)}; it acts above {tau}."
    )


def _say_probability(decision: Decision, obj: Label) -> str:
    """The score of an object; where that is not known exactly, the interval that is proven."""
    exactly = decision.certificate.certified and decision.unanswered_range is None
    if exactly or obj not in decision.scores:
        return percent(decision.scores.get(obj, 0.0))
    low, high = decision.interval(obj)
    if percent(low) == percent(high):
        return percent(low)
    return f"between {math.floor(100.0 * low)}% and {math.ceil(100.0 * high)}%"


def say_all(decision: Decision, target: Label, name: NameOf, p_success: float | None) -> str:
    """Why, and how often such an action is right."""
    return f"{say_why(decision, target, name)} {say_success(p_success, decision)}".rstrip()


def say_outcome(cycle: "Cycle", name: NameOf) -> str:
    """What came of a cycle."""
    if cycle.outcome is None:
        return "Nothing was moved."
    return sentence(f"{OUTCOMES[cycle.outcome.kind]}: {with_names(cycle.outcome.detail, name)}")


def say_checks(checks: "Iterable[Check]") -> list[str]:
    """What is wrong with the input, then what is doubtful, and what to do about it."""
    states, found = {"fail": "Failed", "doubt": "In doubt"}, tuple(checks)
    return [
        f"{words}: {check.says} {check.remedy}".rstrip()
        for state, words in states.items()
        for check in found
        if check.state == state
    ]


def say_verdict(verdict: "Verdict") -> str:
    """What the truth says of an action."""
    judged = f"wrong: {verdict.because}" if verdict.is_wrong else "right"
    return f"In truth, which the robot does not see, this was {judged}."


def say_certificate(decision: Decision) -> str:
    """What is proven about a decision."""
    certificate = decision.certificate
    if decision.unanswered_range is not None:
        return "Some answers are missing; the bars show what is certain for any of their values."
    if certificate.exact:
        return "Exact: summed over every arrangement that admits an order of removal."
    looked = f"{certificate.k} arrangements looked at, each probability within {certificate.epsilon:.3f}"
    if certificate.certified:
        return f"{looked}; proven to be what exact inference would do."
    return f"{looked}; not proven ({certificate.kind}): exact inference may choose another action."


def ranked_scores(decision: Decision, most: int = 8) -> list[tuple[Label, float, float]]:
    """Objects with the interval of their score, the likeliest first."""
    ranked = sorted(decision.scores, key=lambda obj: -decision.interval(obj)[1])
    return [(obj, *decision.interval(obj)) for obj in ranked[:most]]
