# SPDX-License-Identifier: Apache-2.0
"""How far a plan of gpt2's training step goes on ZeRO's way: what part of the layers' weights lies as each stage has it."""

import dataclasses
import json
import pathlib

#: Parameters of a layer's matrices in squares of the hidden size.
SIZES = {"attn/c_attn": 3, "attn/c_proj": 1, "mlp/c_fc": 4, "mlp/c_proj": 4}


@dataclasses.dataclass(frozen=True)
class Shares:
    """Parts of all weights, between 0 and 1; `step_us` and `peak_bytes` are what the search believes."""

    states: float  #: whose optimizer state is split: the first stage
    gradients: float  #: whose gradient is split while it accumulates or waits: the second
    parameters: float  #: that are split themselves and gathered whole by the phases that read them: the third
    step_us: float
    peak_bytes: int


def shares(plan: pathlib.Path, layers: int) -> Shares:
    """Looks at the four matrices of each layer."""
    loaded = json.loads(plan.read_text())
    shard, ops = loaded["shard"], loaded["ops"]
    states = gradients = parameters = total = 0
    for layer in range(layers):
        for part, size in SIZES.items():
            weight = f"transformer.h.{layer}.{part.replace('/', '.')}.weight"
            gradient = f"/transformer/h.{layer}/{part}/Gemm/vjp.1/"
            held = ops.get(gradient + "accumulate") or ops[gradient + "waiting"]
            total += size
            states += size * any(shard[weight + "/mean"])
            gradients += size * any(held[:len(shard[weight])])  # behind the dimensions stands what a partial sum waits for
            is_gathered = not any(ops[weight + "/forward"]) and not any(ops[weight + "/backward"])
            parameters += size * (is_gathered and any(shard[weight]))
    believed = loaded["believed"]
    return Shares(states / total, gradients / total, parameters / total, believed["step_us"], max(believed["peak_bytes"]))
