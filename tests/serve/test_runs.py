"""Live runs over a real server, with real physics: begun, followed, steered, and never left hanging."""

import io
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time

import pytest
from PIL import Image
from support.live_runs import PATIENCE_S, Follower, live_service
from support.own_loop import run_apart

from cpor.serve.api.answered import CycleMessage, ErrorReply, RunEvent, RunReply
from cpor.serve.api.asked import ControlRequest, RunRequest
from cpor.serve.client import Client
from cpor.serve.http.refusals import Conflict
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.runs import RunKeeper

QUICK = {"tier": "easy", "seed": 4, "speed": 100, "eyes": "truth"}
"""One grasp, and the target is out."""


@pytest.fixture(scope="module")
def client():
    with live_service(stop_s=PATIENCE_S) as client:
        yield client


def begin(client, **request):
    reply = client.post("/v1/runs", json=QUICK | request)
    assert reply.status_code == 201, reply.text
    return RunReply.model_validate(reply.json())


def refused(reply, status, code):
    assert reply.status_code == status, reply.text
    error = ErrorReply.model_validate(reply.json())
    assert error.code == code
    return error.message


def state(client, run):
    return RunReply.model_validate(client.get(f"/v1/runs/{run.run_id}").json())


def control(client, run, do, obj=None):
    return client.post(f"/v1/runs/{run.run_id}/control", json={"do": do, "obj": obj})


def run_processes():
    return [p for p in multiprocessing.active_children() if p.name == "cpor-run"]


def the_process():
    (child,) = run_processes()
    return child


def comes_true(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_run_is_followed_to_its_end_by_two_who_hear_the_same(client, evidence):
    run = begin(client)
    assert run.state == "preparing"
    first, second = Follower(client, run.run_id), Follower(client, run.run_id)
    first.wait_for_cycle(0, "decided")
    frame = first.wait_for(lambda e: "film" in e)["film"]
    shown = client.get(frame["picture"])
    assert shown.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(shown.content)).size == (480, 360)
    first.join()
    second.join()
    for event in first.events:
        RunEvent.model_validate(event)
    assert first.told == second.told
    assert first.ids == [e["number"] for e in first.events] == sorted(set(first.ids))
    cycles = [CycleMessage.model_validate(e["cycle"]) for e in first.told if "cycle" in e]
    assert [(c.index, c.moment) for c in cycles] == [(0, "decided"), (0, "done"), (1, "last")]
    decided, done, left = cycles
    assert left.decision is None and left.action is None and left.picture != done.picture
    assert decided.outcome is None and decided.verdict is None
    assert done.action.type == "grasp" and done.action.object == done.target
    assert done.outcome.startswith("It worked: the orange carrot") and done.right is True
    scores = done.decision.scores
    best = max(scores, key=scores.get)
    assert best == str(done.target) and scores[best] > done.decision.tau
    assert done.decision.mode == "cautious"
    picture = Image.open(io.BytesIO(client.get(done.picture).content))
    left, top, right, bottom = done.window
    assert picture.width == 960 and picture.height > 960 * (bottom - top) / (right - left)
    last = state(client, run)
    assert last.state == "ended" and last.ended == "retrieved"
    assert first.told[-1]["run"] == last.model_dump()
    again = Follower(client, run.run_id, after=first.ids[2]).join()
    assert again.told == [e for e in first.told if e["number"] > first.ids[2]]
    nothing = client.get(f"/v1/runs/{run.run_id}/events", headers={"Last-Event-ID": str(first.ids[-1])})
    assert nothing.status_code == 204
    with Client(str(client.base_url)) as ours:
        assert [e.number for e in ours.events(run.run_id, first.ids[2])] == again.ids
        assert list(ours.events(run.run_id, first.ids[-1])) == []
    assert "is over" in refused(control(client, run, "pause"), 409, "conflict")
    films = sum("film" in e for e in first.events)
    evidence("serves", "live run, easy target: frames of the film", "several", films)
    assert films > 2


def test_pause_step_another_target_and_stop_in_the_middle_of_a_motion(client):
    run = begin(client, tier="medium", seed=5, speed=4, paused=True)
    watcher = Follower(client, run.run_id)
    assert watcher.wait_for_state("paused").get("cycle") == 0
    waiting = state(client, run)
    assert waiting.state == "paused"
    assert "asks nothing" in refused(control(client, run, "answer", waiting.target), 409, "conflict")
    assert "was not seen" in refused(control(client, run, "retarget", 999), 400, "invalid")
    assert "say which object" in refused(control(client, run, "retarget"), 400, "invalid")
    assert not any(e.get("cycle", {}).get("moment") == "done" for e in watcher.events)
    stepped = control(client, run, "step")
    assert stepped.status_code == 200 and stepped.json()["state"] == "running"
    done = watcher.wait_for_cycle(0, "done")
    assert done["action"]["type"] == "remove" and done["verdict"]
    watcher.wait_for_state("paused", cycle=1)
    decided = watcher.wait_for_cycle(1, "decided")
    other = next(o["id"] for o in decided["objects"] if o["id"] != decided["target"] and o["visible"])
    assert control(client, run, "retarget", other).status_code == 200
    dropped = watcher.wait_for_cycle(1, "done")
    assert dropped["outcome"] == "Nothing was moved." and dropped["verdict"] is None
    assert any("another object" in note for note in dropped["notes"])
    anew = watcher.wait_for_cycle(2, "decided")
    assert anew["target"] == other and anew["retargeted"]
    assert watcher.wait_for_state("paused", cycle=2)["target"] == other
    name = next(o["name"] for o in anew["objects"] if o["id"] == other)
    assert state(client, run).target_name == f"the {name}"
    heard = len(watcher.events)
    assert control(client, run, "resume").json()["state"] == "running"
    comes_true(lambda: sum("film" in e for e in watcher.events[heard:]) >= 3)  # the arm is on its way
    assert control(client, run, "stop").status_code == 200
    watcher.join()
    last = state(client, run)
    assert last.state == "ended" and last.ended == "stopped"
    assert watcher.wait_for_cycle(2, "done")["outcome"].startswith("The robot was stopped")


def test_one_run_at_a_time_and_a_killed_process_is_a_failed_run(client):
    run = begin(client, paused=True)  # so that it is not over before it is killed
    busy = client.post("/v1/runs", json=QUICK)
    assert "Another run is active" in refused(busy, 503, "busy") and int(busy.headers["retry-after"]) > 0
    watcher = Follower(client, run.run_id)
    watcher.wait_for_state("paused")
    os.kill(the_process().pid, signal.SIGKILL)
    watcher.join()
    last = state(client, run)
    assert last.state == "failed" and "killed by signal 9" in last.detail and last.ended is None
    assert watcher.told[-1]["run"] == last.model_dump()
    kept = begin(client)  # the place is free again
    assert client.delete(f"/v1/runs/{kept.run_id}").status_code == 204
    assert "no such run" in refused(client.get(f"/v1/runs/{kept.run_id}"), 404, "not_found")
    assert not run_processes()


def test_a_run_that_nobody_follows_is_stopped(client):
    with live_service(abandoned_s=0.2) as lonely:
        run = begin(lonely, paused=True)
        # Its sentinel, not `join`: the keeper waits for the same process, and only one of two is told.
        for child in run_processes():
            assert multiprocessing.connection.wait([child.sentinel], PATIENCE_S)
        Follower(lonely, run.run_id).join()
        last = state(lonely, run)
        assert (last.state, last.ended) == ("ended", "stopped") and "no follower" in last.detail


def test_orders_to_a_run_that_does_not_listen_hold_up_nobody():
    async def go():
        keeper = RunKeeper(RunLimits())
        try:
            run = keeper.begin(RunRequest(tier="easy", eyes="truth"))
            os.kill(the_process().pid, signal.SIGSTOP)
            for _ in range(16):
                assert (await run.control(ControlRequest(do="pause"))).state == "preparing"
            for _ in range(1_000):  # more than a pipe would hold
                with pytest.raises(Conflict, match="the last 16 orders"):
                    await run.control(ControlRequest(do="pause"))
            assert run.reply().state == "preparing" and not run.is_over
            assert keeper.get(run.run_id) is run
        finally:
            await keeper.close()

    run_apart(go())


def test_signs_of_life_are_sent_in_silence():
    with live_service(heartbeat_s=0.1) as client:
        run = begin(client, paused=True)
        watcher = Follower(client, run.run_id)
        watcher.wait_for_state("paused")
        comes_true(lambda: len(watcher.comments) > 3)
        client.delete(f"/v1/runs/{run.run_id}")
        watcher.join()


def test_what_is_not_there_is_refused(client):
    for path in ("/v1/runs/none", "/v1/runs/none/events", "/v1/runs/none/pictures/film_000001.jpg"):
        assert "no such run" in refused(client.get(path), 404, "not_found")
    assert client.post("/v1/runs", json={"tier": "deep"}).status_code == 422
    assert client.post("/v1/runs", json={"speed": 0}).status_code == 422


@pytest.mark.parametrize(("module", "extra"), [("mujoco", "sim"), ("onnxruntime", "perception")])
def test_without_an_extra_it_says_what_to_install(client, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    reply = client.post("/v1/runs", json=QUICK | {"eyes": "networks"})
    assert f"pip install 'cpor-grasp[{extra}]'" in refused(reply, 501, "not_installed")
