"""Fit and evaluate all relation sources on the standard splits, on one machine with many cores, in minutes.

`see` simulates `dev`, later looks, fresh scenes, `test` and later looks to report, sees every case with our
segmenter's masks and with true ones, `dev` and `test` with the classical segmenter's too, and measures the
paper's geometry, the learnt geometry and the scorer. Cases are kept where `--scenes` says, and taken
from there the next time. `judge` fits a model for each combination on `dev` and the later looks, promises on
the fresh scenes, counts on `test` how often the first action is right: summed over acyclic graphs, over all
graphs, and of the likeliest graph alone; then the same on later looks. It writes results.json, goes on where
it stopped, and writes the models of the product. Cases that are not done when the time is up are left out;
n says how many there were.

Run: python benchmarks/box_evaluate.py see --out DIR [--workers 16] [--seconds 380], then
     python benchmarks/box_evaluate.py judge --facts DIR --out DIR
"""

import argparse
import itertools
import json
import pickle
import time
import zlib
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from box_judge import SOURCES, judge, raw_learnt, with_true_relations

from cpor.errors import SimulationError
from cpor.evidence import GeometricEvidence, PairState, geometric_evidence
from cpor.evidence.learnt import RELATIONS, GeometryKind, LearntGeometry, join_geometry
from cpor.fitting.labelled import LabelledScene
from cpor.io.whole_files import write_bytes
from cpor.paper.means import WilsonRate
from cpor.paper.perceived import PerceptionSettings, SegmenterKind, see
from cpor.perception import network_file
from cpor.pipeline import Pipeline
from cpor.scene import DetectedObject, Observation, Scene, SemanticScores
from cpor.sim.dataset.make import plan_dataset, plan_split, simulate_case
from cpor.sim.dataset.manifest import CaseEntry, CasePlan, DatasetSettings

MASKS: dict[SegmenterKind, str] = {
    "ours": "our masks",
    "given": "true masks",
    "depth": "the classical segmenter's masks",
}

SPLITS = ("dev", "late", "fresh", "test", "late_test")
"""First and later looks to fit and choose on, both to promise with, first and later looks to report."""

SEEDS = {"late": 20261102, "fresh": 20261124, "late_test": 20261123}
"""Of the splits that are no standard ones; nothing was chosen or trained on the last two."""

_NO_BELIEFS: Any = None


@dataclass(frozen=True, eq=False)
class Facts:
    """What remains of a case: everything measured and true, and no picture.

    Attributes:
        scene: Objects and truths over a picture of one pixel, which differs from case to case.
        target, tier: What is asked for, and how deep it lies.
        geometry: Of the paper and of the network, by whose.
        learnt: Log-odds of the learnt geometry for occlusion, sweep and either. Shape (n, n, 3).
        semantic: What the scorer said.
        labelled: The case as fitting reads it.
    """

    scene: Scene
    target: int
    tier: str
    geometry: Mapping[GeometryKind, GeometricEvidence]
    learnt: np.ndarray
    semantic: SemanticScores
    labelled: LabelledScene

    def read(self, kind: GeometryKind | None, asks: bool, raw: Pipeline) -> LabelledScene:
        """As fitting reads it, with some of the sources only."""
        semantic, sources = (self.semantic, self.labelled.sources) if asks else (None, None)
        if not asks and self.labelled.sources is not None:
            sources = replace(self.labelled.sources, scores=None, scorer=None)
        beliefs = raw.combine(self.evidence(kind), semantic)
        return replace(self.labelled, semantic=semantic, sources=sources, beliefs=beliefs)

    def evidence(self, kind: GeometryKind | None) -> GeometricEvidence:
        """Of one kind; None: geometry knows nothing."""
        if kind == "both":
            hides = self.learnt[..., RELATIONS.index("occlusion")]
            return join_geometry(self.geometry["paper"], self.geometry["learnt"], hides)
        if kind is not None:
            return self.geometry[kind]
        plain = self.geometry["paper"]
        state = np.full_like(plain.state, PairState.NO_CONTACT)
        return replace(plain, state=state, p_geometry=np.zeros_like(plain.p_geometry))


@lru_cache(maxsize=1)
def _geometry() -> LearntGeometry:
    return LearntGeometry(joined=False)


def _one_thread() -> None:
    """Every core has a process of its own: more threads would only wait for each other."""
    network_file.THREADS = 1


def removed(split: str, number: int) -> int:
    """How many blockers to take away before the look, if the target has so many: in fresh scenes, too.

    A robot that works its way to a target meets such heaps more often than untouched ones. Some 28 % of the
    targets lie free from the start, so that about half of the fresh scenes are untouched.
    """
    if split == "fresh":
        return 1 + number // 3 % 3 if number % 3 else 0
    return 1 + number % 3 if split in ("late", "late_test") else 0


def simulated(split: str, number: int, case: CasePlan, kept: Path | None) -> tuple[Scene, CaseEntry] | None:
    """A case of a split as `simulate_case` makes it; None where no heap comes of its seed."""
    path = kept / f"{split}_{number:05d}_{case.seed}.scene" if kept else None
    if path is not None and path.is_file():
        made: tuple[Scene, CaseEntry] | None = pickle.loads(zlib.decompress(path.read_bytes()))
        return made
    try:
        made = simulate_case(case, DatasetSettings(removed=removed(split, number)))
    except SimulationError:
        made = None
    if path is not None:
        write_bytes(path, zlib.compress(pickle.dumps(made), 1))
    return made


def look(
    split: str, number: int, case: CasePlan, kept: Path | None = None
) -> dict[SegmenterKind, bytes] | None:
    """A case as both kinds of masks show it, packed `Facts`; None where no heap comes of its seed."""
    made = simulated(split, number, case, kept)
    if made is None:
        return None
    scene, entry = made
    found = {}
    geometry = _geometry()
    for masks in MASKS if split in ("dev", "test") else tuple(MASKS)[:2]:
        seen, known = see(scene, PerceptionSettings(segmenter=masks))
        assert seen.semantic_scores is not None
        paper, learnt = geometric_evidence(seen), geometry(seen)
        told = np.full((*paper.state.shape, len(RELATIONS)), np.nan)
        asked = [(i, j) for i, j in np.argwhere(learnt.is_candidate).tolist() if i < j]
        for (i, j), logit in zip(
            asked, geometry.judge(seen, [(paper.ids[i], paper.ids[j]) for i, j in asked]), strict=True
        ):
            told[i, j], told[j, i] = logit
        apart = number * len(SPLITS) + SPLITS.index(split)
        pixel = np.frombuffer(np.array([apart], "<u4").tobytes()[:3], np.uint8)
        small = Scene(
            Observation(pixel.reshape(1, 1, 3)),
            tuple(DetectedObject(o.id) for o in seen.objects),
            np.zeros((1, 1), np.int32),
            true_occlusion=seen.true_occlusion,
            true_sweep=seen.true_sweep,
            request=f"{split} {number:05d}",
        )
        facts = Facts(
            small,
            known.find(entry.target),
            entry.tier,
            {"paper": paper, "learnt": learnt},
            told,
            seen.semantic_scores,
            # Beliefs are made anew from the sources that a combination uses.
            replace(LabelledScene.read(str(small.request), seen, Pipeline(), "any"), beliefs=_NO_BELIEFS),
        )
        found[masks] = zlib.compress(pickle.dumps(facts), 6)
    return found


def see_all(out: Path, workers: int, counts: Mapping[str, int], seconds: float, scenes: Path | None) -> None:
    """Simulate and see the cases, and keep what was measured in files of at most 15 MB."""
    start = time.monotonic()
    plans: dict[str, list[CasePlan]] = {}
    for split, count in counts.items():
        if split == "dev" or split == "test":
            plans[split] = list(plan_split(split).cases[:count])
        else:
            plans[split] = list(plan_dataset(count, SEEDS[split]).cases) if count else []
    kept: dict[tuple[str, SegmenterKind], list[bytes]] = {(s, m): [] for s in plans for m in MASKS}
    with ProcessPoolExecutor(workers, initializer=_one_thread) as pool:
        jobs = {
            pool.submit(look, split, k, case, scenes): split
            for split, cases in plans.items()
            for k, case in enumerate(cases)
        }
        try:
            for done, job in enumerate(as_completed(jobs, timeout=seconds), start=1):
                for masks, content in (job.result() or {}).items():
                    kept[jobs[job], masks].append(content)
                if done % 200 == 0:
                    print(f"{time.monotonic() - start:6.1f} s  {done} of {len(jobs)} cases", flush=True)
        except TimeoutError:
            print("time is up; the rest of the cases is left out", flush=True)
        for job in jobs:
            job.cancel()
        for (split, masks), contents in kept.items():
            part, size, number = [], 0, 0
            for content in [*contents, b""]:
                if part and (not content or size + len(content) > 15_000_000):
                    (out / f"{split}_{masks}_{number}.facts").write_bytes(pickle.dumps(part))
                    part, size, number = [], 0, number + 1
                part.append(content)
                size += len(content)
            print(f"{split}, {MASKS[masks]}: {len(contents)} cases, {number} files", flush=True)
        pool.shutdown(wait=False, cancel_futures=True)


def judge_all(out: Path, facts: Path, sources: list[str], cases: int | None) -> None:
    """Fit and judge every combination on the facts of a folder."""
    found: dict[tuple[str, SegmenterKind], list[Facts]] = {(s, m): [] for s in SPLITS for m in MASKS}
    for split, masks in found:
        for path in sorted(facts.glob(f"{split}_{masks}_*.facts")):
            found[split, masks] += [
                pickle.loads(zlib.decompress(each)) for each in pickle.loads(path.read_bytes())
            ]
        found[split, masks].sort(key=lambda each: str(each.scene.request))
        if split == "test":
            drawn = np.random.default_rng(0).permutation(len(found[split, masks]))[:cases]
            found[split, masks] = [found[split, masks][k] for k in sorted(drawn.tolist())]
    before = out / "results.json"
    results: dict[str, Any] = (
        json.loads(before.read_text())
        if before.is_file()
        else {
            MASKS[m]: {
                "learnt geometry, before fitting": raw_learnt(found["test", m]),
                "true relations": _limit(found["test", m]) | {"later": _limit(found["late_test", m])},
            }
            for m in MASKS
        }
    )
    print({key: len(each) for key, each in found.items()}, flush=True)
    for source, masks in itertools.product(sources, MASKS):
        if source in results[MASKS[masks]] or (masks == "depth" and SOURCES[source][1]):
            continue
        known = [each for split in SPLITS[:3] for each in found[split, masks]]
        told = judge(masks, source, known, found["test", masks], found["late_test", masks])
        results[MASKS[masks]][source] = told["row"]
        if told["model"] is not None:
            (out / f"simulated_{told['kept']}.json").write_text(told["model"] + "\n")
        before.write_text(json.dumps(results, indent=1) + "\n")
        _say(MASKS[masks], source, told["row"])


def _limit(cases: list[Facts]) -> dict[str, Any]:
    """What true relations among the objects found would give."""
    return {"right": {"any": {"truth": with_true_relations(cases)}} if cases else {}}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("see", "judge"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sources", nargs="*", default=list(SOURCES), help="combinations to judge")
    parser.add_argument("--facts", type=Path, help="where `see` wrote, for `judge`")
    parser.add_argument(
        "--cases", type=int, help="judge on so many test cases, drawn at random (default: all)"
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--dev", type=int, default=550)
    parser.add_argument("--late", type=int, default=400, help="scenes after removals to fit on")
    parser.add_argument("--fresh", type=int, default=900, help="scenes to promise with")
    parser.add_argument("--test", type=int, default=1800)
    parser.add_argument("--late-test", type=int, default=600, help="scenes after removals to report")
    parser.add_argument("--scenes", type=Path, help="where simulated cases are kept, to be seen again")
    parser.add_argument("--seconds", type=float, default=380.0, help="for simulating and seeing")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.stage == "see":
        if asked.scenes is not None:
            asked.scenes.mkdir(parents=True, exist_ok=True)
        counts = {split: getattr(asked, split) for split in SPLITS}
        see_all(asked.out, asked.workers, counts, asked.seconds, asked.scenes)
    else:
        judge_all(asked.out, asked.facts or asked.out, asked.sources, asked.cases)


def _say(masks: str, source: str, row: dict[str, Any]) -> None:
    told = ", ".join(
        f"{method} {WilsonRate.of([c == '1' for c in ''.join(by_tier.values())]).share:.3f}"
        for method, by_tier in row["right"]["any"].items()
    )
    relations = row["relations"]
    print(f"{masks}, {source}: {told}; AUROC {relations['auroc'][0]:.4f}, ECE {relations['ece'][0]:.4f}")


if __name__ == "__main__":
    main()
