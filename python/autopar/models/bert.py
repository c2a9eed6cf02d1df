# SPDX-License-Identifier: Apache-2.0
"""bert: encoder-only transformer with post-layer normalization, as the exported Hugging Face BertModel (with pooler).

Sizes: Devlin et al., "BERT" (2018). Vocabulary of the uncased models.
"""

import dataclasses
import math
from typing import Callable

import numpy as np
from onnx import TensorProto

from .family import Family, option, require_divisible
from .graph import GraphBuilder
from .layers import (
    embedding,
    gelu_erf,
    layer_norm,
    linear,
    linear_rows,
    merge_heads,
    padding_bias,
    split_heads,
)

EPSILON = 1e-12


@dataclasses.dataclass(frozen=True)
class BertConfig:
    layers: int = option(12, "number of transformer blocks")
    hidden: int = option(768, "width of the residual stream")
    heads: int = option(12, "attention heads; must divide hidden")
    inner: int = option(0, "width inside the MLP; 0 means 4 * hidden")
    vocab: int = option(30522, "entries of the token embedding")
    positions: int = option(512, "longest sequence")
    types: int = option(2, "entries of the token type embedding")


def embeddings(g: GraphBuilder, config: BertConfig, ids: str, types: str, seq) -> str:
    """Sum of token, type and position embeddings, normalized."""
    with g.scope("embeddings"):
        x = embedding(g, "word_embeddings", ids, config.vocab, config.hidden)
        x = g.op("Add", x, embedding(g, "token_type_embeddings", types, config.types, config.hidden))
        g.require_table_bytes(config.positions * 8, "positions")
        places = g.buffer("position_ids", np.arange(config.positions, dtype=np.int64)[None])
        places = g.slice(places, 0, seq, axis=1)
        x = g.op("Add", x, embedding(g, "position_embeddings", places, config.positions, config.hidden))
        return layer_norm(g, "LayerNorm", x, config.hidden, EPSILON)


def attention(g: GraphBuilder, config: BertConfig, x: str, bias: str, batch, seq) -> str:
    """Self-attention with its residual and normalization; `bias` [batch, 1, 1, seq] is added to the scores."""
    hidden, heads = config.hidden, config.heads
    head_size = require_divisible(hidden, heads, "hidden", "heads")
    with g.scope("attention"):
        with g.scope("self"):
            query = linear(g, "query", x, hidden, hidden)
            key = linear(g, "key", x, hidden, hidden)
            value = linear(g, "value", x, hidden, hidden)
            query = split_heads(g, query, batch, seq, heads, head_size)
            key = split_heads(g, key, batch, seq, heads, head_size, perm=(0, 2, 3, 1))
            value = split_heads(g, value, batch, seq, heads, head_size)
            scores = g.op("Div", g.op("MatMul", query, key), g.scalar(math.sqrt(head_size)))
            scores = g.op("Add", scores, bias)
            context = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
            context = merge_heads(g, context, batch, seq, hidden)
        with g.scope("output"):
            y = g.op("Add", linear(g, "dense", context, hidden, hidden), x)
            return layer_norm(g, "LayerNorm", y, hidden, EPSILON)


def feed_forward(g: GraphBuilder, config: BertConfig, layer: int, x: str, batch, seq) -> str:
    """The MLP with its residual and normalization."""
    inner = config.inner or 4 * config.hidden
    with g.scope("intermediate"):
        y = linear(g, "dense", x, config.hidden, inner)
        y = gelu_erf(g, "intermediate_act_fn", y)
    with g.scope("output"):
        y = g.op("Add", linear(g, "dense", y, inner, config.hidden), x)
        return layer_norm(g, "LayerNorm", y, config.hidden, EPSILON)


def emit_encoder(g: GraphBuilder, config, block_end: Callable[..., str]) -> None:
    """Writes an encoder whose blocks end in `block_end(g, config, layer, x, batch, seq)`: input_ids, attention_mask,
    token_type_ids, all [batch, seq], to last_hidden_state [batch, seq, hidden] and pooler_output [batch, hidden]."""
    g.require_seq_at_most(config.positions)
    ids = g.input("input_ids", [g.batch, g.seq], TensorProto.INT64)
    mask = g.input("attention_mask", [g.batch, g.seq], TensorProto.INT64)
    types = g.input("token_type_ids", [g.batch, g.seq], TensorProto.INT64)
    batch, seq = g.extent(ids, 0), g.extent(ids, 1)
    bias = padding_bias(g, mask)
    x = embeddings(g, config, ids, types, seq)
    for i in range(config.layers):
        with g.scope(f"encoder/layer.{i}", f"encoder.layer.{i}"):
            x = attention(g, config, x, bias, batch, seq)
            x = block_end(g, config, i, x, batch, seq)
    with g.scope("pooler"):
        first = g.op("Gather", x, g.int_scalar(0), axis=1)
        pooled = linear_rows(g, "dense", first, config.hidden, config.hidden)
        with g.scope("activation"):
            pooled = g.op("Tanh", pooled)
    g.output("last_hidden_state", x, [g.batch, g.seq, config.hidden])
    g.output("pooler_output", pooled, [g.batch, config.hidden])


def emit(g: GraphBuilder, config: BertConfig) -> None:
    """Writes the graph."""
    emit_encoder(g, config, feed_forward)


FAMILY = Family(
    name="bert",
    summary="encoder-only transformer with padding mask and pooler",
    config=BertConfig,
    sizes={
        "bert-base": BertConfig(),
        "bert-large": BertConfig(layers=24, hidden=1024, heads=16),
    },
    emit=emit,
)
