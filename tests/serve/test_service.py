import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from support.mutated_uploads import encode_multipart, small_scene

import cpor
from cpor.data.folder_files import encode_png
from cpor.data.scene_folder import read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.rgbd import rgbd_pipeline
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene
from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.api.messages import DecideRequest, ErrorReply
from cpor.serve.client import Client, ServiceError

MUG = cpor.ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.8})


def two_boxes(width=96, height=72, shift=0):
    """A scene whose masks tell it from any other: its boxes begin where nobody else's do."""
    ids = np.zeros((height, width), np.int32)
    ids[10 : height - 10, 8 + shift : 40 + shift] = 1
    ids[10 : height - 10, 40 + shift : 70] = 2
    colours = np.array([[90, 90, 90], [200, 40, 40], [40, 60, 200]], np.uint8)
    depth = np.where(ids == 0, 0.8, np.where(ids == 1, 0.76, 0.74)).astype(np.float32)
    objects = tuple(DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2))
    return Scene(Observation(colours[ids], depth), objects, ids)


def test_health_says_what_there_is(client):
    health = client.health()
    assert (health.status, health.version) == ("ok", cpor.__version__)
    assert health.perception and health.simulator


def test_decisions_come_back_whole(client):
    reply = client.decide(MUG, tau=0.6)
    assert (reply.action.type, reply.action.object, reply.tau) == ("remove", "box", 0.6)
    assert client.explain(MUG).effects[0].flips_at == pytest.approx(0.5)
    assert [step.object for step in client.plan(MUG).steps] == ["box"]


def test_questions_can_be_asked_as_messages(client):
    request = DecideRequest(objects=[1, 2], target=1, relations=[])
    assert client.decide(request).headline == "Grasp object 1"


def test_large_questions_are_answered_by_a_worker(client, rng):
    p = np.where(np.eye(12), 0.0, rng.uniform(0.1, 0.9, (12, 12)))
    posterior = cpor.ObstructionPosterior(range(12), 0, p)
    reply, expected = client.decide(posterior), cpor.decide(posterior)
    assert {s.object: s.score for s in reply.scores} == pytest.approx(dict(expected.scores))
    assert all(edge.in_cycle for edge in reply.relations)


def test_the_largest_questions_are_bounded(client, rng):
    p = np.zeros((200, 200))
    places = rng.choice(200 * 200, 4_100, replace=False)
    p.reshape(-1)[places] = rng.uniform(0.05, 0.95, len(places))
    np.fill_diagonal(p, 0.0)
    p.reshape(-1)[np.flatnonzero(p)[4_000:]] = 0.0
    posterior = cpor.ObstructionPosterior(range(200), 0, p)
    reply = client.decide(posterior, method="exact")
    assert not reply.certificate.exact and len(reply.relations) == 4_000
    assert client.explain(posterior, graphs=0).not_examined > 0
    with pytest.raises(ServiceError, match="objects matter to the target") as refused:
        client.plan(posterior)
    assert (refused.value.status, refused.value.code) == (413, "too_large")


def test_examples_are_listed_shown_and_analysed(client):
    listed = client.examples()
    assert len(listed) == 3
    for example in listed:
        assert client.example_picture(example.name) == (FOLDER / example.name / "rgb.png").read_bytes()
    found = client.look_at_example("touching-toys")
    assert found.masks.startswith("embedded") and len(found.objects) > 4
    given = client.look_at_example("touching-toys", masks="given")
    truth = read_scene_folder(FOLDER / "touching-toys")
    assert [o.id for o in given.objects] == list(truth.ids) and given.masks == "given"
    assert given.objects[0].name == truth.objects[0].name


def test_examples_show_what_they_are_for(client):
    best = {}
    for example in client.examples():
        seen = client.look_at_example(example.name)
        ids = [o.id for o in seen.objects]
        for target in ids:
            request = DecideRequest(objects=ids, target=target, relations=seen.relations, tau=0.5, graphs=0)
            reply = client.decide(request)
            best.setdefault(example.name, []).append((reply.action.type, reply.scores[0].score))
    free = [kind == "grasp" and score > 0.7 for kind, score in best["loose-bin"]]
    assert sum(free) >= 3
    assert any(kind == "remove" and score > 0.7 for kind, score in best["touching-toys"])
    assert sum(score < 0.65 for _, score in best["full-bin"]) >= 2  # or nearly defers


def test_a_frame_is_seen_as_the_library_sees_it(client):
    scene = read_scene_folder(FOLDER / "loose-bin")
    pipeline = rgbd_pipeline()
    expected = pipeline.run(scene.observation, target=1)
    seen = client.look(scene.observation)
    assert [o.id for o in seen.objects] == list(expected.scene.ids)
    beliefs = expected.result.beliefs
    ids = beliefs.ids
    for evidence in seen.evidence:
        i, j = ids.index(evidence.blocked), ids.index(evidence.blocker)
        assert evidence.p == pytest.approx(beliefs.p_fused[i, j])
        assert evidence.hidden_overlap == pytest.approx(beliefs.geometry.hidden_overlap[i, j])
    assert len(seen.evidence) == len(seen.relations) == np.count_nonzero(beliefs.p_fused)
    decided = client.decide_rgbd(scene.observation, target=1)
    expected_scores = dict(expected.result.decision.scores)
    assert {s.object: s.score for s in decided.decision.scores} == pytest.approx(expected_scores)
    assert decided.p_success == pytest.approx(expected.result.p_success)
    promised = FittedModel.load(bundled_model("embedded")).promise.tau is not None
    assert decided.promise.startswith("Promised" if promised else "No error rate is promised")


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
    by_words = client.ground(seen.scene_id, "the red one")
    assert (by_words.state, by_words.id) == ("found", 1)
    by_point = client.ground(seen.scene_id, point=(60.0, 30.0))
    assert (by_point.state, by_point.id) == ("found", 2)
    assert client.ground(seen.scene_id, "the box").state == "ambiguous"
    assert client.ground(seen.scene_id, "the green banana").state == "not_found"
    for ask in ({"words": "red", "point": (1.0, 1.0)}, {}):
        with pytest.raises(ServiceError, match="in one way"):
            client.ground(seen.scene_id, **ask)
    with pytest.raises(ServiceError, match="outside"):
        client.ground(seen.scene_id, point=(1e6, 0.0))
    with pytest.raises(ServiceError, match="send the picture again") as refused:
        client.ground("nonsense", "the red one")
    assert refused.value.status == 404


def test_points_are_those_of_the_picture_as_it_came(client):
    pixels = np.full((1800, 2400, 3), 90, np.uint8)
    ids = np.zeros((1800, 2400), np.uint8)
    ids[200:900, 300:1000], ids[200:900, 1000:2000] = 1, 2
    seen = client.look(pixels, instances=encode_png(ids))
    assert (seen.width, seen.height) == (2400, 1800)
    assert any("1/2 of its size" in note for note in seen.notes)
    assert seen.objects[0].box == (300, 200, 1000, 900)
    assert client.ground(seen.scene_id, point=(1900.0, 300.0)).id == 2


def test_masks_of_ones_own_are_decided_on(client):
    reply = client.decide_rgbd(two_boxes(), "the red one", tau=0.4)
    assert reply.scene.masks == "given" and reply.target == 1
    assert reply.decision.tau == 0.4
    unclear = client.decide_rgbd(two_boxes(), "the box")
    assert unclear.meant.state == "ambiguous" and unclear.decision is None and unclear.target is None


def test_without_depth_what_touches_has_no_geometric_answer(client):
    scene = two_boxes()
    seen = client.look(Scene(Observation(scene.observation.rgb), scene.objects, scene.visible_ids))
    assert not seen.has_depth and any("No depth" in note for note in seen.notes)
    assert all(e.p_geometry is None for e in seen.evidence)


def test_masks_are_needed_where_they_are_asked_for(service):
    parts = small_scene()
    del parts["instances"], parts["amodal"]
    kind, body = encode_multipart(parts)
    reply = httpx.post(f"{service}/v1/decide/masks", content=body, headers={"Content-Type": kind})
    assert reply.status_code == 400 and "instances is missing" in reply.json()["message"]


def test_the_object_is_asked_for_in_one_way(client):
    for ask in ({"target": 1, "point": (5.0, 5.0)}, {}):
        with pytest.raises(ServiceError, match="in one way"):
            client.decide_rgbd(two_boxes(), **ask)
    with pytest.raises(ServiceError, match="unknown object 9"):
        client.decide_rgbd(two_boxes(), target=9)


def test_twenty_clients_each_get_their_own_result(service, evidence):
    def ask(k):
        scene = two_boxes(shift=k)
        with Client(service) as own:
            return own.look(scene), own.decide_rgbd(scene, target=2)

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(20)))
    for k, (seen, decided) in enumerate(answers):
        for objects in (seen.objects, decided.scene.objects):
            assert objects[0].box == (8 + k, 10, 40 + k, 62)
        assert decided.target == 2 and decided.decision is not None
    ids = {seen.scene_id for seen, _ in answers} | {decided.scene.scene_id for _, decided in answers}
    assert len(ids) == 40
    evidence("G", "20 clients uploading at once (tests)", "none lost, none mixed up", "40 of 40 their own")


def test_metrics_count_by_route_and_never_by_query(service, client):
    client.decide(MUG)
    httpx.get(f"{service}/v1/nothing?secret=swordfish")
    text = httpx.get(f"{service}/metrics").text
    assert 'cpor_requests_total{method="POST",route="/v1/decide",status="200"}' in text
    assert 'route="other",status="404"' in text
    for name in ("cpor_request_seconds_bucket", "cpor_scenes_kept", "cpor_looking_waiting"):
        assert name in text
    assert "swordfish" not in text


def test_every_error_is_an_error_reply(service):
    decide = f"{service}/v1/decide"
    good = {"objects": ["a"], "target": "a", "relations": []}
    cases = [
        (httpx.get(f"{service}/v1/nothing"), 404, "not_found"),
        (httpx.get(decide), 405, "invalid"),
        (httpx.post(decide, content=b"{", headers={"Content-Type": "application/json"}), 422, "invalid"),
        (httpx.post(decide, json=good | {"taw": 1}), 422, "invalid"),
        (httpx.post(decide, json=good | {"tau": 2}), 422, "invalid"),
        (httpx.post(decide, json=good | {"target": "b"}), 400, "invalid"),
        (httpx.post(decide, json=good | {"objects": ["a"] * 201}), 422, "invalid"),
        (httpx.post(f"{service}/v1/scenes", json={}), 415, "unsupported"),
        (httpx.post(f"{service}/v1/examples/ghost"), 404, "not_found"),
        (httpx.post(f"{service}/v1/examples/..%2F..%2Fx"), 404, "not_found"),
        (httpx.get(f"{service}/v1/examples/ghost/rgb.png"), 404, "not_found"),
        (httpx.get(f"{service}/static/..%2Fapp.py"), 404, "not_found"),
        (httpx.get(f"{service}/static/ghost.js"), 404, "not_found"),
        (httpx.get(f"{service}/docs"), 404, "not_found"),
        (httpx.get(f"{service}/v1/runs/ghost"), 404, "not_found"),
    ]
    for reply, status, code in cases:
        error = ErrorReply.model_validate_json(reply.content)
        assert (reply.status_code, error.code) == (status, code), reply.request.url
        assert "Traceback" not in error.message and ".py" not in error.message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"objects": ["a"], "target": "a", "relations": [], "tau": NaN}', "NaN is no number"),
        (b'{"objects": ["a"], "target": "a", "relations": [], "relations": []}', "given twice"),
        (b"[" * 100_000, "deeply nested"),
        (b"\xff\xfe", "not"),
    ],
)
def test_json_means_one_thing_only(service, body, says):
    headers = {"Content-Type": "application/json"}
    reply = httpx.post(f"{service}/v1/decide", content=body, headers=headers)
    assert reply.status_code == 422 and says in reply.json()["message"]


def test_the_page_and_its_files_are_there(service):
    for path in ("/", "/live", "/static/style.css"):
        reply = httpx.get(service + path)
        assert reply.status_code == 200, path
        assert reply.headers["content-type"].startswith("text/")


def test_openapi_describes_the_messages(service):
    described = httpx.get(f"{service}/openapi.json").json()
    assert {"/v1/decide", "/v1/scenes", "/v1/decide/rgbd", "/v1/runs"} <= set(described["paths"])
    parts = described["paths"]["/v1/scenes"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert parts["schema"]["required"] == ["rgb"]
    assert "http" not in json.dumps(described["info"])
