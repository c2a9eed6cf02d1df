# SPDX-License-Identifier: Apache-2.0
"""qwen3-moe: the qwen3 graph with 128 small experts in every block, eight per token.

Sizes: the published configurations (Qwen Team, "Qwen3 Technical Report", 2025). The default brings tokens to experts
by positions and drops what exceeds an even load; --dispatch dense equals the published model, at sixteen times the
work.
"""

import dataclasses

from .experts import dispatch_option
from .family import Family, option
from .graph import GraphBuilder
from .llama3 import emit_decoder
from .mixtral import MixtralConfig, feed_forward_as


@dataclasses.dataclass(frozen=True)
class Qwen3MoeConfig(MixtralConfig):
    layers: int = option(48, "number of transformer blocks")
    hidden: int = option(2048, "width of the residual stream")
    kv_heads: int = option(4, "key/value heads")
    head_size: int = option(128, "channels per head")
    head_norm: bool = option(True, "queries and keys are normalized, each head by itself")
    inner_ratio: float = option(0.375, "width inside an expert per hidden")
    vocab: int = option(151936, "entries of the token embedding")
    epsilon: float = option(1e-6, "epsilon of the normalization")
    experts: int = option(128, "experts in each block")
    top_k: int = option(8, "experts per token")
    dispatch: str = dispatch_option()


def feed_forward(g: GraphBuilder, config: Qwen3MoeConfig, block: int, x: str) -> str:
    """The mixture under Qwen's names."""
    return feed_forward_as(g, config, x, "mlp", ("gate_proj", "up_proj", "down_proj"))


def emit(g: GraphBuilder, config: Qwen3MoeConfig) -> None:
    """Writes the graph."""
    emit_decoder(g, config.resolved(), feed_forward)


FAMILY = Family(
    name="qwen3-moe",
    summary="the qwen3 graph with a mixture of 128 small gated MLPs, eight per token",
    config=Qwen3MoeConfig,
    sizes={
        "qwen3-30b-a3b": Qwen3MoeConfig(),
        "qwen3-235b-a22b": Qwen3MoeConfig(layers=94, hidden=4096, heads=64),
    },
    emit=emit,
)
