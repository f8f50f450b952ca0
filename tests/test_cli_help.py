"""The help of every command: grouped, complete, in sentences, and within 80 columns."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import cpor.cli
from cpor.cli.app import COMMANDS, app, make_app

ROOT = typer.main.get_command(app)


def commands(group=ROOT, path=()):
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        yield from commands(command, (*path, name)) if inner else [((*path, name), command)]


def shown(*arguments):
    ran = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert ran.exit_code == 0, ran.output
    return ran.output


@pytest.mark.parametrize("module", COMMANDS)
def test_a_command_loads_its_own_module_alone(module):
    for name in COMMANDS[module]:
        assert set(typer.main.get_command(make_app(name)).commands) == set(COMMANDS[module])


def test_every_module_with_commands_is_listed():
    folder = Path(cpor.cli.__file__).parent
    registers = {path.stem for path in folder.glob("*.py") if "def add_to(app" in path.read_text()}
    assert set(COMMANDS) == registers
    assert set(ROOT.commands) == {name for names in COMMANDS.values() for name in names}
    assert set(typer.main.get_command(make_app("no such command")).commands) == set(ROOT.commands)


def test_every_command_belongs_to_a_group():
    groups = ("Decide", "See and ask", "Learn from your scenes", "Whole data sets", "Simulate", "Service")
    said = shown()
    places = [said.index(f"─ {group}") for group in groups]
    assert places == sorted(places) and "─ Commands" not in said


@pytest.mark.parametrize(
    ("path", "command"), list(commands()), ids=lambda each: "-".join(each) if isinstance(each, tuple) else ""
)
def test_every_option_says_in_a_sentence_what_it_does(path, command):
    for parameter in command.params:
        words = getattr(parameter, "help", None)
        assert words and words[0].isalnum() and words[-1] in ".)", f"{path}: {parameter.name}: {words}"
        assert "[default" not in words  # the console takes brackets for a style, and shows nothing
    said = shown(*path)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("name", ["decide", "run", "fit", "demo", "serve", "simulate"])
def test_common_options_come_first(name):
    said = shown(name)
    assert said.index("─ Options") < said.index("─ More options")
