"""axe-core, the accessibility checker, in a page of the browser."""

from functools import cache
from importlib.resources import files

import pytest

SERIOUS = ("serious", "critical")


@cache
def _source() -> str:
    pytest.importorskip("axe_playwright_python", reason="needs axe-core (extra dev)")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def findings(page) -> list[dict]:
    """What axe finds in a page as it is now: impact, rule and the elements, one entry a rule."""
    page.evaluate(_source())
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        {"impact": each["impact"], "rule": each["id"], "elements": [node["html"] for node in each["nodes"]]}
        for each in found
    ]


def serious_findings(page) -> list[dict]:
    """Those that keep somebody from using it."""
    return [each for each in findings(page) if each["impact"] in SERIOUS]
