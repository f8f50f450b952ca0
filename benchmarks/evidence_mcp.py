"""The conformance suite of the Model Context Protocol against `cpor mcp --http`; npx fetches it and Node 22.

Most scenarios of the suite call tools, prompts and resources of a test server by their names, or need what
this server does not offer (sampling, elicitation, completion, logging, subscriptions): counted apart.
The suite does not speak standard input and output: tests/bridges/test_mcp.py does, with the official client.

Run: python benchmarks/evidence_mcp.py [--dry]
"""

import argparse
import re
import shutil
import subprocess
import sys

from evidence_hostile import started
from evidence_page import Row, keep

NPX = [
    "npx",
    "--yes",
    "--package",
    "node@22",
    "--package",
    "@modelcontextprotocol/conformance@0.1.16",
    "--call",
]
"""The suite needs Node 22; npm has it as a package, so an older one on the machine will do to fetch both."""

APPLIES = (
    *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list"),
    "dns-rebinding-protection",
)
"""Scenarios that need no fixture of the suite's own test server."""

_LINE = re.compile(r"^. ([a-z0-9-]+): (\d+) passed, (\d+) failed$", re.MULTILINE)


def why_not() -> str | None:
    """Why the suite cannot run here; None where it can."""
    if shutil.which("npx") is None:
        return "npx is not installed"
    tried = subprocess.run([*NPX, "conformance --version"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"npx cannot get it: {tried.stderr.strip()[-500:]}"


def run_suite() -> dict[str, bool]:
    """Whether each scenario passed."""
    with started(["mcp", "--http", "--segmenter", "depth", "--scorer", "none"]) as (_, address):
        command = [*NPX, f"conformance server --url {address}/mcp --suite all"]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600).stdout
    found = {name: int(failed) == 0 for name, _, failed in _LINE.findall(said)}
    if missing := set(APPLIES) - set(found):
        raise SystemExit(f"the suite ran without: {', '.join(sorted(missing))}\n{said[-2000:]}")
    return found


def main() -> None:
    """Run the suite, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry", action="store_true", help="print the row only")
    asked = parser.parse_args()
    if why := why_not():
        print(f"The MCP conformance suite was not run: {why}.")
        return
    found = run_suite()
    failed = [name for name in APPLIES if not found[name]]
    others = [name for name in found if name not in APPLIES]
    passed = len(APPLIES) - len(failed)
    said = f"{passed} of {len(APPLIES)}; {len(others)} others need the suite's own test server"
    row = Row("serves", "MCP conformance suite against cpor mcp --http: scenarios that apply", "all", said)
    print(" | ".join(row))
    print("Others:", ", ".join(others))
    if not asked.dry:
        keep({"mcp": [row]})
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
