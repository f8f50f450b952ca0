"""From trained weights to the ONNX files that the package ships, and the check that both say the same.

Weights are stored in half precision and widened when a session is made: half the size, the same speed, and
differences far below what a mask threshold can see.
"""

import argparse
import copy
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import Tensor, nn

from cpor.errors import InvalidSettingError
from cpor.evidence.pair_crops import CROP_SIZE
from cpor.perception.mask_selection import FAINTEST
from training.config import Config
from training.measure import read
from training.network import PEAKS, SegmenterNet, peaks, prepare
from training.parts import join_parts
from training.relation_network import LAYERS, RelationNet

LEAST_HEIGHT = 0.9 * FAINTEST**2
"""Lower peaks get no masks, except the best: a score is at most the root of the height, so none can count."""

OPSET = 17


class ExportedSegmenter(nn.Module):
    """The segmenter from the sensor's numbers to masks of the peaks that may count; one picture at a time."""

    def __init__(self, net: SegmenterNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, rgb: Tensor, depth: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores (k,), visible and amodal masks (k, h / 4, w / 4), chances of being hidden in part (k,).

        At least 1 and at most `PEAKS` peaks, those of `LEAST_HEIGHT` and more: masks take much of the time.
        """
        maps = self.net(prepare(rgb, depth))
        height, cells = peaks(maps.heat, PEAKS)
        k = (height >= LEAST_HEIGHT).sum().clamp(min=1)
        scores, visible, amodal, hidden = read(self.net, maps, height[:, :k], cells[:, :k])
        return scores[0], visible[0], amodal[0], hidden[0]


def export_segmenter(net: SegmenterNet, config: Config, path: Path, score_threshold: float) -> float:
    """Writes `segmenter.onnx`; returns the largest difference to torch over the masks of a trial picture."""
    height, width = config.export.height, config.export.width
    module = ExportedSegmenter(copy.deepcopy(net).eval()).eval()
    rgb, depth = _trial_picture(height, width)
    names = ["scores", "visible", "amodal", "occluded"]
    write_graph(module, (rgb, depth), path, ["rgb", "depth"], names, {name: {0: "peaks"} for name in names})
    properties = {
        "height": str(height),
        "width": str(width),
        "version": config.export.version,
        "score_threshold": f"{score_threshold:.3f}",
        "mask_threshold": f"{config.export.mask_threshold:.3f}",
    }
    finish_file(path, properties)
    return _farthest(*both_say(module, (rgb, depth), path, {"rgb": rgb.numpy(), "depth": depth.numpy()}))


def _trial_picture(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Plain boxes of several colours and heights on a table, seen from above."""
    rng = np.random.default_rng(0)
    rgb = np.full((height, width, 3), 190.0) + rng.normal(0.0, 2.0, (height, width, 3))
    depth = np.full((height, width), 0.8) + rng.normal(0.0, 5e-4, (height, width))
    for k in range(9):
        top, left = (
            (k // 3 + 0.2 + 0.2 * rng.random()) * height / 3,
            (k % 3 + 0.2 + 0.2 * rng.random()) * width / 3,
        )
        rows = slice(int(top), int(top + height * rng.uniform(0.1, 0.2)))
        cols = slice(int(left), int(left + width * rng.uniform(0.1, 0.2)))
        rgb[rows, cols] = rng.uniform(20, 240, 3)
        depth[rows, cols] = 0.8 - rng.uniform(0.02, 0.1)
    picture = np.clip(rgb, 0, 255).astype(np.uint8)
    return torch.as_tensor(picture)[None], torch.as_tensor(depth.astype(np.float32))[None]


def _farthest(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Largest difference over peaks matched by their masks: the order of equal peaks may differ.

    Peaks of hardly any height may come and go, and masks count by their mean difference, since a single
    place on an edge may tip; only the better half of the peaks is compared.
    """
    scores, visible = got[0], got[1].reshape(len(got[0]), -1)
    off = 0.0
    for k in np.argsort(-wanted[0])[: max(1, len(wanted[0]) // 2)]:
        gaps = np.abs(visible - wanted[1][k].reshape(1, -1)).mean(axis=1) + np.abs(scores - wanted[0][k])
        j = int(gaps.argmin())
        off = max(off, *(float(np.abs(g[j] - w[k]).mean()) for g, w in zip(got, wanted, strict=True)))
    return off


def export_relations(net: RelationNet, path: Path, version: str) -> float:
    """Writes a relation network; returns the largest difference to torch over trial pictures."""
    module = copy.deepcopy(net).eval()
    rng = np.random.default_rng(0)
    size = (LAYERS[net.source], CROP_SIZE, CROP_SIZE)
    crops = torch.as_tensor(rng.integers(0, 2, (3, *size), dtype=np.uint8))
    write_graph(module, (crops,), path, ["crops"], ["logit"], {"crops": {0: "pairs"}, "logit": {0: "pairs"}})
    finish_file(path, {"version": version, "source": net.source})
    many = torch.as_tensor(rng.integers(0, 2, (7, *size), dtype=np.uint8))
    got, wanted = both_say(module, (many,), path, {"crops": many.numpy()})
    return float(np.abs(got[0] - wanted[0]).max())


def write_graph(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, given: list[str], made: list[str],
    axes: Mapping[str, Mapping[int, str]],
) -> None:  # fmt: skip
    """Writes a module as ONNX, traced with trial inputs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad(), warnings.catch_warnings():
        # The scripting exporter is deprecated but needs nothing beyond torch; tracing warns of fixed sizes,
        # which are what we want.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, inputs, str(path), input_names=given, output_names=made, dynamic_axes=axes,
            opset_version=OPSET, do_constant_folding=True, dynamo=False,
        )  # fmt: skip


def finish_file(path: Path, properties: Mapping[str, str]) -> None:
    """Folds paddings, stores weights in half precision with a cast behind each, notes what callers need."""
    model = onnx.load(str(path))
    fold_paddings(model)
    graph = model.graph
    casts = []
    for tensor in list(graph.initializer):
        if tensor.data_type != TensorProto.FLOAT or int(np.prod(tensor.dims)) < 256:
            continue
        half = numpy_helper.to_array(tensor).astype(np.float16)
        stored = f"{tensor.name}_half"
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(half, stored))
        casts.append(helper.make_node("Cast", [stored], [tensor.name], to=TensorProto.FLOAT))
    for cast in reversed(casts):
        graph.node.insert(0, cast)
    for key, value in properties.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def fold_paddings(model: onnx.ModelProto) -> None:
    """Lets each convolution pad its input itself where a node of its own does: onnxruntime may not do so.

    Torch cannot express paddings that differ from side to side otherwise.
    """
    graph = model.graph
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    pads = [
        n for n in graph.node if n.op_type == "Pad" and [r.op_type for r in readers[n.output[0]]] == ["Conv"]
    ]
    if not pads:
        return
    alone = copy.deepcopy(model)  # what computes the sizes, which depend on no input
    del alone.graph.input[:], alone.graph.output[:]
    for pad in pads:
        alone.graph.output.append(helper.make_tensor_value_info(pad.input[1], TensorProto.INT64, None))
    _drop_unread(alone.graph)
    sizes = ReferenceEvaluator(alone).run(None, {})
    for pad, size in zip(pads, sizes, strict=True):
        (conv,) = readers[pad.output[0]]
        (inside,) = (each.ints for each in conv.attribute if each.name == "pads")
        assert not any(inside) and not size.reshape(2, -1)[:, :2].any(), "only empty borders are added"
        inside[:] = size.reshape(2, -1)[:, 2:].reshape(-1)
        conv.input[0] = pad.input[0]
    _drop_unread(graph)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Takes nodes and weights away that no output depends on."""
    wanted = {each.name for each in graph.output}
    for node in reversed(graph.node):
        if wanted.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            wanted.update(node.input)
    for tensor in [each for each in graph.initializer if each.name not in wanted]:
        graph.initializer.remove(tensor)


def both_say(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, given: Mapping[str, np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the file says and what torch says."""
    import onnxruntime  # type: ignore[import-untyped, unused-ignore]

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    got = [np.asarray(each) for each in session.run(None, dict(given))]
    with torch.no_grad():
        wanted = module(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    return got, [each.numpy() for each in wanted]


def load_into(net: nn.Module, folder: Path, name: str) -> float:
    """Puts a checkpoint written in parts into a network; returns the score threshold it was left with.

    Raises:
        InvalidSettingError: The file is none of ours, or of another network.
    """
    loaded = torch.load(join_parts(folder, name), map_location="cpu", weights_only=True)
    if not isinstance(loaded, dict) or "weights" not in loaded:
        raise InvalidSettingError(f"{name} in {folder} holds no weights; train first")
    weights = {k: v.float() if v.is_floating_point() else v for k, v in loaded["weights"].items()}
    own = net.state_dict()
    other = sorted(
        k for k in {*own, *weights} if k not in own or k not in weights or own[k].shape != weights[k].shape
    )
    if other:
        raise InvalidSettingError(
            f"{name} in {folder} is of another network ({len(other)} tensors differ, first {other[0]}); "
            "go on training from it with --begin, then export"
        )
    net.load_state_dict(weights)
    return float(loaded.get("score_threshold", 0.45))


def export_all(weights: Path, out: Path, score_threshold: float | None) -> list[str]:
    """Exports the segmenter; says how far it is from torch.

    Raises:
        InvalidSettingError: There are no weights.
    """
    config = Config()
    lines = []
    if list(weights.glob("segmenter.pt.*")):
        net = SegmenterNet(config.network)
        chosen = load_into(net, weights, "segmenter.pt")
        off = export_segmenter(net, config, out / "segmenter.onnx", score_threshold or chosen)
        lines.append(f"segmenter.onnx differs from torch by at most {off:.2g}")
    if not lines:
        raise InvalidSettingError(f"no segmenter.pt.0 in {weights}; train first")
    return lines


def main() -> None:
    """`python -m training.export --weights DIR --out DIR`: the segmenter."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--score-threshold", type=float, help="default: that of the training")
    asked = parser.parse_args()
    lines = export_all(asked.weights, asked.out, asked.score_threshold)
    (asked.out / "export.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
