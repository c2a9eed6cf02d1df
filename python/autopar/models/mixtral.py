# SPDX-License-Identifier: Apache-2.0
"""mixtral-8x7b: the llama graph with a mixture of gated MLPs in every block, two of eight experts per token.

Jiang et al., "Mixtral of Experts" (2024). Experts are batched over 3-D weights. The dense form computes every expert
for every token and equals the published model; the capacity form computes what GShard would, and drops overflow.
"""

import dataclasses

from . import experts
from .experts import Routing, expert_linear
from .family import Family, option
from .graph import GraphBuilder
from .layers import silu
from .llama3 import Llama3Config, emit_decoder


@dataclasses.dataclass(frozen=True)
class MixtralConfig(Llama3Config):
    vocab: int = option(32000, "entries of the token embedding")
    rope_theta: float = option(1000000.0, "base of the rotary frequencies")
    experts: int = option(8, "experts in each block")
    top_k: int = option(2, "experts per token")
    dispatch: str = option("dense", "how tokens reach experts", choices=("dense", "capacity"))
    capacity_factor: float = option(1.0, "room per expert relative to an even load (--dispatch capacity)")


def feed_forward(g: GraphBuilder, config: MixtralConfig, x: str) -> str:
    """The mixture of gated MLPs on x [batch, seq, hidden]."""

    def network(g: GraphBuilder, rows: str) -> str:
        gate = silu(g, "act_fn", expert_linear(g, "w1", rows, config.experts, config.hidden, config.inner, bias=False))
        up = expert_linear(g, "w3", rows, config.experts, config.hidden, config.inner, bias=False)
        return expert_linear(g, "w2", g.op("Mul", gate, up), config.experts, config.inner, config.hidden, bias=False)

    form = experts.dense if config.dispatch == "dense" else experts.dispatched
    with g.scope("block_sparse_moe"):
        routing = Routing(config.experts, config.top_k, config.capacity_factor)
        batch, seq = g.extent("input_ids", 0), g.extent("input_ids", 1)
        return form(g, routing, x, config.hidden, batch, seq, network)


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
