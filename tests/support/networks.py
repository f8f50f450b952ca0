"""Tiny ONNX networks that honour the contracts of ours: they find plain colours. Run by onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

PALETTE = {
    "red": (200, 30, 30),
    "green": (30, 160, 50),
    "blue": (30, 60, 200),
    "yellow": (220, 200, 40),
}


def _const(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def _save(path, nodes, inputs, outputs, constants, notes):
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, {key: str(value) for key, value in notes.items()})
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def write_colour_segmenter(path: Path, size=(120, 160), palette=None, spread=3, notes=None, repeat=1) -> Path:
    """One detection a colour of the palette: where it shows, and, as amodal mask, `spread` cells more.

    `repeat` finds every colour that often: duplicates for the selection to remove.
    """
    palette = list(palette or PALETTE.values()) * repeat
    k, (height, width) = len(palette), size
    nodes = [
        helper.make_node("Cast", ["rgb"], ["light"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["light", "axis3"], ["pixels"]),
        helper.make_node("Sub", ["pixels", "palette"], ["off"]),
        helper.make_node("Abs", ["off"], ["far"]),
        helper.make_node("ReduceMax", ["far", "axis4"], ["distance"], keepdims=0),
        helper.make_node("Less", ["distance", "tolerance"], ["same"]),
        helper.make_node("Cast", ["same"], ["is"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["is"], ["maps"], perm=[0, 3, 1, 2]),
        helper.make_node("AveragePool", ["maps"], ["coarse"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node(
            "MaxPool",
            ["coarse"],
            ["wide"],
            kernel_shape=[2 * spread + 1] * 2,
            pads=[spread] * 4,
            strides=[1, 1],
        ),
        helper.make_node("Squeeze", ["coarse", "axis0"], ["visible"]),
        helper.make_node("Squeeze", ["wide", "axis0"], ["amodal"]),
        helper.make_node("ReduceMax", ["visible", "axes12"], ["best"], keepdims=0),
        # Later colours score a little less, and depth has a say so that it is really an input.
        helper.make_node("ReduceMean", ["depth"], ["z"], keepdims=0),
        helper.make_node("Mul", ["z", "zero"], ["nothing"]),
        helper.make_node("Add", ["best", "nothing"], ["plus"]),
        helper.make_node("Mul", ["plus", "grades"], ["scores"]),
        helper.make_node("Mul", ["scores", "flags"], ["occluded"]),
    ]
    constants = [
        _const("axis0", [0]),
        _const("axis3", [3]),
        _const("axis4", [4]),
        _const("axes12", [1, 2]),
        _const("palette", np.array(palette, np.float32).reshape(1, 1, 1, k, 3)),
        _const("tolerance", np.float32(40.0)),
        _const("zero", np.float32(0.0)),
        _const("grades", (0.95 - 0.01 * np.arange(k)).astype(np.float32)),
        _const("flags", (np.arange(k) % 2 == 0).astype(np.float32)),
    ]
    coarse = (k, height // 4, width // 4)
    inputs = [
        helper.make_tensor_value_info("rgb", TensorProto.UINT8, (1, height, width, 3)),
        helper.make_tensor_value_info("depth", TensorProto.FLOAT, (1, height, width)),
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("scores", (k,)), ("visible", coarse), ("amodal", coarse), ("occluded", (k,)))
    ]
    if notes is None:
        notes = {
            "height": height,
            "width": width,
            "version": "tiny",
            "score_threshold": 0.5,
            "mask_threshold": 0.5,
        }
    return _save(path, nodes, inputs, outputs, constants, notes)


def write_area_network(path: Path, layers: int, first: int) -> Path:
    """A relation network: log-odds by how much more the blocker shows, so that the order of a pair matters.

    Occlusion counts that once, sweep twice, either three times. `first` is the layer where i shows.
    """
    weights = np.zeros((layers, 2, 3), np.float32)
    weights[first, 0], weights[first + 1, 0] = (-8.5, -17.0, -25.5), (8.5, 17.0, 25.5)
    weights[:, 1] = -weights[:, 0]
    nodes = [
        helper.make_node("Cast", ["crops"], ["values"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["values", "axes23"], ["means"], keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], ["six"]),
        helper.make_node("Reshape", ["six", "shape"], ["logit"]),
    ]
    constants = [
        _const("axes23", [2, 3]),
        _const("weights", weights.reshape(layers, 6)),
        _const("shape", [-1, 2, 3]),
    ]
    inputs = [helper.make_tensor_value_info("crops", TensorProto.UINT8, ("n", layers, 96, 96))]
    outputs = [helper.make_tensor_value_info("logit", TensorProto.FLOAT, ("n", 2, 3))]
    return _save(path, nodes, inputs, outputs, constants, {"version": "tiny"})


def write_area_scorer(path: Path) -> Path:
    """A scorer for which the larger of two objects is in the way."""
    return write_area_network(path, 5, 3)


def paint(shape=(480, 640), background=(120, 120, 120), **boxes) -> np.ndarray:
    """A photograph of plain rectangles: colour=(top, left, bottom, right) in shares of the image."""
    rgb = np.empty((*shape, 3), np.uint8)
    rgb[:] = background
    for colour, (top, left, bottom, right) in boxes.items():
        rows = slice(round(top * shape[0]), round(bottom * shape[0]))
        cols = slice(round(left * shape[1]), round(right * shape[1]))
        rgb[rows, cols] = PALETTE[colour]
    return rgb


def three_rectangles(depth=None) -> Scene:
    """A scene of three rectangles, two of them near each other; 4 shows nowhere."""
    shape = (480, 640)
    boxes = {"red": (0.2, 0.2, 0.5, 0.4), "blue": (0.3, 0.4, 0.4, 0.5), "green": (0.8, 0.8, 0.9, 0.95)}
    ids = np.zeros(shape, np.int32)
    for k, (top, left, bottom, right) in enumerate(boxes.values(), start=1):
        ids[round(top * 480) : round(bottom * 480), round(left * 640) : round(right * 640)] = k
    objects = [DetectedObject(k, MaskCrop.from_mask(ids == k)) for k in (1, 2, 3)]
    return Scene(Observation(paint(shape, **boxes), depth), (*objects, DetectedObject(4)), ids)
