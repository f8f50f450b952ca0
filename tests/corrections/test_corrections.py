"""Corrections by a person: masks, relations and the history, and what is decided then."""

from dataclasses import replace

import numpy as np
import pytest

import cpor
from cpor.corrections import (
    Add,
    Brush,
    CorrectionError,
    Corrections,
    Delete,
    Merge,
    Relate,
    Rename,
    Split,
    Workspace,
    correct_view,
    label_scene,
)
from cpor.corrections.history import BY_HAND
from cpor.decision import Grasp, Remove
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.scene import BlockedBy, Observation, Scene

SHAPE = (120, 160)
BOXES = {1: np.s_[30:70, 20:60], 2: np.s_[50:90, 60:100], 3: np.s_[20:50, 110:140]}
"""Three boxes, 3 cm high, of their own colours; the second touches the first."""


def make_frame() -> Observation:
    rgb = np.full((*SHAPE, 3), 120, np.uint8)
    depth = np.full(SHAPE, 0.8, np.float32)
    for label, box in BOXES.items():
        rgb[box] = np.eye(3, dtype=np.uint8)[label - 1] * 200
        depth[box] = 0.77 - 0.02 * (label == 2)
    return Observation(rgb, depth)


def true_mask(label: int) -> np.ndarray:
    mask = np.zeros(SHAPE, bool)
    mask[BOXES[label]] = True
    return mask


def iou(scene: Scene, label: int, mask: np.ndarray) -> float:
    mine = scene.visible_ids == label
    return (mine & mask).sum() / (mine | mask).sum()


@pytest.fixture
def empty() -> Scene:
    return Scene(make_frame(), (), np.zeros(SHAPE, np.int32))


@pytest.fixture
def system() -> cpor.System:
    return cpor.System(segmenter="given", scorer="none", model="none")


def add_all(scene: Scene) -> Corrections:
    points = [(40.0, 50.0), (80.0, 70.0), (125.0, 35.0)]
    return Corrections.replay(scene, [Add(point=point) for point in points])


@pytest.mark.parametrize("with_depth", [True, False])
def test_a_click_grows_to_the_object_under_it(empty, with_depth):
    scene = empty if with_depth else replace(empty, observation=Observation(empty.observation.rgb))
    found = add_all(scene).scene
    assert [iou(found, k, true_mask(k)) > 0.8 for k in (1, 2, 3)] == [True] * 3
    # What is hidden of an object is not known where depth does not tell.
    assert all((o.amodal is not None) is with_depth for o in found.objects)
    with pytest.raises(CorrectionError, match="object 1 is there already"):
        Corrections.of(found).make(Add(point=(40.0, 50.0)))


def test_split_merge_brush_and_delete_change_what_shows(empty):
    two = add_all(empty).make(Merge(objects=[1, 2]))
    assert two.scene.ids == (1, 3)
    by_seeds = two.make(Split(object=1, a=(40.0, 50.0), b=(80.0, 70.0))).scene
    assert iou(by_seeds, 1, true_mask(1)) > 0.85 and iou(by_seeds, 4, true_mask(2)) > 0.85
    by_line = two.make(Split(object=1, a=(60.0, 0.0), b=(60.0, 119.0), along_line=True)).scene
    assert {iou(by_line, k, true_mask(1)) > 0.8 for k in (1, 4)} == {True, False}
    painted = two.make(Brush(object=3, points=[(100.0, 10.0), (150.0, 10.0)], radius=5.0)).scene
    assert (painted.visible_ids[8:12, 100:150] == 3).all()
    erased = two.make(Brush(object=3, points=[(115.0, 35.0)], radius=8.0, erase=True)).scene
    assert erased.visible_ids[35, 115] == 0 and erased.visible_ids[35, 130] == 3
    assert not erased.objects[1].amodal.to_mask(SHAPE)[35, 115]
    gone = two.make(Delete(object=3)).scene
    assert gone.ids == (1,) and not (gone.visible_ids == 3).any()
    for wrong in (Delete(object=9), Merge(objects=[1, 1]), Split(object=1, a=(5.0, 5.0), b=(40.0, 50.0))):
        with pytest.raises(CorrectionError):
            two.make(wrong)


def test_history_is_undone_redone_kept_and_replayed(empty):
    made = add_all(empty).make(Rename(object=2, name="the green box"))
    made = made.make(Relate(blocked=1, blocker=2, p=1.0)).make(Relate(blocked=3, blocker=2, p=None))
    assert made.relations == {(1, 2): 1.0, (3, 2): None}
    assert made.make(Delete(object=1)).relations == {(3, 2): None}
    back = made
    for _ in made.done:
        back = back.undo()
    assert back.scene == empty and not back.changes_masks
    with pytest.raises(CorrectionError, match="nothing was corrected"):
        back.undo()
    again = back
    for _ in made.done:
        again = again.redo()
    assert again.scene == made.scene == Corrections.replay(empty, made.to_json()).scene
    with pytest.raises(CorrectionError, match="no history"):
        Corrections.replay(empty, '[{"tool": "delete", "object": "all"}]')


def test_corrected_masks_are_a_persons_and_every_decision_follows(empty, system):
    seen = system.look(replace(empty, sources=None))
    corrections = add_all(empty)
    view = correct_view(seen, corrections)
    assert (view.masks, view.sources.segmenter) == ("given", BY_HAND)
    assert "a person" in next(check.says for check in view.checks if check.name == "masks_source")
    said = {(a, b): 0.0 for a in (1, 2, 3) for b in (1, 2, 3) if a != b}
    free = system.decide(view, 1, mode="bold", relations=said)
    assert free.action == Grasp(1)
    laid = corrections.make(Relate(blocked=1, blocker=2, p=1.0))
    said.pop((1, 2))
    answer = system.decide(correct_view(seen, laid), 1, mode="bold", relations=said)
    assert answer.action == Remove(2)
    assert answer.promise is None
    outside = corrections.make(Workspace(corners=[(100.0, 10.0), (159.0, 10.0), (159.0, 60.0)]))
    assert system.decide(correct_view(seen, outside), 1).action is None


def test_a_labelled_scene_is_read_again_and_unknown_pairs_are_refused(empty, system, tmp_path):
    corrections = add_all(empty).make(Relate(blocked=1, blocker=2, p=1.0))
    view = correct_view(system.look(empty), corrections)
    beliefs = system.believe(view).beliefs
    unknown = beliefs.p_fused.copy()
    unknown[0, 2] = np.nan
    with pytest.raises(CorrectionError, match="whether object 3 obstructs object 1"):
        label_scene(view.scene, replace(beliefs, p_fused=unknown))
    open_pairs = {(a, b): 0.0 for a in (1, 2, 3) for b in (1, 2, 3) if a != b} | view.relations
    labelled = label_scene(view.scene, beliefs, open_pairs)
    write_scene_folder(labelled, tmp_path / "scene")
    read = read_scene_folder(tmp_path / "scene")
    assert read.true_occlusion.pairs == {BlockedBy(1, 2)}
    again = system.look(read)
    assert again.sources.segmenter == BY_HAND
