"""The tools of an agent, called by the official client: three states, pictures, limits, nonsense, an arm."""

import base64
import functools
import json
import random
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from support.own_loop import run_apart

from cpor.bridges.agent import AgentTools
from cpor.bridges.agent_arm import AgentArm
from cpor.bridges.mcp_server import http_app, make_mcp_server
from cpor.bridges.states import state_of
from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.io.images import encode_png
from cpor.io.scene_folder import write_scene_folder
from cpor.scene import Scene
from cpor.serve.http.settings import ServeSettings
from cpor.system import System
from cpor.testing import example_frame

TOKEN = "a-token-long-enough-for-this"


def sent(shape=(240, 320)):
    frame = example_frame(shape)
    steps = np.rint(np.nan_to_num(frame.depth) * 1000).astype(np.uint16)
    return {
        "rgb": base64.b64encode(encode_png(frame.rgb)).decode(),
        "depth": base64.b64encode(encode_png(steps)).decode(),
    }


def tools(**limits):
    return AgentTools(System("depth", "none"), ServeSettings(**limits))


def with_client(server, talk):
    async def go():
        async with Client(server) as client:

            async def call(name, **arguments):
                got = await client.call_tool(name, arguments)
                text = got.content[0].text
                return got, text if got.is_error else json.loads(text)

            return await talk(client, call)

    return run_apart(go())


def test_states():
    assert state_of(Grasp(1)) == "not_obstructed" and state_of(Remove(2)) == "obstructed"
    assert state_of(Defer("weak_evidence")) == state_of(None) == "no_answer"


def test_look_decide_explain_plan_ask_over_the_wire(tmp_path):
    """Over standard input and output, by a client in another process."""
    write_scene_folder(Scene(example_frame()), tmp_path / "heap")
    command = ["-c", "from cpor.cli.app import main; main()", "mcp", "--scenes", str(tmp_path)]
    command += ["--segmenter", "depth", "--scorer", "none"]
    source = str(Path(__file__).parents[2] / "src")
    process = StdioServerParameters(command=sys.executable, args=command, env={"PYTHONPATH": source})

    async def talk(client, call):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        names = ["look", "decide", "answer", "correct", "follow", "explain", "plan", "what_to_ask"]
        assert list(listed) == names
        assert "no_answer: do not move anything" in listed["decide"].description
        assert "at most a share `alpha` is wrong" in listed["decide"].description
        got, seen = await call("look", scene="heap")
        assert len(seen["objects"]) == 3
        assert got.content[1].type == "image" and got.content[1].mime_type == "image/webp"
        assert base64.b64decode(got.content[1].data).startswith(b"RIFF")
        asked = {"view": seen["view"], "point": seen["objects"][0]["point"]}
        got, decided = await call("decide", **asked, mode="balanced")
        assert decided["state"] == "obstructed" and decided["action"]["type"] == "remove"
        assert decided["promise"] is None and got.content[1].type == "image"
        assert (await call("decide", view=seen["view"], request="the piano"))[1]["state"] == "no_answer"
        assert (await call("explain", **asked))[1]["what_would_change_it"]
        assert (await call("plan", **asked))[1]["steps"][0]["remove"] == decided["action"]["object"]
        assert (await call("what_to_ask", **asked))[1]["question"].endswith("?")
        blocker, target = decided["action"]["object"], decided["target"]
        await call("decide", **asked, mode="balanced")
        _, told = await call("answer", view=seen["view"], says=f"not {blocker} on {target}")
        assert told["action"] == {"type": "grasp", "object": target, "reason": None} and not told["promise"]
        _, told = await call("answer", view=seen["view"], says=f"{blocker} on {target}")
        assert told["action"]["object"] == blocker and told["action"]["type"] == "remove"
        both = [f"not {blocker} on {target}", f"{blocker} on {target}"]
        assert (await call("decide", **asked, mode="balanced", answers=both))[1]["scores"] == told["scores"]
        gone = {"tool": "delete", "object": blocker}
        _, corrected = await call("correct", view=seen["view"], correction=gone)
        assert str(target) in corrected["scores"] and str(blocker) not in corrected["scores"]
        picture = (await client.read_resource(f"cpor://views/{seen['view']}/picture.webp")).contents[0]
        assert base64.b64decode(picture.blob).startswith(b"RIFF") and picture.mime_type == "image/webp"

    with_client(process, talk)


def moved(shape=(240, 320), pixels=6):
    """The next picture: everything lies a little to the right."""
    frame = example_frame(shape)
    steps = np.rint(np.nan_to_num(frame.depth) * 1000).astype(np.uint16)
    shown = {"rgb": frame.rgb, "depth": steps}
    moved = {name: np.roll(each, pixels, axis=1) for name, each in shown.items()}
    return {name: base64.b64encode(encode_png(each)).decode() for name, each in moved.items()}


def test_the_next_picture_is_decided_on_for_the_same_object():
    ours = tools()
    seen = ours.look(**sent()).content
    with pytest.raises(InvalidSettingError, match="call decide first"):
        ours.follow(seen["view"], **moved())
    target = seen["objects"][0]
    asked = ours.decide(seen["view"], point=target["point"], mode="balanced").content
    told = ours.follow(seen["view"], **moved())
    again = told.content
    assert again["view"] != seen["view"] and told.picture.startswith(b"RIFF")
    assert (again["state"], again["target"], again["action"]) == (
        asked["state"],
        target["id"],
        asked["action"],
    )
    places = {each["id"]: each["point"] for each in again["objects"]}
    assert abs(places[target["id"]][0] - target["point"][0] - 6) <= 2  # the same object, where it is now
    third = ours.follow(again["view"], **moved(pixels=12)).content
    assert third["target"] == target["id"] and third["state"] == asked["state"]
    with pytest.raises(InvalidSettingError, match="another size"):
        ours.follow(seen["view"], **sent((480, 640)))


def test_limits_and_nonsense(tmp_path, evidence):
    few = tools(most_scenes=2, most_upload_bytes=40_000, most_pixels=100_000)
    server = make_mcp_server(few)
    rng = random.Random(7)

    def nonsense():
        name = rng.choice(["look", "decide", "explain", "plan", "what_to_ask", "", "arm_act", "Look"])
        keys = ["rgb", "depth", "view", "target", "point", "request", "mode", "scene", "camera", "x"]
        values = [None, 3, -1, 1e400, "", "x" * 9, "../..", [], [1], [1, 2], {}, {"a": 1}, True, "\0", "AAAA"]
        return name, {rng.choice(keys): rng.choice(values) for _ in range(rng.randint(0, 4))}

    async def talk(client, call):
        _, seen = await call("look", **sent())
        for arguments, says in (
            ({"rgb": "A" * 60_000}, "more than 40,000 bytes"),
            ({"rgb": base64.b64encode(encode_png(np.zeros((400, 400, 3), np.uint8))).decode()}, "pixels"),
            ({"rgb": "!!"}, "no base64"),
            ({"scene": "heap"}, "no folder of scenes"),
            ({}, "one of the two"),
        ):
            got, said = await call("look", **arguments)
            assert got.is_error and says in said
        crashed = 0
        for _ in range(100):
            name, arguments = nonsense()
            try:
                got, said = await call(name, **arguments)
            except MCPError:
                continue  # refused by the SDK
            assert got.is_error and "not_obstructed" not in said
            crashed += "Error executing tool" in said and ":" not in said
        assert not crashed
        for _ in range(2):
            await call("look", **sent())
        got, said = await call("decide", view=seen["view"], target=1)
        assert got.is_error and "not kept" in said

    with_client(server, talk)
    evidence("serves", "malformed MCP calls", "no crash", "100 in the test, 0 crashes")
    outside = AgentTools(System("depth", "none"), root=tmp_path)
    for name in ("..", "/etc", "a\0b", ""):
        with pytest.raises(ValueError, match="no scene"):
            outside.look(scene=name)


def test_replies_that_mean_nothing_are_refused():
    async def talk(client, call):
        _, seen = await call("look", **sent())
        view, known = seen["view"], seen["objects"][0]["id"]
        got, said = await call("answer", view=view, says="yes")
        assert got.is_error and "call decide first" in said
        await call("decide", view=view, target=known)
        for says, why in (
            ("", "at least 1 char"),
            ("99 on 1", "unknown object 99"),
            ("1 on 1", "itself"),
            ("hm", "3"),
        ):
            got, said = await call("answer", view=view, says=says)
            assert got.is_error and why in said, said
        for correction in ({}, {"tool": "delete", "object": 99}, {"tool": "cut"}):
            assert (await call("correct", view=view, correction=correction))[0].is_error
        with pytest.raises(MCPError):
            await client.read_resource("cpor://views/none/picture.webp")

    with_client(make_mcp_server(tools()), talk)


def test_a_call_that_takes_long_reports_progress(monkeypatch):
    monkeypatch.setattr("cpor.bridges.mcp_server.PROGRESS_S", 0.05)
    slow, heard = tools(), []
    look = slow.look
    monkeypatch.setattr(
        slow, "look", functools.wraps(look)(lambda **given: (time.sleep(0.3), look(**given))[1])
    )

    async def note(progress, total, message):
        heard.append((progress, message))

    async def talk(client, call):
        await client.call_tool("look", sent(), progress_callback=note)

    with_client(make_mcp_server(slow), talk)
    assert len(heard) >= 3 and heard == sorted(heard) and heard[0][1] == "look: working"


def test_no_error_names_a_folder_of_the_machine(tmp_path):
    write_scene_folder(Scene(example_frame()), tmp_path / "heap")
    (tmp_path / "heap" / "depth.png").write_bytes(b"none")
    served = AgentTools(System("depth", "none"), root=tmp_path)

    async def talk(client, call):
        got, said = await call("look", scene="heap")
        assert got.is_error and "heap/depth.png" in said and str(tmp_path) not in said

    with_client(make_mcp_server(served), talk)


def test_http_asks_for_the_token():
    server = make_mcp_server(tools())
    app = http_app(server, ServeSettings(token=TOKEN))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    def _http(app):
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")

    async def all_of_them():
        async with server.session_manager.run(), _http(app) as client:
            accept = {"Accept": "application/json, text/event-stream"}
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                assert (await client.post("/mcp", json=body, headers=accept | headers)).status_code == 401
            shown = accept | {"Authorization": f"Bearer {TOKEN}"}
            other = {"Host": "evil.example"}
            assert (await client.post("/mcp", json=body, headers=shown | other)).status_code == 400
            got = await client.post("/mcp", json=body, headers=shown)
            assert got.status_code == 200 and "decide" in got.text

    run_apart(all_of_them())


@pytest.mark.slow
def test_a_scripted_agent_retrieves_the_target():
    """Tools alone: look, decide, act, look again; no_answer is looked at again, and never acted on."""
    held = AgentTools(System(scorer="none"))
    arm = AgentArm(held, "truth")

    async def talk(client, call):
        assert (await call("arm_status"))[1]["state"] == "none"
        assert (await call("arm_look"))[0].is_error
        _, seen = await call("arm_reset", seed=1, tier="medium")
        assert seen["asked_for"].startswith("the ")
        first = seen["view"]
        for _ in range(12):
            _, decided = await call("decide", view=seen["view"], target=seen["target"])
            _, done = await call("arm_act", view=seen["view"], target=seen["target"])
            assert done["state"] == decided["state"] and done["moved"] == (done["state"] != "no_answer")
            if done.get("target_is_out"):
                break
            _, seen = await call("arm_look")
        assert done["target_is_out"] and done["outcome"] == "done"
        got, said = await call("arm_act", view=first, target=1)
        assert got.is_error and "look again" in said
        assert (await call("arm_stop"))[1]["state"] == "stopped"
        assert (await call("arm_home"))[1]["outcome"] == "done"

    with_client(make_mcp_server(held, arm), talk)
