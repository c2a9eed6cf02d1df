# SPDX-License-Identifier: Apache-2.0
"""gpt2: decoder-only transformer as the exported Hugging Face model: Conv1D as Gemm between two reshapes, causal mask
as a constant with Where, the tanh form of GELU written out, output matrix tied to the token embedding.

Sizes: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), table 2.
"""

import dataclasses
import math
from typing import Union

import numpy as np
from onnx import TensorProto

from . import cache
from .cache import Cache
from .family import Family, option, require_divisible
from .graph import GraphBuilder
from .layers import embedding, gelu_tanh, layer_norm, merge_heads, split_heads, tied_logits
from .weights import BIAS, fan_in


@dataclasses.dataclass(frozen=True)
class Gpt2Config:
    layers: int = option(12, "number of transformer blocks")
    hidden: int = option(768, "width of the residual stream")
    heads: int = option(12, "attention heads; must divide hidden")
    vocab: int = option(50257, "entries of the token embedding")
    positions: int = option(1024, "longest sequence")
    inner: int = option(0, "width inside the MLP; 0 means 4 * hidden")
    cache: int = option(0, "tokens that key/value caches have room for; 0 means no caches: whole sequences go in")

    def residual_gain(self) -> float:
        """gpt2 scales what is added to the residual stream."""
        return 1.0 / math.sqrt(2.0 * self.layers)


def conv1d(g: GraphBuilder, scope: str, x: str, batch, seq, inputs: int, outputs: int, gain: float = 1.0) -> str:
    """Hugging Face's Conv1D: a Gemm on the tokens as rows."""
    with g.scope(scope):
        rows = g.reshape(x, [-1, inputs])
        weight = g.param("weight", (inputs, outputs), fan_in(inputs, gain))
        y = g.op("Gemm", rows, weight, g.param("bias", (outputs,), BIAS), alpha=1.0, beta=1.0)
        return g.reshape(y, [batch, seq, outputs])


def attend_whole(g: GraphBuilder, query: str, key: str, value: str, mask: str, head_size: int) -> str:
    """Attention among the given tokens; `mask` is bool [1, 1, seq, seq], true where a score counts."""
    scores = g.op("Div", g.op("MatMul", query, key), g.scalar(math.sqrt(head_size)))
    scores = g.op("Where", mask, scores, g.lowest())
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), value)


def attention(g: GraphBuilder, config: Gpt2Config, block: int, x: str, seen: Union[str, Cache], batch, seq) -> str:
    """Causal self-attention; `seen` is the mask of whole sequences, or the cache."""
    hidden, heads = config.hidden, config.heads
    head_size = require_divisible(hidden, heads, "hidden", "heads")
    with g.scope("attn"):
        packed = conv1d(g, "c_attn", x, batch, seq, hidden, 3 * hidden)
        query, key, value = g.split(packed, [hidden] * 3, axis=2)
        query = split_heads(g, query, batch, seq, heads, head_size)
        key = split_heads(g, key, batch, seq, heads, head_size, perm=(0, 2, 1, 3) if config.cache else (0, 2, 3, 1))
        value = split_heads(g, value, batch, seq, heads, head_size)
        if config.cache:
            context = cache.attend(g, seen, block, query, key, value, (heads, head_size))
        else:
            context = attend_whole(g, query, key, value, seen, head_size)
        context = merge_heads(g, context, batch, seq, hidden)
        return conv1d(g, "c_proj", context, batch, seq, hidden, hidden, config.residual_gain())


def causal_mask(g: GraphBuilder, config: Gpt2Config, seq) -> str:
    """The upper left corner of the mask of all positions, which the exporter keeps once for all blocks."""
    g.require_table_bytes(config.positions**2, "positions")
    square = np.tril(np.ones((config.positions, config.positions), dtype=bool))[None, None]
    with g.scope("h.0/attn", "h.0.attn"):
        return g.slice(g.slice(g.buffer("bias", square), 0, seq, axis=2), 0, seq, axis=3)


def emit(g: GraphBuilder, config: Gpt2Config) -> None:
    """Writes the graph: input_ids [batch, seq] to logits [batch, seq, vocab]."""
    hidden = config.hidden
    inner = config.inner or 4 * hidden
    g.require_seq_at_most(config.positions)
    ids = g.input("input_ids", [g.batch, g.seq], TensorProto.INT64)
    with g.scope("transformer"):
        batch, seq = g.extent(ids, 0), g.extent(ids, 1)
        tokens = embedding(g, "wte", ids, config.vocab, hidden)
        if config.cache:
            seen = cache.make(g, config.cache, config.positions)
            places = cache.places(g, seen, config.positions)
        else:
            places = g.unsqueeze(g.arange(seq), 0)
        x = g.op("Add", tokens, embedding(g, "wpe", places, config.positions, hidden))
        if not config.cache:
            seen = causal_mask(g, config, seq)

        for i in range(config.layers):
            with g.scope(f"h.{i}"):
                normed = layer_norm(g, "ln_1", x, hidden)
                x = g.op("Add", attention(g, config, i, normed, seen, batch, seq), x)
                normed = layer_norm(g, "ln_2", x, hidden)
                with g.scope("mlp"):
                    y = conv1d(g, "c_fc", normed, batch, seq, hidden, inner)
                    y = gelu_tanh(g, "act", y)
                    y = conv1d(g, "c_proj", y, batch, seq, inner, hidden, config.residual_gain())
                x = g.op("Add", x, y)
        x = layer_norm(g, "ln_f", x, hidden)
    logits = tied_logits(g, "lm_head", x, "transformer.wte.weight")
    g.output("logits", logits, [g.batch, g.seq, config.vocab])


FAMILY = Family(
    name="gpt2",
    summary="decoder-only transformer, learned positions, tied output matrix",
    config=Gpt2Config,
    sizes={
        "gpt2-124m": Gpt2Config(),
        "gpt2-350m": Gpt2Config(layers=24, hidden=1024, heads=16),
        "gpt2-774m": Gpt2Config(layers=36, hidden=1280, heads=20),
        "gpt2-1.5b": Gpt2Config(layers=48, hidden=1600, heads=25),
    },
    emit=emit,
)
