"""A real service on a free port, and a real Chromium that looks at it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCENES = Path(__file__).parents[2] / "examples" / "scenes" / "sim"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
PATIENCE_S = 240.0
"""The first start compiles; a busy machine takes its time. [s]"""


@contextmanager
def running_service(*options: str, command: str = "serve") -> Iterator[str]:
    """`cpor serve` (or another command that serves) as a process of its own; yields its address and ends it.

    With CPOR_SERVICE_URL in the environment, a service that runs already is used instead where no options are
    given. Without options it has a camera: the frames of the example scenes.
    """
    if not options and (running := os.environ.get("CPOR_SERVICE_URL")):
        yield running
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = options or ("--camera", str(SCENES))
    start = [sys.executable, "-c", "from cpor.cli.app import main; main()", command]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*start, "--port", str(port), *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        try:
            url = f"http://127.0.0.1:{port}"
            if not _answers(url, process):
                log.seek(0)
                raise AssertionError(f"the service did not start:\n{log.read().decode(errors='replace')}")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(15.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2.0) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    return False


@contextmanager
def open_browser():
    """Chromium without a window, with a camera that films a test picture; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    with playwright.sync_playwright() as driver:
        own = driver.chromium.executable_path
        found = own if Path(own).exists() else shutil.which("chromium") or shutil.which("chromium-browser")
        if found is None:
            pytest.skip("no Chromium here: install one, or run `playwright install chromium`")
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
