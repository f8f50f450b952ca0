"""Takes the weights of an exported network back into torch, to go on training where a release ended.

An exported file has its normalisations folded into its kernels. They are unfolded so that the network says
the same as the file while it trains, too: each normalisation gets the statistics of a batch of pictures, and
undoes them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn


def load_exported(net: nn.Module, path: Path, inputs: Tensor) -> list[str]:
    """Puts the weights of a file into a network; parts the file does not have stay as they are.

    Args:
        net: Of the same make, or larger where additions begin at zero.
        path: Of an ONNX file that `training.export` wrote.
        inputs: What the network takes, to get statistics from. Shape (b, layers, h, w).

    Returns:
        Names of the layers that were found.
    """
    model = onnx.load(str(path))
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in held:
            held[node.output[0]] = _dequantised(*(held[name] for name in node.input))
    cast = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Cast"}
    modules = dict(net.named_modules())
    device = next(net.parameters()).device
    found = []
    folded: dict[str, Tensor] = {}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        given = [held.get(cast.get(name, name)) for name in node.input[1:]]
        name = _module(node.name)
        if given[0] is None or not isinstance(modules.get(name), nn.Conv2d | nn.Linear):
            continue
        layer = modules[name]
        kernel = torch.tensor(given[0]).float().to(device)
        with torch.no_grad():
            layer.weight.copy_(kernel.T if node.op_type == "MatMul" else kernel)
            bias = given[1] if len(given) > 1 else _added(model, node.output[0], held, cast)
            if bias is None:
                continue
            if layer.bias is None:
                folded[name] = torch.tensor(bias).float().to(device)
            else:
                layer.bias.copy_(torch.tensor(bias).float().to(device))
        found.append(name)
    _unfold(net, folded, inputs)
    return found


def _dequantised(steps: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Weights that were stored in eight bits, one scale for each channel. Shape of `steps`."""
    along = (-1, *[1] * (steps.ndim - 1)) if scale.ndim else ()
    weights: np.ndarray = (steps.astype(np.float32) - zero.reshape(along)) * scale.reshape(along)
    return weights


def _module(node: str) -> str:
    """Full name of a module from the path that the exporter gives its node: each piece repeats its parent."""
    pieces = [p for p in node.strip("/").split("/")[:-1] if p != "net"]
    names: list[str] = []
    for piece in pieces:
        if names and piece.startswith(f"{names[-1]}."):
            names[-1] = piece
        else:
            names.append(piece)
    return ".".join(names)


def _added(model: onnx.ModelProto, output: str, held: dict[str, Any], cast: dict[str, str]) -> Any:
    """What is added to the product of a linear layer."""
    for node in model.graph.node:
        if node.op_type == "Add" and output in node.input:
            other = next(name for name in node.input if name != output)
            return held.get(cast.get(other, other))
    return None


def _unfold(net: nn.Module, folded: dict[str, Tensor], inputs: Tensor) -> None:
    """Gives the normalisation behind each folded kernel the statistics of a batch, and undoes them."""
    modules = dict(net.named_modules())
    hooks = []
    for name, bias in folded.items():
        parent, _, last = name.rpartition(".")
        norm = modules[f"{parent}.norm" if last == "conv" else f"{parent}.{int(last) + 1}"]
        assert isinstance(norm, nn.BatchNorm2d)

        def undo(norm: nn.BatchNorm2d, given: tuple[Tensor, ...], bias: Tensor = bias) -> None:
            x = given[0].float()
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
            norm.running_mean.copy_(mean)  # type: ignore[union-attr]
            norm.running_var.copy_(var)  # type: ignore[union-attr]
            norm.weight.copy_((var + norm.eps).sqrt())
            norm.bias.copy_(bias + mean)

        hooks.append(norm.register_forward_pre_hook(undo))
    training = net.training
    with torch.no_grad():
        net.eval()(inputs)
    net.train(training)
    for hook in hooks:
        hook.remove()
