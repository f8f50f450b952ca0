"""The paper's pipeline against the default, and each difference switched by itself, on a perceived split.

    cpor simulate --out dev --scenes 150 --seed 1710000
    cpor experiment perception --split dev --out dev_seen
    python benchmarks/paper_pipeline.py dev dev_seen [PAPER_FIT.json]

Every object of every scene is a target once. The first action is forced; what was not found is wrong.
Intervals: scenes resampled.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from cpor.decision import Defer
from cpor.io.scene_folder import read_scene_folder
from cpor.learn.bootstrap import bootstrap_mean
from cpor.learn.reliability import ece
from cpor.model import FittedModel, bundled_model
from cpor.paper.decoding import assemble_paper, map_graph
from cpor.paper.paths import set_score
from cpor.paper.perceived import PerceivedCase
from cpor.paper_model import load_model, nothing_unseen, paper_evidence
from cpor.pipeline import UNSEEN, Pipeline
from cpor.scene import BlockedBy, Scene
from cpor.truth import is_wrong, on_chain, right_actions, truth_of


def variants(fit: Path | None) -> dict[str, Pipeline]:
    """Pipelines by name; each but the last two differs from the default in one point."""
    default = FittedModel.load(bundled_model("embedded")).pipeline(0.0, fill_missing=True)
    paper = load_model("paper" if fit is None else fit).pipeline(0.0)

    def without_unseen(scene: Scene):
        found = default.measure(scene)
        return replace(found, unseen=nothing_unseen(len(found.ids)))

    return {
        "default": default,
        "no guard": replace(default, guard=None),
        "nothing unseen": replace(default, measure=without_unseen),
        "base rate where there is no depth": replace(default, least_reliability=0.0),
        "Algorithm 1": replace(default, method="topk"),
        "formula, calibration and fusion of the paper": replace(
            default, measure=paper_evidence, calibrate=paper.calibrate, fuse=paper.fuse
        ),
        "paper, exact sums": paper,
        "paper": replace(paper, method="topk"),
    }


def judge(pipeline: Pipeline, scene: Scene, owner: dict[int, int | None], everything: frozenset[int]) -> dict:
    """Figures of every true object of one scene, and relation probabilities with labels."""
    beliefs = pipeline.believe(scene)
    truths = {kind: truth_of(scene, kind).pairs for kind in ("occlusion", "any")}
    rows: dict[str, list[float]] = {}
    for target in scene.ids:
        if owner.get(target) is None:
            continue
        posterior = pipeline.posterior(beliefs, target)
        decision = replace(pipeline, most_mu=1.0).decide(posterior)
        known = posterior.with_prior(pipeline.prior)
        scores = {o: q for o, q in decision.scores.items() if o != UNSEEN}
        said = assemble_paper(scores, map_graph(known), target) if not known.has_unanswered else None
        for kind, pairs in truths.items():
            acted = not isinstance(decision.action, Defer)
            values = {"first action": float(acted and not is_wrong(decision.action, target, pairs))}
            chain = on_chain(target, pairs)
            if said is not None:
                values["object F1"] = set_score(said.objects, right_actions(target, pairs)).f1
                if chain:
                    values["relation F1"] = set_score(
                        {p for p in said.relations if UNSEEN not in p}, chain
                    ).f1
            for name, value in values.items():
                rows.setdefault(f"{name}, {kind}", []).append(value)
    lost = len(everything) - len({owner[k] for k in scene.ids if owner.get(k) is not None})
    for name in list(rows):
        if not name.startswith("relation"):
            rows[name] += [0.0] * lost
    touched = ~np.eye(len(beliefs.ids), dtype=bool) & (np.nan_to_num(beliefs.p_fused, nan=0.0) > 0.0)
    label = np.array([[BlockedBy(i, j) in truths["any"] for j in beliefs.ids] for i in beliefs.ids])
    hidden = np.array([[BlockedBy(i, j) in truths["occlusion"] for j in beliefs.ids] for i in beliefs.ids])
    return {"rows": rows, "p": beliefs.p_fused[touched], "any": label[touched], "occlusion": hidden[touched]}


def main() -> None:
    """Print the table as JSON."""
    split, seen = Path(sys.argv[1]), Path(sys.argv[2])
    pipelines = variants(Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    found: dict[str, list[tuple[int, dict]]] = {name: [] for name in pipelines}
    records = [
        PerceivedCase.model_validate_json(file.read_bytes())
        for file in sorted((seen / "records").glob("*.json"))
    ]
    for k, record in enumerate(records):
        scene = read_scene_folder(seen / record.name)
        true = read_scene_folder(split / record.name)
        for name, pipeline in pipelines.items():
            found[name].append((k, judge(pipeline, scene, dict(record.owner), frozenset(true.ids))))
    rng = np.random.default_rng(0)
    table = {}
    for name, each in found.items():
        table[name] = {}
        for figure in sorted({f for _, e in each for f in e["rows"]}):
            values = np.array([v for _, e in each for v in e["rows"].get(figure, [])])
            group = np.array([k for k, e in each for _ in e["rows"].get(figure, [])])
            low, high = bootstrap_mean(values, group, rng)
            table[name][figure] = [round(float(values.mean()), 4), round(low, 4), round(high, 4), values.size]
        p = np.concatenate([e["p"] for _, e in each])
        for kind in ("any", "occlusion"):
            table[name][f"ECE, {kind}"] = round(ece(p, np.concatenate([e[kind] for _, e in each])), 4)
    print(json.dumps({"scenes": len(records), "table": table}, indent=1))


if __name__ == "__main__":
    main()
