"""A simulated data set seen through our networks, true masks and depth: folders, records, log, tables."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from support.sizes import sized
from typer.testing import CliRunner

from cpor import CporError
from cpor.cli.app import app
from cpor.errors import InputFileError
from cpor.evidence import GeometrySettings
from cpor.fitting.score_log import read_score_log
from cpor.io.scene_folder import read_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.paper.chain import STEPS, measure_chain
from cpor.paper.everything import SHIPPED
from cpor.paper.first_decisions import forced_systems, measure_first_decisions
from cpor.paper.pair_log import LoggedCase, log_pairs, read_pair_log, write_pair_log
from cpor.paper.perceived import PerceptionSettings, perceive_split, read_perceived
from cpor.paper.segmentation import measure_masks
from cpor.sim.dataset.make import plan_dataset, write_dataset
from cpor.sim.dataset.manifest import DatasetSettings, read_manifest, read_split
from cpor.truth import right_actions


def figures_of(perceived):
    """Means over the frames and objects of a perceived split."""
    return measure_masks([(r.name, r.quality) for r in perceived.records], np.random.default_rng(0))


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    out = tmp_path_factory.mktemp("split") / "set"
    write_dataset(plan_dataset(3, 11, settings=DatasetSettings(width=320, height=240)), out)
    return out


@pytest.fixture(scope="module")
def seen(split, tmp_path_factory):
    """By segmenter; ours with our scorer."""
    out = tmp_path_factory.mktemp("seen")
    return {
        kind: perceive_split(split, out / kind, PerceptionSettings(segmenter=kind, scorer=kind == "ours"))
        for kind in ("ours", "given", "depth")
    }


def test_given_masks_are_the_truth_itself(split, seen):
    assert figures_of(seen["given"])["visible f@.75"].value == 1.0
    for case, again in zip(read_split(split), read_split(seen["given"].folder), strict=True):
        assert again.target == case.target
        assert again.scene.true_occlusion == case.scene.true_occlusion
        assert again.scene.true_sweep == case.scene.true_sweep


def test_our_networks_see_the_scenes(split, seen):
    perceived = seen["ours"]
    assert perceived.scorer.startswith("embedded")
    for case, record in zip(read_split(split), perceived.records, strict=True):
        scene = read_scene_folder(perceived.folder / record.name)
        assert set(record.owner) == set(scene.ids) and len(scene.ids) > 2
        assert scene.sources.scorer == perceived.scorer
        assert perceived.scorer.startswith(f"{scene.semantic_scores.scorer} @")
        assert set(scene.ids) <= scene.true_occlusion.objects
        # What is right among the objects found is right in truth.
        if record.found:
            assert record.owner[record.target] == case.target
            true = case.scene.true_occlusion.pairs
            for obj in right_actions(record.target, scene.true_occlusion.pairs) & set(scene.ids):
                assert record.owner[obj] in right_actions(case.target, true)
    assert figures_of(perceived)["recall"].value > 0.5


def test_a_lost_target_is_counted_as_wrong_never_dropped(seen):
    cases = list(read_split(seen["given"].folder))
    lost = [replace_target(cases[0], 4242), *cases[1:]]
    found = measure_first_decisions(lost, forced_systems(None, True, 0.2), np.random.default_rng(0))
    assert sum(found.n.values()) == len(cases)
    assert min(found.deferred.values()) >= 1 / len(cases)
    assert max(by["all"][0] for by in found.rsr["any"].values()) <= 1 - 1 / len(cases)


def replace_target(case, target):
    return case._replace(target=target)


def test_called_again_it_goes_on_and_refuses_another_perception(split, seen, tmp_path):
    folder = seen["depth"].folder
    (folder / "records" / "scene_00001.json").unlink()
    told = []
    again = perceive_split(
        split,
        folder,
        PerceptionSettings(segmenter="depth", scorer=False),
        progress=lambda _, done, total: told.append(done),
    )
    assert told == [2, 3]
    assert again.records == seen["depth"].records == read_perceived(folder).records
    with pytest.raises(CporError, match="other masks"):
        perceive_split(split, folder, PerceptionSettings(segmenter="given", scorer=False))
    with pytest.raises(CporError, match="no perceived split"):
        read_perceived(tmp_path)


def test_masks_have_figures_with_intervals(seen):
    records = seen["ours"].records
    figures = figures_of(seen["ours"])
    frames = [record.quality for record in records]
    matches = [match for quality in frames for match in quality.matches]
    assert figures["visible overlap f1"].value == pytest.approx(
        np.mean([q.visible.overlap.f1 for q in frames])
    )
    assert figures["amodal f@.75"].value == pytest.approx(np.mean([q.amodal.f_75 for q in frames]))
    assert figures["recall"].value == pytest.approx(len(matches) / sum(q.n_true for q in frames))
    assert figures["precision"].value == pytest.approx(len(matches) / sum(q.n_predicted for q in frames))
    assert figures["amodal_iou"].value == pytest.approx(np.mean([match.amodal_iou for match in matches]))
    for name in ("recall", "precision", "amodal_iou", "occlusion_accuracy", "amodal_iou_much_hidden_all"):
        assert figures[name].ci.low <= figures[name].value <= figures[name].ci.high


def test_the_log_says_all_that_the_pipeline_needs(seen, tmp_path):
    """The chain's fused probabilities, from the log alone, are those of the pipeline on the scene folders."""
    perceived = seen["given"]
    model = FittedModel.load(bundled_model("geometry"))
    write_pair_log(log_pairs(perceived, measure=model.pipeline().measure), tmp_path / "log.csv.gz")
    cases = read_pair_log(tmp_path / "log.csv.gz")
    table = measure_chain(cases, model, np.random.default_rng(0))
    assert tuple(table.rows) == STEPS and table.n == 3 and table.n_lost == 0
    pipeline = replace(model.pipeline(0.0), prior=model.p_unanswered)
    assert model.geometry == GeometrySettings()
    right = []
    for case in read_split(perceived.folder):
        # The log knows what was segmented, and nothing of the rest.
        beliefs = pipeline.believe(case.scene)
        beliefs = replace(beliefs, p_unseen=np.zeros(len(beliefs.ids)))
        action = pipeline.decide(pipeline.posterior(beliefs, case.target)).action
        truth = case.scene.true_occlusion.pairs | case.scene.true_sweep.pairs
        right.append(action.obj in right_actions(case.target, truth))
    assert table.rows["acyclic"].figures["right_action"]["all"].value == pytest.approx(np.mean(right))
    assert len(read_score_log_text(tmp_path)) == sum(len(case.rows) for case in cases)


def read_score_log_text(folder):
    """The log is a calibration log too."""
    (folder / "log.csv").write_bytes(gzip.decompress((folder / "log.csv.gz").read_bytes()))
    return read_score_log(folder / "log.csv")


def test_a_case_without_its_target_is_worth_nothing(seen, tmp_path):
    write_pair_log(log_pairs(seen["given"]), tmp_path / "log.csv")
    cases = read_pair_log(tmp_path / "log.csv")
    model = FittedModel.load(bundled_model("geometry"))
    lost = [LoggedCase(case.image, case.tier, None, case.rows) for case in cases]
    table = measure_chain(lost, model, np.random.default_rng(0))
    assert table.n_lost == 3
    for row in table.rows.values():
        assert all(figure["all"].value == 0.0 for figure in row.figures.values())
    with pytest.raises(CporError, match="conditioning"):
        measure_chain(cases, model.model_copy(update={"condition": object()}), np.random.default_rng(0))


def test_two_pieces_of_one_object_are_one(tmp_path):
    """Object 1 lies under 2, of which two pieces were found: naming either is right, naming both too."""
    from cpor.paper.pair_log import PairRow

    def row(i, j, p, label, true_i, true_j):
        return PairRow("a", i, j, np.nan, 1, label, label, p, 1.0, True, 1, "medium", true_i, true_j)

    rows = (row(1, 2, 0.99, True, 1, 2), row(1, 3, 0.99, True, 1, 2), row(2, 3, 0.01, False, 2, 2))
    model = FittedModel.load(bundled_model("geometry"))
    table = measure_chain([LoggedCase("a", "medium", 1, rows)], model, np.random.default_rng(0))
    for step in STEPS:
        figures = table.rows[step].figures
        assert figures["object_f1"]["all"].value == 1.0
        assert figures["relation_f1"]["all"].value == 1.0
        assert figures["right_action"]["all"].value == 1.0


def test_a_damaged_log_is_refused(tmp_path):
    for name, content in (("a.csv", b"image,blocked\n1,2\n"), ("b.csv.gz", b"no"), ("c.csv", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputFileError, match=name):
            read_pair_log(tmp_path / name)


def test_the_commands_perceive_and_print_the_chain(split, tmp_path):
    def run(*arguments):
        ran = CliRunner().invoke(app, ["experiment", *map(str, arguments)])
        if isinstance(ran.exception, CporError):
            raise ran.exception
        assert ran.exit_code == 0, ran.output
        return ran.output

    options = ("--split", split, "--out", tmp_path / "seen", "--segmenter", "depth", "--no-scorer")
    assert "Masks of depth, 3 frames" in run("perception", *options)
    told = json.loads(run("perception", *options, "--json"))
    assert told["n"] == 3 and 0.0 <= told["figures"]["visible f@.75"]["value"] <= 1.0
    log = ("--scores", tmp_path / "seen" / "scores.csv.gz", "--model", bundled_model("geometry"))
    with pytest.raises(CporError, match="would mix versions"):
        run("chain", *log)
    log = (*log, "--any-versions")
    assert "acyclic" in run("chain", *log)
    assert set(json.loads(run("chain", *log, "--json"))["rows"]) == set(STEPS)
    with pytest.raises(CporError, match="ours, given, depth"):
        run("perception", "--split", split, "--out", tmp_path / "x", "--segmenter", "best")
    assert read_manifest(tmp_path / "seen").cases[0].name == "scene_00000"


def test_a_scene_without_masks_cannot_be_perceived(split):
    from cpor.paper.perceived import see

    scene = read_scene_folder(split / "scene_00000")
    with pytest.raises(CporError, match="needs true masks"):
        see(replace(scene, true_sweep=None), PerceptionSettings(segmenter="given", scorer=False))


def test_the_table_comes_from_the_log_that_ships_without_simulating(evidence):
    whole = read_pair_log(SHIPPED)
    cases = whole[:: sized(24, 6)]
    table = measure_chain(cases, FittedModel.load(bundled_model("embedded")), np.random.default_rng(0))
    assert len(whole) == 1800 and table.n == sized(75, 300) and SHIPPED.stat().st_size < 2_000_000
    raw, calibrated, fused = (table.rows[step].relations for step in STEPS[:3])
    assert calibrated["ece"] < raw["ece"] and fused["nll"] < raw["nll"]
    for step in STEPS:
        figure = table.rows[step].figures["right_action"]["all"]
        told = f"{figure.value:.3f} [{figure.ci.low:.3f}, {figure.ci.high:.3f}], n = {figure.n}"
        evidence("decides", f"right first actions with our networks, {step}", "reported", told)
    with pytest.raises(InputFileError):
        read_score_log(SHIPPED)  # compressed: unpack it for `cpor calibrate`
