"""The service over real connections: questions, limits, errors, metrics, and workers that come back."""

import json
import multiprocessing
import multiprocessing.connection
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from serve.sent_scenes import two_boxes
from serve.served import PATIENCE_S, get, post

import cpor
from cpor.io.scene_folder import read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.serve.api.answered import ErrorReply
from cpor.serve.api.asked import DecideRequest
from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.client import Client

MUG = cpor.ObstructionPosterior(["mug", "box"], "mug", {("mug", "box"): 0.8})


def test_health_says_what_there_is(client):
    health = client.health()
    assert (health.status, health.version) == ("ok", cpor.__version__)
    assert health.perception and health.simulator


def test_decisions_come_back_whole(client):
    reply = client.decide(MUG, tau=0.6)
    assert (reply.action.type, reply.action.object, reply.tau) == ("remove", "box", 0.6)
    assert client.explain(MUG, tau=0.5).effects[0].flips_at == pytest.approx(0.5)
    assert [step.object for step in client.plan(MUG).steps] == ["box"]


def test_questions_can_be_asked_as_messages(client):
    request = DecideRequest(objects=[1, 2], target=1, relations=[])
    assert client.decide(request).words["headline"] == "Grasp object 1"


def test_large_questions_are_answered_by_a_worker(client, rng):
    p = np.where(np.eye(12), 0.0, rng.uniform(0.1, 0.9, (12, 12)))
    posterior = cpor.ObstructionPosterior(range(12), 0, p)
    reply, expected = client.decide(posterior), cpor.decide(posterior)
    assert reply.scores == pytest.approx({str(k): score for k, score in expected.scores.items()})
    assert all(edge.in_cycle for edge in reply.edges)


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
    plan, low = client.plan(posterior), 1.0 - p[0].max()
    assert plan.ask and not plan.steps and 0.0 <= plan.p_valid <= low  # a lower end


def test_examples_are_listed_shown_and_analysed(client, service):
    listed = client.examples()
    assert len(listed) == 3
    for example in listed:
        assert client.example_picture(example.name) == (FOLDER / example.name / "rgb.png").read_bytes()
        assert len(get(f"{service}/v1/examples/{example.name}/small.jpg").content) < 40_000
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
        for o in seen.objects:
            reply = client.decide_scene(seen.id, target=o.id, tau=0.5, graphs=0)
            best.setdefault(example.name, []).append((reply.action.type, max(reply.scores.values())))
    free = [kind == "grasp" and score > 0.7 for kind, score in best["loose-bin"]]
    assert sum(free) >= 3
    assert any(kind == "remove" and score > 0.7 for kind, score in best["touching-toys"])
    cautious = FittedModel.load(bundled_model("embedded")).tau("cautious")
    assert sum(score < cautious for _, score in best["full-bin"]) >= 1  # it asks


def test_twenty_clients_each_get_their_own_result(service, evidence):
    def ask(k):
        scene = two_boxes(shift=k)
        with Client(service) as own:
            return own.look(scene), own.decide_rgbd(scene, target=2)

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(20)))
    for k, (seen, decided) in enumerate(answers):
        for objects in (seen.objects, decided.objects):
            assert objects[0].box == (8 + k, 10, 40 + k, 62)
        assert decided.target == 2 and decided.action is not None
    ids = {seen.id for seen, _ in answers} | {decided.id for _, decided in answers}
    assert len(ids) == 40
    evidence(
        "serves", "20 clients uploading at once (tests)", "none lost, none mixed up", "40 of 40 their own"
    )


def test_metrics_count_by_route_and_never_by_query(service, client):
    client.decide(MUG)
    get(f"{service}/v1/nothing?secret=swordfish")
    text = get(f"{service}/metrics").text
    assert 'cpor_requests_total{method="POST",route="/v1/decide",status="200"}' in text
    assert 'route="other",status="404"' in text
    for name in ("cpor_request_seconds_bucket", "cpor_scenes_kept", "cpor_looking_waiting"):
        assert name in text
    assert "swordfish" not in text


def test_every_error_is_an_error_reply(service):
    decide = f"{service}/v1/decide"
    good = {"objects": ["a"], "target": "a", "relations": []}
    cases = [
        (get(f"{service}/v1/nothing"), 404, "not_found"),
        (get(decide), 405, "invalid"),
        (post(decide, content=b"{", headers={"Content-Type": "application/json"}), 422, "invalid"),
        (post(decide, json=good | {"taw": 1}), 422, "invalid"),
        (post(decide, json=good | {"tau": 2}), 422, "invalid"),
        (post(decide, json=good | {"tau": 0.5, "mode": "bold"}), 422, "invalid"),
        (post(decide, json=good | {"mode": "reckless"}), 422, "invalid"),
        (post(f"{service}/v1/scenes/ghost/decide", json={"target": 1}), 404, "not_found"),
        (post(decide, json=good | {"target": "b"}), 400, "invalid"),
        (post(decide, json=good | {"objects": ["a"] * 201}), 422, "invalid"),
        (post(f"{service}/v1/scenes", json={}), 415, "unsupported"),
        (post(f"{service}/v1/examples/ghost"), 404, "not_found"),
        (post(f"{service}/v1/examples/..%2F..%2Fx"), 404, "not_found"),
        (get(f"{service}/v1/examples/ghost/rgb.png"), 404, "not_found"),
        (get(f"{service}/static/..%2Fapp.py"), 404, "not_found"),
        (get(f"{service}/static/ghost.js"), 404, "not_found"),
        (get(f"{service}/v1/runs/ghost"), 404, "not_found"),
    ]
    for reply, status, code in cases:
        error = ErrorReply.model_validate_json(reply.content)
        assert (reply.status_code, error.code) == (status, code), reply.request.url
        assert "Traceback" not in error.message and ".py" not in error.message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"objects": ["a"], "target": "a", "relations": [], "tau": NaN}', "NaN is not a JSON number"),
        (b'{"objects": ["a"], "target": "a", "relations": [], "relations": []}', "given twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not"),
    ],
)
def test_json_means_one_thing_only(service, body, says):
    headers = {"Content-Type": "application/json"}
    reply = post(f"{service}/v1/decide", content=body, headers=headers)
    assert reply.status_code == 422 and says in reply.json()["message"]


def test_the_page_and_its_files_are_there(service):
    for path in ("/", "/live", "/static/style.css"):
        reply = get(service + path)
        assert reply.status_code == 200, path
        assert reply.headers["content-type"].startswith("text/")


def test_openapi_describes_the_messages(service):
    described = get(f"{service}/openapi.json").json()
    assert {"/v1/decide", "/v1/scenes", "/v1/scenes/{id}/decide", "/v1/decide/rgbd", "/v1/runs"} <= set(
        described["paths"]
    )
    parts = described["paths"]["/v1/scenes"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert parts["schema"]["required"] == ["rgb"]
    assert "http" not in json.dumps(described["info"])


def test_the_service_says_when_it_has_no_workers_and_gets_new_ones(service):
    objects = [f"o{k}" for k in range(12)]
    relations = [{"blocked": a, "blocker": b, "p": 0.3} for a in objects for b in objects if a != b]
    large = {"objects": objects, "target": "o0", "relations": relations}
    with httpx.Client(base_url=service, timeout=PATIENCE_S) as http:
        assert http.get("/healthz").status_code == 200
        for worker in multiprocessing.active_children():
            if worker.name.startswith("cpor-"):
                worker.kill()
                multiprocessing.connection.wait([worker.sentinel])
        reply = http.get("/healthz")
        assert reply.status_code == 503 and reply.json()["code"] == "busy"
        assert "no worker is ready for: looking, deciding, explaining" in reply.json()["message"]
        assert http.post("/v1/decide", json=large).status_code == 200  # waits for the new one
        until = time.monotonic() + PATIENCE_S
        while http.get("/healthz").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
