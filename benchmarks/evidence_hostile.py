"""Every HTTP server of ours, in a process of its own with 1,024 file descriptors, under hostile clients.

2,500 connections of eight kinds (silent, slow, half-sent, unfinished, not reading), and an honest client
beside them. Run: PYTHONPATH=tests python benchmarks/evidence_hostile.py [--connections 2500] [--dry]
"""

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from evidence_page import Row
from harness import measure_parts
from support.hostile_clients import KINDS, Surface, hostile

DESCRIPTORS = 1_024
HELD_S = 12.0
"""How long the last connections are held. [s]"""

ACCEPT = {"Accept": "application/json, text/event-stream"}
DECIDE = {"objects": ["a", "b"], "target": "a", "relations": []}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
RUN = {"eyes": "truth", "seed": 3}


@contextmanager
def started(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process of a command of ours and the address that it prints."""
    whole = [sys.executable, "-u", "-c", "from cpor.cli.app import main; main()", *command, "--port", "0"]

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    with tempfile.TemporaryFile() as out, subprocess.Popen(whole, stdout=out, preexec_fn=few) as process:
        try:
            while True:
                out.seek(0)
                if found := re.search(rb"at (http://[\d.]+:\d+)", out.read()):
                    break
                if process.poll() is not None:
                    raise SystemExit(f"{command} did not start")
                time.sleep(0.1)
            yield process, found[1].decode()
        finally:
            process.terminate()


def under_attack(name: str, connections: int) -> list[Row]:
    """The rows of one server."""
    path, body = ("/mcp", LIST_TOOLS) if name == "mcp" else ("/v1/decide", DECIDE)
    command = ["mcp", "--http", "--segmenter", "depth", "--scorer", "none"] if name == "mcp" else ["serve"]
    times: list[float] = []
    failed = 0
    with started(command) as (process, address):
        stream = path
        if name == "live":
            run = httpx.post(f"{address}/v1/runs", json=RUN, timeout=60.0)
            stream = f"/v1/runs/{run.json()['run_id']}/events"

        def ask() -> None:
            nonlocal failed
            start = time.perf_counter()
            try:
                reply = httpx.post(address + path, json=body, headers=ACCEPT, timeout=60.0)
                failed += reply.status_code != 200
            except httpx.HTTPError:
                failed += 1
            times.append(time.perf_counter() - start)

        def memory(field: str) -> float:
            text = Path("/proc", str(process.pid), "status").read_text()
            return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) / 1024  # type: ignore[index]

        ask()
        times.clear()
        before = memory("VmRSS")
        surface = Surface(int(address.rpartition(":")[2]), "/", path, stream)
        with hostile(surface, list(KINDS), connections) as opened:
            for k in opened:
                if k % 25 == 0:
                    ask()
            until = time.monotonic() + HELD_S
            while time.monotonic() < until:
                ask()
                time.sleep(0.1)
        peak = memory("VmHWM")
        alive = process.poll() is None
    with suppress(ProcessLookupError):
        process.kill()
    point = f"{name}: {connections:,} hostile connections, {DESCRIPTORS:,} file descriptors"
    times.sort()
    said = f"{max(times):.2f} s (median {1e3 * times[len(times) // 2]:.0f} ms, n = {len(times)})"
    return [
        ("serves", f"{point}: requests of others not answered", "0", f"{failed} of {len(times)}"),
        ("serves", f"{point}: longest answer to others", "<= 1 s", said),
        ("serves", f"{point}: most memory [MiB]", "< 1000", f"{peak:.0f} ({before:.0f} before)"),
        ("serves", f"{point}: ended by itself", "0", str(int(not alive))),
    ]


def measure_hostile(connections: int = 2_500) -> list[Row]:
    """Measure the rows."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    return [row for name in ("serve", "live", "mcp") for row in under_attack(name, connections)]


if __name__ == "__main__":
    measure_parts({"hostile": measure_hostile}, __doc__)
