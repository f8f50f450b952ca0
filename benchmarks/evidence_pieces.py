"""Photographs, our masks: which found pieces the safety rules defer on, why, and whether they are objects.

    python benchmarks/evidence_pieces.py [--mode balanced]

Every piece that our segmenter finds on osd_learn is asked for, with the rules and as if every hidden pixel
had an owner and nothing contradicted anything. A piece is an object if it is one of the labelled ones; else
it is background, or a part of an object. Figures go to out/evidence/.
"""

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np
from evidence_drops import photographs
from evidence_page import keep
from long_parts import Row

from cpor.decision import Defer
from cpor.evidence.unseen import CUT
from cpor.infer.decide import decide_many
from cpor.learn.gated import Guard
from cpor.learn.modes import Mode, parse_mode
from cpor.model import FittedModel, bundled_model
from cpor.truth import is_wrong


def count(mode: Mode) -> Counter[tuple[str, str]]:
    """By kind of piece, and by what becomes of it."""
    model = FittedModel.load(bundled_model("embedded"))
    on = model.pipeline()
    off = replace(on, guard=Guard(float("inf")), most_mu=1.0)
    found: Counter[tuple[str, str]] = Counter()
    for read in photographs(1000, "our masks"):
        seen = read()
        ids, evidence = seen.scene.ids, on.measure(seen.scene)
        strict = on.combine(evidence, seen.scene.semantic_scores)
        loose = replace(off.combine(evidence, seen.scene.semantic_scores), p_unseen=np.zeros(len(ids)))
        known = {label for label in ids if seen.owner[label] is not None}
        made = {
            rule: decide_many([pipeline.posterior(beliefs, label) for label in ids], tau=0.0)
            for rule, pipeline, beliefs in (("off", off, loose), ("on", on, strict))
        }
        cues = evidence.unseen
        for k, label in enumerate(ids):
            kind = "object" if label in known else "no labelled object"
            acts = {}
            for rule, pipeline in (("off", off), ("on", on)):
                decision = pipeline.settle(made[rule][k])
                action = decision.action
                acts[rule] = not isinstance(action, Defer) and decision.interval(action.obj)[0] > model.tau(
                    mode
                )
            found[kind, "n"] += 1
            found[kind, "acts without"] += acts["off"]
            found[kind, "acts"] += acts["on"]
            action = made["on"][k].action
            found[kind, "wrong"] += acts["on"] and is_wrong(action, label, seen.truth)
            if acts["off"] and not acts["on"]:
                wrong = is_wrong(made["off"][k].action, label, seen.truth)
                found[
                    kind, f"lost: {_why(cues, k, strict.p_unseen[k])}{', wrong without' if wrong else ''}"
                ] += 1
    return found


def _why(cues, k: int, p_unseen: float) -> str:  # type: ignore[no-untyped-def]
    if cues.cut[k] > CUT:
        return "cut by the image border"
    if np.isnan(p_unseen):
        return "no answer on what hides it"
    if p_unseen > 0.2:
        shares = {name: getattr(cues, name)[k] for name in ("before", "level", "unread", "ring_before")}
        return f"hidden pixels without an owner, mostly {max(shares, key=lambda name: shares[name])}"
    return "another piece of its chain is one of these, or sources contradict"


def rows_of(mode: str, found: Counter[tuple[str, str]]) -> list[Row]:
    """Coverage of each kind, and why it falls."""
    rows: list[Row] = []
    for kind in ("object", "no labelled object"):
        n, before, after, wrong = (found[kind, what] for what in ("n", "acts without", "acts", "wrong"))
        lost = {what: m for (of, what), m in sorted(found.items()) if of == kind and what.startswith("lost")}
        why = "; ".join(f"{m} {what.removeprefix('lost: ')}" for what, m in lost.items())
        says = (
            f"{100 * (before - after) / max(n, 1):.1f} points ({before} of {n} acted on without the rules, "
        )
        says += f"{after} with, {wrong} wrong; {why})"
        asked = "below 3" if kind == "object" and mode == "balanced" else "reported"
        rows.append(
            ("safe", f"coverage that the rules cost, osd_learn, our masks, {mode}: {kind}", asked, says)
        )
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", default="balanced,cautious")
    asked = parser.parse_args()
    rows = [row for mode in asked.mode.split(",") for row in rows_of(mode, count(parse_mode(mode)))]
    for row in rows:
        print(" | ".join(row))
    keep({"pieces": rows})


if __name__ == "__main__":
    main()
