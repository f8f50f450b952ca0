"""Writes the segmenter with its large convolutions in eight bits: `python -m training.eight_bits`.

The 3x3 convolutions of at least 64 channels do nine tenths of the work. They are quantised: weights by
channel in seven bits of eight, so that no processor's sums of products overflow, and activations between the
least and the largest value on frames of the simulator and on the example frames. All others, those of the
colour encoder among them, stay as they are: rounding costs objects there.
"""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import (  # type: ignore[import-untyped]
    CalibrationDataReader,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process  # type: ignore[import-untyped]

from cpor.errors import SimulationError
from cpor.io.scene_folder import read_scene_folder
from cpor.perception.mask_selection import Letterbox
from cpor.perception.network_file import CHECKSUMS
from cpor.scene import Observation
from cpor.sim.dataset.make import plan_split, simulate_case
from cpor.sim.dataset.manifest import DatasetSettings

EXAMPLES = Path(__file__).parents[1] / "src" / "cpor" / "serve" / "examples"

LEAST_CHANNELS = 64
"""Convolutions with fewer, and those of one pixel, are a tenth of the work."""

SENSORS = ("default", "none", "phoxi", "zed", "harsh", "realsense")

DEPTHLESS = 3
"""One frame in so many is shown without depth."""


def frames(count: int) -> Iterator[Observation]:
    """The example frames, and frames of `dev` by several sensors; some without depth."""
    for folder in sorted(path for path in EXAMPLES.iterdir() if (path / "rgb.png").is_file()):
        yield read_scene_folder(folder).observation
    for number, case in enumerate(plan_split("dev").cases[:count]):
        try:
            settings = DatasetSettings(sensor=SENSORS[number % len(SENSORS)])
            seen = simulate_case(case, settings)[0].observation
        except SimulationError:
            continue
        yield replace(seen, depth=None) if number % DEPTHLESS == 0 else seen


class Frames(CalibrationDataReader):  # type: ignore[misc]
    """Frames as the network takes them.

    Args:
        count: How many cases of `dev`.
        size: Height and width of the network's input. [px]
    """

    def __init__(self, count: int, size: tuple[int, int]) -> None:
        self._frames, self._size = frames(count), size

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next frame; None after the last."""
        seen = next(self._frames, None)
        if seen is None:
            return None
        frame = Letterbox.fit(seen.shape, self._size)
        return {"rgb": frame.place_rgb(seen.rgb)[None], "depth": frame.place_depth(seen.depth)[None]}


def with_wide_weights(network: onnx.ModelProto, least: int) -> list[str]:
    """Put the weights of large convolutions into 32 bits, in place; returns the names of these.

    Args:
        network: With weights in half precision, or in 32 bits.
        least: Channels from which on a convolution of more than one pixel is large.
    """
    stored = {each.name: each for each in network.graph.initializer}
    made_by = {name: node for node in network.graph.node for name in node.output}
    chosen = []
    for node in network.graph.node:
        if node.op_type != "Conv":
            continue
        cast = made_by.get(node.input[1])
        half = stored.get(cast.input[0] if cast is not None else node.input[1])
        if half is None or half.dims[1] < least or half.dims[2] == 1:
            continue
        if cast is not None:
            name = f"{half.name}_wide"
            wide = numpy_helper.to_array(half).astype(np.float32)
            network.graph.initializer.append(numpy_helper.from_array(wide, name))
            node.input[1] = name
        chosen.append(node.name)
    _drop_unused(network)
    return chosen


def _drop_unused(network: onnx.ModelProto) -> None:
    """Remove casts and weights that nothing reads."""
    graph = network.graph
    used = {name for node in graph.node for name in node.input} | {each.name for each in graph.output}
    for node in [node for node in graph.node if not used.intersection(node.output)]:
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for each in [each for each in graph.initializer if each.name not in used]:
        graph.initializer.remove(each)


def quantise(source: Path, out: Path, count: int, least: int = LEAST_CHANNELS) -> int:
    """Write a network with its large convolutions in eight bits; returns how many there are.

    Args:
        source: As `training.export` writes it.
        out: The new file.
        count: Cases of `dev` whose frames tell the ranges, beside the example frames.
        least: See `with_wide_weights`.
    """
    with tempfile.TemporaryDirectory() as folder:
        wide, ready = Path(folder) / "wide.onnx", Path(folder) / "ready.onnx"
        network = onnx.load(source)
        chosen = with_wide_weights(network, least)
        notes: list[Any] = list(network.metadata_props)
        onnx.save(network, wide)
        quant_pre_process(wide, ready, skip_optimization=True, skip_symbolic_shape=True)
        said = {each.key: each.value for each in notes}
        size = int(said["height"]), int(said["width"])
        quantize_static(
            ready, out, Frames(count, size), per_channel=True, reduce_range=True,
            op_types_to_quantize=["Conv"], nodes_to_quantize=chosen,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )  # fmt: skip
    made = onnx.load(out)
    del made.metadata_props[:]
    made.metadata_props.extend(notes)
    onnx.save(made, out)
    return len(chosen)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="segmenter.onnx of `training.export`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--frames", type=int, default=48, help="cases of `dev` to take the ranges from")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "segmenter.onnx"
    print(f"{quantise(asked.source, path, asked.frames)} convolutions in eight bits")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    (asked.out / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n")


if __name__ == "__main__":
    main()
