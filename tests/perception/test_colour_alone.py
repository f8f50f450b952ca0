import numpy as np
from support.networks import paint, write_colour_segmenter

from cpor.perception.mask_selection import Detections, Letterbox, MaskSettings, select_objects
from cpor.perception.onnx_segmenter import LARGE, LEAST, SMALLER, OnnxSegmenter, join_sizes, smaller
from cpor.scene import Observation

FRAME = Letterbox.fit((480, 640), (480, 640))
SETTINGS = MaskSettings(score_threshold=0.5)


def detections(*boxes, scale=1.0):
    """Maps on the grid of the input of boxes (score, top, left, bottom, right) in pixels of the frame."""
    maps = np.zeros((len(boxes), 120, 160), np.float32)
    for each, (_, *box) in zip(maps, boxes, strict=True):
        top, left, bottom, right = (round(v * scale / 4) for v in box)
        each[top:bottom, left:right] = 0.9
    scores = np.array([score for score, *_ in boxes], np.float32)
    return Detections(scores, maps, maps.copy(), np.full(len(boxes), 0.2, np.float32))


def boxes_of(found):
    scene = select_objects(found, Observation(np.zeros((480, 640, 3), np.uint8)), FRAME, SETTINGS)
    return sorted((o.amodal.top, o.amodal.left, *o.amodal.pixels.shape) for o in scene.objects)


def near(found, expected):
    return len(found) == len(expected) and np.allclose(found, expected, atol=6)


def test_a_box_whose_prints_look_like_things_stays_whole_and_small_things_stay():
    prints = (0.9, 100, 100, 160, 200), (0.8, 160, 100, 220, 200)
    pen = (0.7, 300, 300, 320, 340)
    whole = detections((0.6, 100, 100, 220, 200), (0.9, 300, 300, 320, 340), scale=SMALLER)
    joined = join_sizes(detections(*prints, pen), whole, FRAME, SETTINGS)
    assert near(boxes_of(joined), [(100, 100, 120, 100), (300, 300, 20, 40)])


def test_what_lies_on_a_large_thing_stays_where_the_large_thing_leaves_it_room():
    book = detections((0.8, 100, 100, 300, 300), scale=SMALLER)
    hole = slice(round(150 * SMALLER / 4), round(190 * SMALLER / 4))
    book.visible[0, hole, hole] = 0.0
    joined = join_sizes(detections((0.7, 152, 152, 188, 188)), book, FRAME, SETTINGS)
    assert len(boxes_of(joined)) == 2


def test_nothing_large_or_sure_in_the_smaller_picture_leaves_the_first_as_it_is():
    first = detections((0.7, 10, 10, 60, 60))
    side = LARGE - 12
    small = detections((0.9, 200, 200, 200 + side, 200 + side), (0.35, 0, 0, 200, 200), scale=SMALLER)
    assert join_sizes(first, small, FRAME, SETTINGS) is first
    assert join_sizes(first, detections(), FRAME, SETTINGS) is first


def test_a_frame_of_another_shape_lies_in_the_same_corner():
    tall = smaller(Letterbox.fit((640, 480), (480, 640)))
    assert tall.content == (384, 288) and tall.size == (480, 640)


def test_a_large_thing_of_the_smaller_picture_needs_less_of_a_score():
    unsure, sides = 0.9 * SETTINGS.score_threshold, (100, 100, 220, 200)
    first, second = detections((unsure, *sides)), detections((unsure, *sides), scale=SMALLER)
    assert not boxes_of(first) and near(
        boxes_of(join_sizes(first, second, FRAME, SETTINGS)), [(*sides[:2], 120, 100)]
    )


def test_without_depth_the_network_is_shown_both_sizes(tmp_path):
    segmenter = OnnxSegmenter(write_colour_segmenter(tmp_path / "segmenter.onnx"))
    picture = paint((480, 640), red=(0.1, 0.1, 0.9, 0.9))
    with_depth = segmenter.segment(Observation(picture, np.full((480, 640), 0.8, np.float32))).objects[0]
    without = segmenter.segment(Observation(picture)).objects[0]
    assert without.score == min(1.0, np.float32(with_depth.score) / np.float32(LEAST))
