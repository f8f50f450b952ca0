import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from support.data import DATA
from typer.testing import CliRunner

from cpor.cli.reproduce_command import add_to
from cpor.errors import CporError
from cpor.io.scene_folder import write_scene_folder
from cpor.paper.cross_scorer import compare_scorers, parse_scorers
from cpor.paper.geometry_log import measure_geometry
from cpor.paper.probability_ablation import (
    FUSED,
    apply_stages,
    calibrator_table,
    cross_fit,
    fit_stages,
    folds_of,
    measure_stages,
)
from cpor.paper.table import PUBLISHED
from cpor.paper.unobench import read_fused_scores, read_truth
from cpor.scene import (
    BlockedBy,
    Camera,
    DetectedObject,
    Intrinsics,
    MaskCrop,
    Observation,
    Scene,
    TrueRelations,
)

TRAIN, VALID = (DATA / "unobench" / "calibration" / f"{k}_adaptive.csv" for k in ("train", "valid"))
SCORES, TRUTH = DATA / "unobench" / "scores_synthetic.csv", DATA / "unobench" / "gt_synthetic.jsonl"
SCENES = DATA / "metagraspnet"
SIM = Path(__file__).parents[2] / "examples" / "scenes" / "sim"
needs_unobench = pytest.mark.skipif(
    not all(path.is_file() for path in (TRAIN, VALID, SCORES, TRUTH)),
    reason=f"no unobench/ in {DATA}; set CPOR_DATA",
)
needs_scenes = pytest.mark.skipif(
    not (SCENES / "sim_0").is_dir(), reason=f"no metagraspnet/ in {DATA}; set CPOR_DATA"
)

app = typer.Typer()
add_to(app)


def call(*arguments):
    result = CliRunner().invoke(app, ["experiment", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def write_log(path, rows):
    path.write_text("image,prob_edge,N_cand,label\n" + "\n".join(",".join(map(str, row)) for row in rows))
    return path


@pytest.fixture
def logs(tmp_path, rng):
    p = rng.random(60).round(3)
    fit = [(f"a{k // 6}", p[k], 6, int(rng.random() < 0.2 + 0.5 * p[k])) for k in range(60)]
    test = [("b0", 0.8, 6, 1), ("b0", 0.4, 6, 0), ("b1", 0.6, 4, 0), ("b1", 0.2, 4, 0), ("b1", "", 4, 1)]
    return write_log(tmp_path / "fit.csv", fit), write_log(tmp_path / "test.csv", test)


def test_probability_ablation_by_hand(logs):
    table = calibrator_table(*logs)
    rows = {row.name: row for row in table.rows}
    assert list(rows)[:5] == ["raw", "temperature", "platt", "isotonic", "adaptive-platt"]
    raw = rows["raw"]
    assert table.notes[0] == "Fitted to 60 pairs, measured on 4 others; 1 had no answer."
    assert raw.ours["brier"] == pytest.approx((0.04 + 0.16 + 0.36 + 0.04) / 4)
    assert raw.ours["ece"] == pytest.approx((0.2 + 0.4 + 0.6 + 0.2) / 4)
    assert raw.ours["nll"] == pytest.approx(-np.log([0.8, 0.6, 0.4, 0.8]).mean())
    assert raw.ours["auroc"] == 1.0
    # Two images with mean Brier .1 and .2: every resample has one of .1, .15 and .2.
    assert raw.ci["brier"] == pytest.approx((0.1, 0.2))
    for row in table.rows[:5]:
        assert row.ci["nll"].low - 1e-12 <= row.ours["nll"] <= row.ci["nll"].high + 1e-12
    assert table.to_json()["rows"][0]["difference"]["ece"] == pytest.approx(0.35 - 0.1416)
    assert all(not row.ours and "Needs raw scores and geometry" in row.why for row in table.rows[5:])


def test_shared_images_are_said(logs):
    notes = calibrator_table(logs[0], logs[0]).notes
    assert any("10 images are in both logs" in note for note in notes)
    assert any("not released" in note for note in notes)


def test_probability_ablation_command(logs):
    shown = " ".join(call("probability-ablation", "--fit", logs[0], "--test", logs[1]).split())
    assert "not released" in shown
    assert "0.0619" in shown
    with pytest.raises(CporError, match="either --fit together with --test, or --pairs"):
        call("probability-ablation", "--fit", logs[0])


@needs_unobench
def test_scene_conditioning_loses_to_platt_on_the_authors_validation_log(evidence):
    rows = {row.name: row.ours["nll"] for row in calibrator_table(TRAIN, VALID).rows if row.ours}
    assert (round(rows["adaptive-platt"], 4), round(rows["platt"], 4)) == (0.5529, 0.5509)
    said = f"{rows['adaptive-platt']:.4f} against {rows['platt']:.4f}"
    evidence("paper", "NLL on the authors' validation log, scene-conditioned against Platt", "reported", said)


def write_benchmark(tmp_path, name="scores.csv", gain=3.0, seed=0, more=()):
    """Twelve images of three objects; the raw score and geometry know the relation, each with noise."""
    noise = np.random.default_rng(seed)
    truth, log = [], ["sample_id,edge,edge_confidence,label,prob_edge,N_cand,p_geometry,reliability"]
    for k in range(12):
        blocked = k % 3 != 0
        truth.append(
            {
                "image_id": k,
                "query_object": 1,
                "occlusion_paths": [[2, 1]] if blocked else [[1]],
                "top_objects": [2] if blocked else [1],
                "difficulty": "Medium" if blocked else "Easy",
            }
        )
        for edge, label in (("2->1", blocked), ("3->1", False), ("1->2", False), ("3->2", k % 4 == 0), *more):
            p, g = (1 / (1 + np.exp(-gain * (label - 0.5) - noise.normal())) for _ in range(2))
            log.append(f"{k},{edge},{p:.4f},{int(label)},{p:.4f},4,{g:.4f},{1.0 if k % 5 else 0.5}")
    (tmp_path / "gt.jsonl").write_text("\n".join(map(json.dumps, truth)))
    (tmp_path / name).write_text("\n".join(log))
    return tmp_path / "gt.jsonl", tmp_path / name


def test_stages_are_fitted_to_the_other_half_of_the_images(tmp_path):
    truth, scores = write_benchmark(tmp_path)
    cases, log = read_truth(truth), read_fused_scores(scores)
    stages = cross_fit(cases, log)
    assert set(stages) == {row for row in PUBLISHED["prob-ablation"] if not row.startswith("objects")}
    half, quarter = folds_of(cases, log)
    fitted = fit_stages(log, ~half & quarter, ~half & ~quarter)
    for name, p in apply_stages(fitted, log, half).items():
        assert stages[name][half] == pytest.approx(p)
    # What is measured does not enter its own fit: other labels there change nothing.
    other = dataclasses.replace(log, label=np.where(half, ~log.label, log.label))
    assert cross_fit(cases, other)[FUSED][half] == pytest.approx(stages[FUSED][half])
    with pytest.raises(CporError, match="need the columns prob_edge, N_cand, p_geometry, reliability"):
        cross_fit(cases, dataclasses.replace(log, sources={}))


def test_every_row_of_the_stage_table_is_computed(tmp_path):
    truth, scores = write_benchmark(tmp_path)
    found = measure_stages(read_truth(truth), read_fused_scores(scores), missing="unobstructed")
    assert [row.name for row in found.table.rows] == list(PUBLISHED["prob-ablation"])
    assert all(row.ours for row in found.table.rows)
    assert set(found.earlier) == {"raw", "adaptive-platt + PM"}


CASES = [
    {"image_id": 1, "query_object": 1, "occlusion_paths": [[1]], "top_objects": [1], "difficulty": "Easy"},
    {
        "image_id": 1,
        "query_object": 2,
        "occlusion_paths": [[3, 2]],
        "top_objects": [3],
        "difficulty": "Medium",
    },
]


@pytest.fixture
def small(tmp_path):
    truth, scores = tmp_path / "gt.jsonl", tmp_path / "scores.csv"
    truth.write_text("\n".join(json.dumps(case) for case in CASES))
    scores.write_text("sample_id,edge,edge_confidence,label\n1,3->2,0.3,1\n")
    return truth, scores


def test_a_log_of_fused_scores_gives_the_pipelines_row(small):
    truth, scores = small
    rows = {row.name: row for row in compare_scorers({"gpt4o": scores}, truth, "unobstructed").rows}
    # Less the prior of .09 the odds are 3/7 * 91/9 = 13/3: .8125. Reliability is that of .3.
    found = rows["GPT-4o, pipeline"]
    assert (found.ours["relation_f1"], found.ours["object_f1"]) == (1.0, 1.0)
    assert found.ours["relation_ece"] == found.ours["object_ece"] == pytest.approx(0.7)
    assert found.paper["object_f1"] == "0.6930"
    assert not rows["GPT-4o, raw"].ours
    assert "the authors released none" in rows["Gemma3, raw"].why


def test_other_scorers_go_through_the_pipeline_of_the_first(tmp_path):
    truth, good = write_benchmark(tmp_path)
    _, weak = write_benchmark(tmp_path, "weak.csv", gain=1.0, seed=1, more=[("1->3", False)])
    table = compare_scorers({"mine": good, "weak": weak}, truth, "unobstructed", shift=0.5)
    rows = {row.name: row.ours for row in table.rows if row.ours}
    assert list(rows) == ["mine, raw", "mine, pipeline", "weak, raw", "weak, pipeline"]
    # By hand: calibrator and weights of the first log, base rate of the second's own pool.
    cases, reference, log = read_truth(truth), read_fused_scores(good), read_fused_scores(weak)
    half, quarter = folds_of(cases, reference)
    fitted = fit_stages(reference, ~half & quarter, ~half & ~quarter)
    there = folds_of(cases, log)[0]
    expected = apply_stages(fitted, log, there, prior=float(log.label[~there].mean()))
    assert cross_fit(cases, reference, log)[FUSED][there] == pytest.approx(expected[FUSED])
    assert not np.allclose(expected[FUSED], apply_stages(fitted, log, there)[FUSED])


def test_cross_scorer_command(small):
    truth, scores = small
    common = ("cross-scorer", "--truth", truth, "--scores", f"Gemma3={scores}", "--scores", f"mine={scores}")
    rows = {row["name"]: row for row in json.loads(call(*common, "--json"))["rows"]}
    assert rows["mine, pipeline"]["paper"] is None
    assert rows["mine, pipeline"]["ours"]["object_f1"] == 0.5  # the case without candidate counts as wrong
    assert rows["Gemma3, pipeline"]["paper"]["object_f1"] == 0.6791
    assert "the authors released none" in " ".join(call(*common).split())


@pytest.mark.parametrize(
    ("given", "message"), [(["a.csv"], "write NAME=FILE"), (["a=1.csv", "a=2.csv"], "'a' is given twice")]
)
def test_bad_scorers_are_named(given, message):
    with pytest.raises(CporError, match=message):
        parse_scorers(given)


def make_scene(pairs, depth=True):
    """Object 2 lies on object 1 and hides half of it; object 3 stands apart."""
    ids = np.zeros((60, 90), np.int32)
    ids[20:40, 10:20], ids[15:45, 20:40], ids[20:40, 70:80] = 1, 2, 3
    metres = np.full(ids.shape, 1.0, np.float32)
    metres[ids == 2] = 0.8
    below = np.zeros(ids.shape, bool)
    below[20:40, 10:30] = True
    amodal = {1: below, 2: ids == 2, 3: ids == 3}
    rgb = np.zeros((*ids.shape, 3), np.uint8)
    return Scene(
        Observation(rgb, metres if depth else None, Camera(Intrinsics(100, 100, 45, 30), np.eye(4))),
        tuple(DetectedObject(k, MaskCrop.from_mask(mask)) for k, mask in amodal.items()),
        ids,
        true_occlusion=TrueRelations(frozenset({1, 2, 3}), frozenset(BlockedBy(*p) for p in pairs)),
    )


def test_geometry_by_hand(tmp_path):
    write_scene_folder(make_scene([(1, 2)]), tmp_path / "right")
    write_scene_folder(make_scene([(1, 3)]), tmp_path / "wrong")
    write_scene_folder(make_scene([(1, 2), (2, 1)]), tmp_path / "cyclic")
    write_scene_folder(make_scene([(1, 2)], depth=False), tmp_path / "blind")
    table = measure_geometry(tmp_path)
    assert table.notes[0].startswith("10 targets of 4 scenes; left out 2")
    rows = {row.name: row.ours for row in table.rows if row.ours}
    assert list(rows) == [f"true masks, {name} formula" for name in ("default", "paper", "paper pipeline")]
    for row in rows.values():
        # Wrong: object 1 of `wrong` ({2} for {3}, path (2, 1) for (3, 1)), and object 1 of `blind`, where no
        # pair has depth and so none is a candidate ({1} for {2}, path (1,) for (2, 1)).
        assert row["object_f1"] == pytest.approx(8 / 10)
        assert row["relation_f1"] == pytest.approx(1 / 3)
        assert row["mp_ned"] == pytest.approx((0.5 + 0.5) / 10)
        assert row["n_pairs"] == 6  # 1 with 2, both ways, in the three scenes with depth
    # Scores are the same in each scene: (1, 2) high, true twice of 3; (2, 1) low, true once of 3.
    # 9 comparisons of 3 positives with 3 negatives: 2 * 2 won, 2 * 1 + 1 * 2 tied, 1 * 1 lost.
    assert rows["true masks, default formula"]["auroc"] == pytest.approx((4 + 4 / 2) / 9)


def test_an_object_that_no_mask_shows_is_wrong_and_boxes_hide_more(tmp_path):
    write_scene_folder(make_scene([(1, 2)]), tmp_path / "right")
    rows = {row.name: row.ours for row in measure_geometry(tmp_path, ("true", "boxes", "classical")).rows}
    assert rows["true masks, paper formula"]["object_f1"] == 1.0
    # The classical segmenter finds nothing on a picture without a support plane: all three targets are wrong.
    assert (
        rows["classical masks, paper formula"]["object_f1"] <= rows["boxes masks, paper formula"]["object_f1"]
    )


def test_geometry_command(tmp_path):
    write_scene_folder(make_scene([(1, 2)]), tmp_path / "scene")
    found = json.loads(call("geometry", "--scenes", tmp_path, "--json"))
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["D3G, real"]["paper"]["mp_ned"] == 0.3099
    assert rows["true masks, paper formula"]["verdict"]["object_f1"] == "not in the paper"
    assert "Other data" in " ".join(call("geometry", "--scenes", tmp_path).split())
    with pytest.raises(CporError, match="unknown --masks 'mine'"):
        call("geometry", "--scenes", tmp_path, "--masks", "mine")
    (tmp_path / "scene" / "relations.json").unlink()
    with pytest.raises(CporError, match=r"scene has no relations\.json"):
        call("geometry", "--scenes", tmp_path)


def test_every_target_of_the_shipped_scenes_counts(evidence):
    table = measure_geometry(SIM)
    assert table.notes[0] == "128 targets of 12 scenes; left out 0 whose true relations have a cycle."
    for row in table.rows:
        if row.ours:
            shown = [round(row.ours[k], 4) for k in ("relation_f1", "object_f1", "mp_ned")]
            asked = "paper, other data: .5711 / .6920 / .2378"
            point = f"geometry alone, examples/scenes/sim, {row.name}: relation, object F1, MP-NED"
            evidence("paper", point, asked, shown)


@needs_unobench
def test_probability_ablation_of_the_released_logs(evidence):
    table = calibrator_table(TRAIN, VALID)
    assert table.notes[0] == "Fitted to 726 pairs, measured on 181 others; 0 had no answer."
    rows = {row.name: row for row in table.rows if row.ours}
    for method in ("temperature", "platt", "isotonic", "adaptive-platt"):
        assert rows[method].ours["nll"] < rows["raw"].ours["nll"]
        shown = [round(rows[method].ours[k], 4) for k in ("ece", "brier", "nll", "auroc")]
        asked = " / ".join(rows[method].paper.values())
        evidence(
            "paper", f"valid log, {method}: ECE, Brier, NLL, AUROC", f"paper, other data: {asked}", shown
        )


@needs_unobench
def test_cross_scorer_of_the_released_log(evidence):
    table = compare_scorers({"Gemini Robotics-ER-1.6": SCORES}, TRUTH, "unobstructed")
    (row,) = (row for row in table.rows if row.ours)
    shown = {name: f"{value:.4f}" for name, value in row.ours.items()}
    # Reliability before the decoding shift.
    assert list(shown.values()) == ["0.6174", "0.7222", "0.1393", "0.0810"]
    for name, asked in row.paper.items():
        evidence("paper", f"Table cross-vlm, {row.name}: {name.replace('_', ' ')}", asked, shown[name])


@needs_scenes
def test_geometry_of_the_sample_scenes(evidence):
    for row in measure_geometry(SCENES).rows:
        if not row.ours:
            continue
        assert row.ours["auroc"] > (0.9 if "pipeline" not in row.name else 0.8)
        shown = [round(row.ours[k], 4) for k in ("relation_f1", "object_f1", "mp_ned")]
        asked = "paper, other data: .5711 / .6920 / .2378"
        evidence("paper", f"geometry alone, {row.name}: relation, object F1, MP-NED", asked, shown)


@needs_unobench
def test_acyclicity_helps_where_relations_conflict():
    printed = json.loads(call("mechanism", "--scores", SCORES, "--truth", TRUTH, "--json"))
    f1 = {row["name"]: row["ours"]["object_f1"] for row in printed["cpor-ablation B"]["rows"]}
    assert f1["mu = 0, product"] == f1["mu = 0, DAG"]
    assert f1["mu > 0, DAG"] > f1["mu > 0, product"] + 0.1
    assert printed["mu"]["rows"][3]["ours"]["positive"] == 87


@needs_unobench
def test_a_case_without_scores_has_no_probability_to_measure():
    with pytest.raises(CporError, match="--missing wrong has no meaning here"):
        call("mechanism", "--scores", SCORES, "--truth", TRUTH, "--missing", "wrong")
