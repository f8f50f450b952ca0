"""What our segmenter finds in pictures that it never saw, with and without depth."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.data import DATA

from cpor.io.scene_folder import read_scene_folder
from cpor.paper.segmentation import frame_quality, measure_masks
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation, Scene

pytest.importorskip("onnxruntime", reason="our networks need the extra `perception`")

BIN = Path(__file__).parents[2] / "src/cpor/serve/examples/loose-bin"
ASKED = {
    "depth": {"recall": ">= .88", "precision": ">= .88", "visible IoU": ">= .87", "amodal IoU": ">= .82"},
    "corrupted depth": {"recall": ">= .80", "precision": ">= .80"},
    "no depth": {"recall": ">= .70", "precision": ">= .60"},
}
LEAST = {"depth": (0.85, 0.85), "corrupted depth": (0.80, 0.80), "no depth": (0.70, 0.60)}


def as_a_bad_sensor(depth, rng):
    """Misregistered by three pixels, holes at the edges, noise, and one reading in twenty lost."""
    shifted = np.roll(depth, (3, -3), (0, 1))
    down, across = np.gradient(np.nan_to_num(shifted))
    noisy = shifted + 0.003 * np.nan_to_num(shifted) * rng.normal(size=depth.shape)
    lost = (np.abs(down) + np.abs(across) > 0.01) | (rng.random(depth.shape) < 0.05)
    return np.where(lost, np.nan, noisy).astype(np.float32)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "metagraspnet").is_dir(), reason=f"no MetaGraspNet samples in {DATA}")
@pytest.mark.parametrize("kind", list(ASKED))
def test_rendered_views_of_another_data_set(kind, evidence):
    rng, segmenter, frames = np.random.default_rng(0), OnnxSegmenter(), []
    for folder in sorted((DATA / "metagraspnet").glob("sim_*")):
        true = read_scene_folder(folder)
        seen = true.observation
        depth = {
            "depth": seen.depth,
            "corrupted depth": as_a_bad_sensor(seen.depth, rng),
            "no depth": None,
        }[kind]
        frames.append(frame_quality(segmenter.segment(Observation(seen.rgb, depth, seen.camera)), true))
    found = measure_masks([(str(k), each) for k, each in enumerate(frames)], rng)
    n_true = sum(each.n_true for each in frames)
    for name in ("recall", "precision", "visible IoU", "amodal IoU"):
        value = found[name.replace(" IoU", "_iou")].value
        told = f"{value:.3f} ({len(frames)} views of one heap, {n_true} objects)"
        evidence("sees", f"MetaGraspNet rendered views, {kind}: {name}", ASKED[kind].get(name, ""), told)
    least_recall, least_precision = LEAST[kind]
    assert found["recall"].value >= least_recall and found["precision"].value >= least_precision


def exposed(rgb, gain):
    linear = (rgb / 255.0) ** 2.2 * gain
    return (np.clip(linear, 0.0, 1.0) ** (1 / 2.2) * 255.0).round().astype(np.uint8)


def enlarged(observation, times):
    rgb = observation.rgb.repeat(times, axis=0).repeat(times, axis=1)
    return Observation(rgb, observation.depth.repeat(times, axis=0).repeat(times, axis=1))


@pytest.mark.parametrize(
    ("trouble", "change", "least"),
    [
        ("none", lambda o: o, 0.8),
        ("depth missing entirely", lambda o: Observation(o.rgb), 0.4),
        ("over-exposed eight times", lambda o: Observation(exposed(o.rgb, 8.0), o.depth), 0.5),
        ("under-exposed eight times", lambda o: Observation(exposed(o.rgb, 0.125), o.depth), 0.5),
        ("3840 x 2880 pixels", lambda o: enlarged(o, 6), 0.8),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_pictures_still_show_most_objects(trouble, change, least, evidence):
    true = read_scene_folder(BIN)
    seen = change(true.observation)
    found = OnnxSegmenter().segment(seen)
    step = seen.shape[0] // true.observation.shape[0]
    small = Scene(true.observation, without_amodal(found), found.visible_ids[::step, ::step])
    quality = frame_quality(small, replace(true, objects=without_amodal(true)))
    told = f"{len(quality.matches)} of {quality.n_true}, {quality.n_predicted} in all"
    evidence("sees", f"objects found in a loose bin, {trouble}", f">= {least:.0%}", told)
    assert len(quality.matches) >= least * quality.n_true


def without_amodal(scene):
    return tuple(replace(o, amodal=None) for o in scene.objects)


def test_a_tiny_picture_and_an_empty_table_have_no_objects_or_few(rng):
    wood = np.clip(150 + 8 * rng.normal(size=(480, 640, 1)) + np.array([20, 0, -30]), 0, 255).astype(np.uint8)
    flat = (0.8 + 0.001 * rng.normal(size=(480, 640))).astype(np.float32)
    assert OnnxSegmenter().segment(Observation(wood, flat)).objects == ()
    assert OnnxSegmenter().segment(Observation(wood)).objects == ()
    tiny = OnnxSegmenter().segment(Observation(wood[:32, :32], flat[:32, :32]))
    assert tiny.visible_ids.shape == (32, 32)
