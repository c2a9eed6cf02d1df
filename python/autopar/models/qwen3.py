# SPDX-License-Identifier: Apache-2.0
"""qwen3: the llama3 graph with heads of 128 channels whatever the width, and queries and keys that are normalized head
by head.

Sizes: the published configurations (Qwen Team, "Qwen3 Technical Report", 2025). The smaller models tie the output
matrix. The rotary tables cover 8192 positions; --positions changes that.
"""

import dataclasses

from .family import Family, option
from .llama3 import Llama3Config, emit


@dataclasses.dataclass(frozen=True)
class Qwen3Config(Llama3Config):
    layers: int = option(36, "number of transformer blocks")
    kv_heads: int = option(8, "key/value heads")
    head_size: int = option(128, "channels per head")
    head_norm: bool = option(True, "queries and keys are normalized, each head by itself")
    inner_ratio: float = option(3.0, "width inside the MLP per hidden")
    vocab: int = option(151936, "entries of the token embedding")
    rope_theta: float = option(1000000.0, "base of the rotary frequencies")
    epsilon: float = option(1e-6, "epsilon of the normalization")


FAMILY = Family(
    name="qwen3",
    summary="the llama graph with heads of 128 channels, queries and keys normalized",
    config=Qwen3Config,
    sizes={
        "qwen3-0.6b": Qwen3Config(layers=28, hidden=1024, heads=16, tied=True),
        "qwen3-1.7b": Qwen3Config(layers=28, hidden=2048, heads=16, tied=True),
        "qwen3-4b": Qwen3Config(hidden=2560, inner_ratio=3.8, tied=True),
        "qwen3-8b": Qwen3Config(),
        "qwen3-14b": Qwen3Config(layers=40, hidden=5120, heads=40, inner_ratio=3.4),
        "qwen3-32b": Qwen3Config(layers=64, hidden=5120, heads=64, inner_ratio=5.0),
    },
    emit=emit,
)
