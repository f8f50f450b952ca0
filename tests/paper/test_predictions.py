"""Prediction files: written, read back, and every kind of damage listed."""

import json

import numpy as np
import pytest

from cpor import CporError
from cpor.paper.paths import Prediction
from cpor.paper.predictions import (
    read_predictions,
    think_and_answer,
    write_unograsp,
)
from cpor.paper.unobench import UnobenchCase
from cpor.semantics.unograsp import parse_paths, parse_reply

CASES = [
    UnobenchCase(0, 7, 4, ((3, 2, 4), (5, 4)), frozenset({3, 5})),
    UnobenchCase(1, 7, 3, ((3,),), frozenset({3})),
    UnobenchCase(2, 8, 1, ((2, 1),), frozenset({2})),
]
PREDICTIONS = {
    0: Prediction.from_paths({3, 5}, [(3, 2, 4), (5, 4)]),
    1: Prediction.unobstructed(3),
    2: Prediction.from_paths(set(), [(2, 1)]),
}


def lines(path, *records):
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


def reply(text, image=7, target=4):
    return {"image_id": image, "query_object": target, "model_output": text}


def test_the_reply_has_the_form_others_read():
    assert think_and_answer(4, PREDICTIONS[0]) == (
        "<think>Path1: Object 4 is occluded by object 2. Object 2 is occluded by object 3. "
        "Path2: Object 4 is occluded by object 5.</think><answer>[3, 5]</answer>"
    )
    assert think_and_answer(3, PREDICTIONS[1]) == (
        "<think>Path1: Object 3 is not occluded.</think><answer>[3]</answer>"
    )


def test_unograsp_files_round_trip(tmp_path):
    path = tmp_path / "predictions.jsonl"
    write_unograsp(path, CASES, PREDICTIONS)
    assert list(json.loads(path.read_text().splitlines()[0])) == ["image_id", "query_object", "model_output"]
    found = read_predictions(path, CASES)
    assert found.has_paths
    for k, prediction in PREDICTIONS.items():
        assert found.answers[k].objects == prediction.objects
        assert found.answers[k].paths == prediction.paths
    assert [p.kind for p in found.problems] == ["empty_answer"]


def test_challenge_files_are_read(tmp_path):
    path = tmp_path / "challenge.jsonl"
    lines(path, *({"test_index": k, "output": sorted(each.objects)} for k, each in PREDICTIONS.items()))
    found = read_predictions(path, CASES)
    assert not found.has_paths
    assert {k: answer.objects for k, answer in found.answers.items()} == {
        k: prediction.objects for k, prediction in PREDICTIONS.items()
    }


def test_points_are_read_through_instance_maps(tmp_path):
    image = np.zeros((10, 20), np.int32)
    image[2:4, 5:9] = 3
    image[6:9, 12:16] = 5
    path = tmp_path / "points.jsonl"
    lines(path, {"test_index": 0, "output": [[6, 3], [13, 7]]}, {"test_index": 2, "output": [[0, 0]]})
    found = read_predictions(path, CASES, lambda image_id: image)
    assert found.answers[0].objects == {3, 5}
    assert found.answers[2].objects == {0}, "a point on no object counts as a wrong object"
    assert [p.kind for p in found.problems] == ["off_object"]
    with pytest.raises(CporError, match="--annotations"):
        read_predictions(path, CASES)


def test_the_files_of_unograsps_inference_are_read(tmp_path):
    # Its records name the image by its file too, and hold the question.
    said = {
        "index": 0,
        "image": "/data/images/image_000007.png",
        "query_object": 4,
        "human": "Grasp object 4?",
    }
    think = "<think>Path1: Object 4 is occluded by object 2.</think>\n<answer>[2]</answer>"
    found = read_predictions(lines(tmp_path / "a.jsonl", said | {"model_output": think}), CASES)
    assert found.answers[0].objects == {2} and found.answers[0].paths == ((2, 4),)
    assert not found.problems


@pytest.mark.parametrize("output", ["[3, 5]", [3, 5], "```json\n[3, 5]\n```"])
def test_plain_lists_are_answers_without_paths(tmp_path, output):
    found = read_predictions(lines(tmp_path / "a.jsonl", reply(output)), CASES)
    assert found.answers[0].objects == {3, 5}
    assert found.answers[0].paths is None
    assert not found.has_paths and not found.problems


def test_a_list_of_records_is_a_file_too(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([reply("[3, 5]"), {"test_index": 2, "output": [2]}], indent=1))
    found = read_predictions(path, CASES)
    assert {k: answer.objects for k, answer in found.answers.items()} == {0: {3, 5}, 2: {2}}


def test_answers_in_words_with_points_are_read_through_instance_maps(tmp_path):
    image = np.zeros((10, 20), np.int32)
    image[2:4, 5:9], image[6:9, 12:16] = 3, 4
    text = (
        "<think>Path1: the mug at (13, 7) is occluded by the box at (6.0, 3).</think>"
        "<answer><points 6 3>box</points></answer>"
    )
    found = read_predictions(lines(tmp_path / "a.jsonl", reply(text)), CASES, lambda image_id: image)
    assert found.answers[0].objects == {3}
    assert found.answers[0].paths == ((3, 4),)


def test_paths_are_read_as_the_benchmark_reads_them():
    assert parse_paths("Path1: Object 4 is occluded by object 2. Object 2 is occluded by object 3.") == (
        (3, 2, 4),
    )
    assert parse_paths(
        "Object 4 is occluded by object 2 with the occlusion ratio of 9%. Object 2 is not occluded."
    ) == ((2, 4),)
    assert parse_paths("Object 4 is not occluded.") == ((4,),)
    assert parse_paths("nothing here") == ()


@pytest.mark.parametrize(
    ("record", "kind", "objects", "paths"),
    [
        (reply("the box is in the way"), "no_tags", None, None),
        (reply(""), "no_tags", None, None),
        (reply("<answer>[3]</answer>"), "no_path", frozenset({3}), None),
        (reply("<think>Object 4 is not occluded.</think>"), "no_answer", None, ((4,),)),
        (reply("<think>Object 4 is not occluded.</think><answer>[x]</answer>"), "no_answer", None, ((4,),)),
        (
            reply("<think>Object 4 is not occluded.</think><answer>[]</answer>"),
            "empty_answer",
            frozenset(),
            ((4,),),
        ),
        ({"test_index": 0, "output": "3"}, "no_answer", None, None),
        ({"test_index": 0, "output": []}, "empty_answer", frozenset(), None),
    ],
)
def test_what_cannot_be_read_is_no_answer(tmp_path, record, kind, objects, paths):
    found = read_predictions(lines(tmp_path / "p.jsonl", record), CASES)
    assert [p.kind for p in found.problems] == [kind]
    assert found.answers[0].objects == objects
    assert found.answers[0].paths == paths


def test_lines_that_belong_to_no_case_are_listed(tmp_path):
    good = reply(think_and_answer(4, PREDICTIONS[0]))
    path = lines(
        tmp_path / "p.jsonl",
        good,
        json.dumps(good)[:40],
        reply("<answer>[1]</answer>", image=99),
        {"test_index": 17, "output": [1]},
        {"something": "else"},
        good,
    )
    found = read_predictions(path, CASES)
    assert set(found.answers) == {0}
    assert [(p.line, p.kind) for p in found.problems] == [
        (2, "truncated_line"),
        (3, "unknown_case"),
        (4, "unknown_case"),
        (5, "truncated_line"),
        (6, "duplicate"),
    ]


def test_a_file_of_something_else_is_refused(tmp_path):
    with pytest.raises(CporError, match="holds no prediction"):
        read_predictions(lines(tmp_path / "p.jsonl", {"a": 1}), CASES)
    with pytest.raises(CporError, match="cannot read"):
        read_predictions(tmp_path / "absent.jsonl", CASES)


def test_ids_of_thousands_of_digits_do_not_end_the_reading():
    babble = "9" * 5000
    answer, _ = parse_reply(
        f"<think>Object 4 is occluded by object {babble}.</think><answer>[{babble}]</answer>"
    )
    assert answer.objects is None or 4 not in answer.objects
    assert answer.paths is not None and answer.paths[0][-1] == 4
