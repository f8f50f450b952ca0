"""First actions through the front door: pictures in, one decision a case and mode out, judged by the truth.

    python benchmarks/evidence_first_actions.py                        the test split, 1,800 cases
    python benchmarks/evidence_first_actions.py --cases 200 --sensor harsh --seed 7
    python benchmarks/evidence_first_actions.py --photographs          osd_learn, every labelled object

`cpor.System` sees the picture and its depth, nothing else. The likeliest action is right if no true blocker
is left in its way, by occlusion or sweep (photographs: by occlusion). Each case is written to
`out/evidence/first_actions/` as soon as it is decided; the same command goes on where it stopped.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

from evidence_page import MEASURED, keep
from long_parts import Row

import cpor
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import SimulationError
from cpor.io.scene_folder import read_scene_folder
from cpor.learn.modes import MODES
from cpor.paper.runs.report import wilson_interval
from cpor.scene import Scene
from cpor.sim.dataset.case import simulate_case
from cpor.sim.dataset.make import DatasetSettings, plan_dataset, plan_split
from cpor.sim.dataset.manifest import CasePlan
from cpor.sim.dataset.recognition import Recognition
from cpor.truth import is_wrong, truth_of

PROMISED = "cautious"


@cache
def system() -> cpor.System:
    """The product as it comes."""
    return cpor.System()


def decide_targets(scene: Scene, targets: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """One record for each target: the likeliest action and that of each mode, judged by the truth."""
    truth = truth_of(scene, "occlusion" if scene.true_sweep is None else "any")
    view = system().look(scene.observation)
    seen = view.seen
    found: dict[int, int] = {}
    pairs = truth.pairs
    if seen.visible_ids is not None and seen.ids:
        assert scene.visible_ids is not None
        known = Recognition.match(seen.ids, seen.visible_ids, truth.objects, scene.visible_ids)
        found, pairs = {target: known.find(target) for target in targets}, known.translate(truth).pairs
    for target in targets:
        here = found.get(target)
        if here is None or here not in seen.ids:
            yield {"found": False}
            continue
        record: dict[str, Any] = {"found": True, "modes": {}}
        for mode in MODES:
            answer = system().decide(view, here, mode=mode)
            assert answer.action is not None
            wrong = not isinstance(answer.action, Defer) and is_wrong(answer.action, here, pairs)
            acts = not isinstance(answer.action, Defer)
            record["modes"][mode] = ["wrong" if wrong else "right" if acts else "asks", bool(answer.promise)]
            scores = {obj: score for obj, score in answer.scores.items() if obj in seen.ids}
            likeliest = max(scores, key=lambda obj: (scores[obj], obj == here))
            action = Grasp(likeliest) if likeliest == here else Remove(likeliest)
            record["likeliest"] = not is_wrong(action, here, pairs)
            record["mu"] = None if answer.decision is None else answer.decision.mu_target
        yield record


def decide_case(settings: DatasetSettings, case: CasePlan) -> list[dict[str, Any]]:
    """A simulated case; none where it cannot be made."""
    try:
        scene, entry = simulate_case(case, settings)
    except SimulationError:
        return []
    return [record | {"tier": str(entry.tier)} for record in decide_targets(scene, (entry.target,))]


def decide_photograph(folder: Path) -> list[dict[str, Any]]:
    """A labelled photograph."""
    scene = read_scene_folder(folder)
    return [record | {"tier": "photographs"} for record in decide_targets(scene, scene.ids)]


def share(hits: int, n: int) -> str:
    """A share with its interval."""
    low, high = wilson_interval(hits, n)
    return f"{hits / n:.3f} [{low:.3f}, {high:.3f}] ({hits} of {n})" if n else "nothing counted"


def rows_of(records: list[dict[str, Any]], name: str, asked: Mapping[str, str]) -> Iterator[Row]:
    """The table."""
    n = len(records)
    right = sum(record.get("likeliest", False) for record in records)
    tiers = Counter(record["tier"] for record in records)
    by_tier = Counter(record["tier"] for record in records if record.get("likeliest"))
    told = ", ".join(f"{tier} {by_tier[tier] / count:.3f}" for tier, count in sorted(tiers.items()))
    yield (
        "decides",
        f"likeliest first action right, {name}",
        asked.get("right", ""),
        f"{share(right, n)}; {told}",
    )
    yield "sees", f"target found, {name}", "", share(sum(record["found"] for record in records), n)
    for mode in MODES:
        count = Counter(record["modes"][mode][0] for record in records if record["found"])
        acts = count["right"] + count["wrong"]
        outcomes = ", ".join(f"{word} {count[word]}" for word in ("right", "wrong", "asks"))
        told = f"{acts / n:.3f} ({acts} of {n}; {outcomes})"
        yield "decides", f"acts, {mode}, {name}", asked.get(mode, ""), told
        yield "safe", f"wrong among actions, {mode}, {name}", "", share(count["wrong"], acts)
    promised = [
        record["modes"][PROMISED][0] for record in records if record["found"] and record["modes"][PROMISED][1]
    ]
    acted = [outcome for outcome in promised if outcome != "asks"]
    yield (
        "calibrated",
        f"wrong among promised actions, {name}",
        "at most 5 %",
        share(acted.count("wrong"), len(acted)),
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photographs", action="store_true")
    parser.add_argument("--cases", type=int, default=1800)
    parser.add_argument("--seed", type=int, help="fresh cases instead of the test split")
    parser.add_argument("--sensor", default="default")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--name", help="where the cases are written; a changed product needs another name")
    options = parser.parse_args()
    if options.photographs:
        from evidence_gate import DATA

        work: list[Any] = sorted(path for path in (DATA / "osd_learn").glob("*/"))
        decide, name = decide_photograph, f"{len(work)} labelled photographs"
    else:
        settings = DatasetSettings(sensor=options.sensor)
        fresh = options.seed is not None
        plan = (
            plan_dataset(options.cases, options.seed, None, settings)
            if fresh
            else plan_split("test", settings)
        )
        work = list(plan.cases[: options.cases])
        decide = partial(decide_case, settings)
        name = f"{len(work)} cases of {f'seed {options.seed}' if fresh else 'test'}, sensor {options.sensor}"
    out = MEASURED / "first_actions" / f"{options.name or name.replace(' ', '_').replace(',', '')}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []
    with ProcessPoolExecutor(options.workers) as pool, out.open("a") as file:
        for k, records in enumerate(pool.map(decide, work[len(done) :]), len(done) + 1):
            done.append(records)
            file.write(json.dumps(records) + "\n")
            file.flush()
            if k % 50 == 0:
                print(f"{k} of {len(work)}", flush=True)
    records = [record for case in done for record in case]
    asked = {"right": ">= 0.90"} if not options.photographs else {}
    part = "photographs_first_actions" if options.photographs else "first_actions"
    rows = list(rows_of(records, name, asked))
    if not options.name:
        keep({part: rows})
    for row in rows:
        print(" | ".join(row))


if __name__ == "__main__":
    main()
