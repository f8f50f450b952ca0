"""The paper's pipeline against the default, and each difference switched by itself, on a perceived split.

    cpor simulate --out dev --scenes 150 --seed 1710000
    cpor experiment perception --split dev --out dev_seen
    python benchmarks/paper_pipeline.py dev dev_seen OUT [PAPER_FIT.json]

Every object of every scene is a target once. The first action is forced; what was not found is wrong.
Intervals: scenes resampled. Judged scenes are kept in OUT: a stopped run goes on, and is of the scenes that
are perceived so far.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from cpor.decision import Defer
from cpor.io.scene_folder import read_scene_folder
from cpor.io.whole_files import write_text
from cpor.learn.bootstrap import bootstrap_mean
from cpor.learn.reliability import ece
from cpor.model import FittedModel, bundled_model
from cpor.paper.decoding import assemble_paper, map_graph
from cpor.paper.paths import set_score
from cpor.paper.perceived import PerceivedCase
from cpor.paper_model import TAU, load_model, nothing_unseen, paper_evidence
from cpor.pipeline import UNSEEN, Pipeline
from cpor.scene import BlockedBy, Scene
from cpor.truth import is_wrong, on_chain, right_actions, truth_of


def variants(fit: Path | None) -> dict[str, Pipeline]:
    """Pipelines by name, forced to act but for the last two, which act above their own threshold."""
    model = FittedModel.load(bundled_model("embedded"))
    paper_model = load_model("paper" if fit is None else fit)
    default, paper = replace(model.pipeline(0.0), prior=model.p_unanswered), paper_model.pipeline(0.0)

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
        "default, acting": model.pipeline(model.tau("cautious")),
        "paper, acting": replace(paper_model.pipeline(TAU), method="topk"),
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
        forced = pipeline.tau == 0.0
        decision = (replace(pipeline, most_mu=1.0) if forced else pipeline).decide(posterior)
        known = posterior.with_prior(pipeline.prior)
        scores = {o: q for o, q in decision.scores.items() if o != UNSEEN}
        said = assemble_paper(scores, map_graph(known), target) if not known.has_unanswered else None
        for kind, pairs in truths.items():
            acted = not isinstance(decision.action, Defer)
            wrong = acted and is_wrong(decision.action, target, pairs)
            values = {"first action": float(acted and not wrong), "acts": float(acted), "wrong": float(wrong)}
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
    kept = {"p": beliefs.p_fused, "any": label, "occlusion": hidden}
    return {"rows": rows, **{name: values[touched].tolist() for name, values in kept.items()}}


def judge_all(split: Path, seen: Path, out: Path, fit: Path | None) -> list[dict]:
    """Every perceived scene under every pipeline; a scene that is in `out` is not judged again."""
    pipelines = variants(fit)
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for file in sorted((seen / "records").glob("*.json")):
        kept = out / file.name
        if not kept.is_file():
            record = PerceivedCase.model_validate_json(file.read_bytes())
            scene, true = read_scene_folder(seen / record.name), read_scene_folder(split / record.name)
            judged = {
                name: judge(pipeline, scene, dict(record.owner), frozenset(true.ids))
                for name, pipeline in pipelines.items()
            }
            write_text(kept, json.dumps(judged))
        found.append(json.loads(kept.read_text()))
    return found


def tabulate(found: list[dict]) -> dict:
    """Means and paired differences from the default with intervals, scenes resampled; ECE of relations."""
    rng = np.random.default_rng(0)
    table: dict[str, dict] = {}
    for name in found[0]:
        each = [scene[name] for scene in found]
        table[name] = {}
        for figure in sorted({f for scene in each for f in scene["rows"]}):
            values = np.array([v for scene in each for v in scene["rows"].get(figure, [])])
            group = np.array([k for k, scene in enumerate(each) for _ in scene["rows"].get(figure, [])])
            low, high = bootstrap_mean(values, group, rng)
            table[name][figure] = [round(float(values.mean()), 4), round(low, 4), round(high, 4), values.size]
            first = np.array([v for scene in found for v in scene["default"]["rows"].get(figure, [])])
            if name != "default" and first.size == values.size:
                low, high = bootstrap_mean(values - first, group, rng)
                gap = float((values - first).mean())
                table[name][f"{figure}, difference"] = [round(gap, 4), round(low, 4), round(high, 4)]
        p = np.concatenate([scene["p"] for scene in each])
        for kind in ("any", "occlusion"):
            label = np.concatenate([scene[kind] for scene in each]).astype(bool)
            table[name][f"ECE, {kind}"] = round(ece(p, label), 4)
    return table


def main() -> None:
    """Print the table as JSON."""
    split, seen, out = map(Path, sys.argv[1:4])
    found = judge_all(split, seen, out, Path(sys.argv[4]) if len(sys.argv) > 4 else None)
    made = json.loads((seen / "perception.json").read_text())
    print(json.dumps({"scenes": len(found), "made with": made, "table": tabulate(found)}, indent=1))


if __name__ == "__main__":
    main()
