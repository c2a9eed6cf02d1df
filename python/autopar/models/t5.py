# SPDX-License-Identifier: Apache-2.0
"""t5: encoder-decoder transformer with relative position bias, as the exported Hugging Face model.

Raffel et al., "Exploring the Limits of Transfer Learning" (2020). Attention scores are not scaled, normalization is RMS
without bias, the bias of the first block of a stack serves all of its blocks, the output matrix is the embedding.
"""

import dataclasses
import math
from typing import Optional

from onnx import TensorProto

from .family import Family, ModelError, option
from .graph import Extent, GraphBuilder
from .layers import (
    causal_bias,
    embedding,
    linear,
    merge_heads,
    padding_bias,
    rms_norm,
    split_heads,
    tied_logits,
)
from .weights import fan_in, normal

EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class T5Config:
    layers: int = option(24, "blocks in the encoder, and as many in the decoder")
    hidden: int = option(1024, "width of the residual stream")
    heads: int = option(16, "attention heads")
    head_size: int = option(64, "width of a head; heads * head-size need not be hidden")
    inner: int = option(0, "width inside the MLP; 0 means hidden * inner-ratio")
    inner_ratio: float = option(4.0, "width inside the MLP per hidden")
    vocab: int = option(32128, "entries of the token embedding")
    buckets: int = option(32, "buckets of the relative position bias; a multiple of 4")
    distance: int = option(128, "distance from which all positions share a bucket")


def bucket_of(g: GraphBuilder, config: T5Config, offset: str, both_sides: bool) -> str:
    """Bucket of each offset (key place - query place), int64: exact for small ones, logarithmic beyond; the encoder
    spends half of the buckets on each side, the decoder looks back only."""
    buckets = config.buckets
    side = None
    if both_sides:
        buckets //= 2
        side = g.cast(g.op("Greater", offset, g.int_scalar(0)), TensorProto.INT64)
        side = g.op("Mul", side, g.int_scalar(buckets))
        distance = g.op("Abs", offset)
    else:
        distance = g.op("Neg", g.op("Min", offset, g.int_scalar(0)))
    exact = buckets // 2
    is_small = g.op("Less", distance, g.int_scalar(exact))
    ratio = g.op("Log", g.op("Div", g.cast(distance, TensorProto.FLOAT), g.float32(exact)))
    ratio = g.op("Div", ratio, g.float32(math.log(config.distance / exact)))
    steps = g.cast(g.op("Mul", ratio, g.float32(buckets - exact)), TensorProto.INT64)
    large = g.op("Min", g.op("Add", steps, g.int_scalar(exact)), g.int_scalar(buckets - 1))
    bucket = g.op("Where", is_small, distance, large)
    return g.op("Add", side, bucket) if both_sides else bucket


def position_bias(g: GraphBuilder, config: T5Config, seq: Extent, both_sides: bool) -> str:
    """The learned bias [1, heads, seq, seq] that is added to the scores of every block of a stack."""
    places = g.arange(seq)
    offset = g.op("Sub", g.unsqueeze(places, 0), g.unsqueeze(places, 1))
    bucket = bucket_of(g, config, offset, both_sides)
    table = embedding(g, "relative_attention_bias", bucket, config.buckets, config.heads, std=0.5)
    return g.unsqueeze(g.transpose(table, (2, 0, 1)), 0)


def attention(
    g: GraphBuilder, config: T5Config, x: str, memory: str, bias: str, batch: Extent, seq: Extent, memory_seq: Extent
) -> str:
    """Attention of x [batch, seq, hidden] over memory [batch, memory_seq, hidden], without residual."""
    heads, head_size, width = config.heads, config.head_size, config.heads * config.head_size
    query_recipe = fan_in(config.hidden, gain=1.0 / math.sqrt(head_size))  # in place of scaling the scores
    query = linear(g, "q", x, config.hidden, width, bias=False, recipe=query_recipe)
    key = linear(g, "k", memory, config.hidden, width, bias=False)
    value = linear(g, "v", memory, config.hidden, width, bias=False)
    query = split_heads(g, query, batch, seq, heads, head_size)
    key = split_heads(g, key, batch, memory_seq, heads, head_size, perm=(0, 2, 3, 1))
    value = split_heads(g, value, batch, memory_seq, heads, head_size)
    scores = g.op("Add", g.op("MatMul", query, key), bias)
    context = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
    return linear(g, "o", merge_heads(g, context, batch, seq, width), width, config.hidden, bias=False)


def feed_forward(g: GraphBuilder, config: T5Config, x: str) -> str:
    """Normalization, MLP with ReLU, residual."""
    inner = config.inner or round(config.hidden * config.inner_ratio)
    y = rms_norm(g, "layer_norm", x, config.hidden, EPSILON)
    with g.scope("DenseReluDense"):
        y = linear(g, "wi", y, config.hidden, inner, bias=False)
        with g.scope("act"):
            y = g.op("Relu", y)
        return g.op("Add", x, linear(g, "wo", y, inner, config.hidden, bias=False))


def stack(
    g: GraphBuilder,
    config: T5Config,
    x: str,
    mask: str,
    batch: Extent,
    seq: Extent,
    memory: Optional[str] = None,
    memory_mask: Optional[str] = None,
    memory_seq: Extent = 0,
) -> str:
    """All blocks of the encoder, or of the decoder when `memory` (the encoder's result) is given. Additive masks."""
    first = "block.0/layer.0/SelfAttention"
    with g.scope(first, first.replace("/", ".")):
        bias = g.op("Add", position_bias(g, config, seq, both_sides=memory is None), mask)
    for i in range(config.layers):
        with g.scope(f"block.{i}"):
            with g.scope("layer.0"):
                normed = rms_norm(g, "layer_norm", x, config.hidden, EPSILON)
                with g.scope("SelfAttention"):
                    y = attention(g, config, normed, normed, bias, batch, seq, seq)
                x = g.op("Add", x, y)
            if memory is not None:
                with g.scope("layer.1"):
                    normed = rms_norm(g, "layer_norm", x, config.hidden, EPSILON)
                    with g.scope("EncDecAttention"):
                        y = attention(g, config, normed, memory, memory_mask, batch, seq, memory_seq)
                    x = g.op("Add", x, y)
            with g.scope("layer.1" if memory is None else "layer.2"):
                x = feed_forward(g, config, x)
    return rms_norm(g, "final_layer_norm", x, config.hidden, EPSILON)


def emit(g: GraphBuilder, config: T5Config) -> None:
    """Writes the graph: input_ids and attention_mask [batch, seq] and decoder_input_ids [batch, decoder_seq] to logits
    [batch, decoder_seq, vocab]. A fixed seq fixes decoder_seq to the same length."""
    hidden = config.hidden
    if config.buckets % 4 or config.distance <= config.buckets // 2:
        got = f"got buckets={config.buckets}, distance={config.distance}"
        raise ModelError(f"buckets must be a multiple of 4 and distance more than half of it, {got}")
    decoder_seq = g.seq if isinstance(g.seq, int) else "decoder_seq"
    ids = g.input("input_ids", [g.batch, g.seq], TensorProto.INT64)
    mask = g.input("attention_mask", [g.batch, g.seq], TensorProto.INT64)
    decoder_ids = g.input("decoder_input_ids", [g.batch, decoder_seq], TensorProto.INT64)
    with g.scope("encoder"):
        batch, seq = g.extent(ids, 0), g.extent(ids, 1)
        memory_mask = padding_bias(g, mask)
    x = g.op("Gather", g.param("shared.weight", (config.vocab, hidden), normal(1.0)), ids)
    with g.scope("encoder"):
        memory = stack(g, config, x, memory_mask, batch, seq)
    y = g.op("Gather", "shared.weight", decoder_ids)
    with g.scope("decoder"):
        length = g.extent(decoder_ids, 1)
        y = stack(g, config, y, causal_bias(g, length), batch, length, memory, memory_mask, seq)
    y = g.op("Mul", y, g.scalar(hidden**-0.5))
    g.output("logits", tied_logits(g, "lm_head", y, "shared.weight"), [g.batch, decoder_seq, config.vocab])


FAMILY = Family(
    name="t5",
    summary="encoder-decoder transformer with relative position bias",
    config=T5Config,
    sizes={
        "t5-770m": T5Config(),
        "t5-3b": T5Config(heads=32, head_size=128, inner_ratio=16.0),
        "t5-11b": T5Config(heads=128, head_size=128, inner_ratio=64.0),
    },
    emit=emit,
)
