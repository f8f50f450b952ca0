"""The queue of photographs to label: both kinds in turn, gone on with, and a clock of what is left."""

import numpy as np
import pytest
from PIL import Image
from support.labelled import draw_labelled_scene

from cpor.apps.lab import is_labelled_by_hand, read_why, see_labelled
from cpor.apps.label_queue import LabelQueue, plan_queue
from cpor.corrections.history import BY_HAND
from cpor.errors import SceneFileError
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.sources import describe_sources
from cpor.system import System


@pytest.fixture
def photographs(tmp_path):
    rng = np.random.default_rng(3)
    for k in range(9):
        write_scene_folder(draw_labelled_scene(rng), tmp_path / "in" / f"photograph_{k}")
    return tmp_path / "in"


def test_a_queue_has_drawn_and_valued_photographs_and_goes_on(photographs, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra perception")
    out = tmp_path / "out"
    queue = plan_queue(photographs, out, 8)
    why = read_why(out)
    assert list(why.values()) == ["value"] * 2 + ["drawn"] * 3 + ["value"] + ["drawn"] * 2
    assert len(queue.left) == 8 and queue.minutes_left == pytest.approx(6.0)
    now = [0.0]
    queue = LabelQueue(queue.photographs, out, clock=lambda: now[0])
    first = queue.begin()
    now[0] = 12.0
    write_scene_folder(read_scene_folder(photographs / first), out / first)
    queue.accept()
    assert len(queue.left) == 7 and queue.minutes_left == pytest.approx(7 * 12.0 / 60.0)
    second = queue.begin()
    queue.put_off(second)
    assert queue.left[-1] == second
    again = plan_queue(photographs, out, 8)
    assert list(again.photographs) == list(why) and len(again.left) == 7
    (out / "queue.json").write_text("[]")
    with pytest.raises(SceneFileError, match="damaged"):
        read_why(out)


def test_a_recording_is_labelled_too(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra perception")
    rng = np.random.default_rng(5)
    for k in range(8):
        seen = draw_labelled_scene(rng).observation
        Image.fromarray(seen.rgb).save(tmp_path / f"color_{k}.png")
        depth = np.rint(np.nan_to_num(seen.depth) * 1000).astype(np.uint16)
        Image.fromarray(depth).save(tmp_path / f"depth_{k}.png")
    queue = plan_queue(tmp_path, tmp_path / "out", 8)
    assert sorted(queue.photographs) == [f"{k:04d}" for k in range(8)]
    place, number = queue.photographs["0003"]
    assert (place, number) == (tmp_path, 3) and len(queue.left) == 8


def test_what_a_person_labelled_is_seen_by_the_machine(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra perception")
    scene = draw_labelled_scene(np.random.default_rng(4))
    by_hand = type(scene)(
        scene.observation, scene.objects, scene.visible_ids, scene.true_occlusion,
        sources=describe_sources(scene, BY_HAND, None),
    )  # fmt: skip
    assert is_labelled_by_hand(by_hand) and not is_labelled_by_hand(scene)
    seen, unlabelled = see_labelled(System(), by_hand)
    assert seen.sources.segmenter != BY_HAND and seen.sources.scorer is not None
    assert seen.true_occlusion.objects >= set(seen.ids) >= unlabelled
