# SPDX-License-Identifier: Apache-2.0
"""A small decoder as exporters write it: caches grow by concatenation, a mask of old and new tokens and positions are inputs."""

import pathlib
from typing import Dict, List

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCAB, HIDDEN, HEADS, LAYERS, PLACES = 61, 16, 2, 2, 64


class _Graph:
    """Nodes and weights, each result named after its node."""

    def __init__(self) -> None:
        self.nodes: List[onnx.NodeProto] = []
        self.weights: Dict[str, np.ndarray] = {}
        self.random = np.random.default_rng(0)

    def node(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def weight(self, name: str, *shape: int) -> str:
        self.weights[name] = (self.random.standard_normal(shape) * 0.4).astype(np.float32)
        return name

    def constant(self, name: str, value: object, dtype: type = np.int64) -> str:
        self.weights[name] = np.array(value, dtype)
        return name


def save(path: pathlib.Path, window: int = 0) -> None:
    """Inputs input_ids [batch, seq], attention_mask [batch, past + seq], position_ids [batch, seq] and caches [batch, heads, past,
    channels]. window > 0: a token attends that many, itself among them, counted by the columns of the mask, as mistral does."""
    graph = _Graph()
    node, weight, constant = graph.node, graph.weight, graph.constant
    for name, value in {"zero": 0, "one": 1, "first": [0], "second": [1], "heads": [1, 2]}.items():
        constant(name, value)
    constant("split", [0, 0, HEADS, HIDDEN // HEADS]), constant("join", [0, 0, HIDDEN])
    constant("hidden", -3e38, np.float32), constant("seen", 0, np.float32), constant("scale", (HIDDEN // HEADS) ** -0.5, np.float32)
    # Rows are the columns past, past + 1, ... of the mask.
    node("Gather", "all", node("Shape", "mask/shape", "attention_mask"), "one")
    node("Gather", "new", node("Shape", "ids/shape", "input_ids"), "one")
    node("Range", "columns", "zero", "all", "one")
    node("Unsqueeze", "rows", node("Range", "rows/flat", node("Sub", "past", "all", "new"), "all", "one"), "second")
    node("LessOrEqual", "causal", "columns", "rows")
    if window:
        node("Greater", "near", "columns", node("Sub", "before", "rows", constant("window", window)))
        node("And", "around", "causal", "near")
    node("Unsqueeze", "mask", node("Cast", "mask/bool", "attention_mask", to=TensorProto.BOOL), "heads")
    node("Where", "bias", node("And", "visible", "mask", "around" if window else "causal"), "seen", "hidden")
    x = node("Add", "embedded", node("Gather", "tokens", weight("embed", VOCAB, HIDDEN), "input_ids"),
             node("Gather", "places", weight("positions", PLACES, HIDDEN), "position_ids"))
    for layer in range(LAYERS):
        parts = {}
        for part in ("query", "key", "value"):
            product = node("MatMul", f"{layer}/{part}", x, weight(f"{layer}/{part}.weight", HIDDEN, HIDDEN))
            split = node("Reshape", f"{layer}/{part}/heads", product, "split")
            parts[part] = node("Transpose", f"{layer}/{part}/rows", split, perm=[0, 2, 1, 3])
        for part in ("key", "value"):
            parts[part] = node("Concat", f"present.{layer}.{part}", f"past_key_values.{layer}.{part}", parts[part], axis=2)
        turned = node("Transpose", f"{layer}/turned", parts["key"], perm=[0, 1, 3, 2])
        scores = node("Mul", f"{layer}/scaled", node("MatMul", f"{layer}/scores", parts["query"], turned), "scale")
        shares = node("Softmax", f"{layer}/shares", node("Add", f"{layer}/masked", scores, "bias"), axis=-1)
        context = node("Transpose", f"{layer}/context", node("MatMul", f"{layer}/mixed", shares, parts["value"]), perm=[0, 2, 1, 3])
        out = node("MatMul", f"{layer}/out", node("Reshape", f"{layer}/joined", context, "join"), weight(f"{layer}/out.weight", HIDDEN, HIDDEN))
        x = node("Add", f"{layer}/sum", x, node("Tanh", f"{layer}/tanh", out))
    node("MatMul", "logits", x, weight("head", HIDDEN, VOCAB))
    both, cache = "past_sequence_length + sequence_length", [f"{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]

    def tensor(name: str, kind: int, *shape: object) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, ["batch_size", *shape])

    inputs = [tensor("input_ids", TensorProto.INT64, "sequence_length"), tensor("attention_mask", TensorProto.INT64, both),
              tensor("position_ids", TensorProto.INT64, "sequence_length"),
              *(tensor(f"past_key_values.{name}", TensorProto.FLOAT, HEADS, "past_sequence_length", HIDDEN // HEADS) for name in cache)]
    outputs = [tensor("logits", TensorProto.FLOAT, "sequence_length", VOCAB),
               *(tensor(f"present.{name}", TensorProto.FLOAT, HEADS, both, HIDDEN // HEADS) for name in cache)]
    made = helper.make_graph(graph.nodes, "decoder", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in graph.weights.items()])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
