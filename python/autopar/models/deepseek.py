# SPDX-License-Identifier: Apache-2.0
"""deepseek: a decoder with latent attention, and with many small experts beside one that every token visits.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024); Liu et al., "Muon is Scalable for LLM Training" (2025: Moonlight);
Kimi Team, "Kimi K2" (2025). The first blocks have a plain gated MLP. The module that predicts a second token in training
is not part of the models. The default brings tokens to experts by positions and drops what exceeds an even load;
--dispatch dense equals the published model.
"""

import dataclasses
from typing import Tuple

import numpy as np

from . import latent
from .experts import Routing, capacity_option, dispatch_option, to_float32
from .family import Family, ModelError, option, require_divisible
from .graph import GraphBuilder
from .llama3 import emit_decoder, gated
from .mixtral import mixture
from .weights import fan_in, normal


@dataclasses.dataclass(frozen=True)
class DeepseekConfig:
    layers: int = option(61, "number of transformer blocks")
    dense_layers: int = option(3, "of them the first that have no experts")
    hidden: int = option(7168, "width of the residual stream")
    heads: int = option(128, "attention heads")
    query_rank: int = option(1536, "width of the vector that queries are made from; 0 makes them of the whole token")
    key_value_rank: int = option(512, "width of the vector that keys and values are made from")
    plain_size: int = option(128, "channels of a query and a key that are not rotated")
    rotary_size: int = option(64, "channels of a query and a key that are rotated")
    value_size: int = option(128, "channels of a value")
    inner: int = option(18432, "width inside the MLP of the first blocks")
    expert_inner: int = option(2048, "width inside an expert")
    experts: int = option(256, "experts in each block")
    shared_experts: int = option(1, "experts that every token visits, as one of their width together")
    top_k: int = option(8, "experts per token")
    groups: int = option(8, "groups of experts; must divide experts")
    top_groups: int = option(4, "groups per token; its experts are in these")
    routed_scale: float = option(2.5, "factor of what experts say")
    dispatch: str = dispatch_option()
    capacity_factor: float = capacity_option()
    vocab: int = option(129280, "entries of the token embedding")
    positions: int = option(4096, "longest sequence")
    tied: bool = option(False, "output matrix is the token embedding")
    rope_theta: float = option(10000.0, "base of the rotary frequencies")
    rope_factor: float = option(0.0, "rescaling of low rotary frequencies for long contexts; 0 means none")
    epsilon: float = option(1e-6, "epsilon of the normalization")

    #: Keys and values are cached narrow, for which ONNX has no operator.
    cache = 0


@dataclasses.dataclass(frozen=True)
class GroupRouting(Routing):
    """Experts of the best groups, by sigmoids (DeepSeek-V3, section 2.1.2). A bias that balances the load, which no
    gradient reaches, counts in the choice and not in the weight."""

    groups: int = 1
    top_groups: int = 1
    scale: float = 1.0

    def check(self) -> None:
        super().check()
        size = require_divisible(self.experts, self.groups, "experts", "groups")
        if not 1 <= self.top_groups <= self.groups:
            raise ModelError(f"top-groups={self.top_groups} must be between 1 and groups={self.groups}")
        if self.top_k > size * self.top_groups:
            raise ModelError(f"top-k={self.top_k} are more than the {size * self.top_groups} experts of top-groups={self.top_groups}")

    def choose(self, g: GraphBuilder, x: str, hidden: int) -> Tuple[str, str]:
        self.check()
        with g.scope("gate"):
            weight = g.param("weight", (hidden, self.experts), fan_in(hidden, gain=2.0), dtype="float32")
            bias = g.param("e_score_correction_bias", (self.experts,), normal(0.01), dtype="float32", trained=False)
            scores = g.op("Sigmoid", g.op("MatMul", to_float32(g, x), weight))
            ranked = g.op("Add", scores, bias)
            if self.top_groups < self.groups:
                ranked = self.within_groups(g, ranked)
            _, indices = g.op("TopK", ranked, g.ints([self.top_k]), outputs=2, axis=-1, largest=1, sorted=1)
            chosen = g.op("GatherElements", scores, indices, axis=-1)
            total = g.op("Add", g.reduce_sum(chosen, -1, keepdims=True), g.float32(1e-20))
            return g.op("Mul", g.op("Div", chosen, total), g.float32(self.scale)), indices

    def within_groups(self, g: GraphBuilder, ranked: str) -> str:
        """`ranked` [batch, seq, experts], the lowest number outside of the groups whose two best experts are together
        the best."""
        size = self.experts // self.groups
        grouped = g.op("Reshape", ranked, g.ints([0, 0, self.groups, size]))
        best, _ = g.op("TopK", grouped, g.ints([min(2, size)]), outputs=2, axis=-1, largest=1, sorted=1)
        best = g.reduce_sum(best, -1, keepdims=True)  # [batch, seq, groups, 1]
        leading, _ = g.op("TopK", best, g.ints([self.top_groups]), outputs=2, axis=2, largest=1, sorted=1)
        least = g.slice(leading, self.top_groups - 1, self.top_groups, axis=2)
        grouped = g.op("Where", g.op("GreaterOrEqual", best, least), grouped, g.float32(np.finfo(np.float32).min))
        return g.op("Reshape", grouped, g.ints([0, 0, self.experts]))


def feed_forward(g: GraphBuilder, config: DeepseekConfig, block: int, x: str) -> str:
    """A gated MLP in the first blocks; then experts, and those that every token visits."""
    if block < config.dense_layers:
        return gated(g, "mlp", x, config.hidden, config.inner)
    routing = GroupRouting(config.experts, config.top_k, config.capacity_factor, config.groups, config.top_groups, config.routed_scale)
    with g.scope("mlp"):
        routed = mixture(g, config, routing, config.expert_inner, x, ("gate_proj", "up_proj", "down_proj"))
        if not config.shared_experts:
            return routed
        return g.op("Add", routed, gated(g, "shared_experts", x, config.hidden, config.shared_experts * config.expert_inner))


def emit(g: GraphBuilder, config: DeepseekConfig) -> None:
    """Writes the graph."""
    emit_decoder(g, config, feed_forward, latent.attention)


FAMILY = Family(
    name="deepseek",
    summary="decoder with latent attention, a mixture of many small gated MLPs and one that every token visits",
    config=DeepseekConfig,
    sizes={
        "deepseek-v3": DeepseekConfig(),
        "kimi-k2": DeepseekConfig(
            dense_layers=1, heads=64, experts=384, groups=1, top_groups=1, routed_scale=2.827, vocab=163840, rope_theta=50000.0
        ),
        "moonlight-16b-a3b": DeepseekConfig(
            layers=27, dense_layers=1, hidden=2048, heads=16, query_rank=0, inner=11264, expert_inner=1408, experts=64,
            shared_experts=2, top_k=6, groups=1, top_groups=1, routed_scale=2.446, vocab=163840, positions=8192,
            rope_theta=50000.0, epsilon=1e-5,
        ),
    },
    emit=emit,
)
