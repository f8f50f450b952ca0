"""Connections that send nothing, over real sockets."""

import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest
import uvicorn

from cpor.serve.http.app import create_app
from cpor.serve.http.connections import WatchedProtocol
from cpor.serve.http.server import configure, listen

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@contextmanager
def serving(protocol):
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(hello, http=protocol, ws="none", lifespan="off", limit_concurrency=12)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join(30.0)
        listener.close()
        assert not thread.is_alive()


class Impatient(WatchedProtocol):
    head_limit_s = 0.3


class Crowded(WatchedProtocol):
    most_silent = 8


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", ASK, ASK + b"GET"])
def test_who_sends_no_whole_head_is_closed(sent):
    with serving(Impatient) as address, socket.create_connection(address, 20.0) as idle:
        idle.sendall(sent)
        heard = b""
        while chunk := idle.recv(1_000):
            heard += chunk
        assert heard.endswith(b"hello") if ASK in sent else not heard


def test_who_asks_in_time_is_answered_as_often_as_wanted():
    with serving(Impatient) as address, httpx.Client(base_url="http://{}:{}".format(*address)) as client:
        for _ in range(20):
            assert client.get("/").text == "hello"


def test_silent_connections_shut_nobody_out():
    with serving(Crowded) as address, ExitStack() as stack:
        kept = stack.enter_context(socket.create_connection(address, 20.0))
        kept.sendall(ASK)
        while not kept.recv(1_000).endswith(b"hello"):
            pass
        for _ in range(40):
            stack.enter_context(socket.create_connection(address))
        reply = httpx.get("http://{}:{}/".format(*address))
        assert (reply.status_code, reply.text) == (200, "hello")
        assert kept.recv(1_000) == b""  # the one that was silent longest has gone


def test_the_service_watches_its_connections():
    config = configure(create_app())
    config.load()
    assert config.http_protocol_class is WatchedProtocol
