"""Hundreds of clients that ask and never read, against a service in a process of its own."""

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from support.sizes import sized

N = sized(200, 500)
TOKEN = "a-token-of-enough-letters"
BEARER = f"Authorization: Bearer {TOKEN}"
ASKS = [
    f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n".encode()
    for path, shown in (("/", ""), ("/openapi.json", f"{BEARER}\r\n"), ("/metrics", ""))
]


@contextmanager
def service():
    """Process and port of `cpor serve`, once it is ready."""
    command = [sys.executable, "-c", "from cpor.cli.app import main; main()", "serve", "--port", "0"]
    command += ["--token-env", "CPOR_TEST_TOKEN"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"CPOR_TEST_TOKEN": TOKEN}) as it:
        try:
            said = ""
            while "ready at" not in said:
                said = it.stdout.readline().decode()
                assert said, "the service did not start"
            yield it, int(re.search(r":(\d+)/", said)[1])
        finally:
            it.terminate()


def greedy(stack, port, asked):
    """A connection that has sent many requests and reads nothing."""
    it = stack.enter_context(socket.socket())
    it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    it.settimeout(60.0)
    it.connect(("127.0.0.1", port))
    it.setblocking(False)
    with suppress(OSError):  # not taken: the service has enough of it
        it.send(asked * 400)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc to see the memory of a process"
)
def test_clients_that_never_read_shut_nobody_out(evidence):
    with service() as (process, port), ExitStack() as stack:
        longest, answered = 0.0, 0

        def ask():
            nonlocal longest, answered
            start = time.perf_counter()
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as other:
                assert other.get("/healthz").status_code == 200
                body = {"objects": ["a", "b"], "target": "a", "relations": []}
                reply = other.post("/v1/decide", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
                assert reply.status_code == 200, reply.text
            longest = max(longest, time.perf_counter() - start)
            answered += 1

        def peak():
            """Most memory that the process ever had. [MiB]"""
            status = Path("/proc", str(process.pid), "status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024

        ask()
        before = peak()
        for asked in ASKS:
            for k in range(N):
                greedy(stack, port, asked)
                if k % 50 == 49:
                    ask()
        for _ in range(sized(5, 20)):
            ask()
            time.sleep(0.1)
        assert peak() < 1000.0
        evidence(
            "serves",
            f"{3 * N} connections that pipeline 400 requests each and never read: others",
            "answered, service under 1 GB",
            f"{answered} of {answered}, at most {longest:.2f} s for two requests, "
            f"{before:.0f} -> {peak():.0f} MiB",
        )
