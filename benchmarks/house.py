"""Measure the size and shape of the code: what a newcomer has to know. `make house` prints the table.

python benchmarks/house.py                 the table of this tree
python benchmarks/house.py --tree DIR      of another checkout, for a comparison
python benchmarks/house.py --list NAME     the items behind a row, for example `--list complex`
python benchmarks/house.py --no-run        without the rows that run a decision
"""

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PEOPLE = re.compile(r"\b(who|whom|whose|whoever|nobody|somebody)\b", re.IGNORECASE)
BEGINS_WITH_OF = re.compile(r"""["':]\s*Of """)
"""A docstring, an entry of one, or a help text that begins with "Of"."""

MOST_COMPLEX, MOST_PARAMETERS = 20, 8
COMMANDS = "cli"
"""Room of the commands: their parameters are options, and do not count."""

ONE_DECISION = """
import json, os, sys, threading
import cpor
here = os.path.dirname(cpor.__file__) + os.sep
system = cpor.System()
folder = "examples/scenes/sim/scene_00007"
def decide():
    view = system.look(f"{folder}/rgb.png", f"{folder}/depth.png")
    return system.decide(view, request="the purple one").to_json()
decide()
functions, modules, changes, last = set(), set(), 0, None
def crossed(frame, event, argument):
    global changes, last
    if event != "call" or not frame.f_code.co_filename.startswith(here):
        return
    module = frame.f_code.co_filename[len(here):]
    room = module.split(os.sep)[0].removesuffix(".py")
    functions.add((module, frame.f_code.co_qualname))
    modules.add(module)
    changes += room != last
    last = room
threading.setprofile(crossed)
sys.setprofile(crossed)
decide()
sys.setprofile(None)
print(json.dumps([len(functions), len(modules), changes]))
"""

IMPORTS = """
import json, sys
from cpor.cli.app import main
folder = "examples/scenes/sim/scene_00007"
sys.argv = ["cpor", "decide", f"{folder}/rgb.png", f"{folder}/depth.png", "--target", "1", "--json"]
out, sys.stdout = sys.stdout, sys.stderr
try:
    main()
except SystemExit:
    pass
print(json.dumps(sum(name.split(".")[0] == "cpor" for name in sys.modules)), file=out)
"""


class Item(NamedTuple):
    """One thing behind a row of the table."""

    place: str
    name: str


def read_sources(folder: Path) -> dict[Path, ast.Module]:
    """The syntax tree of every Python file below a folder."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def count_lines(folder: Path) -> int:
    """All lines of the Python files below a folder."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def classes(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Every class, with its file."""
    for path, tree in trees.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass, a named tuple or a pydantic model."""
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    bases = {ast.unparse(each).split("[")[0].rpartition(".")[2] for each in node.bases}
    return "dataclass" in decorators or bool(bases & {"NamedTuple", "BaseModel", "TypedDict", "Message"})


def built_once(trees: dict[Path, ast.Module]) -> list[Item]:
    """Records that are constructed in at most one place."""
    calls = Counter(
        ast.unparse(node.func).rpartition(".")[2]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    )
    within = Counter(
        node.name
        for _, node in classes(trees)
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and ast.unparse(each.func) in ("cls", "Self")
    )
    records = [(path, node) for path, node in classes(trees) if is_record(node)]
    inherited = {ast.unparse(base).split("[")[0] for _, node in classes(trees) for base in node.bases}
    return [
        Item(str(path), node.name)
        for path, node in records
        if calls[node.name] + within[node.name] <= 1 and node.name not in inherited
    ]


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """McCabe's count of paths, nested functions left out."""
    total, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(
            node, ast.If | ast.For | ast.While | ast.IfExp | ast.ExceptHandler | ast.Assert | ast.AsyncFor
        ):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        elif isinstance(node, ast.match_case):
            total += 1
        waiting.extend(ast.iter_child_nodes(node))
    return total


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Parameters, `self` and `cls` left out."""
    asked = function.args
    names = [each.arg for each in (*asked.posonlyargs, *asked.args, *asked.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether numba compiles it."""
    return any("njit" in ast.unparse(each) for each in function.decorator_list)


def functions(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method that numba does not compile."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_kernel(node):
                yield path, node


def sizes_of_rooms(trees: dict[Path, ast.Module], source: Path) -> list[Item]:
    """Lines of every room, the largest first."""
    lines: Counter[str] = Counter()
    for path in trees:
        room = path.relative_to(source).parts[0].removesuffix(".py")
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    return [Item(room, str(count)) for room, count in lines.most_common()]


def repeated(items: list[Item]) -> list[Item]:
    """The items whose name occurs more than once."""
    often = Counter(item.name for item in items)
    return sorted((item for item in items if often[item.name] > 1), key=lambda item: item.name)


def count_names(items: list[Item]) -> int:
    """Number of different names."""
    return len({item.name for item in items})


def small_modules(trees: dict[Path, ast.Module], source: Path) -> list[Item]:
    """Modules of under 100 lines that only one other module imports."""
    importers: Counter[str] = Counter()
    for tree in trees.values():
        named: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
            elif isinstance(node, ast.Import):
                named |= {each.name for each in node.names}
        importers.update(named)
    found = []
    for path in trees:
        name = ".".join(path.relative_to(source.parent).with_suffix("").parts)
        short = len(path.read_text(encoding="utf-8").splitlines()) < 100
        if short and path.name != "__init__.py" and importers[name] == 1:
            found.append(Item(str(path), name))
    return found


def measure(tree: Path) -> tuple[dict[str, object], dict[str, list[Item]]]:
    """The rows that reading the code gives, and the items behind them."""
    source = tree / "src" / "cpor"
    trees = read_sources(source)
    text = [line for path in trees for line in path.read_text(encoding="utf-8").splitlines()]
    code = [line for line in text if line.strip() and not line.lstrip().startswith("#")]
    statements = sum(isinstance(node, ast.stmt) for each in trees.values() for node in ast.walk(each))
    named = [Item(str(path), node.name) for path, node in classes(trees)]
    modules = [Item(str(path), path.stem) for path in trees if path.stem != "__init__"]
    lists = {
        "rooms": sizes_of_rooms(trees, source),
        "built_once": built_once(trees),
        "class_names": repeated(named),
        "module_names": repeated(modules),
        "small_modules": small_modules(trees, source),
        "complex": [
            Item(str(path), f"{node.name} {complexity(node)}")
            for path, node in functions(trees)
            if complexity(node) > MOST_COMPLEX
        ],
        "parameters": [
            Item(str(path), f"{node.name} {n_parameters(node)}")
            for path, node in functions(trees)
            if n_parameters(node) > MOST_PARAMETERS and COMMANDS not in path.relative_to(source).parts
        ],
        "people": [
            Item(f"{path}:{number}", line.strip())
            for path in trees
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if PEOPLE.search(line)
        ],
        "of": [
            Item(f"{path}:{number}", line.strip())
            for path in trees
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if BEGINS_WITH_OF.search(line)
        ],
    }
    figures = (tree / "docs" / "evidence.md").read_text(encoding="utf-8").splitlines()
    results = ("| met", "| missed", "| in words", "| reported")
    rows: dict[str, object] = {
        "lines in src": len(text),
        "mean length of a line of code": round(sum(map(len, code)) / len(code), 1),
        "statements per line of code": round(statements / len(code), 3),
        "files in src": len(trees),
        "lines in tests/support; benchmarks": "; ".join(
            str(count_lines(tree / folder)) for folder in ("tests/support", "benchmarks")
        ),
        "classes; records built in at most one place": f"{len(named)}; {len(lists['built_once'])}",
        "class names defined more than once; module names": (
            f"{count_names(lists['class_names'])}; {count_names(lists['module_names'])}"
        ),
        "modules under 100 lines with one importer": len(lists["small_modules"]),
        f"functions above complexity {MOST_COMPLEX}; above {MOST_PARAMETERS} parameters": (
            f"{len(lists['complex'])}; {len(lists['parameters'])}"
        ),
        "lines with who, whom, whose, whoever, nobody, somebody": len(lists["people"]),
        "docstrings, entries and help texts that begin with Of": len(lists["of"]),
        "figures in docs/evidence.md": sum(line.startswith(results) for line in figures),
        "numbered examples": len(list((tree / "examples").glob("[0-9]*.py"))),
    }
    return rows, lists


def run_decision(tree: Path) -> dict[str, object]:
    """The rows that running a decision gives."""

    def run(code: str) -> object:
        environment = {"PYTHONPATH": str(tree / "src"), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    crossed, imported = run(ONE_DECISION), run(IMPORTS)
    assert isinstance(crossed, list)
    return {
        "one decision from words, warm: functions / modules / changes of room": " / ".join(map(str, crossed)),
        "our modules imported by `cpor decide RGB DEPTH`": imported,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--list", choices=[
        "built_once", "class_names", "module_names", "small_modules", "complex", "parameters", "people", "of",
        "rooms",
    ])  # fmt: skip
    parser.add_argument("--no-run", action="store_true")
    asked = parser.parse_args()
    rows, lists = measure(asked.tree)
    if asked.list:
        print("\n".join(f"{item.name}  {item.place}" for item in lists[asked.list]))
        return
    if not asked.no_run:
        rows = run_decision(asked.tree) | rows
    width = max(map(len, rows))
    print("\n".join(f"{name:{width}}  {value}" for name, value in rows.items()))


if __name__ == "__main__":
    main()
