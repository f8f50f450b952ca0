import json

import numpy as np
import pytest
import typer
from support.data import DATA
from typer.testing import CliRunner

from cpor.cli.reproduce import add_to
from cpor.data.scene_folder import write_scene_folder
from cpor.errors import CporError
from cpor.experiments.cross_scorer import compare_scorers, parse_scorers
from cpor.experiments.geometry import measure_geometry
from cpor.experiments.probability_ablation import measure_probability_ablation
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
    found = measure_probability_ablation(*logs)
    assert [row.method for row in found.rows] == ["raw", "temperature", "platt", "isotonic", "adaptive-platt"]
    raw = found.rows[0]
    assert (raw.found.n, raw.found.n_unanswered) == (4, 1)
    assert raw.found.brier == pytest.approx((0.04 + 0.16 + 0.36 + 0.04) / 4)
    assert raw.found.ece == pytest.approx((0.2 + 0.4 + 0.6 + 0.2) / 4)
    assert raw.found.nll == pytest.approx(-np.log([0.8, 0.6, 0.4, 0.8]).mean())
    assert raw.found.auroc == 1.0
    # Two images with mean Brier .1 and .2: every resample has one of .1, .15 and .2.
    assert raw.ci["brier"] == pytest.approx((0.1, 0.2))
    for row in found.rows:
        assert row.ci["nll"].low - 1e-12 <= row.found.nll <= row.ci["nll"].high + 1e-12
    assert raw.to_json()["difference"]["ece"] == pytest.approx(0.35 - 0.1416)


def test_shared_images_are_said(logs):
    content = measure_probability_ablation(logs[0], logs[0]).to_json()
    assert content["n_shared_images"] == 10
    assert any("better than they should be" in note for note in content["notes"])
    assert any("not released" in note for note in content["notes"])


def test_probability_ablation_command(logs):
    shown = " ".join(call("probability-ablation", "--fit", logs[0], "--test", logs[1]).split())
    assert "not released" in shown
    assert "0.0619" in shown


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


def test_cross_scorer_by_hand(small):
    truth, scores = small
    (row,) = compare_scorers({"gpt4o": scores}, truth, "unobstructed").rows
    assert (row.backbone, row.n_missing) == ("GPT-4o", 1)
    # As it stands .3 names the target; less the prior of .09 the odds are 3/7 * 91/9 = 13/3: .8125.
    assert (row.plain.relation_f1, row.plain.object_f1) == (0.0, 0.5)
    assert (row.shifted.relation_f1, row.shifted.object_f1) == (1.0, 1.0)
    assert row.plain.relation_ece == pytest.approx(0.7)
    assert row.shifted.relation_ece == pytest.approx(1 - 0.8125)
    # Marginals .3 (true) and .7 (false), then .8125 and .1875.
    assert row.plain.object_ece == pytest.approx(0.7)
    assert row.shifted.object_ece == pytest.approx(0.1875)
    assert row.to_json()[1]["difference"]["object_f1"] == pytest.approx(1.0 - 0.6930)


def test_cross_scorer_command(small):
    truth, scores = small
    common = ("cross-scorer", "--truth", truth, "--scores", f"Gemma3={scores}", "--scores", f"mine={scores}")
    found = json.loads(call(*common, "--json"))
    assert [row["name"] for row in found["rows"]] == [
        *("Gemma3, plain", "Gemma3, shifted"),
        *("mine, plain", "mine, shifted"),
    ]
    assert found["rows"][2]["paper"] is None
    assert found["rows"][2]["difference"]["object_f1"] is None
    assert found["rows"][3]["ours"]["object_f1"] == 0.5  # the case without candidate counts as wrong
    assert set(found["only_authors"]) == {"Gemini Robotics-ER-1.6", "GPT-4o", "Qwen3.5", "InternVL3.5"}
    assert "only the authors' runs" in " ".join(call(*common).split())


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
    default, paper = measure_geometry(tmp_path).rows
    for row in (default, paper):
        # Of 12 targets, 1 and 2 of `cyclic` have no order and the 3 of `blind` no depth.
        assert (row.n_targets, row.n_cyclic, row.n_unanswered) == (7, 2, 3)
        # All are right but for object 1 of `wrong`: {2} for {3}, and the path (2, 1) for (3, 1).
        assert row.figures["object_f1"] == pytest.approx(6 / 7)
        assert row.figures["relation_f1"] == pytest.approx(1 / 2)
        assert row.figures["mp_ned"] == pytest.approx(0.5 / 7)
        assert row.n_pairs == 6  # 1 with 2, both ways, in the three scenes with depth
    # Scores are the same in each scene: (1, 2) high, true twice of 3; (2, 1) low, true once of 3.
    # 9 comparisons of 3 positives with 3 negatives: 2 * 2 won, 2 * 1 + 1 * 2 tied, 1 * 1 lost.
    assert default.auroc == pytest.approx((4 + 4 / 2) / 9)


def test_geometry_command(tmp_path):
    write_scene_folder(make_scene([(1, 2)]), tmp_path / "scene")
    found = json.loads(call("geometry", "--scenes", tmp_path, "--json"))
    assert [row["name"] for row in found["rows"]] == ["default", "paper"]
    assert found["paper_table"]["D3G"]["real"]["mp_ned"] == 0.3099
    assert "other data" in " ".join(call("geometry", "--scenes", tmp_path).split())
    (tmp_path / "scene" / "relations.json").unlink()
    with pytest.raises(CporError, match=r"scene has no relations\.json"):
        call("geometry", "--scenes", tmp_path)


@needs_unobench
def test_probability_ablation_of_the_released_logs(evidence):
    found = measure_probability_ablation(TRAIN, VALID)
    assert (found.n_fit, found.rows[0].found.n, found.n_shared_images) == (726, 181, 0)
    by_method = {row.method: row.found for row in found.rows}
    for method in ("temperature", "platt", "isotonic", "adaptive-platt"):
        assert by_method[method].nll < by_method["raw"].nll
        shown = [round(getattr(by_method[method], k), 4) for k in ("ece", "brier", "nll", "auroc")]
        asked = " / ".join(
            str(v) for v in found.rows[list(by_method).index(method)].to_json()["paper"].values()
        )
        evidence(
            "paper", f"valid log, {method}: ECE, Brier, NLL, AUROC", f"paper, other data: {asked}", shown
        )


@needs_unobench
def test_cross_scorer_of_the_released_log(evidence):
    (row,) = compare_scorers({"Gemini Robotics-ER-1.6": SCORES}, TRUTH, "unobstructed").rows
    assert round(row.shifted.object_f1, 4) == 0.7222
    assert round(row.shifted.relation_f1, 4) == 0.6174
    assert round(row.plain.relation_ece, 4) == 0.1393
    assert round(row.shifted.object_ece, 4) == 0.0878
    found, published = row.shifted.to_json(), (".6174", ".7222", ".0185", ".0824")
    for (name, value), asked in zip(found.items(), published, strict=True):
        evidence("paper", f"released log, {name.replace('_', ' ')}", asked, f"{value:.4f}")


@needs_scenes
def test_geometry_of_the_sample_scenes(evidence):
    for row in measure_geometry(SCENES).rows:
        assert row.n_targets + row.n_unanswered + row.n_cyclic == 50
        assert row.n_unanswered == 10  # the photograph without depth
        assert row.auroc > 0.9
        shown = [round(row.figures[k], 4) for k in ("relation_f1", "object_f1", "mp_ned")]
        asked = "paper, other data: .5711 / .6920 / .2378"
        evidence("paper", f"geometry alone, {row.preset}: relation, object F1, MP-NED", asked, shown)


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
