"""Targets that a person points at: whom we take them for, and what is done, with our own masks.

    python benchmarks/evidence_pointing.py [--scenes 400]

The point lies deepest in what truly shows of the target. It means the object whose mask holds it, else what
the segmenter saw there faintly, else it is asked back; beside it, whom the paper's rule for points means, the
nearest centre within 120 px. A first action, forced by the bundled model, is right if the object meant is the
target and the action is right for it. On photographs (osd_learn) every object is a target. Figures go to
out/evidence/.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from evidence_gate import DATA
from evidence_photographs import share
from long_parts import Row, measure_parts

from cpor.decision import Defer, Grasp
from cpor.infer.decide import decide_many
from cpor.io.scene_folder import list_scene_folders, read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.scene import Scene
from cpor.semantics.matching import match_point
from cpor.sim.dataset.make import DatasetSettings, plan_split, simulate_case
from cpor.sim.dataset.recognition import Recognition
from cpor.sim.staged_run import deepest_point
from cpor.system import System
from cpor.truth import TruthKind, is_wrong, truth_of

Case = tuple[Scene, list[int], TruthKind]
"""A scene, its targets, and what truth an action is judged by."""


def test_cases(most: int) -> Iterator[Case]:
    """The first scenes of the test split."""
    for case in plan_split("test").cases[:most]:
        scene, entry = simulate_case(case, DatasetSettings())
        yield scene, [entry.target], "any"


def photographs() -> Iterator[Case]:
    """The photographs, all labelled objects of each."""
    for folder in list_scene_folders(DATA / "osd_learn"):
        scene = read_scene_folder(folder)
        yield scene, list(scene.ids), "occlusion"


def count(cases: Iterable[Case], system: System, model: FittedModel) -> Counter[str]:
    """Point at every target, and judge what comes of it."""
    forced = replace(model.pipeline(tau=0.0, fill_missing=True), most_mu=1.0)
    total: Counter[str] = Counter()
    for scene, targets, kind in cases:
        truth, view = truth_of(scene, kind), system.look(scene.observation)
        for target in targets:
            assert scene.visible_ids is not None
            point = deepest_point(scene.visible_ids, target)
            if point is None:
                continue
            before = match_point(view.seen, point)
            answer = system.decide(view, point, mode="cautious")
            assert answer.view is not None and answer.view.seen.visible_ids is not None
            seen, meant = answer.view.seen, answer.target
            known = Recognition.match(seen.ids, seen.visible_ids, truth.objects, scene.visible_ids)
            total["n"] += 1
            total["faint"] += answer.view is not view and meant is not None
            total["nearest wrong"] += before is not None and known.owner.get(before) != target
            if meant is None:
                total["asked"] += 1
                continue
            if known.owner.get(meant) != target:
                total["another"] += 1
                total["another acted"] += not isinstance(answer.action, Defer)
                continue
            assert answer.view.beliefs is not None
            pairs = known.translate(truth).pairs
            posterior = forced.posterior(answer.view.beliefs, meant).with_prior(forced.prior)
            action = forced.settle(decide_many([posterior], tau=0.0)[0]).action
            wrong = isinstance(action, Defer) or is_wrong(action, meant, pairs)
            total["right"] += not wrong
            total["free"] += wrong and isinstance(action, Grasp)
            acts = answer.action is not None and not isinstance(answer.action, Defer)
            total["cautious acts"] += acts
            total["cautious wrong"] += acts and is_wrong(answer.action, meant, pairs)
    return total


def tell(name: str, total: Counter[str]) -> list[Row]:
    """Rows of one kind of scenes."""
    n = total["n"]
    return [
        ("decides", f"{name}, target pointed at, forced first actions right", "reported",
         f"{share(total['right'], n)}; {total['faint']} of the targets were seen only faintly"),
        ("safe", f"{name}, target pointed at: taken for another object", "reported",
         f"{share(total['another'], n)}, cautious acts on {total['another acted']} of them; {total['asked']} "
         f"asked back. By the paper's rule for points {share(total['nearest wrong'], n)}"),
        ("safe", f"{name}, target pointed at, cautious: acts, wrong", "reported",
         f"{total['cautious acts']} acts, {total['cautious wrong']} wrong of {n}"),
    ]  # fmt: skip


def measure_pointing(scenes: int = 400) -> list[Row]:
    """Measure the rows."""
    system, model = System(), FittedModel.load(bundled_model("embedded"))
    rows = tell("osd_learn", count(photographs(), system, model))
    rows += tell(f"first {scenes} test scenes", count(test_cases(scenes), system, model))
    return rows


if __name__ == "__main__":
    measure_parts({"pointing": measure_pointing}, __doc__)
