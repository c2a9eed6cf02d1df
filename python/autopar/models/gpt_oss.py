# SPDX-License-Identifier: Apache-2.0
"""gpt-oss: a mixture of clamped gated MLPs behind attention with sinks, which sees a window in every second block.

OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card" (2025), in the graph of transformers' eager attention. Rotary
frequencies are those of YaRN (Peng et al., 2023), by parts and not rounded to whole channels. The default brings tokens
to experts by positions and drops what exceeds an even load; --dispatch dense equals the published model. The rotary
tables cover 8192 of 131072 positions; --positions changes that.
"""

import dataclasses
import math
from typing import Tuple

import numpy as np

from . import rotary
from .experts import FORMS, Pick, Routing, capacity_option, dispatch_option, expert_linear, to_float32
from .family import Family, option, require_divisible
from .graph import Extent, GraphBuilder
from .layers import causal_bias, linear, merge_heads, window_bias
from .llama3 import emit_decoder
from .weights import BIAS, fan_in, normal

#: Of YaRN: pairs of channels that turn this often within the original context keep their frequency, and all of it
#: below the other one is stretched.
TURNS_KEPT, TURNS_STRETCHED = 32.0, 1.0
#: Of the experts' activation.
STEEPNESS, LIMIT = 1.702, 7.0


@dataclasses.dataclass(frozen=True)
class GptOssConfig:
    layers: int = option(36, "number of transformer blocks")
    hidden: int = option(2880, "width of the residual stream")
    heads: int = option(64, "query heads")
    kv_heads: int = option(8, "key/value heads")
    head_size: int = option(64, "channels per head")
    window: int = option(128, "keys that a query sees in every second block, from the first")
    inner: int = option(2880, "width inside an expert")
    experts: int = option(128, "experts in each block")
    top_k: int = option(4, "experts per token")
    dispatch: str = dispatch_option()
    capacity_factor: float = capacity_option()
    vocab: int = option(201088, "entries of the token embedding")
    positions: int = option(8192, "longest sequence")
    tied: bool = option(False, "output matrix is the token embedding")
    rope_theta: float = option(150000.0, "base of the rotary frequencies")
    rope_factor: float = option(32.0, "stretch of low rotary frequencies for long contexts; 0 means none")
    rope_context: int = option(4096, "context that the stretch starts from")
    epsilon: float = option(1e-5, "epsilon of the normalization")

    #: ONNX's operator for caches has no sinks.
    cache = 0


class LogitRouting(Routing):
    """The best experts by logits with a bias; their softmax weighs them."""

    def choose(self, g: GraphBuilder, x: str, hidden: int) -> Tuple[str, str]:
        self.check()
        with g.scope("router"):
            weight = g.param("weight", (hidden, self.experts), fan_in(hidden, gain=2.0), dtype="float32")
            bias = g.param("bias", (self.experts,), BIAS, dtype="float32")
            logits = g.op("Add", g.op("MatMul", to_float32(g, x), weight), bias)
            best, indices = g.op("TopK", logits, g.ints([self.top_k]), outputs=2, axis=-1, largest=1, sorted=1)
            return g.op("Softmax", best, axis=-1), indices


def yarn_frequencies(head_size: int, theta: float, factor: float, context: int) -> np.ndarray:
    """Radians per position of each pair of channels, float64 [head_size / 2]."""
    base = theta ** (-np.arange(0, head_size, 2, dtype=np.float64) / head_size)
    if factor == 0:
        return base

    def pair_of(turns: float) -> float:
        """The pair that turns so often within the context."""
        return head_size / 2 * math.log(context / (turns * 2 * math.pi)) / math.log(theta)

    first, last = max(pair_of(TURNS_KEPT), 0.0), min(pair_of(TURNS_STRETCHED), head_size - 1.0)
    stretched = np.clip((np.arange(head_size // 2) - first) / max(last - first, 1e-3), 0.0, 1.0)
    return base * (1.0 - stretched) + base / factor * stretched


def rotation_of(g: GraphBuilder, config: GptOssConfig, places: str) -> Tuple[str, str]:
    """cos and sin at `places`, each [1, 1, seq, head_size / 2]; longer than one, as YaRN has it."""
    rotary.require_even(config.head_size)
    turns = yarn_frequencies(config.head_size, config.rope_theta, config.rope_factor, config.rope_context)
    factor = 0.1 * math.log(config.rope_factor) + 1.0 if config.rope_factor > 1.0 else 1.0
    return rotary.read_tables(g, places, config.positions, turns, factor)


def rotate(g: GraphBuilder, x: str, rotation: Tuple[str, str], head_size: int) -> str:
    """The halves of the channels of x [batch, heads, seq, head_size] turned against each other."""
    first, second = g.split(x, [head_size // 2] * 2, axis=3)
    cosine, sine = rotation
    left = g.op("Sub", g.op("Mul", first, cosine), g.op("Mul", second, sine))
    right = g.op("Add", g.op("Mul", second, cosine), g.op("Mul", first, sine))
    return g.op("Concat", left, right, axis=-1)


def attend(g: GraphBuilder, config: GptOssConfig, query: str, key: str, value: str, bias: str, extents: Tuple[Extent, Extent]) -> str:
    """Attention among the given tokens, whose weights leave a share to the head's sink; `bias` is added to the scores."""
    batch, seq = extents
    scores = g.op("MatMul", query, g.transpose(key, (0, 1, 3, 2)))
    scores = g.op("Add", g.op("Mul", scores, g.scalar(config.head_size**-0.5)), bias)
    sinks = g.reshape(g.param("sinks", (config.heads,), normal(1.0)), [1, -1, 1, 1])
    sinks = g.op("Expand", sinks, g.shape([batch, config.heads, seq, 1]))
    logits = g.op("Concat", scores, sinks, axis=-1)
    axes = dict(axes=[-1]) if g.opset < 18 else {}
    largest = g.op("ReduceMax", logits, *([] if axes else [g.ints([-1])]), keepdims=1, **axes)
    weights = g.slice(g.op("Softmax", g.op("Sub", logits, largest), axis=-1), 0, -1, axis=3)
    return g.op("MatMul", weights, value)


def attention(g: GraphBuilder, config: GptOssConfig, block: int, x: str, rotation: Tuple[str, str], seen: Tuple[str, str], extents: Tuple) -> str:
    """The attention module `self_attn`; `seen` are the biases of blocks with and without a window."""
    batch, seq = extents
    heads, kv_heads, head_size = config.heads, config.kv_heads, config.head_size
    times = require_divisible(heads, kv_heads, "heads", "kv-heads")
    with g.scope("self_attn"):

        def project(name: str, count: int) -> str:
            """[batch, count, seq, head_size] of x."""
            rows = linear(g, name, x, config.hidden, count * head_size)
            return g.transpose(g.reshape(rows, [batch, seq, count, head_size]), (0, 2, 1, 3))

        query, key, value = project("q_proj", heads), project("k_proj", kv_heads), project("v_proj", kv_heads)
        query, key = (rotate(g, part, rotation, head_size) for part in (query, key))
        key, value = (rotary.repeat_heads(g, part, extents, kv_heads, times, head_size) for part in (key, value))
        context = attend(g, config, query, key, value, seen[block % 2], extents)
        context = merge_heads(g, context, batch, seq, heads * head_size)
        return linear(g, "o_proj", context, heads * head_size, config.hidden)


def clamped_swiglu(g: GraphBuilder, both: str) -> str:
    """Of gates and values that take turns along the last axis: the value, between -7 and 7, plus one, times the gate, at
    most 7, times sigmoid(1.702 gate)."""

    def every_second(start: int) -> str:
        return g.op("Slice", both, g.ints([start]), g.ints([np.iinfo(np.int64).max]), g.ints([-1]), g.ints([2]))

    gate = g.op("Clip", every_second(0), "", g.scalar(LIMIT))
    value = g.op("Clip", every_second(1), g.scalar(-LIMIT), g.scalar(LIMIT))
    gate = g.op("Mul", gate, g.op("Sigmoid", g.op("Mul", gate, g.scalar(STEEPNESS))))
    return g.op("Mul", g.op("Add", value, g.scalar(1.0)), gate)


def feed_forward(g: GraphBuilder, config: GptOssConfig, block: int, x: str) -> str:
    """The mixture of a block."""

    def network(g: GraphBuilder, rows: str, pick: Pick) -> str:
        both = expert_linear(g, "gate_up_proj", rows, pick, config.experts, config.hidden, 2 * config.inner)
        return expert_linear(g, "down_proj", clamped_swiglu(g, both), pick, config.experts, config.inner, config.hidden)

    with g.scope("mlp"):
        batch, seq = g.extent("input_ids", 0), g.extent("input_ids", 1)
        routing = LogitRouting(config.experts, config.top_k, config.capacity_factor)
        return FORMS[config.dispatch](g, routing, x, config.hidden, batch, seq, network)


def emit(g: GraphBuilder, config: GptOssConfig) -> None:
    """Writes the graph."""

    def biases(g: GraphBuilder, seq: Extent) -> Tuple[str, str]:
        return window_bias(g, seq, config.window), causal_bias(g, seq)

    emit_decoder(g, config, feed_forward, attention, rotation_of, biases)


FAMILY = Family(
    name="gpt-oss",
    summary="decoder with attention sinks and windows, and a mixture of clamped gated MLPs, four per token",
    config=GptOssConfig,
    sizes={"gpt-oss-20b": GptOssConfig(layers=24, experts=32), "gpt-oss-120b": GptOssConfig()},
    emit=emit,
)
