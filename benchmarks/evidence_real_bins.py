"""Real bins, heaps and tables (real_bins) labelled by eye: what is decided for every target, by mode.

    python benchmarks/evidence_real_bins.py              # --targets prints each

real_bins_labels.json holds points of every object, and what each pair of eyes says must go before it
(`by`) or may have to (`maybe`). An action is right where the labels allow it: grasping a target that nothing
certainly obstructs, or removing an object that is free and that obstructs the target, or may. Where several
pairs of eyes disagree, a relation is a `maybe`. A target whose points no mask holds counts as not found.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import Row
from harness import DATA, measure_parts, share
from PIL import Image

from cpor.decision import Action, Defer, Grasp
from cpor.io.frame_files import make_observation
from cpor.learn.modes import MODES
from cpor.scene import BlockedBy, Camera, Intrinsics, Observation
from cpor.system import System
from cpor.truth import chain_of
from cpor.view import View

LABELS = Path(__file__).with_name("real_bins_labels.json")

TABLE_CAMERA = Camera(Intrinsics(612.937, 613.173, 322.549, 248.158))
"""Of `tables/camera_params.json`."""


def read_frame(picture: str) -> Observation:
    """One picture of `real_bins`, such as `phoxi_0`."""
    kind, number = picture.split("_")
    folder = DATA / "real_bins" / kind
    if kind == "tables":
        rgb = Image.open(folder / f"{number:0>6}-color.png")
        depth = np.array(Image.open(folder / f"{number:0>6}-depth.png")).astype(np.float32) / 1000.0
        return Observation(np.array(rgb.convert("RGB")), depth, TABLE_CAMERA)
    pixels = np.array(Image.open(folder / f"color_{number}.png").convert("RGB"))
    depth = np.load(folder / f"depth_{number}.npy")[..., 0].astype(np.float32)
    return make_observation(pixels, depth, depth_unit_m=1.0)[0]


class Labelled:
    """What the eyes say of one picture, with the masks that hold its objects.

    Attributes:
        targets: Names of the objects asked for.
        sure: Relations that all eyes see, by name: blocked, blocker.
        allowed: Those that any of them sees or cannot exclude.
        mask_of: The mask that holds a point of each object found, by name.
    """

    def __init__(self, picture: str, labels: dict[str, Any], view: View) -> None:
        """Combine the eyes, and find the masks of the objects."""
        eyes = [said[picture] for said in labels["eyes"].values()]
        self.targets = [name for name in eyes[0] if all(name in said for said in eyes)]
        sure = [{(a, b) for a, told in said.items() for b in told["by"]} for said in eyes]
        doubted = [{(a, b) for a, told in said.items() for b in told["maybe"]} for said in eyes]
        self.sure = set.intersection(*sure)
        self.allowed = set.union(*sure, *doubted)
        shown = view.seen.visible_ids
        assert shown is not None
        points = labels["objects"][picture]
        held = {name: [int(shown[y, x]) for x, y in places] for name, places in points.items()}
        self.mask_of = {name: next(filter(None, ids)) for name, ids in held.items() if any(ids)}
        self.name_of = {k: name for name, ids in held.items() for k in ids if k}

    def is_right(self, action: Action, target: str) -> bool:
        """Whether the labels allow an action for a target."""
        assert not isinstance(action, Defer)
        name = self.name_of.get(action.obj)
        if isinstance(action, Grasp) != (name == target) or any(a == name for a, _ in self.sure):
            return False
        numbers = {
            each: k for k, each in enumerate({x for pair in self.allowed for x in pair} | {target, name})
        }
        pairs = {BlockedBy(numbers[a], numbers[b]) for a, b in self.allowed}
        return numbers[name] in chain_of(numbers[target], pairs)


def decide_all(system: System, view: View, labelled: Labelled) -> Iterator[tuple[str, str, str, str]]:
    """For every target and mode: target, mode, what happened, and more about it in words."""
    outlook = system.outlook(view)
    model = system.parts.model_for(system.believe(view).semantic)
    assert model is not None
    forced = replace(model.pipeline(tau=0.0), prior=model.p_unanswered, most_mu=1.0)
    beliefs = system.believe(view).beliefs
    certain = forced.combine(beliefs.geometry, system.believe(view).semantic)
    failed = [check.name for check in outlook.checks if check.state == "fail"]
    for name in labelled.targets:
        mask = labelled.mask_of.get(name)
        if mask is None:
            for mode in ("likeliest", *MODES):
                yield name, mode, "lost", "no mask"
            continue
        posterior = forced.posterior(certain, mask).with_prior(forced.prior)
        action = forced.settle(forced.decide(posterior)).action
        yield name, "likeliest", *_judge(action, name, labelled, failed)
        for mode in MODES:
            answer = system.decide(view, mask, mode=mode)
            assert answer.decision is not None
            what, why = _judge(answer.decision.action, name, labelled, failed)
            best = max(answer.scores.values(), default=0.0)
            mu = answer.decision.mu_target
            p_unseen = beliefs.p_unseen[beliefs.ids.index(mask)]
            yield name, mode, what, f"{why} score {best:.2f} mu {mu or 0:.2f} unseen {p_unseen:.2f}"


def _judge(action: Action, target: str, labelled: Labelled, failed: list[str]) -> tuple[str, str]:
    """What an action is by the labels, and the action or the reason to ask in words."""
    if isinstance(action, Defer):
        return "asks", f"{action.reason} {' '.join(failed)}"
    right = labelled.is_right(action, target)
    return "right" if right else "wrong", f"{type(action).__name__} {labelled.name_of.get(action.obj)}"


def measure_real_bins(targets: bool = False) -> list[Row]:
    """Measure the rows."""
    labels = json.loads(LABELS.read_text())
    system = System()
    total: dict[tuple[str, str], Counter[str]] = {}
    for picture in labels["objects"]:
        view = system.look(read_frame(picture))
        labelled = Labelled(picture, labels, view)
        for name, mode, what, why in decide_all(system, view, labelled):
            total.setdefault((picture.split("_")[0], mode), Counter())[what] += 1
            total.setdefault(("all", mode), Counter())[what] += 1
            if targets:
                print(f"{picture:13} {name:15} {mode:10} {what:6} {why}")
    rows: list[Row] = []
    for (kind, mode), count in total.items():
        n = count.total()
        what = f"right {share(count['right'], n)}, wrong {share(count['wrong'], n)}"
        what += f", asks {count['asks']}, not found {count['lost']}"
        point = f"real pictures labelled by eye, {kind}, {mode}: what is done"
        rows.append(("decides", point, "reported", what))
    return rows


if __name__ == "__main__":
    measure_parts({"real_bins": measure_real_bins}, __doc__)
