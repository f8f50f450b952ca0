import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from cpor.evidence.pair_crops import colour_crops, geometry_crops, near_pairs, unordered
from cpor.evidence.shadows import fill_shadows, find_shadow
from cpor.perception.network_file import PACKAGED
from cpor.perception.onnx_segmenter import OnnxSegmenter
from training import answering
from training.buffer import FileViews
from training.config import Config, HeapConfig
from training.export import export_relations
from training.exported import load_exported
from training.relation_data import (
    Pairs,
    catalogue_case,
    catalogue_looks,
    cut,
    degrade,
    in_shadow,
    view_pairs,
    wide_heap,
)
from training.relation_network import LAYERS, RelationNet
from training.relation_training import PairStore, _turned, measure, train
from training.run_relations import draw_wide
from training.view_files import ANSWERS, SCORE_THRESHOLD, as_seen, read_answers, read_views, write_views


@pytest.fixture(scope="module")
def pairs():
    return catalogue_case(2**41 + 11, looks=2)


@pytest.fixture(scope="module")
def store(pairs):
    store = PairStore(len(pairs) + 10, torch.device("cpu"))
    store.add(pairs)
    return store


def test_a_case_gives_pairs_of_first_and_later_looks_with_labels(pairs):
    assert {0, 1} <= set(pairs.kind.tolist()) and len(pairs) > 20
    assert pairs.label.any() and not pairs.label.all()
    assert np.array_equal(pairs.label[..., 2], pairs.label[..., 0] | pairs.label[..., 1])


def test_networks_are_shown_what_the_product_cuts(labelled):
    store = PairStore(100, torch.device("cpu"))
    made = cut(labelled, "true", 0)
    store.add(made)
    at = torch.arange(len(made))
    wanted = unordered(near_pairs(labelled))
    assert np.array_equal(store.crops("geometry", at).numpy(), geometry_crops(labelled, wanted))
    colour = colour_crops(labelled.observation.rgb, labelled.visible_ids, wanted)
    assert np.array_equal(store.crops("scorer", at).numpy(), colour)


def test_depth_shadows_lie_on_the_side_that_the_product_finds_and_are_cut_as_it_fills_them(labelled):
    depth = np.full((240, 320), 0.8, np.float32)
    depth[80:160, 100:180] = 0.7
    for beside, after in ((True, True), (True, False), (False, True), (False, False)):
        lost = in_shadow(depth, 60.0, beside, after)
        side = find_shadow(np.where(lost, np.float32(np.nan), depth))
        assert (side.axis == 1, side.after) == (beside, after)
    depth = labelled.observation.depth
    shaded = np.where(in_shadow(depth, 0.4 * depth.shape[1], True, True), np.float32(np.nan), depth)
    scene = replace(labelled, observation=replace(labelled.observation, depth=shaded))
    filled = geometry_crops(fill_shadows(scene).holes, unordered(near_pairs(scene)))
    assert np.array_equal(cut(scene, "true", 0).geometry[:, 0], filled[:, 0])
    assert not np.array_equal(filled, geometry_crops(scene, unordered(near_pairs(scene))))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, tiny_config):
    """One batch of wide views as the training hands it over."""

    class Desk:
        def put(self, job):
            self.job = job

    class Factory:
        urgent = Desk()
        views = tmp_path_factory.mktemp("views")

    wide = [(k, *each) for k in range(3) for each in wide_heap(k, tiny_config.heaps)]
    assert draw_wide(wide, Factory(), 60.0, 1, torch.device("cpu"), tiny_config) == 2
    return Factory.urgent.job


@pytest.fixture(scope="module")
def labelled(drawn):
    return next(scene for _, _, scene in read_views(drawn[1][0]) if len(near_pairs(scene)) > 2)


def test_drawn_views_become_labelled_pairs(drawn, labelled):
    rng = np.random.default_rng(0)
    spoilt = degrade(labelled, rng)
    assert spoilt.true_sweep is not None and len(cut(spoilt, "degraded", 3).kind) >= 0
    made = view_pairs(*drawn[1])
    assert isinstance(made, Pairs) and (made.kind == 3).all()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Two looks at a catalogue heap, and the file they were written to."""
    scenes = list(catalogue_looks(2**41 + 11, 2, np.random.default_rng(3)))
    path = tmp_path_factory.mktemp("photographs") / "catalogue_000001.npz"
    write_views(path, scenes)
    return scenes, path


def test_photographs_come_back_with_their_truth(photographs):
    scenes, path = photographs
    for (kind, scene), (k, read_kind, read) in zip(scenes, read_views(path), strict=True):
        assert kind == read_kind and scenes[k][1] is scene
        assert np.array_equal(read.visible_ids, scene.visible_ids)
        depth, wanted_depth = (np.nan_to_num(each.observation.depth) for each in (read, scene))
        assert np.abs(depth - wanted_depth).max() < 2e-4
        shown = set(np.unique(scene.visible_ids).tolist())
        for name in ("true_occlusion", "true_sweep"):
            wanted = {p for p in getattr(scene, name).pairs if shown.issuperset(p)}
            assert getattr(read, name).pairs == wanted


def test_what_the_segmenter_answers_is_what_the_product_sees(photographs, monkeypatch, capsys):
    _, path = photographs
    given = ["--weights", str(PACKAGED / "segmenter.onnx"), "--views", str(path.parent), "--seconds", "0.1"]
    monkeypatch.setattr(sys, "argv", ["answering", *given])
    answering.main()
    assert capsys.readouterr().out == "1 files answered\n"
    found = read_answers(path.with_suffix(ANSWERS))
    product = OnnxSegmenter(score_threshold=SCORE_THRESHOLD)
    for k, _, scene in read_views(path):
        seen, wanted = as_seen(scene, found[k]), product.segment(scene.observation)
        # The shipped network computes in eight bits, the one that answers does not.
        assert abs(len(seen.ids) - len(wanted.ids)) <= 1
        assert ((seen.visible_ids > 0) == (wanted.visible_ids > 0)).mean() > 0.99
        assert seen.true_sweep.pairs
    pairs = view_pairs(str(path), "ours", 0)
    assert (pairs.masks == 2).all() and len(pairs) > 20 and not path.with_suffix(ANSWERS).exists()


def test_windows_of_photographs_keep_picture_and_labels_together(photographs):
    _, path = photographs
    views = FileViews(path.parent, "catalogue_0*.npz", 3, Config(), torch.device("cpu"), 5)
    assert (views.read(), views.filled, views.read()) == (1, 2, 0)
    batch = views.clean(torch.arange(2))
    with np.load(path, allow_pickle=True) as held:
        whole = {name: held[name] for name in ("rgb", "ids", "amodal")}
    for k in range(2):
        ids, (h, w) = batch.ids[k].numpy(), batch.ids.shape[1:]
        room = [(i, j) for i in range(0, 97, 2) for j in range(0, 129, 2)]
        fits = [(i, j) for i, j in room if np.array_equal(whole["ids"][k][i : i + h, j : j + w], ids)]
        ((i, j),) = fits
        assert np.array_equal(batch.rgb[k], whole["rgb"][k][i : i + h, j : j + w])
        half = whole["amodal"][k][i // 2 : (i + h) // 2, j // 2 : (j + w) // 2]
        assert np.array_equal(batch.amodal[k], half)


def test_removed_objects_leave_the_heap_and_its_relations():
    (full, swept), (fewer, left) = wide_heap(4, HeapConfig(min_objects=7, max_objects=9, settle_steps=120))
    here = {int(k) for k in np.unique(fewer.objects) if k}
    assert here < {int(k) for k in np.unique(full.objects) if k}
    gone = {int(k) for k in np.unique(full.objects) if k} - here
    assert left == [(i, j) for i, j in swept if gone.isdisjoint((i, j))]


@pytest.mark.parametrize("source", ["geometry", "scorer"])
def test_a_network_is_trained_and_its_export_says_the_same(store, source, tmp_path):
    lines = []
    net = train(source, store, 0.01, lines.append, batch=8)
    assert any("2 steps" in line for line in lines)
    figures = measure(net, store)
    assert all(0.0 <= row["auroc"] <= 1.0 for row in figures.values()) and figures
    assert export_relations(net, tmp_path / "net.onnx", "test") < 0.005
    # The file can be trained on: taken back, it says the same, normalised by a batch or by its means.
    crops = store.crops(source, torch.arange(len(store)))
    again = RelationNet(source)
    load_exported(again, tmp_path / "net.onnx", crops)
    with torch.no_grad():
        for other in (again.eval()(crops), again.train()(crops)):
            assert torch.allclose(net(crops), other, atol=0.05)
    train(source, store, 0.01, lines.append, batch=8, begin=tmp_path / "net.onnx")
    assert sum("2 steps" in line for line in lines) == 2


def test_held_out_pairs_are_measured_while_more_of_them_come(pairs):
    store = PairStore(3 * len(pairs), torch.device("cpu"))
    store.add(pairs)

    class Growing(RelationNet):
        def forward(self, crops):
            store.add(pairs)
            return super().forward(crops)

    measured = measure(Growing("geometry").eval(), store)
    assert len(store) == 2 * len(pairs)
    assert sum(row["n"] for name, row in measured.items() if name.endswith("any")) <= 2 * len(pairs)


@pytest.mark.parametrize("source", ["geometry", "scorer"])
def test_turning_keeps_masks_and_labels_together(source):
    """Object i fills the upper left corner, j the rest, and i is blocked: whoever is small stays blocked."""
    n = 64
    crops = torch.zeros((n, LAYERS[source], 96, 96), dtype=torch.uint8)
    first = 1 if source == "geometry" else 3
    crops[:, first, :20, :20] = 1
    crops[:, first + 1] = 1 - crops[:, first]
    label = torch.zeros((n, 2, 3), dtype=torch.bool)
    label[:, 0] = True
    kind = torch.zeros(n, dtype=torch.uint8)
    turned, told = _turned(source, crops, label, kind, torch.Generator().manual_seed(0))
    small = turned[:, first].sum((1, 2)) < turned[:, first + 1].sum((1, 2))
    assert torch.equal(told[:, 0, 0], small) and torch.equal(told[:, 1, 0], ~small)
    assert 10 < int(small.sum()) < 54 and RelationNet(source).source == source
