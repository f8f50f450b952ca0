"""Masks of what shows alone: what is decided if our segmenter guesses the hidden parts, and if nobody does.

    python benchmarks/evidence_hidden_parts.py [--scenes 100]

The visible masks are the true ones of osd_learn (every object is a target) and of the test split. Beside it
what the true hidden parts give. Figures go to out/evidence/.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from evidence_pointing import Case, photographs, test_cases
from long_parts import Row, measure_parts

from cpor.decision import Defer, Grasp
from cpor.learn.modes import MODES
from cpor.parts import GIVEN
from cpor.promise import remask
from cpor.system import System
from cpor.truth import is_wrong, truth_of

KINDS = ("not known", "guessed by our segmenter", "true")


def count(cases: Iterable[Case], system: System) -> dict[tuple[str, str], Counter[str]]:
    """What comes of every target, by kind of hidden parts and mode."""
    total = {(kind, mode): Counter[str]() for kind in KINDS for mode in MODES}
    for scene, targets, truth in cases:
        pairs = truth_of(scene, truth).pairs
        plain = replace(scene, semantic_scores=None, sources=None)
        shown = replace(plain, objects=tuple(replace(o, amodal=None) for o in plain.objects))
        guessed = system.look(shown)
        views = remask(guessed, shown, GIVEN, "the truth"), guessed, system.look(plain)
        for kind, view in zip(KINDS, views, strict=True):
            for target in targets:
                for mode in MODES:
                    action, at = system.decide(view, target, mode=mode).action, total[kind, mode]
                    wrong = not isinstance(action, Defer) and is_wrong(action, target, pairs)
                    at.update(n=1, acts=not isinstance(action, Defer), wrong=wrong)
                    at["free"] += wrong and isinstance(action, Grasp)
    return total


def tell(name: str, total: dict[tuple[str, str], Counter[str]]) -> list[Row]:
    """Rows of one kind of scenes."""
    return [
        ("safe", f"{name}, true visible masks, hidden ones {kind}, {mode}: acts, wrong, called free",
         "reported", f"{at['acts']} acts, {at['wrong']} wrong, {at['free']} free of {at['n']} targets")
        for (kind, mode), at in total.items()
    ]  # fmt: skip


def measure_hidden_parts(scenes: int = 100) -> list[Row]:
    """Measure the rows."""
    system = System()
    rows = tell("osd_learn", count(photographs(), system))
    rows += tell(f"first {scenes} test scenes", count(test_cases(scenes), system))
    return rows


if __name__ == "__main__":
    measure_parts({"hidden_parts": measure_hidden_parts}, __doc__)
