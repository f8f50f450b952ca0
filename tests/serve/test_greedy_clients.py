"""`cpor serve` in a process of its own: hundreds of clients that ask and never read, and its end."""

import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from serve.served import PATIENCE_S
from support.sizes import sized

N = sized(70, 500)
TOKEN = "a-token-of-enough-letters"
BEARER = f"Authorization: Bearer {TOKEN}"
ASKS = [
    f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n".encode()
    for path, shown in (("/", ""), ("/openapi.json", f"{BEARER}\r\n"), ("/metrics", ""))
]


@contextmanager
def service(folder):
    """Process and port of `cpor serve`, once it is ready; interrupted, it ends with its workers."""
    (folder / "token").write_text(TOKEN + "\n")
    command = [sys.executable, "-u", "-c", "from cpor.cli.app import main; main()", "serve", "--port", "0"]
    command += ["--token-file", str(folder / "token"), "--log"]
    out, err = folder / "out", folder / "err"
    with (
        out.open("wb") as told,
        err.open("wb") as logged,
        subprocess.Popen(command, stdout=told, stderr=logged) as process,
    ):
        try:
            while not (ready := re.search(r"ready at http://[\d.]+:(\d+)", out.read_text())):
                assert process.poll() is None, err.read_text()
                time.sleep(0.05)
            yield process, int(ready[1])
            tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
            workers = [Path("/proc", pid) for task in tasks for pid in task.read_text().split()]
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    said, log = out.read_text(), err.read_text()
    assert process.returncode == 0
    assert "Ended." in said and TOKEN not in said + log
    assert "POST /v1/decide 200" in log and "Traceback" not in log
    assert len(workers) >= 2
    until = time.monotonic() + PATIENCE_S
    while left := [worker for worker in workers if worker.exists()]:
        assert time.monotonic() < until, f"{len(left)} processes are left"
        time.sleep(0.05)


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
def test_clients_that_never_read_shut_nobody_out_and_the_command_ends_with_its_workers(tmp_path, evidence):
    with service(tmp_path) as (process, port), ExitStack() as stack:
        longest, answered = 0.0, 0

        def ask():
            nonlocal longest, answered
            start = time.perf_counter()
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as other:
                assert other.get("/healthz").status_code == 200
                body = {"objects": ["a", "b"], "target": "a", "relations": []}
                reply = other.post("/v1/decide", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
                assert reply.status_code == 200, reply.text
                assert reply.json()["words"]["headline"] == "Grasp a"
            longest = max(longest, time.perf_counter() - start)
            answered += 1

        def peak():
            """Most memory that the process ever had. [MiB]"""
            status = Path("/proc", str(process.pid), "status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024

        ask()
        link = httpx.get(f"http://127.0.0.1:{port}", params={"token": TOKEN}, timeout=60.0)
        assert link.status_code == 303  # and the log does not tell the token
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
