"""A report says what came of a run, safely, and the same in every form."""

import csv
import json
import math
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from cpor.errors import InputFileError, InvalidSettingError
from cpor.paper.means import wilson_interval
from cpor.paper.runs.dataset import read_dataset
from cpor.paper.runs.questions import RunSettings
from cpor.paper.runs.report import (
    best_scores,
    cost_by_size,
    edges_on_cycles,
    measure_rate,
    object_scores,
    read_report,
    selective_curve,
    summary_tables,
)
from cpor.paper.runs.report_files import write_csv, write_latex, write_parquet
from cpor.paper.runs.run import RunPlan, run
from cpor.viz.report_page import report_page, telling_first, write_page

HOSTILE = '<script>alert("x")</script>&\'\\_%$'


def relation(blocked, blocker, p):
    return {"blocked": blocked, "blocker": blocker, "p": p}


def scene(*relations, target="mug", **more):
    return {"objects": ["mug", "box", HOSTILE], "target": target, "relations": list(relations)} | more


def truth(*right):
    return {"truth": {"top_objects": list(right)}}


SCENES = [
    scene(relation("mug", HOSTILE, 0.9), id="right", image="a", **truth(HOSTILE)),
    scene(relation("mug", "box", 0.8), id="wrong", image="a", **truth("mug")),
    scene(
        relation("mug", "box", 0.9),
        relation("box", "mug", 0.9),
        relation("mug", HOSTILE, 0.45),
        id="cyclic",
        image="b",
        **truth("box"),
    ),
    scene(relation("mug", "box", None), id="gap", image="c", **truth("mug")),
    scene(id=HOSTILE, image=HOSTILE, tier=HOSTILE, **truth("mug")),
    scene(relation("mug", "box", 0.7), id="unknown"),
    scene(target="nowhere", id="broken"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    path = folder / "scenes.jsonl"
    path.write_text("\n".join(json.dumps(content) for content in SCENES))
    run(RunPlan(read_dataset(path, lambda *_: None), settings=RunSettings(tau=0.5)), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def report(run_folder):
    return read_report(run_folder)


class Page(HTMLParser):
    """What a browser would see: elements, attributes, words; unclosed elements are an error."""

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_and_runs_and_loads_nothing(report):
    page = Page(report_page(report))
    assert "script" not in page.tags and "img" not in page.tags and "link" not in page.tags
    assert any(HOSTILE in words for words in page.words)  # shown as it is, as words
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "href") or value.startswith("#")
    assert "://" not in "".join(str(value) for _, value in page.attributes)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in page.attributes:
        if name == "href":
            assert value[1:] in ids
    assert "prefers-color-scheme: dark" in report_page(report)


def test_the_page_has_tables_figures_graphs_and_every_case(report):
    text = report_page(report)
    for title in (
        "At a glance",
        "Why it deferred",
        "What is proven",
        "Reliability of object scores",
        "Reliability of the best action",
        "Risk and coverage",
        "Error capture",
        "Growth of cost with scene size",
    ):
        assert title in text
    for k in range(len(SCENES)):
        assert f'id="case-{k}"' in text
    assert text.count("<details") == len(SCENES)
    assert "no answer" in text and "on a cycle" in text and "SceneFileError" in text
    assert text == report_page(report)


def test_the_telling_cases_come_first_and_the_rest_is_pointed_to(report, tmp_path):
    order = [record.outcome for _, record in telling_first(report.records)]
    assert order[:4] == ["wrong", "error", "deferred", "deferred"]
    write_page(report, tmp_path / "page.html", 2)
    text = (tmp_path / "page.html").read_text()
    assert text.count("<details") == 2
    assert "2 of 7 cases" in text and "The other 5" in text and "--csv" in text
    Page(report_page(report, 0))


def test_rates_and_intervals(report):
    rate, by_image = measure_rate(report.records, lambda record: record.acted)
    assert (rate.hits, rate.n) == (4, 7)
    low, high = by_image
    assert 0.0 <= low < 4 / 7 < high <= 1.0
    assert measure_rate(report.records, lambda record: True)[1] is None
    # Wilson (1927) at 4 of 7, by hand: centre (p + z²/2n) / (1 + z²/n).
    z = 1.959963984540054
    centre = (4 / 7 + z * z / 14) / (1 + z * z / 7)
    half = z * math.sqrt(4 / 7 * 3 / 7 / 7 + z * z / (4 * 49)) / (1 + z * z / 7)
    assert rate.ci == pytest.approx((centre - half, centre + half))
    assert wilson_interval(0, 10)[0] == 0.0 and wilson_interval(10, 10)[1] == 1.0
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_pools_and_curves(report):
    score, right = object_scores(report.records)
    assert (score.size, right.sum()) == (15, 5)  # five cases with truth, three objects each
    score, right = best_scores(report.records)
    assert score.size == 5
    curve = selective_curve(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, True, False, False]))
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk == pytest.approx([0.0, 0.25, 1 / 3, 0.5])
    assert curve.captured == pytest.approx([1.0, 0.75, 0.5, 0.0])
    assert selective_curve(np.zeros(0), np.zeros(0, bool)) is None


def test_cycles_and_cost(report):
    by_name = {record.case: record for record in report.records}
    assert edges_on_cycles(by_name["cyclic"]) == {0, 2}  # row by row
    assert edges_on_cycles(by_name["right"]) == set()
    (cost,) = cost_by_size(report.records)
    assert (cost.n_objects, cost.n, cost.uncertified) == (3, 6, 0)
    assert cost.log10_graphs == pytest.approx(math.log10(2))


def test_tables(report):
    tables = {table.title: table for table in summary_tables(report)}
    glance = {row[0]: row[1:] for row in tables["At a glance"].rows}
    assert glance["error rate: wrong, of the actions taken"][0] == "1 of 3"
    assert glance["without a decision, of all cases"][0] == "1 of 7"
    assert "truth of 1 actions is not known" in tables["At a glance"].note
    assert {row[0]: row[2] for row in tables["Why it deferred"].rows} == {
        "no_evidence": "1",
        "conflicting_evidence": "1",
    }
    assert tables["Cases without a decision"].rows == (("SceneFileError", "1", "1.0000"),)
    for table in tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_csv_and_parquet_agree(report, tmp_path):
    write_csv(report, tmp_path / "cases.csv")
    with (tmp_path / "cases.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(SCENES)
    assert rows[0]["object"] == HOSTILE and json.loads(rows[0]["right_objects"]) == [HOSTILE]
    assert (rows[6]["action"], rows[6]["object"], rows[6]["error_type"]) == ("error", "", "SceneFileError")
    assert (rows[3]["n_unanswered"], rows[3]["reason"], rows[3]["mu"]) == ("1", "no_evidence", "")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'cpor-grasp[viz]'")
    write_parquet(report, tmp_path / "cases.parquet")
    typed = parquet.read_table(tmp_path / "cases.parquet").to_pylist()
    assert [row["case"] for row in typed] == [row["case"] for row in rows]
    assert [row["best_score"] for row in typed] == [
        float(row["best_score"]) if row["best_score"] else None for row in rows
    ]
    assert typed[0]["best_right"] is True and typed[5]["best_right"] is None


def test_latex_is_escaped(report, tmp_path):
    write_latex(report, tmp_path / "tables.tex")
    text = (tmp_path / "tables.tex").read_text()
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(summary_tables(report))
    assert r"no\_evidence" in text and "<script>" not in text
    assert r"\textless{}script\textgreater{}" in text  # the tier's name


def test_what_cannot_be_done_is_said(report, run_folder, tmp_path, monkeypatch):
    with pytest.raises(InputFileError, match="holds no run"):
        read_report(tmp_path)
    with pytest.raises(InputFileError, match="nowhere"):
        write_csv(report, tmp_path / "nowhere" / "cases.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidSettingError, match="pyarrow"):
        write_parquet(report, tmp_path / "cases.parquet")
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "run.json").write_bytes((run_folder / "run.json").read_bytes())
    with pytest.raises(InputFileError, match="not finished"):
        read_report(unfinished)
    (unfinished / "cases.jsonl").write_bytes((run_folder / "cases.jsonl").read_bytes()[:-30])
    with pytest.raises(InputFileError, match="line 7 is damaged"):
        read_report(unfinished)
    lines = (run_folder / "cases.jsonl").read_bytes().splitlines(keepends=True)
    (unfinished / "cases.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(InputFileError, match="lacks cases"):
        read_report(unfinished)


def test_ten_thousand_cases_stay_usable(report, evidence):
    many = [record.model_copy(update={"item": k}) for k in range(1429) for record in report.records]
    text = report_page(replace(report, records=tuple(many[:10_000])))
    size = len(text.encode()) / 1e6
    assert text.count("<details") == 2000
    assert size < 20.0
    evidence("serves", "report of 10,000 cases [MB]", "opens at once", size)
