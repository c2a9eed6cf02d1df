# SPDX-License-Identifier: Apache-2.0
"""Mixture-of-experts layers: routing, and the four ways to bring tokens to experts.

`dispatched` is the form of GShard (Lepikhin et al., 2020) and Switch Transformer (Fedus et al., 2021): each expert
takes at most `capacity` tokens of each sequence, one-hot tensors [batch, seq, experts, capacity] carry tokens to
experts and back as matrix products, and the experts are one batched MatMul over 3-D weights. Tokens above the capacity
skip the layer. `gathered` computes the same without these products: it looks up which token is in which place, reads
the rows of tokens by it, and those of results. `dense` computes every expert for every token and weights the results;
nothing is dropped. Nor is it by `dropless`, where every token looks up the weights of its experts (the sparse products
of MegaBlocks, Gale et al., 2022, as operators of ONNX have them); a runtime that really looks them up needs room for
them.

Routing is computed in float32 whatever the model's data type, as the published models do.
"""

import dataclasses
import math
from typing import Callable, Tuple

import numpy as np
from onnx import TensorProto

from .family import ModelError, option
from .graph import Extent, GraphBuilder
from .weights import BIAS, fan_in

#: What of a parameter [experts, ...] rows are multiplied by.
Pick = Callable[[str], str]
#: A batched expert network: (g, tokens [experts, rows, hidden], pick) -> [experts, rows, hidden].
ExpertNetwork = Callable[[GraphBuilder, str, Pick], str]


def whole(parameter: str) -> str:
    """All experts, where rows stand by expert."""
    return parameter


@dataclasses.dataclass(frozen=True)
class Routing:
    """How tokens choose experts. capacity_factor: room per expert relative to a perfectly even load."""

    experts: int
    top_k: int
    capacity_factor: float = 1.0

    def check(self) -> None:
        """Raises ModelError unless at least one and at most all experts are chosen per token."""
        if not 1 <= self.top_k <= self.experts:
            raise ModelError(f"top-k={self.top_k} must be between 1 and experts={self.experts}")

    def choose(self, g: GraphBuilder, x: str, hidden: int) -> Tuple[str, str]:
        """Weights (float32, normalized over the choices when there are several) and indices of the chosen experts, each
        [batch, seq, top_k] for x [batch, seq, hidden]."""
        self.check()
        with g.scope("gate"):
            weight = g.param("weight", (hidden, self.experts), fan_in(hidden, gain=2.0), dtype="float32")
            gates = g.op("Softmax", g.op("MatMul", to_float32(g, x), weight), axis=-1)
            chosen, indices = g.op("TopK", gates, g.ints([self.top_k]), outputs=2, axis=-1, largest=1, sorted=1)
            if self.top_k > 1:
                chosen = g.op("Div", chosen, g.reduce_sum(chosen, -1, keepdims=True))
            return chosen, indices


def to_float32(g: GraphBuilder, x: str) -> str:
    """x in float32; no node in a float32 model."""
    return x if g.dtype == "float32" else g.cast(x, TensorProto.FLOAT)


def from_float32(g: GraphBuilder, x: str) -> str:
    """A float32 value in the model's data type; no node in a float32 model."""
    return x if g.dtype == "float32" else g.cast(x, g.onnx_dtype)


def one_hot(g: GraphBuilder, indices: str, depth: str) -> str:
    """float32 one-hot vectors along a new last axis; an index >= depth gives zeros."""
    return g.op("OneHot", indices, depth, g.const(np.array([0.0, 1.0], np.float32), as_is=True), axis=-1)


def capacity_of(g: GraphBuilder, routing: Routing, seq: Extent) -> str:
    """Tokens of one sequence that an expert takes: ceil(top_k * factor * seq / experts), an int64 vector of one."""
    share = routing.top_k * routing.capacity_factor / routing.experts
    if isinstance(seq, int):
        return g.ints([math.ceil(share * seq)])
    scaled = g.op("Mul", g.cast(seq, TensorProto.FLOAT), g.const(np.array(share, np.float32), as_is=True))
    return g.cast(g.op("Ceil", scaled), TensorProto.INT64)


def combine_weights(g: GraphBuilder, routing: Routing, chosen: str, indices: str, seq: Extent) -> str:
    """float32 [batch, seq, experts, capacity]: weight of each token at its expert and place there, else zero."""
    capacity = capacity_of(g, routing, seq)
    taken, total = None, None
    for k in range(routing.top_k):
        index = g.op("Gather", indices, g.int_scalar(k), axis=2)
        mask = one_hot(g, index, g.ints([routing.experts]))
        place = g.op("CumSum", mask, g.int_scalar(1), exclusive=1)
        if taken is not None:  # later choices queue behind all earlier ones
            place = g.op("Add", place, taken)
        if k + 1 < routing.top_k:
            count = g.reduce_sum(mask, 1, keepdims=True)
            taken = count if taken is None else g.op("Add", taken, count)
        place = g.reduce_sum(g.op("Mul", place, mask), -1, keepdims=False)
        slot = one_hot(g, g.cast(place, TensorProto.INT64), capacity)
        weighted = g.op("Mul", mask, g.unsqueeze(g.op("Gather", chosen, g.int_scalar(k), axis=2), 2))
        part = g.op("Mul", g.unsqueeze(weighted, 3), g.unsqueeze(slot, 2))
        total = part if total is None else g.op("Add", total, part)
    return total


def run_experts(
    g: GraphBuilder, routing: Routing, tokens: str, hidden: int, batch: Extent, network: ExpertNetwork
) -> str:
    """The experts on tokens [batch, experts * capacity, hidden], each on its own places."""
    tokens = g.transpose(g.reshape(tokens, [batch, routing.experts, -1, hidden]), (1, 0, 2, 3))
    tokens = g.reshape(tokens, [routing.experts, -1, hidden])
    with g.scope("experts"):
        results = network(g, tokens, whole)
    results = g.transpose(g.reshape(results, [routing.experts, batch, -1, hidden]), (1, 0, 2, 3))
    return g.reshape(results, [batch, -1, hidden])


def dispatched(
    g: GraphBuilder, routing: Routing, x: str, hidden: int, batch: Extent, seq: Extent, network: ExpertNetwork
) -> str:
    """The layer with capacity on x [batch, seq, hidden]."""
    chosen, indices = routing.choose(g, x, hidden)
    combine = combine_weights(g, routing, chosen, indices, seq)
    dispatch = from_float32(g, g.cast(g.cast(combine, TensorProto.BOOL), TensorProto.FLOAT))
    dispatch = g.transpose(g.reshape(dispatch, [batch, seq, -1]), (0, 2, 1))
    tokens = g.op("MatMul", dispatch, x)  # [batch, experts * capacity, hidden]
    results = run_experts(g, routing, tokens, hidden, batch, network)
    return g.op("MatMul", from_float32(g, g.reshape(combine, [batch, seq, -1])), results)


def slots_of(g: GraphBuilder, routing: Routing, indices: str, batch: Extent, seq: Extent, capacity: str) -> str:
    """int64 [batch, top_k * seq], choice by choice: expert * capacity + place there of what was chosen. What exceeds
    the capacity gets experts * capacity. Places are given as `combine_weights` does: first choices first."""
    order = g.reshape(g.transpose(indices, (0, 2, 1)), [batch, -1])
    line = g.unsqueeze(order, 1)
    numbers = g.unsqueeze(g.arange(routing.experts), 1)
    mask = g.cast(g.op("Equal", line, numbers), TensorProto.INT32)  # [batch, experts, top_k * seq]
    place = g.op("GatherElements", g.op("CumSum", mask, g.int_scalar(2)), line, axis=1)
    place = g.op("Sub", g.cast(place, TensorProto.INT64), g.int_scalar(1))
    slot = g.op("Add", g.op("Mul", line, capacity), place)
    slot = g.op("Where", g.op("Less", place, capacity), slot, g.op("Mul", capacity, g.int_scalar(routing.experts)))
    return g.reshape(slot, [batch, -1])


def tokens_of(g: GraphBuilder, routing: Routing, slots: str, batch: Extent, seq: Extent, capacity: str) -> str:
    """int64 [batch, experts * capacity]: the token in each slot. Slots that stay empty hold any: they are never read.
    They hold different ones, so that no token's gradient is a sum of all of them."""
    shape = [batch, routing.top_k, seq]
    tokens = g.op("Expand", g.arange(seq), g.shape(shape))
    count = g.op("Mul", capacity, g.int_scalar(routing.experts))
    limit = g.op("Squeeze", g.op("Add", count, g.int_scalar(1)), g.ints([0]))
    empty = g.op("Mod", g.op("Range", g.int_scalar(0), limit, g.int_scalar(1)), g.shape([seq]))
    empty = g.op("Expand", empty, g.shape([batch, 1]))
    taken = g.op("ScatterElements", empty, slots, g.reshape(tokens, [batch, -1]), axis=1)
    return g.slice(taken, 0, count, axis=1)


def gathered(
    g: GraphBuilder, routing: Routing, x: str, hidden: int, batch: Extent, seq: Extent, network: ExpertNetwork
) -> str:
    """The layer with capacity on x [batch, seq, hidden], by positions instead of one-hot tensors."""
    chosen, indices = routing.choose(g, x, hidden)
    capacity = capacity_of(g, routing, seq)
    slots = slots_of(g, routing, indices, batch, seq, capacity)
    tokens = g.op("GatherND", x, g.unsqueeze(tokens_of(g, routing, slots, batch, seq, capacity), 2), batch_dims=1)
    results = run_experts(g, routing, tokens, hidden, batch, network)
    slots = g.transpose(g.reshape(slots, [batch, routing.top_k, seq]), (0, 2, 1))
    count = g.op("Mul", capacity, g.int_scalar(routing.experts))
    last = g.op("Sub", count, g.int_scalar(1))
    rows = g.op("GatherND", results, g.unsqueeze(g.op("Min", slots, last), 3), batch_dims=1)  # [batch, seq, top_k, hidden]
    weights = g.op("Where", g.op("Less", slots, count), chosen, g.float32(0.0))
    return g.reduce_sum(g.op("Mul", rows, from_float32(g, g.unsqueeze(weights, 3))), 2, keepdims=False)


def dense(
    g: GraphBuilder, routing: Routing, x: str, hidden: int, batch: Extent, seq: Extent, network: ExpertNetwork
) -> str:
    """The layer without capacity on x [batch, seq, hidden]: every expert sees every token."""
    rows = g.reshape(x, [-1, hidden])
    chosen, indices = (g.reshape(part, [-1, routing.top_k]) for part in routing.choose(g, x, hidden))
    spread = one_hot(g, indices, g.ints([routing.experts]))  # [rows, top_k, experts]
    weights = g.reduce_sum(g.op("Mul", g.unsqueeze(chosen, 2), spread), 1, keepdims=False)
    weights = from_float32(g, g.unsqueeze(g.transpose(weights, (1, 0)), 2))  # [experts, rows, 1]
    with g.scope("experts"):
        results = network(g, rows, whole)  # broadcasts to [experts, rows, hidden]
    results = g.reduce_sum(g.op("Mul", results, weights), 0, keepdims=False)
    return g.reshape(results, [batch, seq, hidden])


def dropless(
    g: GraphBuilder, routing: Routing, x: str, hidden: int, batch: Extent, seq: Extent, network: ExpertNetwork
) -> str:
    """The layer without capacity on x [batch, seq, hidden]: a token is multiplied by the weights of its experts."""
    chosen, indices = routing.choose(g, x, hidden)
    rows = g.reshape(x, [batch, seq, 1, 1, hidden])
    with g.scope("experts"):
        results = network(g, rows, lambda parameter: g.op("Gather", parameter, indices, axis=0))
    weights = from_float32(g, g.unsqueeze(chosen, 3))
    results = g.reshape(results, [batch, seq, routing.top_k, hidden])
    return g.reduce_sum(g.op("Mul", results, weights), 2, keepdims=False)


#: The forms by the name of the option.
FORMS = {"dense": dense, "capacity": dispatched, "gather": gathered, "dropless": dropless}


def dispatch_option(default: str = "gather") -> str:
    """The option of a family whose tokens reach experts in any form."""
    return option(default, "how tokens reach experts", choices=tuple(FORMS))


def capacity_option() -> float:
    """The room that two of the forms have."""
    return option(1.0, "room per expert relative to an even load (--dispatch capacity and gather)")


def expert_linear(
    g: GraphBuilder, name: str, x: str, pick: Pick, experts: int, inputs: int, outputs: int, bias: bool = True
) -> str:
    """One linear layer per expert as a batched MatMul with weights [experts, inputs, outputs]."""
    y = g.op("MatMul", x, pick(g.param(f"{name}.weight", (experts, inputs, outputs), fan_in(inputs))))
    return g.op("Add", y, pick(g.param(f"{name}.bias", (experts, 1, outputs), BIAS))) if bias else y
