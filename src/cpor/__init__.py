"""CPOR-Grasp: grasp the target, remove a blocker, or ask, with probabilities one can trust."""

from typing import TYPE_CHECKING

from cpor.errors import CporError

if TYPE_CHECKING:
    from cpor.answer import Answer, DecideSettings
    from cpor.decision import Action, Certificate, Costs, Decision, Defer, Grasp, Remove
    from cpor.gate.check import Check
    from cpor.infer.decide import decide, decide_many
    from cpor.infer.explain import Explanation, explain
    from cpor.infer.graphs import edge_posteriors, likeliest_graphs, sample_graphs
    from cpor.infer.plan import Plan, plan
    from cpor.infer.topk import TopKSettings
    from cpor.infer.warm_up import warm_up
    from cpor.records import Promise
    from cpor.relations import Label, ObstructionPosterior, Relation
    from cpor.robot.loop import retrieve
    from cpor.scene import Camera, Observation, Scene
    from cpor.system import System
    from cpor.view import View
    from cpor.words.grounding_answers import Request

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Answer",
    "Camera",
    "Certificate",
    "Check",
    "Costs",
    "CporError",
    "DecideSettings",
    "Decision",
    "Defer",
    "Explanation",
    "Grasp",
    "Label",
    "Observation",
    "ObstructionPosterior",
    "Plan",
    "Promise",
    "Relation",
    "Remove",
    "Request",
    "Scene",
    "System",
    "TopKSettings",
    "View",
    "decide",
    "decide_many",
    "edge_posteriors",
    "explain",
    "likeliest_graphs",
    "plan",
    "retrieve",
    "sample_graphs",
    "warm_up",
]

# Everything loads on first use, so that `import cpor` and `cpor --help` stay quick.
_LAZY = {
    name: f"cpor.{module}"
    for module, names in {
        "decision": ("Action", "Certificate", "Costs", "Decision", "Defer", "Grasp", "Remove"),
        "answer": ("Answer", "DecideSettings"),
        "scene": ("Camera", "Observation", "Scene"),
        "gate.check": ("Check",),
        "infer.explain": ("Explanation", "explain"),
        "relations": ("Label", "ObstructionPosterior", "Relation"),
        "infer.plan": ("Plan", "plan"),
        "records": ("Promise",),
        "words.grounding_answers": ("Request",),
        "system": ("System",),
        "infer.topk": ("TopKSettings",),
        "infer.decide": ("decide", "decide_many"),
        "infer.graphs": ("edge_posteriors", "likeliest_graphs", "sample_graphs"),
        "robot.loop": ("retrieve",),
        "view": ("View",),
        "infer.warm_up": ("warm_up",),
    }.items()
    for name in names
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'cpor' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
