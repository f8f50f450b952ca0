"""Simulated heaps with their truth: how often is the first action right? The tables use 1,800 cases."""

import sys

import cpor
from cpor.decision import Defer
from cpor.sim.dataset.make import plan_dataset, simulate_case
from cpor.sim.dataset.manifest import DatasetSettings
from cpor.sim.dataset.recognition import Recognition
from cpor.truth import is_wrong, truth_of


def main() -> None:
    """Decide for fresh cases in `balanced`, and judge each action."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    system, counts = cpor.System(mode="balanced"), {"right": 0, "wrong": 0, "asks": 0}
    for case in plan_dataset(n, seed=5).cases:
        scene, entry = simulate_case(case, DatasetSettings())
        view, truth = system.look(scene.observation), truth_of(scene, "any")
        known = Recognition.match(view.seen.ids, view.seen.visible_ids, truth.objects, scene.visible_ids)
        target = known.find(entry.target)
        if target is None or target not in view.seen.ids:
            counts["asks"] += 1  # not found: it would ask
            continue
        action = system.decide(view, target).action
        wrong = is_wrong(action, target, known.translate(truth).pairs)
        counts["asks" if isinstance(action, Defer) else "wrong" if wrong else "right"] += 1
    print(counts)


if __name__ == "__main__":
    main()
