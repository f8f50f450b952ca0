import json
import math
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from cpor.errors import InvalidSettingError
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.scene import Observation, PixelPoint
from training import segmenter
from training.eight_bits import quantise
from training.export import LEAST_HEIGHT, PEAKS, ExportedSegmenter, both_say, export_segmenter, load_into
from training.exported import load_exported
from training.heaps import write_heaps
from training.measure import _on_small
from training.network import Maps, SegmenterNet, peaks, prepare
from training.targets import claim_losses, make_targets


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_config, heaps):
    folder = tmp_path_factory.mktemp("run")
    write_heaps(heaps, folder / "heaps_00_000000.npz")
    segmenter.train(tiny_config, folder, folder / "out", 0.01, 10.0, folder / "state.pt", None)
    segmenter.train(tiny_config, folder, folder / "out", 0.01, 10.0, folder / "state.pt", None)
    return folder / "out"


def test_a_run_goes_on_where_it_stopped_and_logs_what_it_did(trained):
    lines = [json.loads(line) for line in (trained / "segmenter.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line.get("event") == "end"] == [1, 2]
    assert all(np.isfinite(line["loss"]) for line in lines if "loss" in line)
    assert (trained / "samples.png").stat().st_size > 0


def test_the_exported_segmenter_says_what_torch_says(trained, tiny_config, tmp_path, evidence):
    net = SegmenterNet(tiny_config.network)
    load_into(net, trained, "segmenter.pt")
    off = export_segmenter(net, tiny_config, tmp_path / "segmenter.onnx", 0.3)
    evidence("sees", "exported segmenter against torch, largest difference", "below 0.005", f"{off:.2g}")
    assert off < 0.005
    nodes = onnx.load(tmp_path / "segmenter.onnx").graph.node
    padded = {node.output[0] for node in nodes if node.op_type == "Pad"}
    assert not any(node.op_type == "Conv" and node.input[0] in padded for node in nodes)
    # And the file can be trained on: taken back, it says the same, normalised by a batch or by its means.
    torch.manual_seed(5)
    again = SegmenterNet(tiny_config.network)
    channels = torch.randn(2, 8, 96, 128)
    load_exported(again, tmp_path / "segmenter.onnx", channels)
    with torch.no_grad():
        said = [net.eval()(channels), again.eval()(channels), again.train()(channels)]
    for name in Maps._fields:
        for other in said[1:]:
            assert torch.allclose(getattr(said[0], name), getattr(other, name), atol=0.02), name


def test_large_convolutions_in_eight_bits_say_nearly_the_same_and_can_be_taken_back(
    trained, tiny_config, tmp_path
):
    net = SegmenterNet(tiny_config.network)
    load_into(net, trained, "segmenter.pt")
    plain, small = tmp_path / "plain.onnx", tmp_path / "segmenter.onnx"
    export_segmenter(net, tiny_config, plain, 0.3)
    assert quantise(plain, small, 0, least=16) > 10
    said = [OnnxSegmenter(path).notes for path in (plain, small)]
    assert said[0] == said[1]
    ops = [node.op_type for node in onnx.load(small).graph.node]
    assert ops.count("DequantizeLinear") > 20
    torch.manual_seed(5)
    channels = torch.randn(2, 8, 96, 128)
    first, again = SegmenterNet(tiny_config.network), SegmenterNet(tiny_config.network)
    taken = [load_exported(net, path, channels) for net, path in ((first, plain), (again, small))]
    assert sorted(taken[0]) == sorted(taken[1])
    # Weights come back to within a step of their channel, a 64th of the largest.
    for name, weight in first.state_dict().items():
        if name.endswith("weight") and weight.ndim == 4:
            other = again.state_dict()[name]
            assert (weight - other).abs().max() <= weight.abs().max() / 64.0, name


def test_a_file_gives_masks_of_the_peaks_that_may_count_alone(tiny_config, tmp_path):
    torch.manual_seed(3)
    net = SegmenterNet(tiny_config.network)
    rgb = torch.randint(0, 255, (1, 96, 128, 3), dtype=torch.uint8)
    depth = torch.full((1, 96, 128), 0.8)
    given = {"rgb": rgb.numpy(), "depth": depth.numpy()}
    counts = []
    for height in (LEAST_HEIGHT, 1e-4):
        nn.init.constant_(net.heat.bias, math.log(height / (1.0 - height)))
        export_segmenter(net, tiny_config, tmp_path / "segmenter.onnx", 0.3)
        got, wanted = both_say(
            ExportedSegmenter(net.eval()), (rgb, depth), tmp_path / "segmenter.onnx", given
        )
        heights = peaks(net(prepare(rgb, depth)).heat, PEAKS)[0]
        counts.append(max(1, int((heights >= LEAST_HEIGHT).sum())))
        assert [len(each) for each in got] == [counts[-1]] * 4 and got[1].shape[1:] == (24, 32)
        assert np.allclose(got[0], wanted[0], atol=0.005)
    assert PEAKS > counts[0] > 1 == counts[1]
    found = OnnxSegmenter(tmp_path / "segmenter.onnx")
    scene = found.segment(Observation(rgb[0].numpy(), depth[0].numpy()))
    assert scene.ids == () and found.segment_at(scene, PixelPoint(64.0, 48.0)) is None


def test_weights_of_another_network_are_taken_as_far_as_they_fit(trained, tiny_config, tmp_path):
    other = replace(tiny_config, network=replace(tiny_config.network, mask_features=12))
    with pytest.raises(InvalidSettingError, match="another network"):
        load_into(SegmenterNet(other.network), trained, "segmenter.pt")
    run = segmenter.Run(other, torch.device("cpu"), tmp_path)
    run.load_mean(trained)
    line = json.loads((tmp_path / "segmenter.jsonl").read_text())
    assert line["loaded"] > 50 and "mask_tower.2.weight" in line["new"]
    assert torch.equal(run.net.state_dict()["stem.0.1.weight"], run.mean.state_dict()["stem.0.1.weight"])


def test_finds_on_things_too_small_to_be_wanted_are_not_held_against_the_network():
    claimed, small = torch.zeros((3, 8, 8), dtype=torch.bool), torch.zeros((1, 8, 8), dtype=torch.bool)
    small[0, :2, :2] = True
    claimed[0, :2, :3] = True
    claimed[1, 4:, 4:] = True
    claimed[2, :2, :2] = True
    assert _on_small(claimed, small, {2}) == 1


def test_the_judge_learns_which_masks_are_good(tiny_config):
    torch.manual_seed(0)
    net = SegmenterNet(tiny_config.network)
    maps = net(torch.randn(2, 8, 96, 128))
    ids = torch.zeros((2, 96, 128), dtype=torch.uint8)
    ids[:, 20:60, 30:90] = 1
    targets = make_targets(ids, torch.zeros((2, 48, 64), dtype=torch.int32), 22, 30)
    fixed = Maps(maps.heat.detach() + 4.0, *(each.detach() for each in maps[1:]))
    optimiser = torch.optim.Adam(net.judge.parameters(), 0.01)
    losses = []
    for _ in range(40):
        loss = claim_losses(net, fixed, targets, 8)[0]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_the_learning_rate_rises_then_falls(tiny_config):
    rates = [segmenter.rate(share, tiny_config) for share in (0.0, 0.02, 0.5, 1.0)]
    assert rates[0] < rates[1] > rates[2] > rates[3] > 0.0
