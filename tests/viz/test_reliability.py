"""Reliability diagrams are well-formed SVG that shows the figures."""

from xml.etree import ElementTree

import numpy as np

from cpor.viz.svg import reliability_svg


def test_a_diagram_shows_bins_and_figures():
    p = np.array([0.05, 0.15, 0.15, 0.85, 0.95, np.nan])
    label = np.array([0, 0, 1, 1, 1, 1])
    svg = reliability_svg("fused <raw>", p, label)
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter() if element.text]
    assert "fused <raw>" in texts
    assert any(text.startswith("n 5 · ECE") for text in texts)
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    assert len(circles) == 4  # bins that hold something
