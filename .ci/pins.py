"""Hashes of the pinned packages: constraints.lock beside constraints.txt.

pip checks hashes only where every requirement has one, and this package itself, installed from a folder, has
none: constraints.txt stays without hashes, and this script compares what pip would install with the lock.

    python .ci/pins.py write                 ask the index for the hashes of every pin, and write the lock
    python .ci/pins.py check REPORT.json     the report of `pip install --dry-run --report` against the lock
    python .ci/pins.py sbom SBOM.json        the packages of an SBOM against the pins
"""

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PINS, LOCK = ROOT / "constraints.txt", ROOT / "constraints.lock"

OWN = "cpor-grasp"
TOOLS = frozenset({"pip", "setuptools", "wheel"})
"""Of the environment itself: Python brings them."""

LICENCES = {"protobuf": "BSD-3-Clause"}
"""Of packages that state none in their metadata, from the licence file that they bring."""

_FILE = re.compile(r'<a [^>]*href="[^"#]+/([^"#/]+)#sha256=([0-9a-f]{64})"')


def key(name: str) -> str:
    """A package's name as indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path = PINS) -> dict[str, str]:
    """Version of every pinned package."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {key(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def read_lock(path: Path = LOCK) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and SHA-256 of every locked package."""
    found = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        pin, *hashes = line.split()
        name, _, version = pin.partition("==")
        found[key(name)] = version, frozenset(each.removeprefix("--hash=sha256:") for each in hashes)
    return found


@cache
def index_url() -> str:
    """Address of the package index that pip is set to."""
    ask = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = os.environ.get("PIP_INDEX_URL") or subprocess.run(ask, capture_output=True, text=True).stdout
    if not told.strip():
        raise SystemExit("set PIP_INDEX_URL to the package index to take the hashes from")
    return told.strip().rstrip("/")


def hashes_on_index(name: str, version: str) -> list[str]:
    """SHA-256 of every file of a version that the index offers."""
    request = urllib.request.Request(f"{index_url()}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60.0) as reply:
        page = reply.read().decode()
    spelled = "[-_.]+".join(map(re.escape, name.split("-")))
    starts = re.compile(rf"{spelled}-{re.escape(version)}(-|\.tar|\.zip)", re.I)
    found = {sha for file, sha in _FILE.findall(page) if starts.match(file)}
    if not found:
        raise SystemExit(f"the index has no file of {name} {version}")
    return sorted(found)


def write_lock() -> None:
    """Write the lock anew for every pin."""
    pins = read_pins()
    with ThreadPoolExecutor(8) as pool:
        hashes = pool.map(lambda pin: hashes_on_index(*pin), pins.items())
    lines = (
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{sha}" for sha in found)])
        for (name, version), found in zip(pins.items(), hashes, strict=True)
    )
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


def wrong_in_report(report: dict[str, Any], lock: dict[str, tuple[str, frozenset[str]]]) -> list[str]:
    """What pip would install although the lock does not have it.

    A local build, such as torch 2.13.0+cpu, is on no index: as a file of this machine it is named and
    not checked.
    """
    wrong = []
    for each in report["install"]:
        name, version = key(each["metadata"]["name"]), each["metadata"]["version"]
        url = each["download_info"]["url"]
        if name == OWN:
            continue
        if "+" in version and url.startswith("file:"):
            print(f"not checked, since no index has this build: {name} {version}")
            continue
        if name not in lock or lock[name][0] != version:
            wrong.append(f"{name} {version} is not pinned: add it to constraints.txt, then write the lock")
            continue
        sha = each["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha not in lock[name][1]:
            wrong.append(f"{name} {version} has the hash {sha}, which constraints.lock does not list: {url}")
    return wrong


def wrong_in_sbom(sbom: dict[str, Any], pins: dict[str, str]) -> list[str]:
    """Packages of an SBOM that are not pinned, or whose licence is not known."""
    wrong = []
    for each in sbom["components"]:
        name, version = key(each["name"]), each["version"].partition("+")[0]
        if name in TOOLS or name == OWN:
            continue
        if pins.get(name) != version:
            wrong.append(f"{name} {version} is not pinned; constraints.txt has {pins.get(name)}")
        if not each.get("licenses") and name not in LICENCES:
            wrong.append(f"{name} {version} names no licence")
    return wrong


def unlocked(pins: dict[str, str], lock: dict[str, tuple[str, frozenset[str]]]) -> list[str]:
    """What the project asks for, in any extra, without a pin; and pins without a hash."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {key(re.split(r"[\[<>=!~; ]", each)[0]) for group in groups for each in group} - {OWN}
    return [f"{name} has no pin in constraints.txt" for name in sorted(names - set(pins))] + [
        f"{name} {version} has no hash in constraints.lock; run: python .ci/pins.py write"
        for name, version in pins.items()
        if lock.get(name, ("", frozenset()))[0] != version or not lock[name][1]
    ]


def main() -> None:
    """Command line."""
    match sys.argv[1:]:
        case ["write"]:
            write_lock()
            wrong = unlocked(read_pins(), read_lock())
        case ["check", report]:
            lock = read_lock()
            found = wrong_in_report(json.loads(Path(report).read_text(encoding="utf-8")), lock)
            wrong = unlocked(read_pins(), lock) + found
        case ["sbom", sbom]:
            wrong = wrong_in_sbom(json.loads(Path(sbom).read_text(encoding="utf-8")), read_pins())
        case _:
            raise SystemExit(__doc__)
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
