"""CPOR-Grasp: grasp the target, remove a blocker, or ask, with probabilities one can trust."""

from typing import TYPE_CHECKING

from cpor.errors import CporError

if TYPE_CHECKING:
    from cpor.answer import Answer, DecideSettings, View
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
    "Action": "cpor.decision",
    "Answer": "cpor.answer",
    "Camera": "cpor.scene",
    "Certificate": "cpor.decision",
    "Check": "cpor.gate.check",
    "Costs": "cpor.decision",
    "DecideSettings": "cpor.answer",
    "Decision": "cpor.decision",
    "Defer": "cpor.decision",
    "Explanation": "cpor.infer.explain",
    "Grasp": "cpor.decision",
    "Label": "cpor.relations",
    "Observation": "cpor.scene",
    "ObstructionPosterior": "cpor.relations",
    "Plan": "cpor.infer.plan",
    "Promise": "cpor.records",
    "Relation": "cpor.relations",
    "Remove": "cpor.decision",
    "Request": "cpor.words.grounding_answers",
    "Scene": "cpor.scene",
    "System": "cpor.system",
    "TopKSettings": "cpor.infer.topk",
    "View": "cpor.answer",
    "decide": "cpor.infer.decide",
    "decide_many": "cpor.infer.decide",
    "edge_posteriors": "cpor.infer.graphs",
    "explain": "cpor.infer.explain",
    "likeliest_graphs": "cpor.infer.graphs",
    "plan": "cpor.infer.plan",
    "retrieve": "cpor.robot.loop",
    "sample_graphs": "cpor.infer.graphs",
    "warm_up": "cpor.infer.warm_up",
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
