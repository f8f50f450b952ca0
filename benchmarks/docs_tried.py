"""Every code block and command line of README and site, tried with the built wheel in a fresh environment.

Outside of the repository, as a reader has it: a new virtual environment with the wheel, and a folder with the
files that the pages speak of. Each page gets a folder of its own. What a reader types is run; a command that
serves is ended once it runs; what needs a camera, an arm or a key must say so, without a traceback. Commands
that take an hour are read by the command line, and not run. Rows go to out/evidence/.

Run: make docs-tried, or: python benchmarks/docs_tried.py [WHEEL] [--work FOLDER] [--only PAGE,PAGE]
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from docs_files import PREAMBLES, make_files
from evidence_page import Row, keep

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "perception,serve,sim,viz,vlm,bags,mcp,grasps,trees,ros2"
OTHERS = ("opencv-python",)
"""What pages tell to install besides."""

PATIENCE_S = 1800.0
"""How long a command may take; a busy machine takes its time. [s]"""

SERVES_S = 25.0
"""How long a command that serves must stay alive. [s]"""

SERVES = ("cpor serve", "cpor label", "cpor mcp", "cpor ros2")
NEEDS = (
    "realsense",
    "--robot ur",
    "gemini",
    "gpt-",
    "RealSenseCamera",
    "192.168.",
    "OPENAI",
    "openai",
    "claude",
    "qwen",
    "replay.toml",  # of replies that a key recorded
)
"""What is not here: it must be refused in words."""

LONG = re.compile(
    r"experiment|--split|simulate (?!.*heaps)|predictions\.|test_seen|(run|fit|drift) dev|demo --seed"
)
"""Hours, or data that is not here: read by the command line only."""

PATTERN = re.compile(r"\.\.\.|\b(ID|WORDS|INPUT)\b|--seed S\b|^cpor \w+$|^cpor \w+ --(json|geometry)\b")
"""Patterns and mentions of commands, not lines to type; `cpor doctor` and some others are both."""

ALONE = ("doctor", "scorers", "--help", "mcp", "serve", "demo", "examples")


@dataclass(frozen=True)
class Tried:
    """What became of a block or a line: ran, served, refused, read, or failed."""

    page: str
    text: str
    became: str
    detail: str = ""


def blocks(text: str) -> list[tuple[str, str]]:
    """(kind, text) of every block and command line of a page, in order: python or line."""
    found = []
    for block in re.finditer(
        r"```(\w+)\n(.*?)```|^    (?:\$ )?((?:cpor|curl) [^\n\\]*(?:\\\n[^\n\\]*)*)$|`(cpor [^`\n]+)`",
        text,
        re.DOTALL | re.MULTILINE,
    ):
        language, body, indented, inline = block.groups()
        if language == "python":
            found.append(("python", body))
        elif language == "console":
            found += [("line", line) for line in re.findall(r"^\$ ((?:cpor|curl) .*)$", body, re.MULTILINE)]
        elif indented or inline:
            found.append(("line", (indented or inline).replace("\\\n", " ")))
    return list(dict.fromkeys(found))


def plain(line: str) -> str:
    """A line without its remark, optional parts and further alternatives."""
    line = re.sub(r"\s{2,}#.*| # .*", "", line)
    line = re.sub(r"\[[^\]]*\]", "", line)
    return re.sub(r" \| .*?(?=( --|$))", "", line).replace("SCENE ", "heap ").strip()


class Reader:
    """Somebody with the wheel and nothing else."""

    def __init__(self, environment: Path) -> None:
        self.bin = environment / "bin"
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        self.env = kept | {"PATH": f"{self.bin}:/usr/bin:/bin", "OMP_NUM_THREADS": "1", "COLUMNS": "110"}

    def run(self, command: list[str], folder: Path, patience_s: float = PATIENCE_S) -> tuple[int | None, str]:
        """Status (None: still alive when time was up, and ended) and all it said."""
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=self.env,
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            try:
                status: int | None = process.wait(patience_s)
            except subprocess.TimeoutExpired:
                process.terminate()
                try:
                    process.wait(20.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                status = None
            said.seek(0)
            return status, said.read()

    def python(self, code: str, folder: Path) -> tuple[int | None, str]:
        """Status and words of some Python."""
        return self.run([str(self.bin / "python"), "-W", "ignore", "-c", code], folder)

    def try_block(self, page: str, kind: str, text: str, folder: Path) -> Tried:
        """Do what a page says."""
        needs = any(each in text for each in NEEDS)
        if kind == "python":
            status, said = self.python(PREAMBLES.get(page, "") + text, folder)
            # A device that is not there is refused in words of ours, below a traceback that shows the block.
            refused = needs and status == 1 and re.search(r"^cpor\.\S+Error: ", said, re.MULTILINE)
            return Tried(
                page, text, "ran" if status == 0 else "refused" if refused else "failed", said[-600:]
            )
        line = plain(text)
        if line.startswith("curl"):
            return Tried(page, text, "read", "the service's tests call these addresses")
        words = shlex.split(line)
        if words[1] == "examples":
            shutil.rmtree(folder / words[2], ignore_errors=True)
        if LONG.search(line) or (PATTERN.search(line) and words[-1] not in ALONE):
            return self._read(page, text, words, folder)
        if line.startswith(SERVES) and not needs:
            port = [] if line.startswith(("cpor mcp", "cpor ros2")) else ["--port", "0"]
            port += ["--no-open"] if line.startswith("cpor label") else []
            status, said = self.run([*words, *port], folder, SERVES_S)
            ended = status == 0 and line.startswith("cpor mcp")  # its caller hung up
            return Tried(
                page,
                text,
                "served" if (status is None or ended) and "Traceback" not in said else "failed",
                said[-600:],
            )
        status, said = self.run(words, folder)
        asks_back = status == 2 and "Which object do you mean?" in said  # our pictures show no red one
        # A run that asks where nobody answers ends with the exit code that its page tells.
        asks_for_help = line.startswith("cpor retrieve") and status == 1 and "a person has to say" in said
        if status == 0 or asks_back or asks_for_help:
            return Tried(page, text, "ran", said[-200:])
        refused = needs and status is not None and "Traceback" not in said
        return Tried(page, text, "refused" if refused else "failed", f"status {status}: {said[-600:]}")

    def _read(self, page: str, text: str, words: list[str], folder: Path) -> Tried:
        """Whether the command line knows the command and every option of a line."""
        status, said = self.run([*(word for word in _command(words)), "--help"], folder)
        options = [word.split("=")[0] for word in words if word.startswith("--") and word != "--help"]
        unknown = [each for each in options if not re.search(rf"{re.escape(each)}\b", said)]
        return Tried(
            page, text, "failed" if status or unknown else "read", f"unknown: {unknown}" if unknown else ""
        )


def _command(words: list[str]) -> list[str]:
    """`cpor`, the command, and its own command where it has one (`cpor experiment chain`)."""
    own = words[1] == "experiment" and len(words) > 2 and not words[2].startswith("-")
    return words[: 3 if own else 2]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path, nargs="?", help="that of dist/ where none is named")
    parser.add_argument("--work", type=Path, help="folder outside of the repository; kept and gone on with")
    parser.add_argument("--only", help="pages, with commas between them")
    parser.add_argument("--count", action="store_true", help="try nothing; count what was tried before")
    asked = parser.parse_args()
    work = (asked.work or Path(tempfile.mkdtemp(prefix="cpor_docs_"))).resolve()
    if work.is_relative_to(ROOT):
        raise SystemExit(f"{work} lies in the repository; a reader has none: name a folder outside of it")
    environment = work / "venv"
    if not environment.is_dir():
        print("installing the wheel into a new environment …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        install = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
        wheel = asked.wheel or next((ROOT / "dist").glob("*.whl"))
        install += ["--constraint", ROOT / "constraints.txt", f"{wheel.resolve()}[{EXTRAS}]", *OTHERS]
        subprocess.run(install, check=True, cwd=work)
    reader = Reader(environment)
    files = work / "files"
    if not (files / "made").exists():
        print("making the files that the pages speak of …", flush=True)
        make_files(reader, files, ROOT)
    first = [
        ROOT / "README.md",
        ROOT / "docs" / "index.md",
        *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    ]
    pages = [*first, *(each for each in sorted((ROOT / "docs").rglob("*.md")) if each not in first)]
    wanted = asked.only.split(",") if asked.only else None
    log = work / "tried.jsonl"
    before = [Tried(**json.loads(line)) for line in log.read_text().splitlines()] if log.is_file() else []
    tried: list[Tried] = []
    untried = 0
    for page in pages:
        name = str(page.relative_to(ROOT))
        found = blocks(page.read_text(encoding="utf-8"))
        if not found or name.endswith("evidence.md") or (wanted and name not in wanted):
            continue
        if asked.count:
            done = {each.text: each for each in before if each.page == name}
            tried += [done[text] for _, text in found if text in done]
            untried += sum(text not in done for _, text in found)
        else:
            tried += try_page(reader, name, found, work, [*before, *tried])
    if wanted is None:
        keep({"docs_tried": rows(tried, untried)})
    for row in rows(tried, untried):
        print(" | ".join(row))


def try_page(
    reader: Reader, name: str, found: list[tuple[str, str]], work: Path, before: list[Tried]
) -> list[Tried]:
    """Do what a page says, in a folder of its own; what went well `before` is not done again.

    The folder stays while something fails, so that the next run goes on with what earlier lines wrote.
    """
    done = {each.text: each for each in before if each.page == name}
    elsewhere = {each.text: each for each in before}
    folder = work / "pages" / name.replace("/", "_")
    if not folder.is_dir() and any(text not in done for _, text in found):
        done = {}
        shutil.copytree(work / "files", folder, symlinks=True)
    tried = []
    for kind, text in found:
        if text in done:
            tried.append(done[text])
            continue
        began = time.monotonic()
        if kind == "line" and text in elsewhere and "--out" not in text:
            tried.append(replace(elsewhere[text], page=name))
        else:
            tried.append(reader.try_block(name, kind, text, folder))
        shown = text.strip().splitlines()[0][:80]
        print(f"{tried[-1].became:8} {time.monotonic() - began:5.1f} s  {name}: {shown}", flush=True)
        if tried[-1].became == "failed":
            print(tried[-1].detail, flush=True)
        else:
            with (work / "tried.jsonl").open("a") as log:
                log.write(json.dumps(tried[-1].__dict__) + "\n")
    if all(each.became != "failed" for each in tried):
        shutil.rmtree(folder, ignore_errors=True)
    return tried


def rows(tried: list[Tried], untried: int) -> list[Row]:
    count = Counter(each.became for each in tried)
    said = f"{count['failed']} of {len(tried)} failed; {count['ran']} ran, {count['served']} served, "
    said += f"{count['refused']} refused in words (no camera, arm or key), {count['read']} only parsed"
    said += f"; {untried} more not tried yet" if untried else ""
    what = "code blocks and command lines of README and site, with the wheel in a fresh environment"
    return [Row("serves", what, "0 failed", said)]


if __name__ == "__main__":
    main()
