"""A real service on a free port, and a real Chromium that looks at it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
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
INSTALLED = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 600.0
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
    options = options or ("--camera", str(SCENES))
    start = [sys.executable, "-c", "from cpor.cli.app import main; main()", command]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*start, "--port", "0", *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        try:
            yield _address(log.fileno(), process)
        finally:
            process.terminate()
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(log: int, process: subprocess.Popen[bytes]) -> str:
    """Where a service listens, as it says once it is ready."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        said = os.pread(log, 2**16, 0).decode(errors="replace")
        if found := re.search(r"ready at (http://[\w.:]+)", said):
            return found[1]
        assert process.poll() is None and time.monotonic() < give_up, f"the service did not start:\n{said}"
        time.sleep(0.05)


@contextmanager
def open_browser():
    """Chromium without a window, with a camera that films a test picture; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    with playwright.sync_playwright() as driver:
        own = driver.chromium.executable_path
        found = own if Path(own).exists() else next(filter(None, map(shutil.which, INSTALLED)), None)
        if found is None:
            pytest.skip("no Chromium here: install one, or run `playwright install chromium`")
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
