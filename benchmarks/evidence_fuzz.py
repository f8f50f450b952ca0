"""Thousands of broken inputs: is an obstructed target grasped more often than on the scenes as they were?

    python benchmarks/evidence_fuzz.py [--cases 5000] [--scenes 40]

Test scenes get one to three faults of `faults.FAULTS`, and some of their objects are asked for: a case is a
broken scene and a target. All is decided by `cpor.System`. The masks are one of five:

    true       true masks, made by nobody that is known
    recorded   our segmenter's, with the record that `cpor perceive` writes; the fault comes after it
    forged     the same with a record that fits what is broken, and says that our networks made it
    claimed    our segmenter's, and the fault happens inside: whoever made them says that it is the tested one
    made       our networks look at a broken frame themselves: only these may be promised

A grasp counts against us where the object that the target's mask truly shows is obstructed, or where it shows
no object. Views are kept in out/fuzz as they are decided, so a run that was stopped goes on. Counts go to
out/evidence/.
"""

import hashlib
import itertools
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from evidence_page import Row
from faults import FAULTS, Broken, Fault, break_scene, shows
from harness import OUT, kept_lines, measure_parts

from cpor.answer import Answer
from cpor.decision import Defer, Grasp
from cpor.errors import CporError
from cpor.io.scene_folder import read_scene_folder
from cpor.learn.modes import DEFAULT_MODE, MODES, mode_tau
from cpor.model import bundled_model
from cpor.paper.perceived import PerceptionSettings, see
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import BlockedBy, Observation, Scene, Sources
from cpor.semantics.embedded import EmbeddedScorer
from cpor.sim.dataset.make import plan_split, write_dataset
from cpor.sources import describe_sources, fingerprint
from cpor.system import System
from cpor.truth import is_wrong, truth_of
from cpor.view import View

KINDS = ("true", "recorded", "forged", "claimed", "made")
SHARES = (0.3, 0.1, 0.2, 0.2, 0.2)
IN_FRAME = (
    "previous frame again", "no depth on blockers", "no depth on target", "depth holes", "depth shifted",
    "depth of another frame", "blockers read too deep", "blockers seen through",
)  # fmt: skip
"""Faults that our networks can look at."""
BOLDEST = min(MODES, key=lambda mode: mode_tau(mode))
TARGETS = 12
"""Objects of each broken scene that are asked for at most."""


@dataclass(frozen=True)
class Claiming:
    """A segmenter that says that it is ours, and hands out these masks."""

    scene: Scene
    fingerprint: str

    def segment(self, observation: Observation) -> Scene:
        """The masks, whatever the frame shows."""
        return replace(self.scene, observation=observation, sources=None)


@lru_cache(maxsize=1)
def _claim() -> str:
    return OnnxSegmenter().fingerprint


def look(kind: str, scene: Scene, previous: Observation | None = None) -> tuple[System, View]:
    """A scene as one of KINDS has it, looked at."""
    before = None if previous is None else View(Scene(previous), "", Sources(""), ())
    plain = replace(scene, true_occlusion=None, true_sweep=None, true_lift=None)
    if kind == "claimed":
        system = System(Claiming(plain, _claim()))
        return system, system.look(plain.observation, previous=before)
    system = System()
    if kind == "made":
        return system, system.look(plain.observation, previous=before)
    if kind == "forged":
        makers = fingerprint(OnnxSegmenter()), fingerprint(EmbeddedScorer())
        plain = replace(plain, sources=describe_sources(plain, *makers))
    return system, system.look(plain if kind != "true" else replace(plain, sources=None), previous=before)


def say(
    answer: Answer,
    target: int,
    owner: dict[int, int | None],
    truth: frozenset[BlockedBy],
    taus: Mapping[str, float],
    may_promise: bool,
) -> dict[str, str]:
    """A letter for what each mode does: - defers, g and r right, G and R wrong; * where it is promised.

    The boldest mode decided. Another does the same where the least score exceeds its tau too, else it defers.
    """
    decision, action = answer.decision, answer.action
    letters = dict.fromkeys(MODES, "-")
    measured = all(check.state == "pass" for check in answer.checks if check.name == "measured")
    if decision is None or action is None or isinstance(action, Defer):
        return letters
    meant = owner[target]
    obj = owner[action.obj] if isinstance(action.obj, int) else None
    wrong = meant is None or obj is None or is_wrong(replace(action, obj=obj), meant, truth)
    letter = "g" if isinstance(action, Grasp) else "r"
    for mode in MODES:
        if decision.interval(action.obj)[0] > taus[mode]:
            promised = mode == DEFAULT_MODE and may_promise and measured
            letters[mode] = (letter.upper() if wrong else letter) + ("*" if promised else "")
    return letters


def decide(kind: str, broken: Broken, before: Scene, targets: list[int]) -> dict[str, dict[str, str]]:
    """What each mode does for each target; an input that is refused is not acted on."""
    truth = frozenset(broken.truth)
    try:
        scene = broken.scene if broken.scored else replace(broken.scene, semantic_scores=None)
        system, view = look(kind, scene, broken.previous)
        refused = any(check.state == "fail" for check in view.checks)
    except CporError:
        refused = True
    if refused:  # `System` never acts then: asking would only take time
        return {str(target): dict.fromkeys(MODES, "-") for target in targets}
    if kind == "made":
        broken, targets = replace(broken, scene=view.scene, moved=True), list(view.scene.ids)[: len(targets)]
    owner = dict(shows(broken, before))
    said, taus, may_promise = {}, system.taus(view), system.outlook(view).promise is not None
    for target in targets:
        letters = dict.fromkeys(MODES, "-")
        if target in view.scene.ids:
            letters = say(system.decide(view, target, mode=BOLDEST), target, owner, truth, taus, may_promise)
        # Under whose number the scene as it was has it.
        was = owner[target] if kind == "made" else target
        said[f"{target}" if was is None or was == target else f"{target} {was}"] = letters
    return said


class Bases:
    """Test scenes with true masks and as our networks see them; seen once and kept."""

    def __init__(self, count: int) -> None:
        self.folder = OUT / "splits" / "test"
        if not (self.folder / f"scene_{count - 1:05d}" / "rgb.png").is_file():
            write_dataset(plan_split("test"), self.folder, 2)
        self.count = count
        self._clean: dict[tuple[int, str, int], dict[str, str]] = {}

    def read(self, number: int) -> Scene:
        """With true masks, as it was simulated."""
        return read_scene_folder(self.folder / f"scene_{number:05d}")

    @lru_cache(maxsize=64)  # noqa: B019
    def scene(self, number: int, kind: str) -> Scene:
        """With scores, so that they can be broken too."""
        made = "true" if kind == "true" else _claim().partition("@")[2][:8]
        file = OUT / "fuzz" / "scenes" / f"{number:05d}_{made}.pickle"
        if not file.is_file():
            settings = PerceptionSettings(segmenter="given" if kind == "true" else "ours")
            seen, _ = see(self.read(number), settings)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(pickle.dumps(seen))
        found: Scene = pickle.loads(file.read_bytes())
        return found

    def clean(self, number: int, kind: str, target: int) -> dict[str, str]:
        """What is done where nothing is broken; the first question decides for all targets of the scene."""
        if kind in ("recorded", "forged"):  # whole, they are what our networks make of the frame
            kind = "made"
        if (number, kind, target) not in self._clean:
            scene = self.scene(number, kind)
            whole = Broken(scene, 0, truth_of(scene, "any").pairs)
            for label, said in decide(kind, whole, scene, list(scene.ids)).items():
                self._clean[number, kind, int(label.split()[-1])] = said
        return self._clean.get((number, kind, target), dict.fromkeys(MODES, "-"))


def draw_faults(rng: np.random.Generator, kind: str) -> list[Fault]:
    """One fault mostly, else two or three."""
    count = int(rng.choice((1, 2, 3), p=(0.6, 0.25, 0.15)))
    kinds = rng.choice(sorted(IN_FRAME if kind == "made" else FAULTS), size=count, replace=False)
    return [Fault(str(kind), float(rng.random()), int(rng.integers(2**31))) for kind in kinds]


def decide_view(bases: Bases, number: int, seed: int) -> dict[str, Any]:
    """One broken scene, some targets, beside the same targets on the scene as it was."""
    rng = np.random.default_rng([seed, number])
    kind, base, other = str(rng.choice(KINDS, p=SHARES)), int(rng.integers(bases.count)), 0
    other = (base + 1 + int(rng.integers(bases.count - 1))) % bases.count
    scene = bases.scene(base, kind)
    truth = truth_of(scene, "any").pairs
    faults = draw_faults(rng, kind)
    obstructed = {blocked for blocked, _ in truth}
    # Faults about a target are about the first; half of the time it is an obstructed one.
    targets = [int(label) for label in rng.permutation(scene.ids)]
    if rng.random() < 0.5:
        targets.sort(key=lambda label: label not in obstructed)
    broken = break_scene(scene, targets[0], truth, bases.scene(other, kind), faults)
    targets = targets[:TARGETS]
    said = decide(kind, broken, scene, targets)
    cases = {label: [each, bases.clean(base, kind, int(label.split()[-1]))] for label, each in said.items()}
    return {
        "number": number,
        "kind": kind,
        "base": base,
        "faults": [asdict(f) for f in faults],
        "cases": cases,
    }


def run(bases: Bases, wanted: int, seed: int) -> Iterator[dict[str, Any]]:
    """Views until there are as many cases as wanted; those of an earlier run are read."""
    models = b"".join(bundled_model(kind).read_bytes() for kind in ("geometry", "embedded"))
    made = hashlib.blake2b(
        models + repr((KINDS, SHARES, TARGETS, sorted(FAULTS))).encode(), digest_size=4
    ).hexdigest()
    count, views = 0, (partial(decide_view, bases, number, seed) for number in itertools.count())
    for view in kept_lines(OUT / "fuzz" / f"views_{seed}_{made}.jsonl", views):
        count += len(view["cases"])
        yield view
        if count >= wanted:
            return


Tally = Counter[tuple[str, str, str, str]]
"""By family, kind of masks, mode and what is counted."""


def count(views: Iterator[dict[str, Any]]) -> Tally:
    """Everything that is done, broken and clean."""
    tally: Tally = Counter()
    for view in views:
        names = [each["kind"] for each in view["faults"]]
        family = names[0] if len(names) == 1 else "several"
        for pair in view["cases"].values():
            for said, when in zip(pair, ("", "clean "), strict=True):
                for mode, letter in said.items():
                    for group in (family, "all"):
                        for masks in (view["kind"], "all"):
                            at = group, masks, mode
                            tally[(*at, f"{when}n")] += 1
                            tally[(*at, f"{when}acts")] += letter != "-"
                            tally[(*at, f"{when}grasps")] += letter[0] == "G"
                            tally[(*at, f"{when}wrong")] += letter[0] in "GR"
                            tally[(*at, f"{when}promised acts")] += letter[-1] == "*"
                            tally[(*at, f"{when}promised")] += letter in ("G*", "R*")
                            tally[(*at, f"{when}promised grasps")] += letter == "G*"
    return tally


def rows_of(tally: Tally) -> list[Row]:
    """Under `cautious` no more obstructed grasps than on clean scenes, none promised; the rest reported."""
    rows: list[Row] = []
    for mode in MODES:
        for masks in ("all", *KINDS):
            told = {
                what: tally["all", masks, mode, what] for what in ("n", "grasps", "wrong", "acts", "promised")
            }
            clean = {what: tally["all", masks, mode, f"clean {what}"] for what in told}
            whose = "" if masks == "all" else f", {masks} masks"
            asked = f"at most {clean['grasps']}" if mode == "cautious" and masks == "all" else "reported"
            says = (
                f"{told['grasps']} of {told['n']} (clean {clean['grasps']}); wrong {told['wrong']} (clean "
                f"{clean['wrong']}), acts {told['acts']} (clean {clean['acts']})"
            )
            rows.append(("safe", f"fuzzed inputs, obstructed targets grasped, {mode}{whose}", asked, says))
    for masks in KINDS:
        at = "all", masks, "cautious"
        told = [tally[(*at, what)] for what in ("promised grasps", "n", "promised acts", "promised")]
        clean = [tally[(*at, f"clean {what}")] for what in ("promised grasps", "promised acts", "promised")]
        says = f"{told[0]} of {told[1]}; promised {told[2]}, of those wrong {told[3]} (clean {clean[0]}; "
        says += f"{clean[1]}, {clean[2]})"
        point = f"fuzzed inputs, obstructed targets grasped under a promise, {masks} masks"
        rows.append(("safe", point, "0", says))
    at = "all", "made", "cautious"
    for when, what in (("", "frames broken"), ("clean ", "frames whole")):
        acts, bad = (tally[(*at, f"{when}{count}")] for count in ("promised acts", "promised"))
        share = f"{bad / acts:.1%} ({bad} of {acts})" if acts else "0 % (none promised)"
        point = f"promised actions that are wrong, our networks look themselves, {what}"
        rows.append(("safe", point, "at most 10 %", share))
    for family in (*FAULTS, "several"):
        at = family, "all", "cautious"
        says = f"{tally[(*at, 'grasps')]} of {tally[(*at, 'n')]} (clean {tally[(*at, 'clean grasps')]})"
        rows.append(("safe", f"fuzzed inputs, cautious, grasped: {family}", "reported", says))
    return rows


def measure_fuzz(cases: int = 5000, scenes: int = 40, seed: int = 0) -> list[Row]:
    """Measure the rows."""
    return rows_of(count(run(Bases(scenes), cases, seed)))


if __name__ == "__main__":
    measure_parts({"fuzz": measure_fuzz}, __doc__)
