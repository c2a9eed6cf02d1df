# SPDX-License-Identifier: Apache-2.0
"""Writes a few networks with torch.onnx.export into the folder given; run by the system's Python, where torch lives.

usage: export_with_torch.py FOLDER [training]

With `training` they are exported in training mode; parameters.json then says how many numbers torch trains in each.

Small, but each with what exporters really emit: batch normalization, grouped convolution, attention by torch's own
modules, embeddings, recurrence, tied weights, rotary tables computed in the graph, skip connections, cross-attention.
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


class Decoder(nn.Module):
    """A causal language model with rotary embeddings whose output matrix is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(100, 32), nn.LayerNorm(32)
        self.project, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
        self.head = nn.Linear(32, 100, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, 8, 2) / 8), persistent=False)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        """Rotates pairs of a head's numbers by their position."""
        angle = torch.arange(x.shape[2])[:, None] * self.inv_freq
        angle = torch.cat([angle, angle], -1)
        left, right = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-right, left], -1) * angle.sin()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        rows, seq, _ = x.shape
        query, key, value = (part.reshape(rows, seq, 4, 8).transpose(1, 2) for part in self.project(self.norm(x)).chunk(3, -1))
        scores = self.turn(query) @ self.turn(key).transpose(2, 3) / 8**0.5
        mask = torch.full((seq, seq), float("-inf")).triu(1)
        context = torch.softmax(scores + mask, -1) @ value
        return self.head(x + self.out(context.transpose(1, 2).reshape(rows, seq, 32)))


class Recurrent(nn.Module):
    """Two recurrent layers of both directions behind an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(100, 16), nn.Linear(24, 7)
        self.first, self.second = nn.LSTM(16, 12, bidirectional=True, batch_first=True), nn.GRU(24, 12, bidirectional=True, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.second(self.first(self.embed(ids))[0])[0])


class UNet(nn.Module):
    """Down and up again with skip connections, group normalization and attention to a table in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.words = nn.GroupNorm(4, 16), nn.Parameter(torch.randn(5, 16))
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up, self.leave = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(24, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = nn.functional.silu(self.enter(x))
        low = self.norm(self.down(first))
        rows, channels, height, width = low.shape
        places, words = low.flatten(2).transpose(1, 2), self.words.expand(rows, -1, -1)
        places = places + self.attend(places, words, words, need_weights=False)[0]
        low = places.transpose(1, 2).reshape(rows, channels, height, width)
        wide = nn.functional.interpolate(low, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.leave(torch.cat([first, self.up(low), wide[:, :8]], 1))


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
        "decoder": (Decoder(), torch.randint(0, 100, (4, 12))),
        "recurrent": (Recurrent(), torch.randint(0, 100, (4, 6))),
        "unet": (UNet(), torch.randn(4, 3, 16, 16)),
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
