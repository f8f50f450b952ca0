"""The gallery: what is decided on simulated heaps, right or wrong; and failures of networks for model cards.

Nothing is chosen by hand. Heaps are simulated, our networks look at them, every object is asked for, the
truth tells what came of it, and the first of each kind is shown. Run it again after the networks change:

    python docs/make_gallery.py [--scenes 16] [--work out/gallery]
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int32
from PIL import Image, ImageDraw

from cpor.answer import Answer
from cpor.cli.app import app
from cpor.decision import Defer, Grasp
from cpor.io.scene_folder import read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.relations import Label
from cpor.scene import BlockedBy, Scene
from cpor.sim.dataset.recognition import Recognition
from cpor.system import System
from cpor.truth import is_wrong, truth_of
from cpor.viz.mask_outlines import trace_mask
from cpor.viz.overlay import Marks, draw_scene, relations_to_draw, window_around
from cpor.viz.overlay_marks import font
from cpor.viz.words import say_step, say_why

HERE = Path(__file__).parent
SEED = 41
WIDTH = 520
"""Of a picture of the gallery. [px]"""
TILE = 250
"""Side of one failure of a network. [px]"""
FOUND, TRUE = (255, 200, 40), (255, 60, 160)
LEAST_SHOWN = 400
"""Objects of which less shows are left out of the failures of networks. [px]"""

KINDS = {
    "grasp": "It grasps, rightly",
    "remove": "It removes something else first, rightly",
    "ask": "It asks",
    "ask in vain": "It asks although the likeliest action is right",
    "wrong grasp": "Wrong: it grasps although something is in the way",
    "wrong removal": "Wrong: it removes what is not in the way, or is itself blocked",
}
"""What came of a decision, in the order of the page."""


@dataclass(frozen=True)
class Seen:
    """A heap as it is and as our networks see it."""

    name: str
    scene: Scene
    found: Scene
    known: Recognition
    truth: frozenset[BlockedBy]
    answers: dict[int, Answer]
    forced: dict[int, Answer]


def look_at(system: System, folder: Path, truth: str) -> Seen:
    """Look at a heap, and ask for every object."""
    scene = read_scene_folder(folder)
    view = system.look(scene.observation)
    found = view.scene
    assert scene.visible_ids is not None and found.visible_ids is not None
    true = truth_of(scene, truth)  # type: ignore[arg-type]
    known = Recognition.match(found.ids, found.visible_ids, true.objects | {*scene.ids}, scene.visible_ids)
    pairs = known.translate(true).pairs
    answers = {target: system.decide(view, target) for target in found.ids}
    forced = {target: system.decide(view, target, mode="bold") for target in found.ids}
    return Seen(folder.name, scene, found, known, pairs, answers, forced)


def kinds_of(seen: Seen) -> Iterator[tuple[str, int, str, Answer]]:
    """(kind, target, mode, answer) of every object asked for."""
    for target, answer in seen.answers.items():
        bold = seen.forced[target]
        if answer.action is None or bold.action is None or seen.known.owner[target] is None:
            continue
        if not isinstance(answer.action, Defer):
            wrong = is_wrong(answer.action, target, seen.truth)
            what = "grasp" if isinstance(answer.action, Grasp) else "remove"
            yield (
                ({"grasp": "wrong grasp", "remove": "wrong removal"}[what] if wrong else what),
                target,
                "cautious",
                answer,
            )
        elif isinstance(bold.action, Defer):
            yield "ask", target, "cautious", answer
        elif is_wrong(bold.action, target, seen.truth):
            yield "ask", target, "cautious", answer
            what = "wrong grasp" if isinstance(bold.action, Grasp) else "wrong removal"
            yield what, target, "bold", bold
        else:
            yield "ask in vain", target, "cautious", answer


def choose(looked: list[Seen], each: int) -> dict[str, list[tuple[Seen, int, str, Answer]]]:
    """The first of every kind, one a heap; errors of the mode cautious before those of bold."""
    chosen: dict[str, list[tuple[Seen, int, str, Answer]]] = {kind: [] for kind in KINDS}
    for mode in ("cautious", "bold"):
        for seen in looked:
            for kind, target, of, answer in kinds_of(seen):
                there = chosen[kind]
                if of == mode and len(there) < each and all(other.name != seen.name for other, *_ in there):
                    there.append((seen, target, mode, answer))
    return chosen


def write_page(
    chosen: dict[str, list[tuple[Seen, int, str, Answer]]], counts: dict[str, int], scenes: int
) -> None:
    """Write docs/gallery.md and its pictures."""
    lines = [
        "# Gallery",
        "",
        f"{scenes} simulated heaps, seen by our networks; every object that was found is asked for once.",
        "The first of each kind is shown, failures included; nothing is chosen by hand.",
        "`python docs/make_gallery.py` makes this page and its pictures.",
        "The same heaps on your machine:",
        "",
        "```console",
        "$ pip install 'cpor-grasp[perception,sim]'",
        f"$ cpor simulate --scenes {scenes} --seed {SEED} --out heaps",
        "```",
        "",
        "| what came of it | of all objects |",
        "|---|---|",
        *(f"| {KINDS[kind]} | {counts.get(kind, 0)} |" for kind in KINDS),
        "",
        "Wrong ones in the mode cautious, and those that the mode bold would add.",
        "",
    ]
    for old in (HERE / "pictures").glob("gallery-*.jpg"):
        old.unlink()
    for kind, words in KINDS.items():
        lines += [f"## {words}", ""]
        if not chosen[kind]:
            lines += ["None among these.", ""]
        for k, (seen, target, mode, answer) in enumerate(chosen[kind], start=1):
            name = f"gallery-{kind.replace(' ', '-')}-{k}.jpg"
            picture = draw(seen.found, target, answer)
            size = WIDTH, round(WIDTH * picture.height / picture.width)
            picture = picture.resize(size, Image.Resampling.LANCZOS)
            picture.convert("RGB").save(HERE / "pictures" / name, quality=72, optimize=True, progressive=True)
            flag = "" if mode == "cautious" else f" --mode {mode}"
            lines += [
                f"![{words}: {seen.name}, object {target}](pictures/{name})",
                "",
                say(seen, target, answer),
                "",
                f"    cpor decide heaps/{seen.name} --ignore-given-masks --target {target}{flag}",
                "",
            ]
    (HERE / "gallery.md").write_text("\n".join(lines), encoding="utf-8")


def draw(found: Scene, target: int, answer: Answer) -> Image.Image:
    """The heap alone, with what was decided on it."""
    assert answer.posterior is not None
    marks = Marks(target, answer.action, relations_to_draw(answer.posterior))
    return draw_scene(found, marks, window=window_around(found))


def say(seen: Seen, target: int, answer: Answer) -> str:
    """What was decided, and what is so."""
    assert answer.decision is not None and answer.action is not None

    def name(obj: Label) -> str:
        return f"object {obj}"

    said = f"{say_step(answer.action, name)}. {say_why(answer.decision, target, name)}"
    blockers = sorted(pair.blocker for pair in seen.truth if pair.blocked == target)
    unseen = [each for each in blockers if each not in seen.found.ids]
    shown = [f"object {each}" for each in blockers if each in seen.found.ids]
    shown += [f"{len(unseen)} that it did not find"] if unseen else []
    return f"{said} In truth directly in the way of object {target}: {', '.join(shown) or 'nothing'}."


# Where the networks fail


def outline(
    draw: ImageDraw.ImageDraw,
    mask: Bool[np.ndarray, "h w"],
    at: tuple[int, int],
    scale: float,
    colour: tuple[int, int, int],
) -> None:
    """Draw around a mask."""
    for loop in trace_mask(mask):
        points = [((x - at[0]) * scale, (y - at[1]) * scale) for x, y in loop]
        draw.line([*points, points[0]], fill=colour, width=2)


def tile(
    scene: Scene, found: list[Bool[np.ndarray, "h w"]], true: list[Bool[np.ndarray, "h w"]], words: str
) -> Image.Image:
    """A square around some masks: what was found in yellow, what is so in pink."""
    ys, xs = np.nonzero(np.any([*found, *true], axis=0))
    side = max(int(1.5 * max(np.ptp(ys), np.ptp(xs))), 60)
    top, left = int(ys.mean() - side / 2), int(xs.mean() - side / 2)
    picture = (
        Image.fromarray(scene.observation.rgb).crop((left, top, left + side, top + side)).resize((TILE, TILE))
    )
    draw = ImageDraw.Draw(picture)
    for masks, colour in ((true, TRUE), (found, FOUND)):
        for mask in masks:
            outline(draw, mask, (left, top), TILE / side, colour)
    draw.rectangle((0, TILE - 22, TILE, TILE), fill=(20, 24, 30))
    draw.text((6, TILE - 19), words, font=font(13), fill=(255, 255, 255))
    return picture


def mask_failures(looked: list[Seen]) -> Iterator[tuple[str, Image.Image]]:
    """Objects missed, cut in two, held together, invented."""
    for seen in looked:
        true, found = seen.scene.visible_ids, seen.found.visible_ids
        assert true is not None and found is not None
        for obj in np.unique(true[true > 0]).tolist():
            there: Bool[np.ndarray, "h w"] = true == obj
            if there.sum() < LEAST_SHOWN:
                continue
            parts = {k: int((found[there] == k).sum()) for k in np.unique(found[there]).tolist() if k}
            large = [
                k
                for k, count in parts.items()
                if count > 0.25 * there.sum() and count > 0.5 * (found == k).sum()
            ]
            holder = max(parts, key=lambda k: parts[k], default=0)
            if sum(parts.values()) < 0.3 * there.sum():
                yield "missed", tile(seen.scene, [], [there], "missed")
            elif len(large) > 1:
                yield (
                    "cut",
                    tile(
                        seen.scene, [found == k for k in large], [there], f"one object in {len(large)} masks"
                    ),
                )
            elif holder and seen.known.owner.get(holder) != obj and parts[holder] > 0.5 * there.sum():
                other: Int32[np.ndarray, "h w"] = true == seen.known.owner[holder]
                yield "merged", tile(seen.scene, [found == holder], [there, other], "two objects in one mask")
        for k in seen.found.ids:
            if seen.known.owner[k] is None and (found == k).sum() >= LEAST_SHOWN:
                yield "invented", tile(seen.scene, [found == k], [], "no object of its own")


def pair_failures(looked: list[Seen], source: str) -> list[tuple[float, str, Image.Image]]:
    """Pairs of which a source is surest and wrong, the worst first."""
    worst = []
    for seen in looked:
        view = next(iter(seen.answers.values())).view
        assert view is not None and view.beliefs is not None and seen.found.visible_ids is not None
        beliefs = view.beliefs
        p = beliefs.p[source]
        for i, j in np.argwhere(~np.isnan(p) & beliefs.scores["semantic"].asked).tolist():
            blocked, blocker = beliefs.ids[i], beliefs.ids[j]
            if None in (seen.known.owner[blocked], seen.known.owner[blocker]):
                continue
            so = BlockedBy(blocked, blocker) in seen.truth
            loss = p[i, j] if not so else 1.0 - p[i, j]
            worst.append(
                (float(loss), "invented" if not so else "missed", seen, blocked, blocker, float(p[i, j]))
            )
    worst.sort(key=lambda each: -each[0])
    tiles = []
    for kind in ("missed", "invented"):
        for loss, of, seen, blocked, blocker, p_said in [each for each in worst if each[1] == kind][:2]:
            ids = seen.found.visible_ids
            words = f"{p_said:.0%} that yellow blocks pink; {'it does' if of == 'missed' else 'it does not'}"
            tiles.append((loss, of, tile(seen.scene, [ids == blocker], [ids == blocked], words)))
    return tiles


def shape_failures(looked: list[Seen]) -> Iterator[Image.Image]:
    """Objects whose name is wrong."""
    for seen in looked:
        assert seen.found.visible_ids is not None
        names = {each.id: each.name for each in seen.scene.objects}
        view = next(iter(seen.answers.values())).view
        assert view is not None
        for listed in view.objects:
            obj, said = listed["id"], listed["name"]
            true = names.get(seen.known.owner.get(obj) or 0)
            if (
                true
                and said
                and said.split()[-1] not in true
                and (seen.found.visible_ids == obj).sum() > LEAST_SHOWN
            ):
                yield tile(seen.scene, [seen.found.visible_ids == obj], [], f"“{said}”, a {true}")


def strip(tiles: list[Image.Image], name: str) -> None:
    """Tiles side by side, as one picture of the model cards."""
    if not tiles:
        return
    whole = Image.new("RGB", (TILE * len(tiles) + 6 * (len(tiles) - 1), TILE), (255, 255, 255))
    for k, each in enumerate(tiles):
        whole.paste(each, (k * (TILE + 6), 0))
    whole.save(HERE / "pictures" / name, quality=74, optimize=True, progressive=True)
    print(name, f"{(HERE / 'pictures' / name).stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Simulate, look, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=16)
    parser.add_argument("--each", type=int, default=2, help="pictures of a kind")
    parser.add_argument("--work", type=Path, default=Path("out/gallery"))
    asked = parser.parse_args()
    options = ["--scenes", str(asked.scenes), "--seed", str(SEED), "--out", str(asked.work)]
    app(["simulate", *options], standalone_mode=False)
    system, truth = System(), FittedModel.load(bundled_model("embedded")).truth
    looked = []
    for folder in sorted(asked.work.glob("scene_*")):
        looked.append(look_at(system, folder, truth))
        print(folder.name, flush=True)
    looked = [replace(each) for each in looked if each.answers]
    counts: dict[str, int] = {}
    for seen in looked:
        for kind, _, mode, _ in kinds_of(seen):
            if mode == "cautious" or kind.startswith("wrong"):
                counts[kind] = counts.get(kind, 0) + 1
    write_page(choose(looked, asked.each), counts, asked.scenes)
    masks: dict[str, Image.Image] = {}
    for kind, picture in mask_failures(looked):
        masks.setdefault(kind, picture)
    strip(list(masks.values()), "failures-segmenter.jpg")
    for source, name in (("semantic", "failures-scorer.jpg"), ("geometry", "failures-geometry.jpg")):
        strip([picture for _, _, picture in pair_failures(looked, source)], name)
    strip(list(shape_failures(looked))[:4], "failures-shapes.jpg")


if __name__ == "__main__":
    main()
