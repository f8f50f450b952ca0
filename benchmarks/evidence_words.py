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
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from evidence_page import Row, keep
from harness import DATA
from PIL import Image
from words_truth import FAMILIES, Asked, LabelledView, TrueLook, labelled_view, nameless, some_cases

from cpor.perception.network_file import PACKAGED
from cpor.scene import PixelPoint, Scene
from cpor.system import System
from cpor.words.description import describe
from cpor.words.grounding import AmbiguousRequest, Found, ground_point, ground_words
from cpor.words.labels import read_labels
from cpor.words.names import name_objects
from cpor.words.vocabulary import split_words, vocabulary

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "words"
BY_EYE = Path(__file__).with_name("words_photographs.json")
"""Objects with point, colours and nouns, and requests with the object meant, `ask` or `none`; by eye."""

TEST_PICTURES = ("real_rgbd/", "raw_frames/")
"""Pictures that nothing was chosen on."""

EACH = 25
"""Requests of each family."""

MEANT = ("colour", "shape", "both", "place", "relation", "size", "order", "negation", "synonym")


def see(split: str, count: int) -> list[tuple[LabelledView, Scene]]:
    """Scenes with their truth and as the system sees them; kept on disk, scene by scene."""
    folder = OUT / split
    system, found = System(), []
    weights = hashlib.sha256((PACKAGED / "segmenter.onnx").read_bytes()).hexdigest()[:8]
    for plan in some_cases(split, count):  # type: ignore[arg-type]
        view = kept(folder / f"{plan.name}.view", lambda plan=plan: labelled_view(plan))
        seen = kept(
            folder / f"{plan.name}.{weights}", lambda view=view: nameless(system.look(view.frame).scene)
        )
        found.append((view, seen))
    return found


def kept(path: Path, make: Callable[[], Any]) -> Any:
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


def see_photographs() -> list[tuple[str, dict[str, Any], Scene]]:
    """The shared photographs with objects and requests judged by eye, and the scene of each, not named."""
    system, found = System(), []
    weights = hashlib.sha256((PACKAGED / "segmenter.onnx").read_bytes()).hexdigest()[:8]
    for name, judged in json.loads(BY_EYE.read_text()).items():
        files = _picture_files(name)
        if files is None:
            print(f"{name} is not there; it is left out")
            continue
        path = OUT / "photographs" / f"{name.replace('/', '_')}.{weights}"
        seen = kept(path, lambda files=files: nameless(system.look(*_read_photograph(*files)).scene))
        found.append((name, judged, replace(seen)))  # whose pixels can be shared from now on
    return found


def printed_on(name: str, scene: Scene) -> dict[int, tuple[str, ...]]:
    """Words printed on each object of a photograph; kept on disk. They need the extra `labels`."""
    return kept(OUT / "labels" / name.replace("/", "_"), lambda: read_labels(scene))


def _picture_files(name: str) -> tuple[Path, Path | None] | None:
    """Photograph and depth of a picture of the shared data; None where it is not there."""
    folder, number = (DATA / name).parent, name.rpartition("_")[2]
    for rgb, depth in (
        (DATA / name / "rgb.png", DATA / name / "depth.png"),
        (DATA / name / "rgb.png", DATA / name / "depth.npy"),
        (DATA / name / f"000{number}_color.png", DATA / name / f"000{number}_depth.png"),
        (folder / f"{Path(name).name}-color.png", folder / f"{Path(name).name}-depth.png"),
        (folder / f"color_{number}.png", folder / f"depth_{number}.npy"),
    ):
        if rgb.is_file() and depth.is_file():
            return rgb, depth
    alone = DATA / f"{name}.jpg"
    return (alone, None) if alone.is_file() else None


def _read_photograph(rgb: Path, depth: Path | None) -> tuple[Any, ...]:
    """What `System.look` takes. Depth in half the size of the photograph is enlarged."""
    if depth is None or depth.suffix == ".png":
        return rgb, depth
    image, z = np.asarray(Image.open(rgb).convert("RGB")), np.squeeze(np.load(depth)).astype(np.float32)
    times = image.shape[0] // z.shape[0]
    z = np.repeat(np.repeat(z, times, axis=0), times, axis=1)
    return image, np.where(z > 0, z, np.float32(np.nan))


def measure_photographs() -> list[Row]:
    """Requests on the shared photographs, written before the work on words; a point tells the object."""
    results: list[tuple[str, str, str]] = []  # family, split, verdict
    notes, unique = [], 0
    names = Counter[object]()
    pictures = see_photographs()
    for name, judged, seen in pictures:
        describe(seen).labels = printed_on(name, seen)
        scene = name_objects(seen)
        split = "test" if name.startswith(TEST_PICTURES) else "dev"
        called = {o.id: o.called or "" for o in scene.objects}
        unique += len(set(called.values())) == len(called)
        at = {key: object_at(scene, each["point"]) for key, each in judged["objects"].items()}
        for key, each in judged["objects"].items():
            if (obj := at[key]) is None:
                continue
            colours, _ = _read_name(called[obj])
            names["all"] += 1
            names["colour"] += bool(colours) and set(colours) <= {_key(word) for word in each["colours"]}
            noun = _noun_of(called[obj])
            names[split] += 1
            names[split, "noun"] += noun != "thing"
            names[split, "right"] += noun != "thing" and _is_called(noun, each["nouns"])
            notes.append(f"{name} {key}: {called[obj]} (by eye: {each['colours']}, {each['nouns']})")
        for asked in judged["requests"]:
            answer = ground_words(scene, asked["words"])
            told = _verdict(answer, asked["answer"], at)
            results.append((asked["family"], split, told))
            meant = [at[k] for k in asked["answer"] if k in at]
            said = f"{asked['words']!r}: {asked['answer']} {meant}; said {repr(answer)[:300]}"
            notes.append(f"{told}: {name}: {asked['family']}: {said}")
    _note("photographs", notes)
    rows: list[Row] = [
        ("sees", f"words: names unique, {len(pictures)} photographs", "all", f"{unique} of {len(pictures)}"),
        ("sees", f"words: colour in the name, judged by eye, {names['all']} objects of photographs",
         "reported", f"{names['colour']} of {names['all']} right"),
    ]  # fmt: skip
    for split in ("dev", "test"):
        n, named, right = (names[key] for key in (split, (split, "noun"), (split, "right")))
        what = f"words: named by a noun, by eye, {n} objects of {split} photographs"
        told = f"{named} named, {right} of these right"
        rows.append(("sees", what, ">= 60 %, of these >= 90 % right", told))
        some = [told for _, s, told in results if s == split]
        n = f"{len(some)} requests on photographs, {split} pictures"
        rows.append(("sees", f"words: right, {n}", ">= 80 %", _share(some, "right")))
        rows.append(("sees", f"words: wrong object acted on, {n}", "<= 1 %", _share(some, "wrong")))
    for family in dict.fromkeys(family for family, *_ in results):
        some = [told for f, _, told in results if f == family]
        count = f"{some.count('right')} of {len(some)} right, {some.count('wrong')} acted on wrongly"
        rows.append(("sees", f"words: requests on photographs, {family}", "reported", count))
    return rows


def _noun_of(name: str) -> str:
    """The noun of a name, without colours and mark."""
    words = name.split(" (")[0].split()
    meanings = vocabulary().phrases
    while len(words) > 1 and (
        words[0] == "and"
        or any(each.kind in ("colour", "pattern") for each in meanings.get(tuple(split_words(words[0])), ()))
    ):
        words = words[1:]
    return " ".join(words)


def _is_called(noun: str, by_eye: list[str]) -> bool:
    """Whether a noun is one that was said by eye, or the shape of one."""
    phrases, said = vocabulary().phrases, split_words(noun)
    if said in [split_words(each) for each in by_eye]:
        return True
    shapes = {each.key for each in phrases.get(tuple(said), ()) if each.kind == "shape"}
    kinds = {
        each.key for word in by_eye for each in phrases.get(tuple(split_words(word)), ())
        if each.kind in ("shape", "kind")
    }  # fmt: skip
    return bool(shapes & kinds)


def _key(word: str) -> str:
    """The colour key of a word."""
    meanings = vocabulary().phrases.get((word,), ())
    return next((each.key for each in meanings if each.kind == "colour"), word)


def _verdict(answer: object, right: str | list[str], at: dict[str, int | None]) -> str:
    """`right`, `asked` where one was meant, `wrong` where it would act on another or on none."""
    if isinstance(answer, Found):
        return "right" if answer.id in [at[k] for k in right if k in at] else "wrong"
    return "right" if right in ("ask", "none") else "asked"


def object_at(scene: Scene, point: list[int]) -> int | None:
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
    parser.add_argument("--only", default="names_and_requests,photographs", help="One alone is not kept.")
    parser.add_argument("--dry", action="store_true", help="Keep nothing.")
    asked = parser.parse_args()
    rows: list[Row] = []
    if "names_and_requests" in asked.only:
        views = [(view, name_objects(seen)) for view, seen in see(asked.split, asked.scenes)]
        rows += measure_names(views, asked.split) + measure_requests(views, asked.split)
    if "photographs" in asked.only and asked.split == "test":
        rows += measure_photographs()
    for row in rows:
        print(" | ".join(row))
    # Kept as a whole: the rows of one half alone would take those of the other half off the page.
    if asked.split == "test" and not asked.dry and asked.only == parser.get_default("only"):
        keep({"words": rows})


if __name__ == "__main__":
    main()
