"""The command line: reads arguments, calls the library, prints. `cpor --help` lists the commands."""

import atexit
import gc
import importlib
import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from cpor.cli import first_use
from cpor.errors import CporError

OBJECTS_PER_COLLECTION = 50_000
"""New objects between two collections of garbage; with Python's 700 a start collects hundreds of times."""

COMMANDS = {
    "decide_command": ("decide",),
    "doctor_command": ("doctor",),
    "perceive": ("perceive", "gallery", "examples"),
    "score": ("score", "scorers"),
    "learn": ("fit", "calibrate", "drift"),
    "run_commands": ("run", "report"),
    "reproduce_command": ("paper", "reproduce", "evaluate", "experiment"),
    "sim": ("demo", "simulate", "story"),
    "bridges": ("export", "mcp", "ros2", "sim"),
    "retrieve": ("retrieve",),
    "serve": ("label", "serve"),
}
"""Commands by their module, in the order that `cpor --help` shows them."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from cpor import __version__

        commit = _commit()
        typer.echo(f"cpor {__version__}" + (f" ({commit})" if commit else ""))
        raise typer.Exit


def _commit() -> str:
    """The commit this was built from, or that a checkout is at; empty if unknown."""
    import cpor

    package = Path(cpor.__file__).parent
    built_from = package / "commit.txt"
    if built_from.exists():
        return built_from.read_text().strip()
    root = package.parents[1]
    if not (root / ".git").exists():
        return ""
    try:
        said = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before a command."""


@cache
def make_app(command: str | None = None) -> typer.Typer:
    """The command line.

    Args:
        command: Load the module of this command alone; None, or no command of that name: all of them.
    """
    made = typer.Typer(
        name="cpor",
        help="Grasp the target, remove a blocker, or ask: decisions in clutter with probabilities you can "
        "trust.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    made.callback()(_root)
    for module in [each for each, names in COMMANDS.items() if command in names] or COMMANDS:
        importlib.import_module(f"cpor.cli.{module}").add_to(made)
    return made


def __getattr__(name: str) -> Any:
    if name == "app":
        return make_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command line; an error of ours becomes one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our characters gets "?"
    first_use.one_command = True
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)  # Python would walk through all objects again and again as it ends: 0.3 s
    try:
        make_app(next(iter(sys.argv[1:]), None))()
    except CporError as error:
        message = "".join(c if c.isprintable() else " " for c in str(error))
        sys.stderr.write(f"error: {message}\n")
        raise SystemExit(2) from None
    except OSError as error:  # standard output closed or full
        sys.stderr.write(f"error: cannot write the output: {error.strerror}\n")
        raise SystemExit(1) from None
