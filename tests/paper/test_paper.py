"""`cpor paper`: every table in one run; and the map of the paper: its commands run and print its figures."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.data import DATA
from typer.testing import CliRunner

from cpor import CporError
from cpor.cli.app import app
from cpor.model import FittedModel, bundled_model
from cpor.paper.everything import ORDER, SHIPPED, paper_tables
from cpor.paper.pair_log import read_made_with, read_pair_log, refuse_other_versions, write_pair_log
from cpor.paper.table import PUBLISHED

ROOT = Path(__file__).parents[2]
UNOBENCH = DATA / "unobench"
MAP = ROOT / "docs" / "paper.md"
needs_data = pytest.mark.skipif(
    not (UNOBENCH / "scores_synthetic.csv").is_file(), reason=f"no unobench/ in {DATA}; set CPOR_DATA"
)


def map_rows():
    """Rows of the map: where in the paper, in the code, command, ours, the paper's, verdict."""
    text = MAP.read_text().split("## The map")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if "in the code" not in line
    ]


COMMANDS = sorted({re.fullmatch(r"`(.*)`", row[2])[1] for row in map_rows() if row[2].startswith("`cpor")})
NEEDS_DATA = re.compile(r"DATA|scores_synthetic|gt_synthetic|calibration/")
NUMBER = re.compile(r"(?<![\w.])(?:-?\d*\.\d+|\d+)(?![\w.])")


def test_no_row_of_the_map_is_empty_and_every_table_is_there():
    rows = map_rows()
    assert len(rows) > 50
    assert all(len(row) == 6 and all(row) for row in rows), [row for row in rows if not all(row)]
    named = " ".join(row[0] for row in rows)
    for label in PUBLISHED:
        assert label.split(" ")[0] in named, label
    for cell in (row[1] for row in rows):
        for file in re.findall(r"`([a-z_/0-9]+\.py)", cell):
            assert (ROOT / "src" / "cpor" / file).is_file(), file


def numbers_of(content):
    if isinstance(content, dict):
        for value in content.values():
            yield from numbers_of(value)
    elif isinstance(content, list):
        for value in content:
            yield from numbers_of(value)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a command of the map once; its JSON and the folder that it wrote to."""
    ran = {}

    def once(command):
        if command not in ran:
            folder = tmp_path_factory.mktemp("map")
            words = command.removeprefix("cpor ").split()
            bases = (UNOBENCH, ROOT)
            placed = [str(next((b / word for b in bases if (b / word).exists()), word)) for word in words]
            placed = [str(UNOBENCH) if word == "DATA" else word for word in placed]
            if words[0] == "paper":
                placed += ["--out", str(folder / "page.html")]
            result = CliRunner().invoke(app, [*placed, "--json"], catch_exceptions=False)
            assert result.exit_code == 0, result.output
            ran[command] = json.loads(result.stdout), folder
        return ran[command]

    return once


def test_what_is_said_to_match_is_the_papers_figure():
    rows = [row for row in map_rows() if row[5] == "matches"]
    assert len(rows) >= 5
    for where, *_, ours, theirs, _ in rows:
        printed, wanted = (NUMBER.findall(cell) for cell in (ours, theirs))
        assert len(printed) == len(wanted) > 0, where
        for a, b in zip(printed, wanted, strict=True):
            unit = 10.0 ** -len(b.partition(".")[2]) if "." in b else 0.0
            assert abs(float(a) - float(b)) <= 1.01 * unit, (where, a, b)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [pytest.param(c, marks=needs_data) if NEEDS_DATA.search(c) else c for c in COMMANDS]
)
def test_each_command_of_the_map_prints_the_figures_beside_it(command, run):
    printed = list(numbers_of(run(command)[0]))
    for row in map_rows():
        if row[2] != f"`{command}`":
            continue
        for text in NUMBER.findall(row[3]):
            digits = len(text.partition(".")[2])
            found = any(abs(value - float(text)) <= 0.5000001 * 10.0**-digits for value in printed)
            assert found, f"{row[0]}: {text} is not printed by {command}"


@needs_data
@pytest.mark.slow
def test_the_figures_said_to_be_a_unit_off_are_all_there_are(run):
    """All other figures that match are equal to the printed ones."""
    text = (ROOT / "docs" / "benchmark.md").read_text()
    lines = text.split("| one unit of the last digit |")[1].split("\n\n")[0].splitlines()[2:]
    said = sorted(tuple(cell.strip() for cell in line.strip("|").split("|")[1:]) for line in lines)
    found = []
    for label, table in run("cpor paper --data DATA")[0]["tables"].items():
        for row in table["rows"]:
            for figure, judged in row["verdict"].items():
                if judged != "matches":
                    continue
                printed = PUBLISHED[label][row["name"]][figure]
                ours = f"{row['ours'][figure]:.{len(printed.partition('.')[2])}f}"
                if float(ours) != float(printed):
                    found.append((printed.removeprefix("0"), ours.removeprefix("0")))
    assert sorted(set(found)) == said


@needs_data
@pytest.mark.slow
def test_the_page_says_first_what_it_was_computed_from(run):
    found, folder = run("cpor paper --data DATA")
    assert list(found["tables"]) == list(ORDER)
    for label, rows in PUBLISHED.items():
        assert {row["name"] for row in found["tables"][label]["rows"]} >= set(rows), label
        for row in found["tables"][label]["rows"]:
            assert row["ours"] or row["why"], (label, row["name"])
    page = (folder / "page.html").read_text()
    assert page.index("released files in") < page.index("<table")
    assert page.count("<svg") == 4
    assert (folder / "page_selective.csv").read_text().startswith("model,coverage,risk,ecr\n")


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(CporError, match=r"no scores_synthetic\.csv; the paper links .*pairs-lab/cpor-grasp"):
        paper_tables(tmp_path)


@pytest.mark.parametrize("command", ["paper --data", "calibrate"])
def test_tables_are_made_without_the_extras(tmp_path, command):
    """As in a plain installation: neither simulator nor networks nor service."""
    lacking = "sys.modules.update(dict.fromkeys(('mujoco', 'onnxruntime', 'fastapi', 'gymnasium')))"
    code = f"import sys; {lacking}; from cpor.cli.app import main; main()"
    arguments = [*command.split(), str(tmp_path / "none")]
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2 and "Traceback" not in ran.stderr, ran.stderr


def test_without_the_files_the_page_is_of_our_benchmark(tmp_path, monkeypatch):
    """On every twentieth case of the shipped log; `cpor paper` takes all of them."""
    small = tmp_path / "small.csv.gz"
    rows = [row for case in read_pair_log(SHIPPED)[::20] for row in case.rows]
    write_pair_log(rows, small, {"segmenter": "s 1", "scorer": "r 2", "geometry": "g"})
    monkeypatch.setattr("cpor.paper.everything.SHIPPED", small)
    found = paper_tables()
    assert found.first.startswith("Without the released files: computed on our simulated benchmark")
    assert "segmenter s 1, scorer r 2, geometry g" in found.first
    assert "https://github.com/pairs-lab/cpor-grasp" in found.first
    verdicts = {judged for t in found.tables for row in t.rows for *_, judged in row.verdicts()}
    assert verdicts <= {"other data", "not computed", "not in the paper"}
    computed = {t.label for t in found.tables if any(row.ours for row in t.rows)}
    assert computed == set(ORDER) - {"geometry", "robot"}


def test_a_table_does_not_mix_versions_silently(tmp_path):
    model = FittedModel.load(bundled_model("embedded"))
    tested = model.tested_with
    rows = read_pair_log(SHIPPED)[0].rows
    for made, refused in (
        ({"segmenter": tested.segmenter, "scorer": tested.scorer, "geometry": "g"}, False),
        ({"segmenter": "another", "scorer": tested.scorer, "geometry": "g"}, True),
        (None, True),
    ):
        log = tmp_path / "log.csv"
        write_pair_log(rows, log, made)
        assert read_made_with(log) == made
        assert read_pair_log(log)[0].rows == rows
        if not refused:
            refuse_other_versions(log, model)
            continue
        with pytest.raises(CporError, match="a table would mix versions"):
            refuse_other_versions(log, model)
    command = ["experiment", "chain", "--scores", str(log)]
    with pytest.raises(CporError, match="--any-versions"):
        CliRunner().invoke(app, command, catch_exceptions=False)
