"""`cpor evaluate`: damaged prediction files are counted as asked, listed, and never better for it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cpor import CporError
from cpor.cli.reproduce_command import add_to
from cpor.paper.evaluate import FIGURES, evaluate
from cpor.paper.paths import Prediction
from cpor.paper.predictions import write_unograsp
from cpor.paper.unobench import UnobenchCase

CASES = [
    UnobenchCase(0, 1, 1, ((1,),), frozenset({1}), "Easy", "No-Occ"),
    UnobenchCase(1, 1, 2, ((3, 2),), frozenset({3}), "Medium", "Easy"),
    UnobenchCase(2, 2, 1, ((3, 2, 1),), frozenset({3}), "Hard", "Medium"),
    UnobenchCase(3, 3, 5, ((5,),), frozenset({5}), "Easy", "No-Occ"),
]
PERFECT = {case.index: Prediction.from_paths(case.top_objects, case.paths) for case in CASES}

app = typer.Typer()
add_to(app)


@pytest.fixture
def truth(tmp_path):
    path = tmp_path / "gt.jsonl"
    path.write_text(
        "\n".join(
            json.dumps(
                {
                    "image_id": case.image_id,
                    "query_object": case.target,
                    "occlusion_paths": case.paths,
                    "top_objects": sorted(case.top_objects),
                    "difficulty": case.difficulty,
                    "new_difficulty": case.new_difficulty,
                }
            )
            for case in CASES
        )
    )
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def score(path, truth, missing="wrong", *more):
    return json.loads(run(path, truth, "--json", "--missing", missing, *more))


def test_a_perfect_file_is_perfect(tmp_path, truth):
    path = tmp_path / "p.jsonl"
    write_unograsp(path, CASES, PERFECT)
    found = score(path, truth)
    assert found["overall"] == {
        **dict.fromkeys(FIGURES, 1.0),
        "mp_ned": 0.0,
        "n": 4,
    }
    assert found["tiers"]["Easy"]["relation_f1"] is None
    own = score(path, truth, "wrong", "--tiers", "new_difficulty")
    assert {tier: figures["n"] for tier, figures in own["tiers"].items()} == {
        "No-Occ": 2,
        "Easy": 1,
        "Medium": 1,
        "Hard": 0,
    }


def damaged(tmp_path):
    """Case 0: no record. 1: truncated line. 2: reply without tags. 3: empty answer. And an unknown case."""
    path = tmp_path / "damaged.jsonl"
    write_unograsp(path, CASES[1:2], PERFECT)
    cut = path.read_text()[:50]
    rest = [
        {"image_id": 2, "query_object": 1, "model_output": "remove the box first"},
        {
            "image_id": 3,
            "query_object": 5,
            "model_output": "<think>Object 5 is not occluded.</think><answer>[]</answer>",
        },
        {"image_id": 77, "query_object": 1, "model_output": "<answer>[1]</answer>"},
    ]
    path.write_text(cut + "\n" + "\n".join(json.dumps(record) for record in rest))
    return path


def test_damage_is_listed_and_counts_as_asked(tmp_path, truth, evidence):
    path = damaged(tmp_path)
    found = {option: score(path, truth, option) for option in ("wrong", "skip", "unobstructed")}
    for option, report in found.items():
        assert report["counted_as"] == option
        assert report["missing"] == {"count": 2, "first": [0, 1]}
        assert {kind: p["count"] for kind, p in report["problems"].items()} == {
            "truncated_line": 1,
            "no_tags": 1,
            "empty_answer": 1,
            "unknown_case": 1,
        }
        assert report["problems"]["no_tags"]["first"][0]["line"] == 2
    # Wrong: nothing right but the path of case 3. An empty answer names nothing and scores 0 always.
    assert found["wrong"]["overall"]["object_f1"] == 0.0
    assert found["wrong"]["overall"]["n"] == 4
    assert found["wrong"]["overall"]["mp_ned"] == pytest.approx(3 / 4)
    # Skipped: case 3 alone is left.
    assert found["skip"]["overall"]["n"] == 1
    assert found["skip"]["overall"]["object_f1"] == 0.0
    assert found["skip"]["overall"]["relation_f1"] is None
    # Unobstructed: case 0 is right by that reading, 1 and 2 are not; paths cost 0, 1/2, 2/3, 0.
    assert found["unobstructed"]["overall"]["object_f1"] == pytest.approx(1 / 4)
    assert found["unobstructed"]["overall"]["mp_ned"] == pytest.approx((1 / 2 + 2 / 3) / 4)
    evidence(
        "safe", "damaged prediction file: problems listed, default counts them wrong", "all", "5 of 5 kinds"
    )


def test_leaving_cases_out_never_helps_by_default(tmp_path, truth):
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    write_unograsp(whole, CASES, PERFECT)
    for dropped in range(4):
        write_unograsp(part, [case for case in CASES if case.index != dropped], PERFECT)
        full, less = score(whole, truth)["overall"], score(part, truth)["overall"]
        assert less["object_f1"] < full["object_f1"]
        assert less["mp_ned"] > full["mp_ned"]


def test_challenge_files_have_no_path_figures(tmp_path, truth):
    path = tmp_path / "challenge.jsonl"
    records = ({"test_index": k, "output": sorted(each.objects)} for k, each in PERFECT.items())
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = score(path, truth, "unobstructed")
    assert found["overall"]["object_f1"] == 1.0
    assert found["overall"]["relation_f1"] is None
    assert found["overall"]["mp_ned"] is None


def test_the_table_names_what_is_wrong(tmp_path, truth):
    text = " ".join(run(damaged(tmp_path), truth).split())
    assert "2 of 4 cases have a record; 2 have none (0; 1)" in text
    assert "no_tags: 1 (line 2: remove the box first)" in text


def test_per_case_values_are_kept():
    found = evaluate(CASES, {1: PERFECT[1]})
    assert found.values["object_f1"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found.values["mp_ned"].tolist() == [1.0, 0.0, 1.0, 1.0]


def test_bad_options_are_refused(tmp_path, truth):
    path = tmp_path / "p.jsonl"
    write_unograsp(path, CASES, PERFECT)
    with pytest.raises(CporError, match="unknown tier field"):
        run(path, truth, "--tiers", "easy")


def test_the_example_files_are_read():
    examples = Path(__file__).parents[2] / "examples"
    found = score(examples / "predictions.jsonl", examples / "truth.jsonl")
    assert found["answered"] == 4 and not found["problems"]
    assert found["tiers"]["Easy"]["object_f1"] == 1.0
    assert found["tiers"]["Hard"]["object_f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["overall"]["object_f1"] == pytest.approx((1 + 1 + 0 + 2 / 3) / 4)
    assert found["balanced"]["object_f1"] == pytest.approx((1 + 0 + 1 + 2 / 3) / 4)
