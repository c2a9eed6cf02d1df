# SPDX-License-Identifier: Apache-2.0
"""Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1): keys and values are made from a narrow
vector per token, and only a part of each query and key is rotated; that of the keys is one for all heads.

Written as it is trained, with keys and values of all heads. Channels that turn together lie half a rotated part apart,
as in llama; published weights have them side by side, which is another order of the same columns.
"""

from typing import Tuple

from . import rotary
from .graph import GraphBuilder
from .layers import linear, merge_heads, rms_norm


def attention(g: GraphBuilder, config, block: int, x: str, rotation: Tuple[str, str], seen: str, extents: Tuple) -> str:
    """The attention module `self_attn`. config has hidden, heads, query_rank, key_value_rank, plain_size, rotary_size,
    value_size and epsilon; `seen` is added to the scores."""
    batch, seq = extents
    hidden, heads = config.hidden, config.heads
    plain, rotated, wide = config.plain_size, config.rotary_size, config.value_size

    def heads_of(rows: str, size: int) -> str:
        """[batch, heads, seq, size] of rows [batch, seq, heads * size]."""
        return g.transpose(g.reshape(rows, [batch, seq, heads, size]), (0, 2, 1, 3))

    with g.scope("self_attn"):
        if config.query_rank:
            narrow = linear(g, "q_a_proj", x, hidden, config.query_rank, bias=False)
            narrow = rms_norm(g, "q_a_layernorm", narrow, config.query_rank, config.epsilon)
            query = linear(g, "q_b_proj", narrow, config.query_rank, heads * (plain + rotated), bias=False)
        else:
            query = linear(g, "q_proj", x, hidden, heads * (plain + rotated), bias=False)
        query, turning = g.split(heads_of(query, plain + rotated), [plain, rotated], axis=3)
        query = g.op("Concat", query, rotary.rotate(g, turning, rotation, rotated), axis=-1)

        rank = config.key_value_rank
        narrow = linear(g, "kv_a_proj_with_mqa", x, hidden, rank + rotated, bias=False)
        narrow, turning = g.split(narrow, [rank, rotated], axis=2)
        narrow = rms_norm(g, "kv_a_layernorm", narrow, rank, config.epsilon)
        both = linear(g, "kv_b_proj", narrow, rank, heads * (plain + wide), bias=False)
        key, value = g.split(heads_of(both, plain + wide), [plain, wide], axis=3)
        turning = rotary.rotate(g, g.unsqueeze(turning, 1), rotation, rotated)
        key = g.op("Concat", key, g.op("Expand", turning, g.shape([batch, heads, seq, rotated])), axis=-1)

        context = rotary.attend_whole(g, query, key, value, seen, plain + rotated)
        context = merge_heads(g, context, batch, seq, heads * wide)
        return linear(g, "o_proj", context, heads * wide, hidden, bias=False)
