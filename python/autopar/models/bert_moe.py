# SPDX-License-Identifier: Apache-2.0
"""bert-sgmoe and bert-switch: bert-base with a mixture of experts in place of every second MLP.

sgmoe routes each token to the two best experts (sparsely gated, GShard), switch to the best one (Switch Transformer).
Eight experts by default: an own choice, since no size of these is published.
"""

import dataclasses

from . import bert, experts
from .bert import EPSILON, BertConfig
from .experts import Pick, Routing, expert_linear
from .family import Family, option
from .graph import GraphBuilder
from .layers import gelu_erf, layer_norm


@dataclasses.dataclass(frozen=True)
class BertMoeConfig(BertConfig):
    experts: int = option(8, "experts in each mixture")
    top_k: int = option(2, "experts per token")
    capacity_factor: float = option(1.0, "room per expert relative to an even load")
    every: int = option(2, "a mixture in every n-th block")


def block_end(g: GraphBuilder, config: BertMoeConfig, layer: int, x: str, batch, seq) -> str:
    """The mixture with residual and normalization in every n-th block, the MLP in the others."""
    if (layer + 1) % config.every != 0:
        return bert.feed_forward(g, config, layer, x, batch, seq)
    inner = config.inner or 4 * config.hidden

    def network(g: GraphBuilder, tokens: str, pick: Pick) -> str:
        y = expert_linear(g, "wi", tokens, pick, config.experts, config.hidden, inner)
        return expert_linear(g, "wo", gelu_erf(g, "act", y), pick, config.experts, inner, config.hidden)

    with g.scope("moe"):
        routing = Routing(config.experts, config.top_k, config.capacity_factor)
        y = experts.dispatched(g, routing, x, config.hidden, batch, seq, network)
    with g.scope("output"):
        return layer_norm(g, "LayerNorm", g.op("Add", y, x), config.hidden, EPSILON)


def emit(g: GraphBuilder, config: BertMoeConfig) -> None:
    """Writes the graph."""
    bert.emit_encoder(g, config, block_end)


FAMILY = Family(
    name="bert-moe",
    summary="bert with a mixture of experts in every second block",
    config=BertMoeConfig,
    sizes={
        "bert-sgmoe": BertMoeConfig(top_k=2, capacity_factor=1.0),
        "bert-switch": BertMoeConfig(top_k=1, capacity_factor=1.25),
    },
    emit=emit,
)
