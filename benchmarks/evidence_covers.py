"""What is noticed of thin and clear covers drawn onto frames, and what the search for their edges costs.

    python benchmarks/evidence_covers.py [--heaps 80]

Heaps of the test split and the photographs of osd_learn, as our segmenter and scorer see them: untouched, and
with a rod, a film or a clear sheet over one large object each. Every labelled object that is found in the
untouched frames is asked for, and each covered one. "Found": the edge of a cover runs across the outline of
the covered object. An action counts for the thresholds of `cautious` and `balanced`, with the search and
without it. A grasp of a covered object is wrong. Scenes are kept in out/covers/ as they are decided; after a
change of networks or evidence remove it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from evidence_page import Row
from harness import OUT, kept_lines, measure_parts, photographs
from jaxtyping import Float, Int32, UInt8
from PIL import Image, ImageDraw
from scipy import ndimage

from cpor.decision import Defer, Grasp
from cpor.evidence.crossing import crossed_objects
from cpor.infer.decide import decide_many
from cpor.learn.modes import Mode, mode_tau
from cpor.model import FittedModel, bundled_model
from cpor.paper.perceived import PerceptionSettings, see
from cpor.scene import Scene
from cpor.sim.dataset.make import plan_split, simulate_case
from cpor.truth import TruthKind, is_wrong, truth_of

KINDS = ("rod", "film", "sheet")

_RODS = ((25, 25, 30), (235, 235, 225), (150, 150, 155), (170, 40, 40), (40, 70, 150))
_FINE = 4
"""Drawn this many times larger, then made smaller: edges are smooth."""


def draw_cover(
    rgb: UInt8[np.ndarray, "h w 3"],
    ids: Int32[np.ndarray, "h w"],
    label: int,
    kind: str,
    rng: np.random.Generator,
) -> UInt8[np.ndarray, "h w 3"]:
    """The picture with a rod of 4 to 8 px across an object, or a film or a sheet over about half of it.

    A film is haze of 6 to 20 %, narrow glare and a thin bright or dark rim; a sheet haze of 3 to 10 %, wide
    glare and a wider rim. Depth stays as it is.

    Args:
        rgb: The picture.
        ids: Which object each pixel shows.
        label: The object that is covered.
        kind: One of KINDS.
        rng: Draws place, size and look.
    """
    rows, cols = np.nonzero(ids == label)
    pixel, turn = rng.integers(rows.size), rng.uniform(0.0, np.pi)
    middle = np.array([cols.mean(), rows.mean()])
    along = np.array([np.cos(turn), np.sin(turn)])
    aside = np.array([-along[1], along[0]])
    across = float(max(np.ptp(cols), np.ptp(rows), np.sqrt(rows.size)))
    picture = rgb.astype(np.float32)
    if kind == "rod":
        centre = 0.5 * (middle + np.array([cols[pixel], rows[pixel]]))
        reach, half = rng.uniform(0.8, 1.3) * across, rng.uniform(2.0, 4.0)
        cover = _band(ids.shape, centre, along, reach, half, 0.7)
        y, x = np.indices(ids.shape)
        offset = ((x - centre[0]) * aside[0] + (y - centre[1]) * aside[1]) / half
        shade = 1.0 - 0.3 * np.clip(offset, -1.0, 1.0) ** 2
        picture = _blend(picture, cover, np.array(_RODS[rng.integers(len(_RODS))]) * shade[..., None])
    else:
        picture = _under_clear(picture, middle, along, aside, across, kind == "film", rng)
    changed = np.abs(picture - rgb).max(axis=2) > 0.5
    noisy = np.clip(picture + rng.normal(0.0, 1.0, picture.shape), 0, 255).astype(np.uint8)
    return np.where(changed[..., None], noisy, rgb)


def _under_clear(
    picture: Float[np.ndarray, "h w 3"],
    middle: Float[np.ndarray, "2"],
    along: Float[np.ndarray, "2"],
    aside: Float[np.ndarray, "2"],
    across: float,
    is_film: bool,
    rng: np.random.Generator,
) -> Float[np.ndarray, "h w 3"]:
    shape = picture.shape[:2]
    size, skew = rng.uniform(1.2, 2.0) * across, rng.uniform(-0.15, 0.15)
    edge = middle + rng.uniform(-0.1, 0.1) * across * aside
    far = edge + 1.1 * size * aside + skew * size * along
    corners = [edge - size * along, edge + size * along, far + size * along, far - size * along]
    cover = _polygon(shape, corners, 0.7)
    haze = rng.uniform(0.06, 0.2) if is_film else rng.uniform(0.03, 0.1)
    picture = _blend(picture, haze * cover, np.array([235, 238, 240] if is_film else [205, 232, 220]))
    for _ in range(rng.integers(2, 6)):
        place = edge + aside * rng.uniform(0.1, 1.0) * size + along * rng.uniform(-0.8, 0.8) * size
        turn = rng.uniform(0.0, np.pi)
        half, reach = (
            (rng.uniform(1, 4), rng.uniform(8, 40)) if is_film else (rng.uniform(4, 14), rng.uniform(20, 60))
        )
        direction = np.array([np.cos(turn), np.sin(turn)])
        glare = _band(shape, place, direction, reach, half, 1.5 if is_film else 3.0)
        picture = _blend(picture, cover * glare * rng.uniform(0.1, 0.6), np.full(3, 255.0))
    width, strength = (
        (rng.uniform(0.6, 1.5), rng.uniform(0.1, 0.4))
        if is_film
        else (rng.uniform(1, 2.5), rng.uniform(0.15, 0.5))
    )
    rim = ndimage.gaussian_filter((np.abs(cover - 0.5) < 0.35).astype(np.float32), 0.6 * width)
    dark = [90, 90, 90] if is_film else [60, 110, 90]
    colour = np.array([250, 250, 250] if rng.random() < 0.7 else dark)
    return _blend(picture, strength * rim / max(float(rim.max()), 1e-6), colour)


def _blend(
    picture: Float[np.ndarray, "h w 3"], share: Float[np.ndarray, "h w"], colour: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "h w 3"]:
    return np.asarray(picture + share[..., None] * (colour - picture))


def _band(
    shape: tuple[int, int],
    centre: Float[np.ndarray, "2"],
    along: Float[np.ndarray, "2"],
    reach: float,
    half: float,
    soft: float,
) -> Float[np.ndarray, "h w"]:
    """A rectangle around a line."""
    aside = half * np.array([-along[1], along[0]])
    a, b = centre - reach * along, centre + reach * along
    return _polygon(shape, [a - aside, b - aside, b + aside, a + aside], soft)


def _polygon(
    shape: tuple[int, int], corners: list[Float[np.ndarray, "2"]], soft: float
) -> Float[np.ndarray, "h w"]:
    """Share of each pixel inside, blurred."""
    large = Image.new("L", (shape[1] * _FINE, shape[0] * _FINE))
    ImageDraw.Draw(large).polygon([(float(x) * _FINE, float(y) * _FINE) for x, y in corners], fill=255)
    small = np.asarray(large.resize(shape[::-1], Image.Resampling.BOX), np.float32) / 255.0
    return np.asarray(ndimage.gaussian_filter(small, soft))


LARGE_PX = 1200
"""An object that shows less is not covered."""

SEARCHES = ("searched", "not searched")

MODES: tuple[Mode, ...] = ("cautious", "balanced")


@cache
def model() -> FittedModel:
    """The bundled model of our masks and scores."""
    return FittedModel.load(bundled_model("embedded"))


def decide(scene: Scene, kind: TruthKind, targets: list[int]) -> list[dict[str, Any]]:
    """What each search finds of each target, and the letters of `judge` for each mode."""
    pipeline = model().pipeline()
    beliefs = pipeline.believe(scene)
    crossed = (
        crossed_objects(scene.observation.rgb, scene.visible_ids, scene.ids),
        np.zeros(len(scene.ids), np.bool_),
    )
    truth = truth_of(scene, kind).pairs
    found: list[dict[str, Any]] = [{} for _ in targets]
    for search, which in zip(SEARCHES, crossed, strict=True):
        unseen = replace(beliefs.geometry.unseen, crossed=which)
        changed = pipeline.combine(replace(beliefs.geometry, unseen=unseen), scene.semantic_scores, {})
        posteriors = [pipeline.posterior(changed, target) for target in targets]
        for each, target in zip(found, targets, strict=True):
            each[search] = {"found": bool(which[scene.ids.index(target)])}
        for mode in MODES:
            decisions = decide_many(posteriors, tau=mode_tau(mode, model().promise.tau))
            for each, target, decision in zip(found, targets, decisions, strict=True):
                action = pipeline.settle(decision).action
                letter = "-" if isinstance(action, Defer) else "G" if isinstance(action, Grasp) else "R"
                wrong = letter != "-" and is_wrong(action, target, truth)
                each[search][mode] = letter + ("!" if wrong else "")
    return found


def decide_all(scene: Scene, seed: list[int]) -> dict[str, list[dict[str, Any]]]:
    """The targets of a frame untouched, and under each cover."""
    kind: TruthKind = "occlusion" if scene.true_sweep is None else "any"
    # `see` wants both truths; no label of a photograph says what hinders lifting.
    scene = replace(scene, true_sweep=scene.true_sweep or scene.true_occlusion)
    rng, settings = np.random.default_rng(seed), PerceptionSettings()
    assert scene.visible_ids is not None
    seen, known = see(scene, settings)
    said = {"untouched": decide(seen, kind, [each for each in seen.ids if known.owner.get(each) is not None])}
    large = [each for each in scene.ids if (scene.visible_ids == each).sum() > LARGE_PX]
    for cover in KINDS if large else ():
        label = int(rng.choice(large))
        rgb = draw_cover(scene.observation.rgb, scene.visible_ids, label, cover, rng)
        seen, known = see(replace(scene, observation=replace(scene.observation, rgb=rgb)), settings)
        target = known.find(label)
        said[cover] = decide(seen, kind, [target]) if target in seen.ids else [{}]
    return said


def rows_of(name: str, frames: list[dict[str, list[dict[str, Any]]]]) -> Iterator[Row]:
    """What is found and done with each search."""
    for cover in ("untouched", *KINDS):
        cases = [each for frame in frames for each in frame.get(cover, ()) if each]
        lost = sum(not each for frame in frames for each in frame.get(cover, ()))
        told = []
        for search in SEARCHES:
            count: Counter[str] = Counter()
            for each in (case[search] for case in cases):
                count["found"] += each["found"]
                for mode in MODES:
                    count[mode] += each[mode] != "-"
                    count[f"{mode} grasps"] += each[mode][0] == "G"
                    count[f"{mode} right"] += each[mode] in ("G", "R")
            done = (
                f"{mode} acts {count[mode]}, right {count[f'{mode} right']}" if cover == "untouched"
                else f"{mode} grasps it {count[f'{mode} grasps']}"
                for mode in MODES
            )  # fmt: skip
            told.append(f"{search}: found {count['found']}, {', '.join(done)}")
        says = f"n {len(cases)}; {'; '.join(told)}" + (f"; without a mask {lost}" if lost else "")
        yield "safe", f"drawn covers, {name}: {cover}", "reported", says


def measure_covers(heaps: int = 80) -> Iterator[Row]:
    """Photographs, then heaps."""
    plan = plan_split("test")
    sets: dict[str, list[Callable[[], Scene]]] = {
        "osd_learn": [partial(lambda scene: scene, scene) for scene in photographs()],
        "test split": [
            lambda case=case: simulate_case(case, plan.settings)[0] for case in plan.cases[:heaps]
        ],
    }
    for name, scenes in sets.items():
        made = (partial(lambda read, seed: decide_all(read(), seed), read, [k, len(name)])
                for k, read in enumerate(scenes))  # fmt: skip
        yield from rows_of(name, list(kept_lines(OUT / "covers" / f"{name.replace(' ', '_')}.jsonl", made)))


if __name__ == "__main__":
    measure_parts({"covers": measure_covers}, __doc__)
