"""First actions through the front door: pictures in, one decision a case and mode out, judged by the truth.

    python benchmarks/evidence_first_actions.py                        the test split, 1,800 cases
    python benchmarks/evidence_first_actions.py --cases 200 --sensor harsh --seed 7

`cpor.System` sees the picture and its depth, nothing else. The likeliest action is right if no true blocker
is left in its way, by occlusion or sweep. Each case is written to
`out/evidence/first_actions/` as soon as it is decided; the same command goes on where it stopped.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any

from evidence_page import MEASURED
from long_parts import Row, measure_parts

import cpor
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import SimulationError
from cpor.learn.modes import MODES
from cpor.paper.runs.report import wilson_interval
from cpor.scene import Scene
from cpor.sim.dataset.make import DatasetSettings, plan_dataset, plan_split, simulate_case
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


def first_actions(
    cases: int = 1800, seed: int = 0, sensor: str = "default", workers: int = 2, name: str = ""
) -> list[Row]:
    """The first cases of the test split; with a seed fresh ones. A changed product needs another name."""
    settings = DatasetSettings(sensor=sensor)
    plan = plan_dataset(cases, seed, None, settings) if seed else plan_split("test", settings)
    work = list(plan.cases[:cases])
    about = f"{len(work)} cases of {f'seed {seed}' if seed else 'test'}, sensor {sensor}"
    out = MEASURED / "first_actions" / f"{name or about.replace(' ', '_').replace(',', '')}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []
    with ProcessPoolExecutor(workers) as pool, out.open("a") as file:
        decided = pool.map(partial(decide_case, settings), work[len(done) :])
        for k, records in enumerate(decided, len(done) + 1):
            done.append(records)
            file.write(json.dumps(records) + "\n")
            file.flush()
            if k % 50 == 0:
                print(f"{k} of {len(work)}", flush=True)
    return list(rows_of([record for case in done for record in case], about, {"right": ">= 0.90"}))


if __name__ == "__main__":
    measure_parts({"first_actions": first_actions}, __doc__)
