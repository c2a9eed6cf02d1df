# SPDX-License-Identifier: Apache-2.0
"""Causal self-attention with rotary positions and grouped key/value heads, shared by llama3, mixtral and qwen3.

Rotary embedding: Su et al., "RoFormer" (2021). The rescaling of low frequencies for long contexts is that of the
Llama 3.1 model card (factor, low and high frequency factors 1 and 4, original context 8192).
"""

import math
from typing import Tuple, Union

import numpy as np

from . import cache
from .cache import Cache
from .family import ModelError, require_divisible
from .graph import GraphBuilder
from .layers import linear, merge_heads, rms_norm, split_heads

ORIGINAL_CONTEXT = 8192
LOW_FREQUENCY_FACTOR = 1.0
HIGH_FREQUENCY_FACTOR = 4.0


def frequencies(head_size: int, theta: float, factor: float) -> np.ndarray:
    """Radians per position of each pair of channels, float64 [head_size / 2]; factor 0 means no rescaling."""
    base = theta ** (-np.arange(0, head_size, 2, dtype=np.float64) / head_size)
    if factor == 0:
        return base
    turns = ORIGINAL_CONTEXT * base / (2 * math.pi)  # how often a pair turns within the original context
    smooth = np.clip((turns - LOW_FREQUENCY_FACTOR) / (HIGH_FREQUENCY_FACTOR - LOW_FREQUENCY_FACTOR), 0.0, 1.0)
    return base * (smooth + (1.0 - smooth) / factor)


def tables(
    g: GraphBuilder, places: str, positions: int, head_size: int, theta: float, factor: float
) -> Tuple[str, str]:
    """cos and sin of the positions `places` [1 or batch, seq], each [1 or batch, 1, seq, head_size], read from tables
    kept in the model."""
    require_even(head_size)
    turns = frequencies(head_size, theta, factor)
    return read_tables(g, places, positions, np.concatenate([turns, turns]))


def require_even(head_size: int) -> None:
    """Channels turn in pairs."""
    if head_size % 2:
        raise ModelError(f"rotary attention needs an even head size, got {head_size}, change hidden or heads")


def read_tables(g: GraphBuilder, places: str, positions: int, turns: np.ndarray, factor: float = 1.0) -> Tuple[str, str]:
    """cos and sin, times `factor`, of the positions `places` [1 or batch, seq] of so many, where a channel turns by `turns`
    [channels] from one to the next, each [1 or batch, 1, seq, channels]."""
    g.require_table_bytes(positions * len(turns) * 4, "positions")
    angles = np.outer(np.arange(positions), turns)
    results = []
    for name, function in (("cos_cached", np.cos), ("sin_cached", np.sin)):
        table = g.buffer(name, (function(angles) * factor).astype(np.float32))
        results.append(g.unsqueeze(g.op("Gather", table, places), 1))
    return results[0], results[1]


def rotation_of(g: GraphBuilder, config, places: str) -> Tuple[str, str]:
    """The tables of a configuration's frequencies, read at `places`."""
    return tables(g, places, config.positions, config.rotary_size, config.rope_theta, config.rope_factor)


def rotate(g: GraphBuilder, x: str, rotation: Tuple[str, str], head_size: int) -> str:
    """x cos + rotate_half(x) sin on [batch, heads, seq, head_size]."""
    first = g.slice(x, 0, head_size // 2, axis=3)
    second = g.slice(x, head_size // 2, head_size, axis=3)
    turned = g.op("Concat", g.op("Neg", second), first, axis=-1)
    return g.op("Add", g.op("Mul", x, rotation[0]), g.op("Mul", turned, rotation[1]))


def repeat_heads(g: GraphBuilder, x: str, extents, kv_heads: int, times: int, head_size: int) -> str:
    """[batch, kv_heads, seq, head_size] to [batch, kv_heads * times, seq, head_size] by Expand and Reshape."""
    if times == 1:
        return x
    batch, seq = extents
    wide = g.op("Expand", g.unsqueeze(x, 2), g.shape([batch, kv_heads, times, seq, head_size]))
    return g.reshape(wide, [batch, kv_heads * times, seq, head_size])


def attend_whole(g: GraphBuilder, query: str, key: str, value: str, bias: str, head_size: int) -> str:
    """Attention among the given tokens of equally many heads; `bias` is added to the scores."""
    scores = g.op("MatMul", query, g.transpose(key, (0, 1, 3, 2)))
    scores = g.op("Add", g.op("Mul", scores, g.scalar(1.0 / math.sqrt(head_size))), bias)
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), value)


def attention(
    g: GraphBuilder, config, block: int, x: str, rotation: Tuple[str, str], seen: Union[str, Cache], extents: Tuple
) -> str:
    """The attention module `self_attn`; config has hidden, heads, kv_heads, head_size, head_norm and cache. `seen` is the
    bias of whole sequences, or the cache."""
    batch, seq = extents
    hidden, heads, kv_heads, head_size = config.hidden, config.heads, config.kv_heads, config.head_size
    times = require_divisible(heads, kv_heads, "heads", "kv-heads")
    with g.scope("self_attn"):

        def project(name: str, count: int, norm: str = "") -> str:
            """[batch, count, seq, head_size] of x."""
            rows = g.reshape(linear(g, name, x, hidden, count * head_size, bias=False), [batch, seq, count, head_size])
            if norm and config.head_norm:
                rows = rms_norm(g, norm, rows, head_size, config.epsilon)
            return g.transpose(rows, (0, 2, 1, 3))

        query, key = project("q_proj", heads, "q_norm"), project("k_proj", kv_heads, "k_norm")
        value = project("v_proj", kv_heads)
        query = rotate(g, query, rotation, head_size)
        key = rotate(g, key, rotation, head_size)
        if config.cache:
            context = cache.attend(g, seen, block, query, key, value, (kv_heads, head_size))
        else:
            key, value = (repeat_heads(g, part, extents, kv_heads, times, head_size) for part in (key, value))
            context = attend_whole(g, query, key, value, seen, head_size)
        context = merge_heads(g, context, batch, seq, heads * head_size)
        return linear(g, "o_proj", context, heads * head_size, hidden, bias=False)
