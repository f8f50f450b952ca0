"""`simulate`, `experiment perception` and `run` on three Ray nodes, one of them killed, against one process.

The nodes are started on this machine with `ray start`, as on three machines, each with one core; while the
simulator works, the processes of the third node are killed. What is compared: every byte of the folders.

Run: PYTHONPATH=src:benchmarks python benchmarks/evidence_ray.py [--scenes 6] [--dry]
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from evidence_page import keep

PORT = 6399
RAY = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
CPOR = [sys.executable, "-c", "from cpor.cli.app import main; main()"]


def processes(of: str = "") -> set[int]:
    """The processes of our cluster on this machine, or those of one program."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[0].endswith(of) and any(
            word.endswith((f":{PORT}", f"server_port={PORT}")) for word in words
        ):
            found.add(int(place.name))
    return found - {os.getpid()}


def start_nodes() -> int:
    """Start a head and two nodes; the process of the last one."""
    plain = ["--num-cpus", "1", "--disable-usage-stats"]
    subprocess.run(
        [*RAY, "start", "--head", "--port", str(PORT), "--include-dashboard", "false", *plain], check=True
    )
    before: set[int] = set()
    for _ in range(2):
        before = processes("/raylet")
        subprocess.run([*RAY, "start", "--address", f"127.0.0.1:{PORT}", *plain], check=True)
    (last,) = processes("/raylet") - before
    return last


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def do(arguments: Sequence[str], on_ray: bool, kill: int | None = None, watched: Path | None = None) -> None:
    """A command; a node is killed once a first result lies in a folder."""
    engine = ["--engine", "ray"] if on_ray else []
    environment = os.environ | ({"RAY_ADDRESS": f"127.0.0.1:{PORT}"} if on_ray else {})
    process = subprocess.Popen([*CPOR, *arguments, *engine], env=environment, stdout=subprocess.DEVNULL)
    while kill is not None and watched is not None and process.poll() is None:
        if watched.is_dir() and any(watched.iterdir()):
            os.kill(kill, signal.SIGKILL)
            print("a node was killed", flush=True)
            kill = None
        time.sleep(0.05)
    if process.wait() or kill is not None:
        raise SystemExit(f"{arguments[0]} ended with {process.returncode}; node left to kill: {kill}")


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=6)
    parser.add_argument("--dry", action="store_true", help="print the rows only")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        at = {where: Path(folder) / where for where in ("local", "ray")}
        last = start_nodes()
        try:
            for where, place in at.items():
                on_ray = where == "ray"
                scenes, seen, run = (str(place / name) for name in ("scenes", "seen", "run"))
                made = ["simulate", "--scenes", str(asked.scenes), "--size", "320x240", "--out", scenes]
                do(made, on_ray, last if on_ray else None, Path(scenes))
                do(["experiment", "perception", "--split", scenes, "--out", seen], on_ray)
                do(["run", seen, "--out", run], on_ray)
        finally:
            for number in processes():  # not `ray stop`, which ends clusters of others too
                os.kill(number, signal.SIGKILL)
        ours, theirs = contents(at["local"]), contents(at["ray"])
    equal = sum(ours.get(name) == data for name, data in theirs.items())
    differ = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    said = f"{equal} of {len(ours)} files equal" + (f"; not: {', '.join(differ[:5])}" if differ else "")
    point = "simulate, perception and run on three Ray nodes, one killed: files equal to one process"
    row = ("serves", point, "all", said)
    print(" | ".join(row))
    if not asked.dry:
        keep({"ray": [row]})


if __name__ == "__main__":
    main()
