# SPDX-License-Identifier: Apache-2.0
"""vit-sgmoe and vit-switch: vit-b with a mixture of experts in place of every second MLP; routing as in bert_moe.py."""

import dataclasses

from . import experts, vit
from .experts import Pick, Routing, expert_linear
from .family import Family, option
from .graph import GraphBuilder
from .layers import gelu_erf
from .vit import VitConfig


@dataclasses.dataclass(frozen=True)
class VitMoeConfig(VitConfig):
    experts: int = option(8, "experts in each mixture")
    top_k: int = option(2, "experts per token")
    capacity_factor: float = option(1.0, "room per expert relative to an even load")
    every: int = option(2, "a mixture in every n-th block")


def block_end(g: GraphBuilder, config: VitMoeConfig, layer: int, x: str, batch, tokens: int) -> str:
    """The mixture in every n-th block, the MLP in the others; without residual."""
    if (layer + 1) % config.every != 0:
        return vit.feed_forward(g, config, layer, x, batch, tokens)
    inner = config.inner or 4 * config.hidden

    def network(g: GraphBuilder, rows: str, pick: Pick) -> str:
        y = expert_linear(g, "wi", rows, pick, config.experts, config.hidden, inner)
        return expert_linear(g, "wo", gelu_erf(g, "act", y), pick, config.experts, inner, config.hidden)

    with g.scope("moe"):
        routing = Routing(config.experts, config.top_k, config.capacity_factor)
        return experts.dispatched(g, routing, x, config.hidden, batch, tokens, network)


def emit(g: GraphBuilder, config: VitMoeConfig) -> None:
    """Writes the graph."""
    vit.emit_classifier(g, config, block_end)


FAMILY = Family(
    name="vit-moe",
    summary="vit with a mixture of experts in every second block",
    config=VitMoeConfig,
    sizes={
        "vit-sgmoe": VitMoeConfig(top_k=2, capacity_factor=1.0),
        "vit-switch": VitMoeConfig(top_k=1, capacity_factor=1.25),
    },
    emit=emit,
    sequence=False,
)
