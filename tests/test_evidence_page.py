"""Which figures count as met, and how the page of evidence is kept and written."""

import json

import pytest

from benchmarks.evidence_page import CLAIMS, Part, Row, Wanted, judge, keep, read_parts, say, write_page


@pytest.mark.parametrize(
    ("asked", "measured", "verdict"),
    [
        (">= 0.85", "0.854 [0.849, 0.859]", "met"),
        (">= 0.85", "0.849 [0.840, 0.859]", "missed"),  # the point estimate counts, not its interval
        (">= 0.85", "0.85", "met"),
        ("> 0.90", "0.90", "missed"),
        ("< 0.5 s", "0.28 s", "met"),
        ("<= 300 ms", "0.31 s", "missed"),
        ("<= 0.5 s", "467 ms (nine in ten below 565)", "met"),
        ("below 1", "0.0959", "met"),
        ("at most 2 %", "1.9% (3 of 160)", "met"),
        ("at most 2 %", "0.021", "missed"),
        ("at most 2 %", "4 of 160", "missed"),
        (">= 99 %", "109 of 110", "met"),
        (">= 80 %", "80.0% [0.7, 0.9] of 60", "met"),
        (">= 1,000", "2,828.2", "met"),
        (">= .88", "recall 0.950", "met"),
        (">= 4.5 (WCAG AA)", "5.25", "met"),
        (">= 200 a second", "199 a second", "missed"),
        ("median <= 1 s", "median 1.04 s, most 7.61 s", "missed"),
        ("<= 1e-12", "2.01e-14", "met"),
        ("< 2 GB", "1300 MiB", "met"),
        ("0", "0 of 5709 certified", "met"),
        ("0", "3 of 5709", "missed"),
        ("0", "-0.5", "missed"),
        ("40", "40", "met"),
        ("1 to 2 mm", "1.27 mm", "met"),
        ("1 to 2", "0.75", "missed"),
        (">= 0.85", "nan", "missed"),  # asked and not there is a miss
        ("0", "", "missed"),
        (".0878 / .847 / -", "0.0878 / 0.8468 / -", "met"),
        (".0878 / .847 / -", "0.0878 / 0.8458 / -", "missed"),
        (".0878 / .847", "0.0878", "missed"),
        ("all", "27 of 27", "met"),
        ("all", "26 of 27", "missed"),
        ("all", "all 51", "met"),
        ("same bytes", "same bytes", "met"),
        ("equal", "equal on 60 scenes", "met"),
        ("several", "7", "in words"),
        ("recall .88, precision .88", "recall 0.95, precision 1.0", "in words"),
        ("", "27.0 ms", "reported"),
        ("reported", "0.9", "reported"),
        ("paper, other data: .5 / .6", "0.3 / 0.4", "reported"),
    ],
)
def test_met_or_missed(asked, measured, verdict):
    assert judge(asked, measured) == verdict


def test_units_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="asked in ms, measured in mm"):
        judge("< 3 ms", "2 mm")


def test_figures_are_said_in_words():
    assert say(0.123456) == "0.123"
    assert say([0.5, None, 3]) == "0.5 / - / 3"
    with pytest.raises(TypeError, match="say in words"):
        say({"recall": 0.5})


def test_an_unknown_claim_is_refused(evidence, tmp_path):
    with pytest.raises(ValueError, match="unknown claim 'D'; the claims are: exact, calibrated"):
        evidence("D", "point", "", 1)
    with pytest.raises(ValueError, match="unknown claim"):
        keep({"speed": [("D", "point", "", "1")]}, tmp_path / "evidence.json")
    file = tmp_path / "box.json"
    file.write_text(json.dumps({"box": {"rows": [["E", "point", "", "1"]]}}))
    with pytest.raises(ValueError, match="unknown claim"):
        read_parts(file)


def test_a_rerun_replaces_its_own_part_alone(tmp_path):
    file = tmp_path / "evidence.json"
    keep({"speed": [("fast", "one", "", "1 ms"), ("fast", "two", "", "2 ms")]}, file)
    old = {"date": "2020-01-02", "rerun": "make box", "rows": [["sees", "masks", "> 0.8", "0.9", "old"]]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"masks": old}))
    keep({"speed": [("fast", "one", "", "3 ms")]}, file)
    parts = read_parts(file)
    assert parts["speed"].rows == (Row("fast", "one", "", "3 ms"),)
    assert parts["masks"] == Part("2020-01-02", (Row("sees", "masks", "> 0.8", "0.9", "old"),), "make box")


PARTS = {
    "gate": Part("2026-01-02", (Row("safe", "false alarms", "at most 2 %", "1.0%"),), "make gate"),
    "tests/a.py": Part(
        "2026-01-03",
        (
            Row("safe", "a first", "", "7"),
            Row("safe", "b | second", "0", "0"),
            Row("safe", "c third", "0", "1", "before the change"),
            Row("safe", "d fourth", "several", "3"),
        ),
    ),
}


def section(page, claim):
    return page.split(f"## {claim.capitalize()}\n")[1].split("\n## ")[0]


def test_misses_come_first_and_every_figure_has_date_and_part():
    page = write_page(PARTS, {})
    table = [line for line in section(page, "safe").splitlines() if line.startswith("| ")]
    assert table == [
        "| result | what | asked | measured | date | part |",
        "| missed | c third | 0 | 1 | 2026-01-03; before the change | `tests/a.py` |",
        "| met | false alarms | at most 2 % | 1.0% | 2026-01-02 | `gate` |",
        "| met | b / second | 0 | 0 | 2026-01-03 | `tests/a.py` |",
        "| in words | d fourth | several | 3 | 2026-01-03 | `tests/a.py` |",
        "| reported | a first |  | 7 | 2026-01-03 | `tests/a.py` |",
    ]
    assert "| [safe](#safe) | 5 | 2 | 1 |" in page
    assert "5 figures, those that miss what was asked first. 1 of them" in page
    assert "- `gate`: `make gate`" in page


def test_a_missing_long_part_is_named_with_its_command():
    wanted = {"gate": Wanted("safe", "the gate"), "masks": Wanted("sees", "masks on the test split")}
    page = write_page(PARTS, wanted)
    said = (
        "Not measured yet: masks on the test split. Run `python benchmarks/evidence_table.py --only masks`."
    )
    assert said in section(page, "sees")
    assert page.count("Not measured yet") == 1


def test_every_claim_has_a_section_and_a_line_above():
    page = write_page({}, {})
    for claim, meaning in CLAIMS.items():
        assert f"| [{claim}](#{claim}) | 0 | 0 | 0 |" in page
        assert meaning in section(page, claim)
