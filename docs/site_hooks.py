"""What the site makes of the code at build time: the reference of the command line."""

from typing import Any

import click
import typer.main
from mkdocs.structure.files import File, Files

from cpor.cli.app import app


def on_files(files: Files, config: Any) -> Files:
    """Add `reference/cli.md`, written from the commands themselves."""
    files.append(File.generated(config, "reference/cli.md", content=_command_line()))
    return files


def _command_line() -> str:
    lines = ["# Command line", "", "Written from the commands; `cpor COMMAND --help` says the same.", ""]
    root = typer.main.get_command(app)
    for path, command in _walk(root, ("cpor",)):
        lines += [f"## `{' '.join(path)}`", "", _prose(command.help), ""]
        rows = [_row(parameter, click.Context(command)) for parameter in command.params]
        if rows:
            lines += ["| argument | what it says |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _walk(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(path, command)]
    return [each for name, child in children.items() for each in _walk(child, (*path, name))]


def _row(parameter: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    said = _prose(getattr(parameter, "help", None))
    default = parameter.default
    if isinstance(default, str | int | float) and not isinstance(default, bool) and "default" not in said:
        said += f" (default: {default})"
    return f"| {names} | {said} |"


def _prose(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")
