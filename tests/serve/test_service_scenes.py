"""Pictures and scenes sent to the service: seen, decided, corrected and forgotten as the library does it."""

import io
import json
import pickle
import zipfile
from dataclasses import replace

import httpx
import numpy as np
import pytest
from serve.mutated_uploads import encode_multipart, small_scene
from serve.sent_scenes import two_boxes
from serve.served import get, post
from support.faint_object import faint_object

from cpor.corrections import Delete, Relate
from cpor.io.images import encode_png
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.records import AnswerRecord
from cpor.scene import Observation, Scene
from cpor.serve.api.asked import DecideRequest
from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.client import ServiceError
from cpor.system import System

SHOWN = {"words", "edges"}
"""What a reply has besides the answer."""


def test_a_frame_is_seen_as_the_library_sees_it(client):
    frame = read_scene_folder(FOLDER / "loose-bin").observation
    system = System()
    view = system.look(frame)
    beliefs = system.believe(view).beliefs
    seen = client.look(frame)
    assert [o.id for o in seen.objects] == list(view.scene.ids)
    ids = beliefs.ids
    for evidence in seen.evidence:
        i, j = ids.index(evidence.blocked), ids.index(evidence.blocker)
        assert evidence.p == pytest.approx(beliefs.p_fused[i, j])
        assert evidence.hidden_overlap == pytest.approx(beliefs.geometry.hidden_overlap[i, j])
    assert len(seen.evidence) == len(seen.relations) == np.count_nonzero(beliefs.p_fused)
    outlook = system.outlook(view)
    model = FittedModel.load(bundled_model("embedded"))
    assert seen.modes == system.taus(view) == {mode: model.tau(mode) for mode in seen.modes}
    assert (seen.mode, seen.tau) == ("cautious", seen.modes["cautious"])
    assert tuple(seen.checks) == outlook.checks
    assert (seen.promise is None) == (outlook.promise is None)
    said = "Promised" if outlook.promise else "No error rate is promised"
    assert seen.notes[-1].startswith(said)


def untimed(said):
    return said | {"times_ms": {}}


def test_every_route_gives_the_answer_of_the_library(service, client):
    """One form: the kept view, the picture in one call, and `System` in Python say the same."""
    frame = read_scene_folder(FOLDER / "touching-toys").observation
    system = System()
    view = system.look(frame)
    seen = client.look(frame)
    cases = [
        ({}, {}),
        ({"mode": "bold"}, {"mode": "bold"}),
        ({"tau": 0.3}, {"tau": 0.3}),
        ({"relations": [{"blocked": 3, "blocker": 1, "p": 0.7}]}, {"relations": {(3, 1): 0.7}}),
        ({"relations": [{"blocked": 3, "blocker": 1, "p": None}]}, {"relations": {(3, 1): None}}),
    ]
    for asked, settings in cases:
        expected = system.decide(view, 3, **settings)
        reply = post(f"{service}/v1/scenes/{seen.id}/decide", json={"target": 3} | asked).json()
        AnswerRecord.model_validate({name: reply[name] for name in reply.keys() - SHOWN})
        assert untimed({name: reply[name] for name in reply.keys() - SHOWN}) == untimed(
            json.loads(json.dumps(expected.to_json()))
        )
        if "relations" not in asked:
            at_once = client.decide_rgbd(frame, target=3, **asked)
            assert untimed(at_once.model_dump(mode="json", exclude={"id", *SHOWN})) == untimed(
                client.decide_scene(seen.id, target=3, **asked).model_dump(mode="json", exclude=SHOWN)
            )
            assert client.decide_scene(at_once.id, target=3, **asked).scores == at_once.scores


def test_a_scene_folder_brings_its_names_scores_and_who_made_them(client, tmp_path):
    frame = read_scene_folder(FOLDER / "touching-toys").observation
    found = System().look(frame)
    scene = replace(found.scene, sources=found.sources)
    write_scene_folder(scene, tmp_path / "found")
    system = System()
    for view in (system.look(tmp_path / "found"), system.look(frame)):
        expected = system.decide(view, 3)
        reply = client.decide_rgbd(tmp_path / "found", target=3)
        assert reply.scores == pytest.approx({str(k): p for k, p in expected.scores.items()}, abs=1e-9)
        assert tuple(reply.checks) == expected.checks
        assert reply.notes[-1] == expected.notes[-1]  # the promise, or why there is none
    damaged = replace(scene, sources=replace(scene.sources, frame="of another picture"))
    assert [c.name for c in client.look(damaged).checks if c.state == "fail"] == ["masks_source"]
    reply = client.decide_rgbd(damaged, target=3, mode="bold")
    assert (reply.action.type, reply.action.reason) == ("defer", "failed_check")


def test_scores_and_names_need_masks(service):
    parts = small_scene()
    del parts["instances"], parts["amodal"], parts["target"]
    for part in ("objects", "scores", "sources"):
        kind, body = encode_multipart(parts | {part: b"{}"})
        reply = post(f"{service}/v1/scenes", content=body, headers={"Content-Type": kind})
        assert reply.status_code == 400 and f"{part} goes with instances" in reply.json()["message"]


def test_a_view_travels_whole():
    system = System()
    view = system.look(two_boxes())
    system.believe(view)
    there = pickle.loads(pickle.dumps(view))
    assert untimed(system.decide(there, 1).to_json()) == untimed(system.decide(view, 1).to_json())


def test_what_is_changed_by_hand_is_not_promised_and_can_be_explained(client):
    seen = client.look_at_example("touching-toys")
    target = seen.objects[0].id
    other = seen.objects[1].id
    before = client.decide_scene(seen.id, target=target, tau=0.5)
    changed = client.decide_scene(seen.id, target=target, relations={(target, other): 1.0}, tau=0.5)
    assert changed.scores[str(target)] < before.scores[str(target)] and changed.promise is None
    given = [r.model_dump() for r in changed.relations]
    request = DecideRequest(
        objects=[int(label) for label in changed.scores], target=target, relations=given, tau=changed.tau
    )
    explained = client.explain(request)
    assert explained.decision.action == changed.action
    assert explained.decision.scores == pytest.approx(changed.scores, abs=1e-12)
    with pytest.raises(ServiceError, match="unknown object 999"):
        client.decide_scene(seen.id, target=target, relations={(target, 999): 0.5})


def test_a_question_is_answered_and_the_next_decision_follows(client):
    seen = client.look_at_example("touching-toys")
    ids = [each.id for each in seen.objects]
    target = ids[0]
    free = [f"not {other} on {target}" for other in ids[1:]]
    assert client.decide_scene(seen.id, target=target, mode="bold", answers=free).action.type == "grasp"
    held = client.decide_scene(seen.id, target=target, mode="bold", answers=[*free, f"{ids[1]} on {target}"])
    assert held.action.type != "grasp" and held.promise is None
    unclear = client.decide_scene(seen.id, "the thing there", ask=True)
    assert unclear.action is None and unclear.ask.question == unclear.question
    assert client.decide_scene(seen.id, "the thing there", answers=[str(target)]).target == target
    doubtful = {(target, ids[1]): 0.5} | {(target, other): 0.0 for other in ids[2:]}
    asks = client.decide_scene(seen.id, target=target, tau=0.9, relations=doubtful, ask=True)
    assert asks.action.type == "defer" and asks.ask.question.startswith("Does ")
    after = client.decide_scene(seen.id, target=target, tau=0.9, relations=doubtful, answers=["yes"])
    assert after.scores != asks.scores
    with pytest.raises(ServiceError, match="no question is open"):
        client.decide_scene(seen.id, target=target, mode="bold", answers=[*free, "yes"])


def test_outlines_and_points_lie_where_the_objects_are(client):
    scene = two_boxes()
    seen = client.look(scene)
    first = seen.objects[0]
    assert first.box == (8, 10, 40, 62)
    assert set(first.visible[0]) == {(8.0, 10.0), (40.0, 10.0), (40.0, 62.0), (8.0, 62.0)}
    x, y = first.point
    assert scene.visible_ids[int(y), int(x)] == 1
    assert first.hidden_share == 0.0


def test_a_scene_can_be_asked_about_later(client):
    seen = client.look(two_boxes())
    assert client.decide_scene(seen.id, "the red one").target == 1
    assert client.decide_scene(seen.id, point=(60.0, 30.0)).target == 2
    unclear = client.decide_scene(seen.id, "the box")
    assert unclear.action is None and unclear.target is None and not unclear.scores
    assert "Which one do you mean?" in unclear.question and unclear.words["why"] == unclear.question
    assert {each.id for each in unclear.candidates} == {1, 2}
    unknown = client.decide_scene(seen.id, "the green banana")
    assert unknown.action is None and unknown.question
    for ask in ({"request": "red", "point": (1.0, 1.0)}, {}):
        with pytest.raises(ServiceError, match="in one way"):
            client.decide_scene(seen.id, **ask)
    with pytest.raises(ServiceError, match="outside"):
        client.decide_scene(seen.id, point=(1e6, 0.0))
    with pytest.raises(ServiceError, match="send the picture again") as refused:
        client.decide_scene("nonsense", "the red one")
    assert refused.value.status == 404


def test_a_kept_scene_is_corrected_shown_saved_and_forgotten(service, client, tmp_path):
    seen = client.look(two_boxes())
    laid = client.correct(seen.id, Relate(blocked=1, blocker=2, p=1.0), decide={"target": 1, "mode": "bold"})
    assert laid.decision.action.model_dump(exclude_none=True) == {"type": "remove", "object": 2}
    assert client.decide_scene(seen.id, target=1, mode="bold").promise is None
    assert {(r.blocked, r.blocker): r.p for r in laid.scene.relations}[1, 2] == 1.0
    apart = client.correct(seen.id, Delete(object=2), decide={"target": 1, "mode": "cautious"})
    assert [each.id for each in apart.scene.objects] == [1]
    assert apart.decision.action.type == "defer"  # what stands there is nobody's object now
    back = client.correct(seen.id, do="undo")
    assert [each.id for each in back.scene.objects] == [1, 2] and (back.scene.done, back.scene.undone) == (
        1,
        1,
    )
    kept = f"{service}/v1/scenes/{seen.id}"
    assert get(kept).json()["done"] == 1
    assert get(f"{kept}/rgb.png").content.startswith(b"\x89PNG")
    zipped = post(f"{kept}/folder.zip", json={"relations": [{"blocked": 2, "blocker": 1, "p": 0.0}]})
    with zipfile.ZipFile(io.BytesIO(zipped.content)) as archive:
        archive.extractall(tmp_path)
    labelled = read_scene_folder(tmp_path / "scene")
    assert labelled.true_occlusion.pairs == {(1, 2)} and labelled.sources.segmenter == "a person"
    for body in (
        {"do": "undo", "correction": {"tool": "delete", "object": 1}},
        {"correction": {"tool": "brush", "object": 1, "points": [[0, 0]] * 501, "radius": 2}},
        {"correction": {"tool": "brush", "object": 1, "points": [[0, 0]], "radius": 1e9}},
        {"correction": {"tool": "workspace", "corners": [[0, 0], [1, 0]]}},
    ):
        assert post(f"{kept}/corrections", json=body).status_code == 422
    outside = {"correction": {"tool": "add", "point": [5000, 5]}}
    assert post(f"{kept}/corrections", json=outside).status_code == 400
    assert httpx.delete(kept).status_code == 204
    assert get(kept).status_code == 404


def test_points_are_those_of_the_picture_as_it_came(client):
    pixels = np.full((1800, 2400, 3), 90, np.uint8)
    ids = np.zeros((1800, 2400), np.uint8)
    ids[200:900, 300:1000], ids[200:900, 1000:2000] = 1, 2
    seen = client.look(pixels, instances=encode_png(ids))
    assert (seen.width, seen.height) == (2400, 1800)
    (shrunk,) = [check for check in seen.checks if check.name == "picture_size"]
    assert shrunk.state == "doubt" and "1/2 of its size" in shrunk.says and shrunk.remedy
    assert seen.objects[0].box == (300, 200, 1000, 900)
    reply = client.decide_scene(seen.id, point=(1900.0, 300.0))
    assert reply.target == 2 and reply.objects[0].box == (300, 200, 1000, 900)
    assert ids[int(reply.objects[0].point[1]), int(reply.objects[0].point[0])] == 1


def test_nothing_is_promised_of_a_picture_that_was_made_smaller(client):
    frame = read_scene_folder(FOLDER / "loose-bin").observation
    factor = 2
    while frame.rgb.shape[0] * frame.rgb.shape[1] * factor**2 <= 2_500_000:
        factor += 1
    big = encode_png(np.repeat(np.repeat(frame.rgb, factor, 0), factor, 1))
    steps = np.nan_to_num(1e3 * frame.depth).astype(np.uint16)
    depth = encode_png(np.repeat(np.repeat(steps, factor, 0), factor, 1))
    reply = client.decide_rgbd(big, depth=depth, target=1)
    assert reply.promise is None and "picture_size" in {c.name for c in reply.checks if c.state == "doubt"}
    assert reply.notes[-1].startswith("No error rate is promised")


def test_the_unit_of_depth_is_guessed_where_nobody_says_it(client):
    scene = two_boxes()
    steps = (1e4 * scene.observation.depth).astype(np.uint16)
    ids = scene.visible_ids.astype(np.uint8)
    seen = client.look(scene.observation.rgb, depth=encode_png(steps), instances=encode_png(ids))
    assert any("one step is 0.0001 m" in note for note in seen.notes)


def test_masks_of_ones_own_are_decided_on(client):
    reply = client.decide_rgbd(two_boxes(), "the red one", tau=0.4)
    assert (reply.masks, reply.target, reply.tau, reply.mode) == ("given", 1, 0.4, None)
    assert reply.promise is None
    assert {c.name for c in reply.checks if c.state == "doubt"} >= {"masks_source"}
    unclear = client.decide_rgbd(two_boxes(), "the box")
    assert unclear.question and unclear.action is None and unclear.target is None and unclear.id


def test_without_depth_what_touches_has_no_geometric_answer(client):
    scene = two_boxes()
    seen = client.look(Scene(Observation(scene.observation.rgb), scene.objects, scene.visible_ids))
    assert not seen.has_depth and any("No depth" in note for note in seen.notes)
    assert all(e.sources["geometry"].p is None for e in seen.evidence)


def test_masks_are_needed_where_they_are_asked_for(service):
    parts = small_scene()
    del parts["instances"], parts["amodal"]
    kind, body = encode_multipart(parts)
    reply = post(f"{service}/v1/decide/masks", content=body, headers={"Content-Type": kind})
    assert reply.status_code == 400 and "instances is missing" in reply.json()["message"]


def test_the_object_is_asked_for_in_one_way(client):
    for ask in ({"target": 1, "point": (5.0, 5.0)}, {}):
        with pytest.raises(ServiceError, match="in one way"):
            client.decide_rgbd(two_boxes(), **ask)
    with pytest.raises(ServiceError, match="unknown object 9"):
        client.decide_rgbd(two_boxes(), target=9)


def test_pointing_at_something_faint_adds_it_to_the_kept_scene(client):
    scene, _, point = faint_object()
    seen = client.look(scene.observation)
    system = System()
    wanted = system.decide(system.look(scene.observation), point)
    said = client.decide_scene(seen.id, point=tuple(point))
    assert said.target == wanted.target and said.target not in {o.id for o in seen.objects}
    assert said.action.type == wanted.to_json()["action"]["type"]
    by_id = client.decide_scene(seen.id, target=said.target)
    assert by_id.action == said.action and by_id.promise is None
    at_once = client.decide_rgbd(scene.observation, point=tuple(point))
    assert at_once.scores == said.scores and client.decide_scene(at_once.id, target=said.target).scores


def test_points_of_a_scene_are_where_its_depth_says(service, client):
    frame = read_scene_folder(FOLDER / "loose-bin").observation
    seen = client.look(frame)
    content = get(f"{service}/v1/scenes/{seen.id}/points").content
    record = np.dtype([("xyz", "<f4", 3), ("rgb0", "u1", 4), ("id", "<u2")])
    points = np.frombuffer(content, record)
    assert 20_000 < len(points) <= 60_000
    assert set(points["id"].tolist()) - {0} == {o.id for o in seen.objects}
    fx, fy, cx, cy = frame.camera.intrinsics
    x, y, z = points["xyz"].T
    columns, rows = np.rint(x / z * fx + cx).astype(int), np.rint(y / z * fy + cy).astype(int)
    np.testing.assert_allclose(frame.depth[rows, columns], z, rtol=1e-6)
    np.testing.assert_array_equal(frame.rgb[rows, columns], points["rgb0"][:, :3])
    flat = client.look(Observation(frame.rgb, None))
    refused = get(f"{service}/v1/scenes/{flat.id}/points")
    assert refused.status_code == 400 and "no depth" in refused.json()["message"]
