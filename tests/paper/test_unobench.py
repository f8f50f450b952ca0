"""UNOBench files: read, or refused with file, line and remedy."""

import csv
import gzip
import io
import json
import math

import numpy as np
import pytest
from support.data import DATA

from cpor import CporError
from cpor.paper.unobench import (
    SCORE_COLUMNS,
    instance_reader,
    read_fused_scores,
    read_instances,
    read_truth,
)


def write_fused_scores(log, path):
    """Write a log in the form that `read_fused_scores` reads."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow((*SCORE_COLUMNS, *log.sources))
    columns = (log.case, log.blocked, log.blocker, log.p, log.label, *log.sources.values())
    for case, blocked, blocker, p, label, *beside in zip(*(c.tolist() for c in columns), strict=True):
        cells = ("" if math.isnan(value) else f"{value:.6g}" for value in (p, *beside))
        confidence, *rest = cells
        out.writerow((case, f"{blocker}->{blocked}", confidence, int(label), *rest))
    path.write_text(text.getvalue())


def write_truth(cases, path):
    """Write cases in the form that `read_truth` reads, one JSON object a line."""
    lines = (
        {
            "sample_id": case.index,
            "image_id": case.image_id,
            "query_object": case.target,
            "occlusion_paths": case.paths,
            "top_objects": sorted(case.top_objects),
        }
        | {name: tier for name in ("difficulty", "new_difficulty") if (tier := getattr(case, name))}
        for case in cases
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


UNOBENCH = DATA / "unobench"
needs_data = pytest.mark.skipif(
    not (UNOBENCH / "gt_synthetic.jsonl").is_file(),
    reason=f"no unobench/ in {UNOBENCH.parent}; set CPOR_DATA",
)
CASE = {
    "image_id": 12,
    "query_object": 4,
    "occlusion_paths": [[3, 2, 4], [5, 4]],
    "top_objects": [3, 5],
    "difficulty": "Hard",
    "new_difficulty": "Medium",
}
HEADER = "sample_id,edge,edge_confidence,label,difficulty_level\n"


def write(tmp_path, text, name="file"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_truth_is_read_from_lines_and_from_a_list(tmp_path):
    by_line = read_truth(
        write(
            tmp_path,
            json.dumps(CASE)
            + "\n\n"
            + json.dumps({**CASE, "query_object": 9, "occlusion_paths": [[9]], "top_objects": [9]}),
        )
    )
    assert by_line[0].paths == ((3, 2, 4), (5, 4))
    assert by_line[0].relations == {(2, 3), (4, 2), (4, 5)}
    assert (by_line[0].difficulty, by_line[0].new_difficulty) == ("Hard", "Medium")
    assert [case.index for case in by_line] == [0, 1]
    assert read_truth(write(tmp_path, json.dumps([CASE]))) == by_line[:1]


def test_a_truth_without_paths_is_a_free_target(tmp_path):
    (case,) = read_truth(
        write(tmp_path, json.dumps({"image": "x/image_000012.png", "query_object": 4, "occlusion_paths": []}))
    )
    assert (case.image_id, case.paths, case.top_objects) == (12, ((4,),), {4})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_object": "four"}, "line 1: query_object is 'four'"),
        ({"image_id": None}, "line 1: image_id is None"),
        ({"occlusion_paths": [[4, 3]]}, r"must end at the query object 4"),
        ({"occlusion_paths": "4"}, "must be a list of lists"),
        ({"top_objects": []}, "top_objects must be a list of ids"),
        ({"difficulty": "Impossible"}, "it must be one of: Easy, Medium, Hard"),
        ({"sample_id": 3}, "a line is missing or out of order"),
    ],
)
def test_a_bad_truth_is_refused(tmp_path, change, message):
    with pytest.raises(CporError, match=message):
        read_truth(write(tmp_path, json.dumps({**CASE, **change})))


def test_truncated_and_doubled_truth_is_refused(tmp_path):
    line = json.dumps(CASE)
    with pytest.raises(CporError, match="line 2: not JSON"):
        read_truth(write(tmp_path, line + "\n" + line[:30]))
    with pytest.raises(CporError, match="cases 0 and 1 both ask"):
        read_truth(write(tmp_path, line + "\n" + line))
    with pytest.raises(CporError, match="has no cases"):
        read_truth(write(tmp_path, ""))


def test_scores_turn_a_to_b_into_blocked_b_blocker_a(tmp_path):
    rows = "0,3->1,0.5,0,easy\n0,3->1,0.7,1,easy\n0,2->2,0.9,0,easy\n1,5->4,,1,hard\n"
    scores = read_fused_scores(write(tmp_path, HEADER + rows))
    assert len(scores) == 4, "the rows stay as they are"
    assert scores.by_case() == {0: {(1, 3): 0.7}, 1: {(4, 5): None}}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,3-1,0.5,0,e", "line 2: edge is '3-1'"),
        ("0,3->1,1.5,0,e", "line 2: edge_confidence is '1.5'"),
        ("0,3->1,nan,0,e", "line 2: edge_confidence is 'nan'"),
        ("0,3->1,0.5,2,e", "line 2: label is '2'"),
        ("x,3->1,0.5,1,e", "line 2: sample_id is 'x'"),
        ("9,3->1,0.5,1,e", "the truth has cases 0 to 4"),
        ("0,3->1", "cut short"),
    ],
)
def test_bad_scores_are_refused(tmp_path, row, message):
    with pytest.raises(CporError, match=message):
        read_fused_scores(write(tmp_path, HEADER + row + "\n"), n_cases=5)


def test_a_log_without_its_columns_is_refused(tmp_path):
    with pytest.raises(CporError, match="no column 'edge_confidence'"):
        read_fused_scores(write(tmp_path, "sample_id,edge,label\n"))


def test_a_log_with_sources_survives_a_round_trip(tmp_path):
    header = HEADER.strip().rsplit(",", 1)[0] + ",prob_edge,N_cand,p_geometry,reliability\n"
    log = read_fused_scores(write(tmp_path, header + "0,3->1,0.5,1,0.25,6,,0\n1,2->1,,0,,4,0.75,1\n"))
    assert log.sources["N_cand"].tolist() == [6.0, 4.0]
    assert np.isnan(log.sources["p_geometry"][0]) and np.isnan(log.sources["prob_edge"][1])
    for name in ("again.csv", "again.csv.gz"):
        write_fused_scores(log, tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        again = read_fused_scores(tmp_path / name)
        for column in ("case", "blocked", "blocker", "p", "label"):
            assert np.array_equal(getattr(again, column), getattr(log, column), equal_nan=column == "p")
        for column, values in log.sources.items():
            assert np.array_equal(again.sources[column], values, equal_nan=True)
    with pytest.raises(CporError, match="line 2: p_geometry is '2'"):
        read_fused_scores(write(tmp_path, header + "0,3->1,0.5,1,0.25,6,2,0\n"))


@needs_data
def test_the_truth_survives_a_round_trip(tmp_path):
    cases = read_truth(UNOBENCH / "gt_synthetic.jsonl")
    write_truth(cases, tmp_path / "gt.jsonl")
    assert read_truth(tmp_path / "gt.jsonl") == cases


def test_instance_maps_are_read_by_image(tmp_path):
    np.save(tmp_path / "image_000012.npy", np.array([[0, 3], [3, 1]], np.uint8))
    assert instance_reader(tmp_path)(12).tolist() == [[0, 3], [3, 1]]
    with pytest.raises(CporError, match="cannot read the instance map"):
        instance_reader(tmp_path)(13)
    np.save(tmp_path / "bad.npy", np.array([[0.5]]))
    with pytest.raises(CporError, match="not ids"):
        read_instances(tmp_path / "bad.npy")


@needs_data
def test_the_released_files():
    cases = read_truth(UNOBENCH / "gt_synthetic.jsonl")
    scores = read_fused_scores(UNOBENCH / "scores_synthetic.csv", len(cases))
    assert (len(cases), len({case.image_id for case in cases})) == (1800, 1400)
    assert len(scores) == 6467
    relations = scores.by_case()
    assert (len(relations), sum(map(len, relations.values()))) == (1553, 6381)
    heads = sum({path[0] for path in case.paths} != case.top_objects for case in cases)
    assert heads == 89, "top_objects is not always the set of path heads"
