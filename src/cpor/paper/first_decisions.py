"""First decisions on labelled scenes: the rows of the robot table without the robot, compared case by case.

RSR, the retrieval-step success rate, is the share of cases whose forced next action is right. It is
given for both truths: occlusion, which benchmarks label, and occlusion or sweep, which an arm meets.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from cpor.decision import Defer
from cpor.learn.bootstrap import PairedComparison, compare_paired
from cpor.model import FittedModel
from cpor.paper.means import Mean, means_by_tier, means_to_json
from cpor.paper.methods import METHODS, NEED_SCORES, MethodName, MethodSystem
from cpor.parts import NONE
from cpor.sim.dataset.manifest import SplitCase
from cpor.truth import TruthKind, is_wrong, truth_of

TRUTHS: tuple[TruthKind, ...] = ("occlusion", "any")
REFERENCE: MethodName = "cpor"


class FirstDecisions(NamedTuple):
    """What each method did first.

    Attributes:
        n: Cases, by tier.
        rsr: Share of right actions with its interval, by truth, method and tier (`all` over all).
        paired: CPOR against each other method, by truth.
        deferred: Share of cases without an action although it was forced, by method: an answer was missing,
            or the target was not found.
    """

    n: Mapping[str, int]
    rsr: Mapping[TruthKind, Mapping[MethodName, Mapping[str, Mean]]]
    paired: Mapping[TruthKind, Mapping[MethodName, PairedComparison]]
    deferred: Mapping[MethodName, float]

    def to_json(self) -> dict[str, Any]:
        """For files and programs."""
        paired = {
            kind: {method: asdict(each) for method, each in by.items()} for kind, by in self.paired.items()
        }
        return self._asdict() | {"rsr": means_to_json(self.rsr), "paired": paired}


def forced_systems(
    model: FittedModel | None, scored: bool, prior: float | None
) -> dict[MethodName, MethodSystem]:
    """The rows that need no truth, each with an action for every scene.

    Args:
        model: The fitted model.
        scored: Whether to use the semantic scores of the scenes; else geometry alone.
        prior: Probability to assume where no source has an answer.
    """
    left_out = ("oracle",) if scored else ("oracle", *NEED_SCORES)
    rows = (method for method in METHODS if method not in left_out)
    scorer = None if scored else NONE
    return {row: MethodSystem(row, model, scorer=scorer, prior=prior, forced=True) for row in rows}


def measure_first_decisions(
    cases: Iterable[SplitCase],
    systems: Mapping[MethodName, MethodSystem],
    rng: np.random.Generator,
    progress: Callable[[], None] | None = None,
) -> FirstDecisions:
    """Decide every case by every method, forced, and count what is right."""
    of: list[tuple[str, str]] = []
    right: dict[TruthKind, dict[MethodName, list[bool]]] = {t: {m: [] for m in systems} for t in TRUTHS}
    deferred: dict[MethodName, list[bool]] = {m: [] for m in systems}
    for case in cases:
        of.append((case.name, case.tier))
        truths = {kind: truth_of(case.scene, kind).pairs for kind in TRUTHS}
        found = case.target in case.scene.ids
        view = next(iter(systems.values())).look(case.scene)
        for method, system in systems.items():
            action = system.decide(replace(view), case.target).action if found else None
            action = action or Defer("no_evidence")
            deferred[method].append(isinstance(action, Defer))
            for kind, pairs in truths.items():
                acted = not isinstance(action, Defer)
                right[kind][method].append(acted and not is_wrong(action, case.target, pairs))
        if progress is not None:
            progress()
    return FirstDecisions(
        dict(Counter(tier for _, tier in of)),
        {
            kind: {
                m: means_by_tier([(*case, float(each)) for case, each in zip(of, found, strict=True)], rng)
                for m, found in by.items()
            }
            for kind, by in right.items()
        },
        {
            kind: {
                m: compare_paired(
                    np.array(found, np.float64),
                    np.array(by[REFERENCE], np.float64),
                    np.array([name for name, _ in of]),
                    rng,
                )
                for m, found in by.items()
                if m != REFERENCE
            }
            for kind, by in right.items()
        },
        {m: float(np.mean(found)) for m, found in deferred.items()},
    )
