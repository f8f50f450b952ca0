"""Connections that send nothing, over real sockets."""

import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import pytest
import uvicorn
from serve.served import PATIENCE_S, get

from cpor.serve.http.server import WatchedProtocol, listen

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


LONG = bytes(8 * 2**20)  # more than the system keeps for a peer that does not read


async def hello(scope, receive, send):
    assert scope["type"] == "http"
    while scope["path"] == "/wait" and (await receive()).get("more_body"):
        pass
    if scope["path"] == "/long":
        length = str(len(LONG)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": LONG})
        return
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
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive()


class Impatient(WatchedProtocol):
    head_limit_s = 0.3
    read_limit_s = 0.3


class Waits(WatchedProtocol):
    """Long enough that a loaded machine is not taken for a slow peer."""

    head_limit_s = 2.0
    read_limit_s = 2.0


class Crowded(WatchedProtocol):
    most_idle = 8


@pytest.mark.parametrize(
    ("protocol", "sent"),
    [(Impatient, b""), (Impatient, b"GET / HTTP/1.1\r\nHost: loc"), (Waits, ASK), (Waits, ASK + b"GET")],
)
def test_who_sends_no_whole_head_is_closed(protocol, sent):
    with serving(protocol) as address, socket.create_connection(address, PATIENCE_S) as idle:
        idle.sendall(sent)
        heard = b""
        while chunk := idle.recv(1_000):
            heard += chunk
        assert heard.endswith(b"hello") if ASK in sent else not heard


def test_who_asks_in_time_is_answered_as_often_as_wanted():
    with (
        serving(Waits) as address,
        httpx.Client(base_url="http://{}:{}".format(*address), timeout=PATIENCE_S) as client,
    ):
        for _ in range(20):
            assert client.get("/").text == "hello"


def test_silent_connections_shut_nobody_out():
    with serving(Crowded) as address, ExitStack() as stack:
        kept = stack.enter_context(socket.create_connection(address, PATIENCE_S))
        kept.sendall(ASK)
        while not kept.recv(1_000).endswith(b"hello"):
            pass
        for _ in range(40):
            stack.enter_context(socket.create_connection(address))
        reply = get("http://{}:{}/".format(*address))
        assert (reply.status_code, reply.text) == (200, "hello")
        assert kept.recv(1_000) == b""  # the one that was silent longest has gone


LONG_ASK = ASK.replace(b"/ ", b"/long ")


def connect(stack, address, **options):
    """A connection with a small buffer, from an address of choice."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(PATIENCE_S)
    made.bind((options.get("source", "127.0.0.1"), 0))
    made.connect(address)
    return made


def read_all(connection, pause_s=0.0):
    """What comes until the other side closes, or cuts, the connection."""
    heard = bytearray()
    try:
        while chunk := connection.recv(2**18):
            heard += chunk
            time.sleep(pause_s)
    except ConnectionResetError:
        pass
    return bytes(heard)


def test_who_does_not_read_is_cut_off():
    gone = threading.Event()

    class Tells(Impatient):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            gone.set()

    with serving(Tells) as address, ExitStack() as stack:
        peer = connect(stack, address)
        peer.sendall(LONG_ASK)
        assert gone.wait(PATIENCE_S)
        assert len(read_all(peer)) < len(LONG)


def test_who_reads_slowly_gets_it_all():
    with serving(Waits) as address, socket.create_connection(address, PATIENCE_S) as peer:
        peer.sendall(LONG_ASK)
        heard = read_all(peer, pause_s=0.1)  # longer than the limit in all
        assert heard.endswith(LONG)


def test_who_sends_the_next_request_too_early_gets_one_reply_and_is_closed():
    with serving(WatchedProtocol) as address, ExitStack() as stack:
        peer = connect(stack, address)
        peer.sendall(ASK * 100)
        heard = read_all(peer)
        assert heard.count(b"HTTP/1.1 200") == 1 and heard.endswith(b"hello")


def test_unfinished_bodies_block_no_other_client():
    half = b"POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nhalf"
    with serving(Crowded) as address, ExitStack() as stack:
        for _ in range(40):
            connect(stack, address).sendall(half)
        reply = get("http://{}:{}/".format(*address))
        assert (reply.status_code, reply.text) == (200, "hello")


def test_connections_that_do_not_read_shut_nobody_out():
    with serving(Crowded) as address, ExitStack() as stack:
        for _ in range(40):
            connect(stack, address).sendall(LONG_ASK * 3)
        reply = get("http://{}:{}/".format(*address))
        assert (reply.status_code, reply.text) == (200, "hello")


def test_the_peer_with_most_connections_makes_room():
    with serving(Crowded) as address, ExitStack() as stack:
        first = connect(stack, address, source="127.0.0.2")
        for _ in range(40):
            connect(stack, address, source="127.0.0.3")
        first.sendall(ASK)
        assert first.recv(1_000)  # silent longest, yet there
