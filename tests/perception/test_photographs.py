"""What our segmenter finds in pictures that it never saw, with and without depth."""

import numpy as np
import pytest
from support.data import DATA

from cpor.data.scene_folder import read_scene_folder
from cpor.metrics.segmentation import frame_quality, summarise
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation

pytest.importorskip("onnxruntime", reason="our networks need the extra `perception`")

ASKED = {
    "depth": "recall .88, precision .88, visible IoU .87, amodal .82",
    "corrupted depth": "recall .80, precision .80",
    "no depth": "recall .70, precision .60",
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
    found = summarise(frames)
    told = (
        f"recall {found.recall:.3f}, precision {found.precision:.3f}, visible IoU {found.visible_iou:.3f}, "
    )
    told += f"amodal {found.amodal_iou:.3f} ({len(frames)} views of one heap, {found.n_true} objects)"
    evidence("E", f"MetaGraspNet rendered views, {kind}", ASKED[kind], told)
    least_recall, least_precision = LEAST[kind]
    assert found.recall >= least_recall and found.precision >= least_precision
