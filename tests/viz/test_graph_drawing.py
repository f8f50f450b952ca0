"""Obstruction graphs are drawn with blockers above, thickness for probability, marks for the rest."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from cpor.paper.runs.record import CaseRecord, PairRecord, RelationRecord, TruthRecord
from cpor.viz.graph_drawing import draw_graph, graph_rows
from cpor.viz.svg import Plot, even_ticks


def case(objects, *relations, target=None, truth=None):
    return CaseRecord(
        item=0,
        case="<drawn>",
        target=objects[0] if target is None else target,
        objects=tuple(objects),
        relations=tuple(RelationRecord(blocked=i, blocker=j, p=p) for i, j, p in relations),
        truth=truth,
        outcome="error",
    )


def test_blockers_stand_above_what_they_obstruct():
    rows = graph_rows(case("abcd", ("a", "b", 0.9), ("b", "c", 0.8), ("a", "d", 0.7)))
    level = {label: k for k, row in enumerate(rows) for label in row}
    assert level == {"a": 0, "b": 1, "d": 1, "c": 2}


def test_of_a_contradiction_the_likelier_side_decides():
    rows = graph_rows(case("ab", ("a", "b", 0.3), ("b", "a", 0.6)))
    assert rows == [["b"], ["a"]]


def test_every_object_has_a_place_whatever_the_graph(rng):
    for _ in range(50):
        n = int(rng.integers(1, 30))
        pairs = [(int(i), int(j), 0.5) for i, j in np.argwhere(rng.random((n, n)) < 0.2) if i != j]
        drawn = case(range(n), *pairs)
        assert sorted(label for row in graph_rows(drawn) for label in row) == list(range(n))
        ElementTree.fromstring(draw_graph(drawn))


def test_marks_and_thickness():
    truth = TruthRecord(right=("b",), relations=(PairRecord(blocked="a", blocker="b"),))
    svg = draw_graph(
        case(
            ["a", "b", "c", "<d>"],
            ("a", "b", 1.0),
            ("b", "c", 0.5),
            ("c", "b", 0.1),
            ("a", "c", None),
            truth=truth,
        )
    )
    root = ElementTree.fromstring(svg)
    edges = {
        element.find("title").text.split(":")[0]: element
        for element in root.iter("g")
        if element.get("class").startswith("edge")
    }
    assert edges["b obstructs a"].get("class") == "edge true"
    assert edges["c obstructs b"].get("class") == "edge cycle"
    assert edges["b obstructs c"].get("class") == "edge cycle"
    assert edges["c obstructs a"].get("class") == "edge gap"
    width = {name: float(edge.find("path").get("stroke-width")) for name, edge in edges.items()}
    assert width["b obstructs a"] == pytest.approx(4.0)
    assert width["c obstructs b"] == pytest.approx(2.3)
    boxes = {
        re.match(r"\S+(?=:)", e.find("title").text)[0]: e.get("class")
        for e in root.iter("g")
        if "box" in e.get("class")
    }
    assert boxes == {"a": "box target", "b": "box right", "c": "box", "<d>": "box aside"}


def test_plots_are_well_formed():
    plot = Plot("a < b", "x & y", "z")
    plot.line([(0, 0), (1, 1)], "curve")
    plot.bar(0.0, 0.1, 0.5, "bar", "<half>")
    plot.dot(0.5, 0.5, "dot", '"quoted"')
    plot.label(0.1, 0.1, "<word>", "dim")
    root = ElementTree.fromstring(plot.render())
    assert root.get("aria-label") == "a < b"
    assert even_ticks(0.3) == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert even_ticks(3.9) == [0.0, 1.0, 2.0, 3.0, 4.0]
