"""The house rules that a machine can check: imports point up the list, `import cpor` stays light."""

import ast
import itertools
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cpor"

# The rooms in the order data walks through them; a room may import those before it.
ROOMS = [
    "errors",
    "plugins",
    "scene",
    "sources",
    "relations",
    "decision",
    "truth",
    "io",
    "perception",
    "words",
    "evidence",
    "gate",
    "learn",
    "infer",
    "records",
    "semantics",
    "pipeline",
    "model",
    "paper_model",
    "tracking",
    "view",
    "asking",
    "answer",
    "conversation",
    "promise",
    "parts",
    "system",
    "corrections",
    "fitting",
    "robot",
    "sim",
    "paper",
    "viz",
    "apps",
    "serve",
    "bridges",
    "testing",
    "cli",
]


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "errors"


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "cpor":
            yield from (f"cpor.{name.name}" for name in node.names if name.name in ROOMS)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cpor."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("cpor."))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_up(path):
    relative = path.relative_to(SOURCE)
    if relative.name == "__init__.py" and len(relative.parts) == 1:
        return  # the front door opens every room
    here = relative.parts[0].removesuffix(".py")
    assert here in ROOMS, f"{here} has no place in the list of rooms"
    for module in imports(path):
        assert ROOMS.index(room(module)) <= ROOMS.index(here), f"{relative} imports {module}"


ROOT = SOURCE.parents[1]


@pytest.mark.parametrize("folder", ["src/cpor", "tests", "benchmarks", "training", "examples"])
def test_nobody_reaches_into_the_kernels_of_another_package(folder):
    reached = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        here = path.relative_to(ROOT / folder).parent.parts
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("cpor."):
                continue
            for name in (f"{node.module}.{each.name}" for each in node.names):
                package = tuple(itertools.takewhile(lambda part: not part.startswith("_"), name.split(".")))
                private = package != tuple(name.split("."))
                # Tests of kernels lie in the folder that mirrors their package.
                home = package[1:2] if folder == "tests" else package[1:]
                if private and "kernels" in name.split(".")[len(package)] and here[: len(home)] != home:
                    reached.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not reached


def named_types(path):
    """Names of the classes and type aliases of a file."""
    tree = ast.parse(path.read_text())
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


def test_a_class_or_alias_has_a_name_of_its_own():
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in named_types(path):
            places[name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_few_modules_share_a_name():
    """A file is found by its name; `__init__` aside."""
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        places[path.stem].append(str(path.relative_to(SOURCE)))
    repeated = {name: found for name, found in places.items() if len(found) > 1 and name != "__init__"}
    assert len(repeated) <= 8, repeated


def test_importing_the_package_loads_nothing_heavy():
    heavy = ["numba", "scipy", "PIL", "rich", "typer", "pydantic", "torch", "mujoco", "onnxruntime"]
    heavy += ["openai", "google.genai", "transformers"]
    code = f"import sys, cpor; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_everything_promised_is_there():
    import cpor

    for name in cpor.__all__:
        assert getattr(cpor, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cpor.nonsense


def test_rooms_are_listed_with_their_sizes():
    """Sizes are printed, not limited: what grows is seen."""
    house = [sys.executable, "benchmarks/house.py", "--no-run", "--list", "rooms"]
    ran = subprocess.run(house, cwd=ROOT, capture_output=True, text=True, check=True)
    sizes = {room: int(count) for count, room in map(str.split, ran.stdout.splitlines())}
    print(ran.stdout)
    assert set(sizes) - {"__init__"} == set(ROOMS)
    assert sum(sizes.values()) == sum(len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py"))


def test_no_file_is_too_long_to_read():
    long = {
        str(path): count
        for path in SOURCE.rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 400
    }
    assert not long
