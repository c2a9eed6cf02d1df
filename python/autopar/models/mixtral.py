# SPDX-License-Identifier: Apache-2.0
"""mixtral-8x7b: the llama graph with a mixture of gated MLPs in every block, two of eight experts per token.

Jiang et al., "Mixtral of Experts" (2024). Experts are batched over 3-D weights. The dense form computes every expert
for every token and equals the published model; the capacity form computes what GShard would, and drops overflow; the
gather form computes the same by positions.
"""

import dataclasses
from typing import Tuple

from .experts import FORMS, Pick, Routing, capacity_option, dispatch_option, expert_linear
from .family import Family, option
from .graph import GraphBuilder
from .layers import silu
from .llama3 import Llama3Config, emit_decoder


#: Names of the expert networks' gate, up and down projections.
Names = Tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class MixtralConfig(Llama3Config):
    vocab: int = option(32000, "entries of the token embedding")
    rope_theta: float = option(1000000.0, "base of the rotary frequencies")
    experts: int = option(8, "experts in each block")
    top_k: int = option(2, "experts per token")
    dispatch: str = dispatch_option("dense")
    capacity_factor: float = capacity_option()


def mixture(g: GraphBuilder, config, routing: Routing, inner: int, x: str, names: Names) -> str:
    """The mixture of gated MLPs, `inner` wide, on x [batch, seq, hidden]; config has hidden and dispatch."""

    hidden, experts = config.hidden, routing.experts

    def network(g: GraphBuilder, rows: str, pick: Pick) -> str:
        gate = expert_linear(g, names[0], rows, pick, experts, hidden, inner, bias=False)
        up = expert_linear(g, names[1], rows, pick, experts, hidden, inner, bias=False)
        product = g.op("Mul", silu(g, "act_fn", gate), up)
        return expert_linear(g, names[2], product, pick, experts, inner, hidden, bias=False)

    batch, seq = g.extent("input_ids", 0), g.extent("input_ids", 1)
    return FORMS[config.dispatch](g, routing, x, hidden, batch, seq, network)


def feed_forward_as(g: GraphBuilder, config: MixtralConfig, x: str, scope: str, names: Names) -> str:
    """The mixture of a block under other names."""
    with g.scope(scope):
        routing = Routing(config.experts, config.top_k, config.capacity_factor)
        return mixture(g, config, routing, config.inner, x, names)


def feed_forward(g: GraphBuilder, config: MixtralConfig, block: int, x: str) -> str:
    """The mixture under Mixtral's names."""
    return feed_forward_as(g, config, x, "block_sparse_moe", ("w1", "w3", "w2"))


def emit(g: GraphBuilder, config: MixtralConfig) -> None:
    """Writes the graph."""
    emit_decoder(g, config.resolved(), feed_forward)


FAMILY = Family(
    name="mixtral",
    summary="the llama graph with a mixture of eight gated MLPs, two per token",
    config=MixtralConfig,
    sizes={"mixtral-8x7b": MixtralConfig()},
    emit=emit,
)
