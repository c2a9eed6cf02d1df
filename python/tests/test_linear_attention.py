# SPDX-License-Identifier: Apache-2.0
"""Linear attention against its recurrence in NumPy: more forms than the cases of onnx have, which scripts/onnx-backend runs."""

import pathlib
from typing import Dict, Optional, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autopar


def computed(model: onnx.ModelProto, folder: pathlib.Path, inputs: Dict[str, np.ndarray], ranks: int, *options: str) -> Dict[str, np.ndarray]:
    compiled = autopar.compile(model, folder / "compiled.bin", ranks=ranks, options=list(options))
    with autopar.Session(compiled) as session:
        return session.run(inputs)


def linear_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, state: Optional[np.ndarray], decay: Optional[np.ndarray],
                     beta: Optional[np.ndarray], heads: int, kv_heads: int, scale: float) -> Tuple[np.ndarray, np.ndarray]:
    """The recurrence of the operator's text, token by token and head by head."""
    batch, steps, _ = q.shape
    key, value = k.shape[2] // kv_heads, v.shape[2] // kv_heads
    state = np.zeros((batch, kv_heads, key, value)) if state is None else state.astype(np.float64)
    output = np.zeros((batch, steps, heads, value))
    for b, t, h in np.ndindex(batch, steps, kv_heads):
        k_t, v_t = k[b, t].reshape(kv_heads, key)[h], v[b, t].reshape(kv_heads, value)[h]
        if decay is not None:  # per head, or per dimension of its keys
            state[b, h] *= np.exp(decay[b, t].reshape(kv_heads, -1)[h])[:, None]
        if beta is not None:  # per head, or one for all
            v_t = beta[b, t, h if beta.shape[2] > 1 else 0] * (v_t - state[b, h].T @ k_t)
        state[b, h] += np.outer(k_t, v_t)
        for shared in range(heads // kv_heads):
            head = h * (heads // kv_heads) + shared
            output[b, t, head] = scale * q[b, t].reshape(heads, key)[head] @ state[b, h]
    return output.reshape(batch, steps, heads * value), state


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("rule, decays, betas, kv_heads, has_state", [
    ("linear", 0, 0, 4, False), ("gated", 2 * 8, 0, 2, True), ("gated", 4, 0, 4, False), ("delta", 0, 2, 2, True), ("delta", 0, 1, 4, False),
    ("gated_delta", 2, 2, 2, True), ("gated_delta", 1 * 8, 1, 1, False)])
def test_linear_attention_is_its_recurrence(tmp_path: pathlib.Path, rule: str, decays: int, betas: int, kv_heads: int, has_state: bool,
                                            ranks: int) -> None:
    random = np.random.default_rng(len(rule) + kv_heads)
    batch, steps, heads, key, value = 2, 5, 4, 8, 6
    shapes = {"q": heads * key, "k": kv_heads * key, "v": kv_heads * value, "state": 0, "decay": decays, "beta": betas}
    inputs = {name: random.standard_normal((batch, steps, size)).astype(np.float32) for name, size in shapes.items() if size}
    if has_state:
        inputs["state"] = random.standard_normal((batch, kv_heads, key, value)).astype(np.float32)
    if decays:
        inputs["decay"] = -np.abs(inputs["decay"])
    if betas:  # as models have it: a rate between 0 and 1, keys of length 1
        inputs["beta"] = 1 / (1 + np.exp(-inputs["beta"]))
        each = inputs["k"].reshape(batch, steps, kv_heads, key)
        inputs["k"] = (each / np.linalg.norm(each, axis=-1, keepdims=True)).reshape(inputs["k"].shape)
    node = helper.make_node("LinearAttention", [name if name in inputs else "" for name in shapes], ["output", "present"], q_num_heads=heads,
                            kv_num_heads=kv_heads, update_rule=rule, scale=0.5 if has_state else 0.0)
    graph = helper.make_graph([node], "linear", [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)])
    actual = computed(model, tmp_path, inputs, ranks)
    output, state = linear_attention(*(inputs.get(name) for name in shapes), heads, kv_heads, 0.5 if has_state else key**-0.5)  # type: ignore[arg-type]
    np.testing.assert_allclose(actual["output"], output, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actual["present"], state, rtol=1e-4, atol=1e-5)
