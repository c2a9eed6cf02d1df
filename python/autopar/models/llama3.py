# SPDX-License-Identifier: Apache-2.0
"""llama3: decoder-only transformer with RMS normalization, rotary positions, grouped key/value heads and a gated MLP,
as the exported Hugging Face model.

Sizes: the published configurations of Llama 3.2 1B, Llama 3 8B and 70B, and Llama 3.1 405B. The rotary tables cover
8192 positions; --positions changes that.
"""

import dataclasses
from typing import Callable

from onnx import TensorProto

from . import cache, rotary
from .family import Family, option, require_divisible
from .graph import GraphBuilder
from .layers import causal_bias, embedding, linear, rms_norm, silu, tied_logits


@dataclasses.dataclass(frozen=True)
class Llama3Config:
    layers: int = option(32, "number of transformer blocks")
    hidden: int = option(4096, "width of the residual stream")
    heads: int = option(32, "query heads; must divide hidden unless head-size is given")
    kv_heads: int = option(0, "key/value heads; 0 means a quarter of heads, at most 8")
    head_size: int = option(0, "channels per head; 0 means hidden / heads")
    head_norm: bool = option(False, "queries and keys are normalized, each head by itself")
    inner: int = option(0, "width inside the MLP; 0 means hidden * inner-ratio")
    inner_ratio: float = option(3.5, "width inside the MLP per hidden")
    vocab: int = option(128256, "entries of the token embedding")
    positions: int = option(8192, "longest sequence")
    tied: bool = option(False, "output matrix is the token embedding")
    rope_theta: float = option(500000.0, "base of the rotary frequencies")
    rope_factor: float = option(0.0, "rescaling of low rotary frequencies for long contexts; 0 means none")
    epsilon: float = option(1e-5, "epsilon of the normalization")
    cache: int = option(0, "tokens that key/value caches have room for; 0 means no caches: whole sequences go in")

    @property
    def rotary_size(self) -> int:
        """Channels of a head that are rotated."""
        return self.head_size

    def resolved(self) -> "Llama3Config":
        """The configuration with derived values filled in."""
        kv_heads = self.kv_heads or max(1, min(8, self.heads // 4))
        head_size = self.head_size or require_divisible(self.hidden, self.heads, "hidden", "heads")
        inner = self.inner or round(self.hidden * self.inner_ratio)
        return dataclasses.replace(self, kv_heads=kv_heads, head_size=head_size, inner=inner)


def gated_mlp(g: GraphBuilder, config: Llama3Config, block: int, x: str) -> str:
    """The MLP of a block."""
    return gated(g, "mlp", x, config.hidden, config.inner)


def gated(g: GraphBuilder, scope: str, x: str, hidden: int, inner: int) -> str:
    """down(silu(gate(x)) * up(x))."""
    with g.scope(scope):
        gate = silu(g, "act_fn", linear(g, "gate_proj", x, hidden, inner, bias=False))
        up = linear(g, "up_proj", x, hidden, inner, bias=False)
        return linear(g, "down_proj", g.op("Mul", gate, up), inner, hidden, bias=False)


#: The second half of a block: (g, config, number of the block, x [batch, seq, hidden]) -> [batch, seq, hidden].
FeedForward = Callable[[GraphBuilder, object, int, str], str]


def emit_decoder(
    g: GraphBuilder, config, feed_forward: FeedForward, attention=rotary.attention, rotation_of=rotary.rotation_of, bias_of=causal_bias
) -> None:
    """Writes a decoder whose blocks are `attention` and `feed_forward`: input_ids [batch, seq] to logits [batch, seq,
    vocab]. config has the fields of Llama3Config that these and this function read. `bias_of(g, seq)` makes what
    attention to whole sequences gets as `seen`."""
    hidden = config.hidden
    g.require_seq_at_most(config.positions)
    ids = g.input("input_ids", [g.batch, g.seq], TensorProto.INT64)
    with g.scope("model"):
        batch, seq = g.extent(ids, 0), g.extent(ids, 1)
        x = embedding(g, "embed_tokens", ids, config.vocab, hidden)
        if config.cache:
            seen = cache.make(g, config.cache, config.positions)
            places = cache.places(g, seen, config.positions)
        else:
            seen = bias_of(g, seq)
            places = g.unsqueeze(g.arange(seq), 0)
        with g.scope("rotary_emb"):
            rotation = rotation_of(g, config, places)
        for i in range(config.layers):
            with g.scope(f"layers.{i}"):
                normed = rms_norm(g, "input_layernorm", x, hidden, config.epsilon)
                x = g.op("Add", x, attention(g, config, i, normed, rotation, seen, (batch, seq)))
                normed = rms_norm(g, "post_attention_layernorm", x, hidden, config.epsilon)
                x = g.op("Add", x, feed_forward(g, config, i, normed))
        x = rms_norm(g, "norm", x, hidden, config.epsilon)
    if config.tied:
        logits = tied_logits(g, "lm_head", x, "model.embed_tokens.weight")
    else:
        logits = linear(g, "lm_head", x, hidden, config.vocab, bias=False)
    g.output("logits", logits, [g.batch, g.seq, config.vocab])


def emit(g: GraphBuilder, config: Llama3Config) -> None:
    """Writes the graph."""
    emit_decoder(g, config.resolved(), gated_mlp)


FAMILY = Family(
    name="llama3",
    summary="decoder-only transformer, RMS norm, rotary positions, grouped key/value heads, gated MLP",
    config=Llama3Config,
    sizes={
        "llama3-1b": Llama3Config(layers=16, hidden=2048, inner_ratio=4.0, tied=True, rope_factor=32.0),
        "llama3-8b": Llama3Config(),
        "llama3-70b": Llama3Config(layers=80, hidden=8192, heads=64),
        "llama3-405b": Llama3Config(layers=126, hidden=16384, heads=128, inner_ratio=3.25, rope_factor=8.0),
    },
    emit=emit,
)
