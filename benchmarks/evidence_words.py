"""Names of objects and words that find them: simulated truth, and photographs judged by eye.

Scenes of a split are seen with our segmenter. Names count of objects whose mask fits a true one. Each scene
gives a request of each family that it has one for, until there are enough: about any object that shows, and
true of no other that shows.

Run: python benchmarks/evidence_words.py [--only names_and_requests,photographs] (test scenes)
     python benchmarks/evidence_words.py --split dev --scenes 20 (to choose on; nothing is kept)
"""

import argparse
import hashlib
import json
import os
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import keep
from long_parts import Row
from words_truth import FAMILIES, Asked, LabelledView, TrueLook, labelled_view, nameless, some_cases

from cpor.data.scene_folder import read_scene_folder
from cpor.perception.grounding import AmbiguousRequest, Found, ground_point, ground_words
from cpor.perception.names import name_objects
from cpor.perception.network_file import PACKAGED
from cpor.scene import PixelPoint, Scene
from cpor.system import System

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")
OUT = ROOT / "out" / "words"
BY_HAND = Path(__file__).with_name("words_by_hand.json")
EACH = 25
"""Requests of each family."""

MEANT = ("colour", "shape", "both", "place", "relation", "size", "order", "negation", "synonym")


def see(split: str, count: int) -> list[tuple[LabelledView, Scene]]:
    """Scenes with their truth and as the system sees them; kept on disk, scene by scene."""
    folder = OUT / split
    system, found = System(), []
    weights = hashlib.sha256((PACKAGED / "segmenter.onnx").read_bytes()).hexdigest()[:8]
    for plan in some_cases(split, count):  # type: ignore[arg-type]
        view = _kept(folder / f"{plan.name}.view", lambda plan=plan: labelled_view(plan))
        seen = _kept(
            folder / f"{plan.name}.{weights}", lambda view=view: nameless(system.look(view.frame).scene)
        )
        found.append((view, name_objects(seen)))
    return found


def _kept(path: Path, make: Callable[[], Any]) -> Any:
    """What a file holds; made first where it is not there."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(make()))
    return pickle.loads(path.read_bytes())


def measure_names(views: list[tuple[LabelledView, Scene]], split: str) -> list[Row]:
    """Whether names are unique, and colours and shapes right."""
    unique, wrong = 0, Counter[tuple[str, str, str]]()
    colour, shape, things, total = 0, 0, 0, 0
    for view, seen in views:
        names = [o.called for o in seen.objects]
        unique += len(set(names)) == len(names) and all(names)
        for obj, look in view.matched(seen).items():
            name = next(o.called or "" for o in seen.objects if o.id == obj)
            said_colours, said_shape = _read_name(name)
            right_colour = bool(said_colours) and all(look.has(key) for key in said_colours)
            right_shape = said_shape in look.shapes
            total, colour, shape = total + 1, colour + right_colour, shape + right_shape
            things += said_shape == "thing"
            for kind, right in (("colour", right_colour), ("shape", right_shape)):
                if not right:
                    wrong[kind, look.name, name.split(" (")[0]] += 1
    _note(f"names_{split}", {" | ".join(key): n for key, n in wrong.most_common()})
    n = f"{total} objects, {len(views)} {split} scenes, our masks"
    return [
        ("sees", f"words: names unique, {len(views)} {split} scenes", "all", f"{unique} of {len(views)}"),
        ("sees", f"words: right colour in the name, {n}", ">= 95 %", f"{100 * colour / total:.1f} %"),
        ("sees", f"words: right shape in the name, {n}", ">= 85 %",
         f"{100 * shape / total:.1f} % ({100 * things / total:.0f} % are called a thing)"),
    ]  # fmt: skip


def _read_name(name: str) -> tuple[list[str], str]:
    from cpor.perception.vocabulary import vocabulary

    phrases = vocabulary().phrases
    meanings = [each for word in name.split(" (")[0].split() for each in phrases.get((word,), ())]
    shapes = [each.key for each in meanings if each.kind == "shape"]
    return [each.key for each in meanings if each.kind == "colour"], shapes[-1] if shapes else "thing"


def measure_requests(views: list[tuple[LabelledView, Scene]], split: str) -> list[Row]:
    """Requests of twelve families, and what was understood."""
    rng = np.random.default_rng(7)
    results: dict[str, list[str]] = {family: [] for family in FAMILIES}
    wrong: list[str] = []
    for view, seen in views:
        # Whatever a person sees may be asked for, and has to be told from all else that shows.
        looks, owners = view.shown, view.owners(seen)
        for family, make in FAMILIES.items():
            if len(results[family]) >= EACH:
                continue
            asked = make(looks, rng)
            if asked is not None:
                told = _judge(asked, seen, owners)
                results[family].append(told)
                if told != "right":
                    wrong.append(_describe(view.name, asked, seen, looks, owners, told))
    _note(f"requests_{split}", wrong)
    rows: list[Row] = []
    every = [told for each in results.values() for told in each]
    meant = [told for family in MEANT for told in results[family]]
    for family, each in results.items():
        rows.append(
            ("sees", f"words: requests, {family}", "reported", f"{each.count('right')} of {len(each)} right")
        )
    asked_back = results["ambiguous"]
    n = f"{len(every)} requests in 12 families, {split} scenes, our masks"
    return [
        ("sees", f"words: right object where one is meant, {n}", ">= 92 %", _share(meant, "right")),
        ("sees", "words: asked back where several fit", ">= 95 %", _share(asked_back, "right")),
        ("sees", f"words: wrong object acted on, {n}", "<= 1 %", _share(every, "wrong")),
        *rows,
    ]


def _judge(asked: Asked, seen: Scene, owners: dict[int, int]) -> str:
    """`right`, `asked` where one was meant and it asked or found none, `wrong` where it would act wrongly."""
    answer = ground_words(seen, asked.words)
    if isinstance(answer, Found):
        return "right" if owners[answer.id] == asked.right else "wrong"
    if asked.right is not None:
        return "asked"
    if asked.family == "ambiguous":
        return "right" if isinstance(answer, AmbiguousRequest) else "asked"
    return "right"


def _describe(
    name: str, asked: Asked, seen: Scene, looks: dict[int, TrueLook], owners: dict[int, int], told: str
) -> str:
    answer = ground_words(seen, asked.words)
    called = {o.id: o.called for o in seen.objects}
    ours = [k for k, owner in owners.items() if owner == asked.right]
    meant = "" if asked.right is None else f"{looks[asked.right].name} {[(k, called[k]) for k in ours]}"
    said = f"{answer.id} {called[answer.id]}" if isinstance(answer, Found) else repr(answer)[:300]
    return f"{told}: {name}: {asked.words!r}: meant {meant or set(asked.may_be)}; said {said}"


def _share(results: list[str], what: str) -> str:
    count = results.count(what)
    return f"{100 * count / max(1, len(results)):.1f} % ({count} of {len(results)})"


def measure_photographs() -> list[Row]:
    """Requests by hand on the shared photographs; objects are told by points."""
    system = System()
    by_hand = json.loads(BY_HAND.read_text())
    results, unique, frames, notes = [], 0, 0, []
    right_names = Counter[str]()
    for frame in by_hand["frames"]:
        folder = DATA / frame["frame"]
        if not folder.is_dir():
            print(f"{folder} is not there; it is left out")
            continue
        view = system.look(read_scene_folder(folder).observation)
        names = [o.called for o in view.scene.objects]
        unique, frames = unique + (len(set(names)) == len(names)), frames + 1
        for judged in frame.get("names", ()):
            obj = _at(view.scene, judged["point"])
            called = next((o.called or "" for o in view.scene.objects if o.id == obj), "")
            colours, shape = _read_name(called)
            right_names["all"] += 1
            true = set(judged["colours"])  # none: many colours
            right_names["colour"] += set(colours) <= true and bool(colours) == bool(true)
            right_names["shape"] += shape in judged["shapes"]
            right_names["thing"] += shape == "thing"
            seen = f"colours {judged['colours']}, shapes {judged['shapes']}"
            notes.append(f"{frame['frame']} {judged['point']}: {called} ({seen})")
        for asked in frame["requests"]:
            answer = ground_words(view.scene, asked["words"])
            meant = None if asked["point"] is None else _at(view.scene, asked["point"])
            if isinstance(answer, Found):
                told = "right" if answer.id == meant else "wrong"
            else:
                told = "right" if asked["point"] is None else "asked"
            results.append(told)
            notes.append(
                f"{told}: {frame['frame']}: {asked['words']!r}: meant {meant}; said {repr(answer)[:260]}"
            )
    _note("photographs", notes)
    total = right_names["all"]
    return [
        ("sees", f"words: names unique, {frames} photographs", "all", f"{unique} of {frames}"),
        ("sees", f"words: colour in the name, judged by eye, {total} objects of photographs", "reported",
         f"{right_names['colour']} of {total} right"),
        ("sees", f"words: shape in the name, judged by eye, {total} objects of photographs", "reported",
         f"{right_names['shape']} of {total} right, {right_names['thing']} called a thing"),
        ("sees", f"words: {len(results)} requests by hand on photographs", "reported",
         f"right {_share(results, 'right')}, wrong object acted on {_share(results, 'wrong')}"),
    ]  # fmt: skip


def _at(scene: Scene, point: list[int]) -> int | None:
    found = ground_point(scene, PixelPoint(*map(float, point)))
    return found.id if isinstance(found, Found) else None


def _note(name: str, content: object) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="test", choices=["dev", "test"])
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--only", default="names_and_requests,photographs")
    asked = parser.parse_args()
    rows: list[Row] = []
    if "names_and_requests" in asked.only:
        views = see(asked.split, asked.scenes)
        rows += measure_names(views, asked.split) + measure_requests(views, asked.split)
    if "photographs" in asked.only and asked.split == "test":
        rows += measure_photographs()
    for row in rows:
        print(" | ".join(row))
    if asked.split == "test":
        keep({"words": rows})


if __name__ == "__main__":
    main()
