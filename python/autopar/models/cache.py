# SPDX-License-Identifier: Apache-2.0
"""Key/value caches of decoders: keys and values of earlier tokens come in, those of the given tokens are written behind
them, and the caches go out, in the operators that ONNX has for it (TensorScatter and Attention of operator set 24).

Each sample has its own number of earlier tokens, so that prompts of different lengths share a batch. Names are those of
Hugging Face's exports: past_key_values.N.key in, present.N.key out.
"""

import dataclasses
from typing import Tuple

from onnx import TensorProto

from .family import ModelError
from .graph import GraphBuilder

#: Oldest operator set with TensorScatter.
MIN_OPSET = 24


@dataclasses.dataclass(frozen=True)
class Cache:
    """The inputs that all blocks share.

    positions: tokens that a cache has room for.
    length: int64 [batch], how many it holds before these; filled: the same with these.
    """

    positions: int
    length: str
    filled: str


def make(g: GraphBuilder, positions: int, limit: int) -> Cache:
    """Adds the input cache_length; `limit` is what the model's table of positions covers."""
    if g.opset < MIN_OPSET:
        raise ModelError(f"a key/value cache needs operator set {MIN_OPSET} or newer, got {g.opset}; add --opset {MIN_OPSET}")
    if positions > limit:
        raise ModelError(f"cache={positions} is longer than positions={limit}, lower cache or raise positions")
    g.require_seq_at_most(positions)
    length = g.input("cache_length", [g.batch], TensorProto.INT64)
    tokens = g.extent("input_ids", 1)
    filled = g.op("Add", length, g.ints([tokens]) if isinstance(tokens, int) else tokens)
    return Cache(positions, length, filled)


def places(g: GraphBuilder, cache: Cache, limit: int) -> str:
    """Positions of the given tokens, int64 [batch, seq]. What pads a batch may lie behind the table's end; it takes the last."""
    offsets = g.unsqueeze(g.arange(g.extent("input_ids", 1)), 0)
    return g.op("Min", g.op("Add", g.unsqueeze(cache.length, 1), offsets), g.int_scalar(limit - 1))


def attend(g: GraphBuilder, cache: Cache, block: int, query: str, key: str, value: str, size: Tuple[int, int]) -> str:
    """Causal attention [batch, query heads, seq, channels] to what is cached and to the given tokens, whose keys and
    values [batch, heads, seq, channels] the caches take; size: those heads and channels."""
    shape = [g.batch, size[0], cache.positions, size[1]]
    kept = []
    for part, given in (("key", key), ("value", value)):
        past = g.input(f"past_key_values.{block}.{part}", shape)
        kept.append(g.op("TensorScatter", past, given, cache.length, axis=2, mode="linear"))
        g.output(f"present.{block}.{part}", kept[-1], shape)
        kept[-1] = f"present.{block}.{part}"
    return g.op("Attention", query, *kept, "", "", "", cache.filled, is_causal=1)
