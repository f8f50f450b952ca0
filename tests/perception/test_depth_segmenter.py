import numpy as np
import pytest
from support.data import DATA

from cpor.errors import InvalidSceneError
from cpor.io.scene_folder import read_scene_folder
from cpor.paper.segmentation import frame_quality, measure_masks
from cpor.perception.depth_segmenter import DepthSegmenter
from cpor.perception.support_plane import fit_support_plane
from cpor.scene import Observation

SHAPE = (240, 320)


def table(rng=None, slope=0.0005, noise=0.0):
    """Depth of a tilted table. Its inverse is linear in the pixel."""
    y, x = np.indices(SHAPE)
    z = 1.0 / (1.2 + slope * y - 0.3 * slope * x)
    return z + (rng.normal(0, noise, SHAPE) if rng is not None else 0.0)


def with_boxes(z, *boxes):
    """Boxes (top, left, bottom, right, height in m) on it, and the image of their numbers."""
    z, ids = z.copy(), np.zeros(SHAPE, np.int32)
    for k, (top, left, bottom, right, height) in enumerate(boxes, start=1):
        z[top:bottom, left:right] = table()[top:bottom, left:right] - height
        ids[top:bottom, left:right] = k
    return z.astype(np.float32), ids


def observe(depth):
    return Observation(np.zeros((*depth.shape, 3), np.uint8), depth.astype(np.float32))


def test_the_plane_is_found_under_clutter(rng):
    depth, ids = with_boxes(table(rng, noise=0.001), (20, 20, 120, 150, 0.08), (100, 160, 230, 300, 0.05))
    depth[rng.random(SHAPE) < 0.2] = np.nan
    plane = fit_support_plane(depth, rng)
    assert np.abs(plane.depth(SHAPE) - table())[ids == 0].max() < 0.003


def test_no_plane_in_nothing_or_in_noise(rng):
    assert fit_support_plane(np.full(SHAPE, np.nan, np.float32), rng) is None
    assert fit_support_plane(rng.uniform(0.3, 3.0, SHAPE).astype(np.float32), rng) is None


def test_boxes_beside_and_across_each_other_are_told_apart(rng):
    boxes = [(30, 30, 90, 110, 0.04), (60, 80, 150, 140, 0.09), (160, 200, 210, 290, 0.03)]
    depth, ids = with_boxes(table(rng, noise=0.0005), *boxes)
    scene = DepthSegmenter().segment(observe(depth))
    assert len(scene.objects) == 3
    for k in (1, 2, 3):
        best = max(
            ((scene.visible_ids == o.id) & (ids == k)).sum()
            / ((scene.visible_ids == o.id) | (ids == k)).sum()
            for o in scene.objects
        )
        assert best > 0.85
    flat = next(o for o in scene.objects if scene.visible_ids[40, 40] == o.id)
    assert flat.occluded and flat.amodal.to_mask(SHAPE)[70, 90], "the corner under the taller box"


@pytest.mark.parametrize(
    "depth",
    [table(), np.full(SHAPE, np.nan), np.full((32, 32), 0.7)],
    ids=["table", "no readings", "32x32"],
)
def test_an_empty_table_or_no_reading_gives_an_empty_scene(depth):
    scene = DepthSegmenter().segment(observe(depth))
    assert scene.objects == () and scene.visible_ids.shape == depth.shape


def test_a_frame_without_depth_is_refused():
    with pytest.raises(InvalidSceneError, match="needs depth"):
        DepthSegmenter().segment(Observation(np.zeros((*SHAPE, 3), np.uint8)))


@pytest.mark.skipif(not (DATA / "metagraspnet").is_dir(), reason=f"no MetaGraspNet samples in {DATA}")
def test_rendered_views_of_metagraspnet(evidence):
    scenes = [read_scene_folder(folder) for folder in sorted((DATA / "metagraspnet").glob("sim_*"))]
    qualities = [frame_quality(DepthSegmenter().segment(s.observation), s) for s in scenes]
    told = measure_masks([(str(k), each) for k, each in enumerate(qualities)], np.random.default_rng(0))
    recall, precision, iou = (told[name].value for name in ("recall", "precision", "visible_iou"))
    # It knows neither bags nor bins; far more than this would mean that truth leaked in.
    assert 0.25 < recall < 0.9
    shown = f"recall {recall:.2f}, precision {precision:.2f}, visible IoU {iou:.2f}"
    evidence("sees", "classical depth segmenter on MetaGraspNet views", "for comparison", shown)
