import shutil
import socket
import sys
from pathlib import Path

import httpx
import pytest
from serve.mutated_uploads import encode_multipart, small_scene
from serve.served import PATIENCE_S, get, post, served
from starlette.testclient import TestClient

from cpor.cli.serve import serve
from cpor.errors import InvalidSettingError, MissingExtraError
from cpor.io.scene_folder import write_scene_folder
from cpor.scene import Scene
from cpor.serve.client import Client, ServiceError
from cpor.serve.http.http_app import create_app
from cpor.serve.http.server import listen
from cpor.serve.http.settings import ServeSettings
from cpor.serve.jobs.workers import WorkerPool
from cpor.testing import example_frame

TOKEN = "correct-horse-battery-staple"
DECIDE = {"objects": ["a"], "target": "a", "relations": []}


@pytest.fixture(scope="module")
def guarded():
    """A service with a token, and with limits small enough to reach."""
    settings = ServeSettings(
        token=TOKEN, most_upload_bytes=60_000, most_json_bytes=5_000, most_pixels=10_000, time_limit_s=20.0
    )
    with served(settings) as address:
        yield address


def alone(settings):
    """The application without its workers."""
    return TestClient(create_app(settings), "http://localhost", raise_server_exceptions=False)


@pytest.fixture
def http(guarded):
    with httpx.Client(base_url=guarded, trust_env=False, timeout=PATIENCE_S) as connected:
        yield connected


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_other_machines_need_a_token(host):
    with pytest.raises(InvalidSettingError, match="--token-file"):
        ServeSettings(host=host)
    assert not ServeSettings(host=host, token=TOKEN).is_local


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_this_machine_needs_none(host):
    assert ServeSettings(host=host).is_local


def test_every_address_of_this_machine_is_asked_by_its_name():
    for host, name in (("127.0.0.2", "127.0.0.2"), ("::1", "[::1]"), ("localhost", "LOCALHOST:80")):
        http = alone(ServeSettings(host=host))
        assert http.get("/", headers={"Host": name}).status_code == 200
        assert http.get("/", headers={"Host": "127.0.0.3"}).status_code == 400


def test_behind_a_proxy_its_name_is_answered_too():
    with pytest.raises(InvalidSettingError, match="must show a token"):
        ServeSettings(public_host="bin.example.org")
    with pytest.raises(InvalidSettingError, match="without a port"):
        ServeSettings(public_host="bin.example.org:443", token=TOKEN)
    public, bearer = {"Host": "bin.example.org"}, {"Authorization": f"Bearer {TOKEN}"}
    http = alone(ServeSettings(public_host="bin.example.org", token=TOKEN))
    assert http.get("/", headers=public).status_code == 200
    assert http.get("/", headers={"Host": "evil.example.org"}).status_code == 400
    for origin, status in (("https://bin.example.org", 200), ("https://evil.example.org", 403)):
        headers = public | bearer | {"Origin": origin}
        assert http.post("/v1/decide", json=DECIDE, headers=headers).status_code == status
    for host, secure in (("bin.example.org", True), ("localhost", False)):
        reply = http.get("/", params={"token": TOKEN}, headers={"Host": host}, follow_redirects=False)
        assert ("; Secure" in reply.headers["set-cookie"]) == secure


@pytest.mark.parametrize("token", ["", "short", "with space in the middle", "ünglücklicherweise-lang"])
def test_a_token_that_can_be_guessed_is_refused(token):
    with pytest.raises(InvalidSettingError, match="at least 16"):
        ServeSettings(token=token)


def test_the_token_is_needed_where_one_is_set(http):
    for method, path in (
        ("POST", "/v1/decide"),
        ("GET", "/v1/examples"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/v1/runs/x/events"),
        ("POST", "/v1/scenes"),
    ):
        reply = http.request(method, path)
        assert (reply.status_code, reply.json()["code"]) == (401, "unauthorised"), path
        assert reply.headers["www-authenticate"] == "Bearer"
        for wrong in ("x", TOKEN[:-1], TOKEN + "x", TOKEN.upper()):
            assert http.request(method, path, headers={"Authorization": f"Bearer {wrong}"}).status_code == 401
    for path in ("/healthz", "/", "/static/style.css"):
        assert http.get(path).status_code == 200


def test_the_client_shows_the_token(guarded):
    with Client(guarded, TOKEN) as client:
        assert len(client.examples()) == 3
    with Client(guarded, "another-token-of-some-length") as client:
        with pytest.raises(ServiceError, match="show the token") as refused:
            client.examples()
        assert refused.value.status == 401


def test_a_link_with_the_token_becomes_a_cookie_once(http):
    reply = http.get("/", params={"token": TOKEN})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower() and TOKEN not in cookie
    assert http.get("/v1/examples").status_code == 200
    http.cookies.clear()
    name = cookie.split("=")[0]
    assert http.get("/v1/examples", headers={"Cookie": f"{name}=00"}).status_code == 401
    assert http.get("/", params={"token": "wrong" * 5}).status_code == 401
    assert http.get("/v1/examples", params={"token": TOKEN}).status_code == 401


def test_a_link_keeps_what_else_it_says(http):
    reply = http.get("/live", params={"example": "full bin&x", "token": TOKEN, "empty": ""})
    assert reply.headers["location"] == "/live?example=full+bin%26x&empty="


def test_cookies_of_others_do_not_hide_ours(guarded, http):
    port = guarded.rsplit(":", 1)[1]
    ours = http.get("/", params={"token": TOKEN}).headers["set-cookie"].split(";")[0]
    http.cookies.clear()
    assert ours.startswith(f"cpor_page_{port}=")
    for others in ('a={"x":1}', "a=b c", "a", "ü=é"):
        for cookies in (f"{others}; {ours}", f"{ours}; {others}"):
            sent = {"Cookie": cookies.encode("latin-1")}
            assert http.get("/v1/examples", headers=sent).status_code == 200, cookies
    assert http.get("/v1/examples", headers={"Cookie": f"x{ours}"}).status_code == 401


def test_names_that_are_pointed_at_this_machine_are_refused(service):
    port = service.rsplit(":", 1)[1]
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "",
        "localhost.evil.example",
    ):
        reply = get(f"{service}/healthz", headers={"Host": host})
        assert reply.status_code == 400, host
    for host in (f"localhost:{port}", "LOCALHOST", "127.0.0.1:9999", f"[::1]:{port}"):
        assert get(f"{service}/healthz", headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[x"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_cannot_post(service, headers):
    reply = post(f"{service}/v1/decide", json=DECIDE, headers=headers)
    assert (reply.status_code, reply.json()["code"]) == (403, "unauthorised")
    assert "access-control-allow-origin" not in reply.headers


def test_the_page_itself_can_post(service):
    headers = {"Origin": service, "Sec-Fetch-Site": "same-origin"}
    assert post(f"{service}/v1/decide", json=DECIDE, headers=headers).status_code == 200


def test_a_preflight_is_not_granted(service):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    reply = httpx.options(f"{service}/v1/decide", headers=headers, timeout=PATIENCE_S)
    assert reply.status_code == 403 and "access-control-allow-origin" not in reply.headers


def test_every_reply_has_the_headers(service):
    app = create_app(ServeSettings(token=TOKEN, most_json_bytes=100))
    app.add_api_route("/static/a/fault", lambda: 1 // 0)
    http = TestClient(app, "http://localhost", raise_server_exceptions=False)
    replies = (
        (http.get("/?" + "a=1&" * 20), 200),
        (http.get("/v1/examples"), 401),
        (http.post("/v1/decide", content=bytes(101), headers={"Authorization": f"Bearer {TOKEN}"}), 413),
        (http.get("/static/a/fault"), 500),
    )
    assert [reply.status_code for reply, _ in replies] == [status for _, status in replies]
    for reply in (
        *(reply for reply, _ in replies),
        post(f"{service}/v1/decide", json=DECIDE, headers={"Origin": "http://[x"}),
        get(f"{service}/"),
        get(f"{service}/nothing"),
        post(f"{service}/v1/decide", json=DECIDE),
        get(f"{service}/healthz", headers={"Host": "evil.example"}),
    ):
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy and "http" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cross-origin-opener-policy"] == "same-origin"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in reply.headers


def test_too_many_bytes_are_refused_whatever_is_declared(guarded, http):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    reply = http.post("/v1/decide", content=b" " * 5_001, headers=bearer)
    assert (reply.status_code, reply.json()["code"]) == (413, "too_large")
    kind, body = encode_multipart(small_scene() | {"rgb": bytes(70_000)})
    assert http.post("/v1/scenes", content=body, headers=bearer | {"Content-Type": kind}).status_code == 413
    chunks = (bytes(1_000) for _ in range(1_000))  # no length declared at all
    assert http.post("/v1/scenes", content=chunks, headers=bearer | {"Content-Type": kind}).status_code == 413


def test_too_many_pixels_are_refused(http):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    kind, body = encode_multipart({"rgb": small_scene(130, 80)["rgb"]})
    reply = http.post("/v1/scenes", content=body, headers=headers | {"Content-Type": kind})
    assert reply.status_code == 413 and "130 x 80" in reply.json()["message"]


def test_who_sends_half_a_request_does_not_hold_up_others(guarded):
    host, port = guarded.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        head = f"POST /v1/decide HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        with Client(guarded, TOKEN) as client:
            assert client.health().status == "ok"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host": "0.0.0.0"}, "callers must show a token"),
        ({"token_env": "CPOR_NO_SUCH"}, "is not set"),
        ({"token_file": Path("no/such/file")}, "cannot read the token file"),
        ({"token_env": "A", "token_file": Path("b")}, "in one way"),
    ],
)
def test_the_command_refuses_what_is_not_safe(options, says):
    with pytest.raises(InvalidSettingError, match=says):
        serve(**options)


def test_a_port_that_is_taken_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidSettingError, match="choose another --port"):
            listen("127.0.0.1", taken.getsockname()[1])


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'cpor-grasp\[serve\]'"):
        serve()


def test_no_reply_names_the_folder_of_the_camera(tmp_path, monkeypatch, caplog):
    frames = tmp_path / "private" / "frames"
    write_scene_folder(Scene(example_frame()), frames / "one")
    monkeypatch.setattr(WorkerPool, "able", 1)
    client = alone(ServeSettings(camera=str(frames)))
    reply = client.get("/healthz")
    assert reply.status_code == 200 and reply.json()["camera"] == "folder"
    shutil.rmtree(frames / "one")
    gone = client.get("/v1/camera/view.jpg")
    assert gone.status_code == 404 and "the log of the service" in gone.json()["message"]
    for text in (reply.text, gone.text, client.get("/openapi.json").text):
        assert "private" not in text and str(tmp_path) not in text
    assert str(frames) in caplog.text  # for the person who runs the service
