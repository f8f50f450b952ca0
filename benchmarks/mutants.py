"""Mutation test of the core: change one operator, number or condition, and see whether a test fails.

    python benchmarks/mutants.py --count 300 --seed 1 --out out/mutants.json

Mutants are drawn at random from the rooms below. Each one runs the tests named after its module, those of its
room, then `tests/test_system.py`; the first test that fails, or that takes too long, kills it. The report
lists the survivors: read each one, and write the test that kills it, or say why it changes nothing. Work is
done in a copy of `src`.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]

ROOMS = {
    "evidence": ["tests/evidence", "tests/contracts/test_source_contract.py", "tests/test_pipeline.py"],
    "fitting": ["tests/fitting"],
    "gate": ["tests/gate"],
    "infer": ["tests/infer", "tests/test_pipeline.py"],
    "learn": [
        "tests/learn",
        "tests/contracts/test_calibrator_contract.py",
        "tests/test_pipeline.py",
        "tests/test_model_files.py",
    ],
    "tracking": ["tests/tracking"],
}
"""Rooms of `src/cpor` and the tests that are run first."""

LATER = ["tests/test_system.py"]

TOO_LONG_S = 900
"""A mutant whose tests take so much time of the processor is killed: it hangs. [s]"""

SWAPPED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.And: (ast.Or,), ast.Or: (ast.And,),
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any",
    "argmax": "argmin", "argmin": "argmax", "fmin": "fmax", "fmax": "fmin",
}  # fmt: skip
NOT_CODE = (ast.AnnAssign, ast.arg, ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)
"""Annotations, error messages and the like: only the value of an annotated name is changed."""


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that may stand in place of this one."""
    if isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            for other in SWAPPED.get(type(op), ()):
                yield ast.Compare(node.left, [*node.ops[:k], other(), *node.ops[k + 1 :]], node.comparators)
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        for other in SWAPPED.get(type(node.op), ()):
            made = deepcopy(node)
            made.op = other()
            yield made
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield node.operand
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        made = deepcopy(node)
        made.test = ast.UnaryOp(ast.Not(), node.test)
        yield made
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
        if node.value:
            yield ast.Constant(node.value / 2 if isinstance(node.value, float) else node.value - 1)
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.Name(NAMES[node.id], node.ctx)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Parent, field, index and node of everything that is code."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords") and isinstance(
            tree, ast.FunctionDef | ast.AnnAssign | ast.ClassDef | ast.arg
        ):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not isinstance(node, NOT_CODE[1:]):
                yield tree, field, index, node
                yield from places(node)


def mutants(tree: ast.AST) -> list[tuple[ast.AST, str, int | None, ast.AST, ast.AST]]:
    """Parent, field, index, node and what may stand in its place, of every mutant of a module."""
    return [(*place, other) for place in list(places(tree)) for other in changes(place[-1])]


def say(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).split("\n")[0][:80]


def nearest_first(path: Path, room: str) -> list[str]:
    """The tests of a room, those named after the module before the others: most mutants die in them."""
    named = [str(each) for each in sorted((ROOT / "tests" / room).glob(f"test_{path.stem.strip('_')}*.py"))]
    return [*named, *ROOMS[room]]


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    """Put a node in its place."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def is_killed(source: Path, tests: list[str]) -> bool:
    """Whether a test fails with the package at `source`."""
    environment = os.environ | {
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (TOO_LONG_S, TOO_LONG_S))
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=8 * TOO_LONG_S, preexec_fn=limit
        )
    except subprocess.TimeoutExpired:  # it waits for what never comes
        return True
    return ran.returncode != 0


def main() -> None:
    """Draw mutants, run the tests, and write what survived."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="random seed for the draw")
    parser.add_argument(
        "--rooms", nargs="*", default=list(ROOMS), choices=list(ROOMS), help="rooms to draw from"
    )
    parser.add_argument("--minutes", type=float, help="start no further mutant after this time")
    parser.add_argument("--out", type=Path, default=Path("out/mutants.json"), help="report to write")
    asked = parser.parse_args()
    began, rng = time.monotonic(), random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)  # with compiled kernels, whose times stay as they are
        paths = [path for room in asked.rooms for path in sorted((source / "cpor" / room).rglob("*.py"))]
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
        drawn = [(path, each) for path, tree in trees.items() for each in mutants(tree)]
        report: dict[str, object] = {"drawn_from": len(drawn), "seed": asked.seed}
        survivors: list[str] = []
        chosen = rng.sample(drawn, min(asked.count, len(drawn)))
        for total, (path, (parent, field, index, node, other)) in enumerate(chosen, start=1):
            if asked.minutes is not None and time.monotonic() - began > 60.0 * asked.minutes:
                break
            before, times = path.read_bytes(), path.stat()
            put(parent, field, index, other)
            path.write_text(ast.unparse(ast.fix_missing_locations(trees[path])), encoding="utf-8")
            put(parent, field, index, node)
            room = path.relative_to(source / "cpor").parts[0]
            killed = is_killed(source, nearest_first(path, room)) or is_killed(source, LATER)
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            where = f"{path.relative_to(source)}:{line}: {say(node)}  ->  {say(other)}"
            if not killed:
                survivors.append(where)
            print(f"{total:4} {'killed  ' if killed else 'SURVIVED'} {where}", flush=True)
            asked.out.parent.mkdir(parents=True, exist_ok=True)
            killed_share = 1.0 - len(survivors) / total
            report |= {
                "total": total,
                "killed": total - len(survivors),
                "share": killed_share,
                "survivors": survivors,
            }
            asked.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
