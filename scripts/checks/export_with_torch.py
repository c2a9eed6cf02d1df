# SPDX-License-Identifier: Apache-2.0
"""Writes a few networks with torch.onnx.export into the folder given; run by the system's Python, where torch lives.

usage: export_with_torch.py FOLDER [training]

With `training` they are exported in training mode; parameters.json then says how many numbers torch trains in each.

Small, but each with what exporters really emit: batch normalization, grouped convolution, attention by torch's own
modules, embeddings, recurrence.
"""

import json
import pathlib
import sys
import warnings
from typing import Dict

import torch
from torch import nn

warnings.filterwarnings("ignore")


class Attention(nn.Module):
    """Embedding, two encoder layers of torch's transformer, a classifier over the first word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True) for _ in range(2)])
        self.classify = nn.Linear(32, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.classify(x[:, 0])


def networks() -> Dict[str, tuple]:
    """Name -> (module, example input)."""
    return {
        "mlp": (nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10), nn.Softmax(-1)),
                torch.randn(4, 20)),
        "cnn": (nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                              nn.Conv2d(16, 32, 3, stride=2, groups=4), nn.SiLU(), nn.MaxPool2d(2),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)), torch.randn(4, 3, 32, 32)),
        "upsampler": (nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.LeakyReLU(0.1), nn.PixelShuffle(2),
                                    nn.InstanceNorm2d(2)), torch.randn(4, 4, 8, 8)),
        "attention": (Attention(), torch.randint(0, 100, (4, 12))),
    }


def main() -> None:
    """Exports every network; opset 14 is the newest that torch 1.13 writes for all of these."""
    torch.manual_seed(0)
    folder, training = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["training"]
    mode = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False} if training else {}
    counts = {}
    for name, (module, example) in networks().items():
        counts[name] = sum(parameter.numel() for parameter in module.parameters())
        torch.onnx.export(module.train(training), example, str(folder / f"torch-{name}.onnx"), opset_version=14,
                          input_names=["input"], output_names=["output"], dynamic_axes={"input": {0: "batch"}}, **mode)
    if training:
        (folder / "parameters.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    main()
