"""The service under load, as a process of its own: rate and latency of decisions, uploads at once, harm.

Run on a quiet machine: python benchmarks/bench_serve.py [--seconds 15] [--mutated 5000] [--json OUT.json]
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import cpor
from cpor.io.scene_folder import read_scene_folder
from cpor.scene import Observation
from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.api.messages import DecideReply, DecideRequest, ErrorReply
from cpor.serve.client import Client

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support.mutated_uploads import mutated_uploads  # noqa: E402

CONNECTIONS = 32
TAU = 0.5


@dataclass
class Watch:
    """Memory of a process and its children, as long as somebody looks."""

    pid: int
    peak_rss: int = 0
    peak_pss: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Look until told to end."""
        while not self._over.wait(0.1):
            pids = [self.pid, *_children(self.pid)]
            self.peak_rss = max(self.peak_rss, sum(_memory(pid, "status", "VmRSS") for pid in pids))
            self.peak_pss = max(self.peak_pss, sum(_memory(pid, "smaps_rollup", "Pss") for pid in pids))

    def end(self) -> None:
        """Look no more."""
        self._over.set()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        found += own + [grandchild for child in own for grandchild in _children(child)]
    return found


def cpu_seconds(pid: int) -> float:
    """Seconds of processor time of a process and its children so far."""
    total = 0
    for each in (pid, *_children(pid)):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _memory(pid: int, file: str, key: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


@contextmanager
def service() -> Iterator[tuple[str, Watch]]:
    """The address of a service and the watch over its memory."""
    code = "import sys; from cpor.cli.app import main; sys.argv = ['cpor', 'serve', '--port', '0']; main()"
    command = [sys.executable, "-u", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = ""
        while "ready at" not in line:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the service did not start")
        watch = Watch(process.pid)
        thread = threading.Thread(target=watch.look)
        thread.start()
        try:
            yield line.split("ready at ")[1].split()[0].rstrip("/"), watch
        finally:
            watch.end()
            thread.join()
            process.terminate()


def random_scene(rng: np.random.Generator) -> cpor.ObstructionPosterior:
    """As cluttered as our simulated bins: 6 to 12 objects, each with a few that may be in its way."""
    n = int(rng.integers(6, 13))
    p = np.where(rng.random((n, n)) < 2.2 / n, rng.uniform(0.02, 0.98, (n, n)), 0.0)
    np.fill_diagonal(p, 0.0)
    return cpor.ObstructionPosterior(range(n), int(rng.integers(n)), p)


def encode(scene: cpor.ObstructionPosterior, host: str) -> bytes:
    request = DecideRequest(
        objects=list(scene.objects),
        target=scene.target,
        relations=[r._asdict() for r in scene.relations()],
        tau=TAU,
    )
    body = request.model_dump_json().encode()
    head = f"POST /v1/decide HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def send_all(
    host: str, port: int, requests: list[bytes], rate: float
) -> tuple[list[float], list[bytes], float]:
    """Send on a fixed schedule over kept connections; latency counts from when a request was due."""
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection(host, port))
    loop = asyncio.get_running_loop()
    latencies, bodies = [0.0] * len(requests), [b""] * len(requests)

    async def send(k: int, due: float) -> None:
        reader, writer = await free.get()
        writer.write(requests[k])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        latencies[k] = loop.time() - due
        bodies[k] = body if head.startswith(b"HTTP/1.1 200") else b""
        free.put_nowait((reader, writer))

    start = loop.time() + 0.2
    tasks = []
    for k in range(len(requests)):
        due = start + k / rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        tasks.append(asyncio.create_task(send(k, due)))
    await asyncio.gather(*tasks)
    took = loop.time() - start
    while not free.empty():
        free.get_nowait()[1].close()
    return latencies, bodies, took


def measure_decisions(address: str, pid: int, seconds: float, rate: float) -> dict[str, object]:
    """Decide at a rate, every scene another one, every answer compared with the library's."""
    rng = np.random.default_rng(8)
    scenes = [random_scene(rng) for _ in range(int(seconds * rate))]
    host, port = address.removeprefix("http://").split(":")
    requests = [encode(scene, f"{host}:{port}") for scene in scenes]
    asyncio.run(send_all(host, int(port), requests[:100], 100.0))
    before = cpu_seconds(pid)
    latencies, bodies, took = asyncio.run(send_all(host, int(port), requests, rate))
    cpu_s = cpu_seconds(pid) - before
    expected = cpor.decide_many(scenes, TAU)
    right = 0
    for body, decision in zip(bodies, expected, strict=True):
        if body:
            action = DecideReply.model_validate_json(body).action
            right += action.object == getattr(decision.action, "obj", None)
    p50, p99, worst = 1e3 * np.quantile(latencies, [0.5, 0.99, 1.0])
    return {
        "asked_rate": rate,
        "rate": len(requests) / took,
        "requests": len(requests),
        "right": right,
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "worst_ms": round(float(worst), 2),
        "cpu_ms_a_request": round(1e3 * cpu_s / len(requests), 2),
        "objects": "6 to 12",
        "relations_mean": float(np.mean([np.count_nonzero(s.p_obstructs) for s in scenes])),
    }


def measure_clients(address: str, clients: int, pictures: int) -> dict[str, object]:
    """Different pictures at once, 640 x 480 with depth; the same again one by one must say the same."""
    bases = [read_scene_folder(FOLDER / name).observation for name in ("loose-bin", "touching-toys")]

    def picture(k: int) -> Observation:
        base = bases[k % len(bases)]
        assert base.depth is not None
        shift = 3 * (k // len(bases))
        return Observation(np.roll(base.rgb, shift, 1), np.roll(base.depth, shift, 1), base.camera)

    def ask(client: Client, k: int) -> tuple[object, ...]:
        seen = client.look(picture(k))
        return tuple((o.box, o.score) for o in seen.objects), tuple(seen.relations)

    def one_client(c: int) -> list[tuple[object, ...]]:
        with Client(address, timeout_s=120.0, retry_for_s=300.0) as client:
            return [ask(client, clients * round_ + c) for round_ in range(pictures)]

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        together = list(threads.map(one_client, range(clients)))
    took = time.perf_counter() - start
    with Client(address, timeout_s=120.0, retry_for_s=300.0) as client:
        alone = [[ask(client, clients * r + c) for r in range(pictures)] for c in range(clients)]
    own = sum(a == b for x, y in zip(together, alone, strict=True) for a, b in zip(x, y, strict=True))
    different = len({answer for answers in alone for answer in answers})
    return {
        "clients": clients,
        "uploads": clients * pictures,
        "their_own": own,
        "different_answers": different,
        "seconds": round(took, 1),
    }


def measure_kept_views(address: str, rounds: int) -> dict[str, object]:
    """Decide on views that are kept, as the page does: another target, the line moved, a relation edited."""
    times: dict[str, list[float]] = {"target": [], "tau": [], "relation": []}
    with Client(address) as client:
        for name in ("loose-bin", "touching-toys", "full-bin"):
            seen = client.look_at_example(name)
            ids = [o.id for o in seen.objects]
            for k in range(rounds):
                target, other = ids[k % len(ids)], ids[(k + 1) % len(ids)]
                asked: dict[str, dict[str, Any]] = {
                    "target": {},
                    "tau": {"tau": k / rounds, "graphs": 0},
                    "relation": {"relations": {(target, other): k / rounds}},
                }
                for kind, settings in asked.items():
                    start = time.perf_counter()
                    client.decide_scene(seen.id, target=target, **settings)
                    times[kind].append(1e3 * (time.perf_counter() - start))
    return {
        f"{kind}_p{share}_ms": round(float(np.quantile(each, share / 100)), 2)
        for kind, each in times.items()
        for share in (50, 99)
    } | {"requests": sum(map(len, times.values()))}


def measure_mutated(address: str, count: int) -> dict[str, object]:
    """Mutated uploads, four at a time."""
    mutated = mutated_uploads(seed=5000)
    lock = threading.Lock()
    statuses: Counter[str] = Counter()
    unclear: list[str] = []

    def send(_: int) -> None:
        with lock:
            sent = next(mutated)
        reply = http.post(sent.path, content=sent.body, headers={"Content-Type": sent.content_type})
        with lock:
            statuses[str(reply.status_code)] += 1
            if reply.status_code != 200:
                message = ErrorReply.model_validate_json(reply.content).message
                if not 400 <= reply.status_code < 500 or len(message) < 10 or "0x" in message:
                    unclear.append(f"{sent.kind}: {reply.status_code} {message}")

    start = time.perf_counter()
    with (
        httpx.Client(base_url=address, timeout=120.0, trust_env=False) as http,
        ThreadPoolExecutor(4) as threads,
    ):
        list(threads.map(send, range(count)))
        alive = http.get("/healthz").status_code == 200
    return {
        "sent": count,
        "statuses": dict(sorted(statuses.items())),
        "not_clear": unclear[:20],
        "alive": alive,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="how long decisions are asked for")
    parser.add_argument("--rate", type=float, default=200.0, help="decisions a second")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--pictures", type=int, default=2, help="of each client")
    parser.add_argument("--mutated", type=int, default=5_000)
    parser.add_argument("--json", type=Path, default=ROOT / "out" / "bench_serve.json")
    asked = parser.parse_args()
    cpor.warm_up()
    result: dict[str, object] = {"machine": platform.processor() or platform.machine()}
    with service() as (address, watch):
        result["decide"] = measure_decisions(address, watch.pid, asked.seconds, asked.rate)
        print("decide", json.dumps(result["decide"]), flush=True)
        result["kept_views"] = measure_kept_views(address, rounds=60)
        print("kept_views", json.dumps(result["kept_views"]), flush=True)
        result["clients"] = measure_clients(address, asked.clients, asked.pictures)
        print("clients", json.dumps(result["clients"]), flush=True)
        result["mutated"] = measure_mutated(address, asked.mutated)
        print("mutated", json.dumps(result["mutated"]), flush=True)
        with Client(address) as client:
            result["alive"] = client.health().status == "ok"
        result["memory"] = {
            "peak_rss_mb": round(watch.peak_rss / 1e6),
            "peak_pss_mb": round(watch.peak_pss / 1e6),
            "of": "the service and its workers together",
        }
        print("memory", json.dumps(result["memory"]), flush=True)
    asked.json.parent.mkdir(exist_ok=True)
    asked.json.write_text(json.dumps(result, indent=2) + "\n")
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
