"""The service under load, as a process of its own, on a quiet machine.

service   Rate and latency of decisions, uploads at once, mutated uploads.
fleet     Robots that share one service: each sends an RGB-D frame and asks for a decision, again and again.
          Processor time of the service for each decision tells how many cores a fleet needs; it hardly
          depends on what else runs on the machine, latencies do.

Run: python benchmarks/bench_serve.py [--only service,fleet] [--seconds 15] [--decisions 40]
"""

import asyncio
import os
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

import httpx
import numpy as np
from evidence_page import Row
from harness import measure_parts
from support.mutated_uploads import mutated_uploads

import cpor
from cpor.io.scene_folder import read_scene_folder
from cpor.scene import Observation
from cpor.serve.api.answered import DecideReply, ErrorReply
from cpor.serve.api.asked import DecideRequest
from cpor.serve.api.example_scenes import FOLDER
from cpor.serve.client import Client

CONNECTIONS, TAU = 32, 0.5
WARM = 3
"""Decisions of each robot before the clock starts."""


@dataclass
class Watch:
    """The largest memory of a process and its children; shared pages are counted once."""

    pid: int
    peak_pss: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Look until told to end."""
        while not self._over.wait(0.1):
            pids = [self.pid, *_children(self.pid)]
            self.peak_pss = max(self.peak_pss, sum(map(_memory, pids)))

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


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


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


def measure_decisions(address: str, seconds: float, rate: float) -> dict[str, float]:
    """Decide at a rate, every scene another one, every answer compared with the library's."""
    rng = np.random.default_rng(8)
    scenes = [random_scene(rng) for _ in range(int(seconds * rate))]
    host, port = address.removeprefix("http://").split(":")
    requests = [encode(scene, f"{host}:{port}") for scene in scenes]
    asyncio.run(send_all(host, int(port), requests[:100], 100.0))
    latencies, bodies, took = asyncio.run(send_all(host, int(port), requests, rate))
    expected = cpor.decide_many(scenes, TAU)
    right = 0
    for body, decision in zip(bodies, expected, strict=True):
        if body:
            action = DecideReply.model_validate_json(body).action
            right += action.object == getattr(decision.action, "obj", None)
    p50, p99 = 1e3 * np.quantile(latencies, [0.5, 0.99])
    n = len(requests)
    return {"rate": n / took, "requests": n, "right": right, "p50_ms": float(p50), "p99_ms": float(p99)}


def measure_clients(address: str, clients: int, pictures: int) -> tuple[int, int]:
    """How many pictures sent at once get the same reply as one by one, and how many were sent."""
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

    with ThreadPoolExecutor(clients) as threads:
        together = list(threads.map(one_client, range(clients)))
    with Client(address, timeout_s=120.0, retry_for_s=300.0) as client:
        alone = [[ask(client, clients * r + c) for r in range(pictures)] for c in range(clients)]
    own = sum(a == b for x, y in zip(together, alone, strict=True) for a, b in zip(x, y, strict=True))
    return own, clients * pictures


def measure_mutated(address: str, count: int) -> tuple[Counter[int], list[str], bool]:
    """Mutated uploads, four at a time: statuses, unclear refusals, whether the service is alive after it."""
    mutated = mutated_uploads(seed=5000)
    lock = threading.Lock()
    statuses: Counter[int] = Counter()
    unclear: list[str] = []

    def send(_: int) -> None:
        with lock:
            sent = next(mutated)
        reply = http.post(sent.path, content=sent.body, headers={"Content-Type": sent.content_type})
        with lock:
            statuses[reply.status_code] += 1
            if reply.status_code != 200:
                message = ErrorReply.model_validate_json(reply.content).message
                if not 400 <= reply.status_code < 500 or len(message) < 10 or "0x" in message:
                    unclear.append(f"{sent.kind}: {reply.status_code} {message}")

    with (
        httpx.Client(base_url=address, timeout=120.0, trust_env=False) as http,
        ThreadPoolExecutor(4) as threads,
    ):
        list(threads.map(send, range(count)))
        alive = http.get("/healthz").status_code == 200
    return statuses, unclear, alive


def measure_service(
    seconds: float = 15.0, rate: float = 200.0, clients: int = 20, mutated: int = 5_000
) -> Iterator[Row]:
    """Decisions at a rate, two pictures from each client at once, mutated uploads."""
    cpor.warm_up()
    with service() as (address, watch):
        found = measure_decisions(address, seconds, rate)
        point = f"decisions from probabilities, 6 to 12 objects, {found['requests']:.0f} requests"
        yield Row("serves", f"{point}, rate", f">= {rate:g} a second", f"{found['rate']:.0f} a second")
        yield Row("serves", f"{point}, those of the library", "all",
                  f"{found['right']:.0f} of {found['requests']:.0f}")  # fmt: skip
        yield Row("serves", f"{point}, median", "", f"{found['p50_ms']:.1f} ms")
        yield Row("serves", f"{point}, 99th percentile", "< 100 ms", f"{found['p99_ms']:.1f} ms")
        own, uploads = measure_clients(address, clients, 2)
        point = f"{clients} clients uploading at once, none lost or mixed up"
        yield Row("serves", point, "all", f"{own} of {uploads} got their own result")
        statuses, unclear, alive = measure_mutated(address, mutated)
        broken = sum(count for status, count in statuses.items() if status >= 500)
        told = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
        yield Row("serves", f"{mutated} mutated uploads, replies 500 and above", "0", f"{broken} ({told})")
        yield Row(
            "serves", f"{mutated} mutated uploads, refused without a clear reason", "0", str(len(unclear))
        )
        size = f"{watch.peak_pss / 2**30:.2f} GB"
        yield Row("serves", "most memory of service and workers, shared pages counted once", "< 2 GB", size)
        yield Row("serves", "alive after all that", "yes", "yes" if alive else "no")


def measure_fleet(robots: str = "1,4", decisions: int = 40) -> Iterator[Row]:
    """Numbers of robots at a time, separated by commas, and decisions in all."""
    for count in map(int, robots.split(",")):
        with service() as (address, watch):
            began, times, answered = drive(address, watch.pid, count, decisions)
            wall, cpu = time.perf_counter() - began[0], cpu_seconds(watch.pid) - began[1]
            memory = watch.peak_pss / 2**20
        median, slowest = 1e3 * np.quantile(times, [0.5, 0.95])
        said = (
            f"{answered} of {decisions} answered; {1e3 * cpu / decisions:.0f} ms of processor time each; "
            f"{decisions / wall:.1f} a second, {median:.0f} ms (median), {slowest:.0f} (95 %); "
            f"{memory:.0f} MiB; {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
        )
        yield Row("serves", f"{count} robots, one service: RGB-D decisions", "all", said)


def drive(
    address: str, pid: int, robots: int, decisions: int
) -> tuple[tuple[float, float], list[float], int]:
    """When the clock and the processor's clock began, seconds of each decision, number of answers."""
    scenes = sorted(each for each in FOLDER.iterdir() if each.is_dir())
    clients = [Client(address) for _ in range(robots)]

    def ask(k: int) -> tuple[float, bool]:
        start, place = time.perf_counter(), scenes[k % len(scenes)]
        reply = clients[k % robots].decide_rgbd(
            place / "rgb.png", None, place / "depth.png", point=(320.0, 240.0), depth_unit_m=0.001
        )
        return time.perf_counter() - start, reply is not None

    with ThreadPoolExecutor(robots) as threads:
        list(threads.map(ask, range(WARM * robots)))
        began = time.perf_counter(), cpu_seconds(pid)
        told = list(threads.map(ask, range(decisions)))
    return began, [spent for spent, _ in told], sum(is_answered for _, is_answered in told)


if __name__ == "__main__":
    measure_parts({"service": measure_service, "fleet": measure_fleet}, __doc__)
