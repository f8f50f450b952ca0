"""How many corrections a person needs until all masks are right, and how long each takes to show.

A scripted person knows the true masks of the first frames of osd_learn and corrects what our segmenter found:
deletes what is no object, adds what is missing, splits and merges, then brushes, until every true object has
a mask of IoU .8 or more and every mask is an object. What the photographs leave unlabelled is background.
Time: correcting, checking, scoring all pairs anew and deciding, as the service does it.

Run: python benchmarks/evidence_editing.py [--frames 20]
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
from evidence_page import keep
from scipy import ndimage

from cpor.corrections import (
    Add,
    Brush,
    Correction,
    CorrectionError,
    Corrections,
    Delete,
    Merge,
    Split,
    correct_view,
)
from cpor.io.scene_folder import read_scene_folder
from cpor.scene import Scene
from cpor.system import System

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CPOR_DATA") or ROOT.parent / "shared" / "data")
RIGHT = 0.8
MOST = 60


def middle(mask: np.ndarray) -> tuple[tuple[float, float], float]:
    """The point of a mask farthest from its border, and that distance."""
    inward = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    row, col = np.unravel_index(int(inward.argmax()), mask.shape)
    return (float(col), float(row)), float(inward.max())


def largest(mask: np.ndarray) -> np.ndarray:
    """The largest piece of a mask."""
    labels, count = ndimage.label(mask)
    return mask if count < 2 else labels == 1 + np.bincount(labels.ravel())[1:].argmax()


def next_correction(scene: Scene, true: Scene, seen: set[int]) -> Correction | None:
    """What a person who sees the objects would do next; None: all is right. Nothing added is deleted."""
    ids, truth = scene.visible_ids, true.visible_ids
    assert ids is not None and truth is not None
    shared = {(k, t): int(((ids == k) & (truth == t)).sum()) for k in scene.ids for t in true.ids}
    owner = {k: max(true.ids, key=lambda t: shared[k, t]) for k in scene.ids}
    for k in scene.ids:
        if k in seen and shared[k, owner[k]] < 0.3 * (ids == k).sum():
            return Delete(object=k)
    for t in true.ids:
        whole = truth == t
        if not whole.any():
            continue
        covers = [k for k in scene.ids if shared[k, t] >= 0.25 * whole.sum()]
        if not covers:
            return Add(point=middle(whole)[0])
        parts = [k for k in scene.ids if owner[k] == t]
        if len(parts) > 1:
            return Merge(objects=sorted(parts, key=lambda k: -shared[k, t]))
        if not parts:  # another object's mask has it
            k = max(covers, key=lambda k: shared[k, t])
            other = (ids == k) & (truth == owner[k])
            return Split(object=k, a=middle(other)[0], b=middle((ids == k) & whole)[0])
        mine = ids == parts[0]
        if (mine & whole).sum() >= RIGHT * (mine | whole).sum():
            continue
        missing, extra = largest(whole & ~mine), largest(mine & ~whole)
        erase = extra.sum() > missing.sum()
        _, radius = middle(extra if erase else missing)
        return Brush(
            object=parts[0], points=stroke(extra if erase else missing), radius=max(1.0, radius), erase=erase
        )
    return None


def stroke(region: np.ndarray) -> list[tuple[float, float]]:
    """A stroke along the middle of a region, from one end to the other."""
    inward = ndimage.distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1]
    rows, cols = np.nonzero(inward >= 0.7 * inward.max())
    points = np.stack([cols, rows], axis=1).astype(float)
    axis = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
    along = (points - points.mean(axis=0)) @ axis
    picks = [points[np.abs(along - at).argmin()] for at in np.linspace(along.min(), along.max(), 12)]
    return [(float(x), float(y)) for x, y in picks]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=20)
    asked = parser.parse_args()
    system = System()
    counts, times, cpu, tools, unfinished = [], [], [], {}, 0
    for folder in sorted((DATA / "osd_learn").iterdir())[: asked.frames]:
        true = read_scene_folder(folder)
        seen = system.look(true.observation)
        system.believe(seen)
        made = Corrections.of(seen.scene)
        count, last, found = 0, None, set(seen.scene.ids)
        while (wanted := next_correction(made.scene, true, found)) is not None and count < MOST:
            if wanted == last:  # it changed nothing
                break
            start, used = time.perf_counter(), time.process_time()
            try:
                made = made.make(wanted)
            except CorrectionError:
                last = wanted
                count += 1
                continue
            view = correct_view(seen, made)
            system.believe(view)
            if view.scene.ids:
                system.decide(view, view.scene.ids[0])
            times.append(1e3 * (time.perf_counter() - start))
            cpu.append(1e3 * (time.process_time() - used))
            tools[wanted.tool] = tools.get(wanted.tool, 0) + 1
            last, count = wanted, count + 1
        right = next_correction(made.scene, true, found) is None
        unfinished += not right
        counts.append(count)
        print(folder.name, count, "right" if right else "not right", flush=True)
    done = len(counts) - unfinished
    used = ", ".join(f"{name} {n}" for name, n in sorted(tools.items(), key=lambda item: -item[1]))
    what = f"corrections until all masks of a photograph are right (IoU .8), osd_learn, n = {len(counts)}"
    said = f"{statistics.mean(counts):.1f} a photograph (median {statistics.median(counts):g}; {used})"
    rows = [
        ("serves", f"{what}, by a scripted person", "-", said),
        ("serves", "photographs whose masks became right that way", "all", f"{done} of {len(counts)}"),
        (
            "fast",
            f"from a correction to the new decision, n = {len(times)}",
            "median < 300 ms",
            f"{statistics.median(times):.0f} ms (95 %: {np.quantile(times, 0.95):.0f} ms; "
            f"processor time {statistics.median(cpu):.0f} ms, 95 %: {np.quantile(cpu, 0.95):.0f} ms)",
        ),
    ]
    keep({"editing": rows})
    for row in rows:
        print(" | ".join(row))


if __name__ == "__main__":
    main()
