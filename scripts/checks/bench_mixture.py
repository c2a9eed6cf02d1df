# SPDX-License-Identifier: Apache-2.0
"""A layer of experts against onnxruntime: 32 gated MLPs of width 1,024, four for each token, as its contrib operators MoE
(weights in float32) and QMoE (of 4 bits, in blocks of 32) have it. Measured as scripts/bench inference does."""

import pathlib
import tempfile
from typing import Any, Dict, Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import bench_inference
from .model import Model

EXPERTS, CHOSEN, WIDTH, INNER, BLOCK = 32, 4, 1024, 1024, 32
TOKENS = (1, 8, 64, 256)
FORM = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0,
        "normalize_routing_weights": 1}


def layer(tokens: int, quantized: bool) -> onnx.ModelProto:
    """The model: x [tokens, WIDTH] and router scores [tokens, EXPERTS] to y [tokens, WIDTH]."""
    random = np.random.default_rng(0)
    initializers = []

    def constant(name: str, array: np.ndarray) -> str:
        initializers.append(numpy_helper.from_array(array, name))
        return name

    def weights(name: str, rows: int, columns: int) -> list:
        """Weights and, of quantized ones, their scales."""
        if not quantized:
            return [constant(name, random.uniform(-0.05, 0.05, (EXPERTS, rows, columns)).astype(np.float32))]
        packed = random.integers(0, 256, (EXPERTS, rows, columns // 2), np.uint8)
        scales = random.uniform(0, 0.02, (EXPERTS, rows, columns // BLOCK)).astype(np.float32)
        return [constant(name, packed), constant(f"{name}.scales", scales)]

    inputs = ["x", "scores", *weights("first", 2 * INNER, WIDTH), "", *weights("second", WIDTH, INNER), ""]
    own = {"expert_weight_bits": 4, "block_size": BLOCK} if quantized else {}
    node = helper.make_node("QMoE" if quantized else "MoE", inputs, ["y"], domain="com.microsoft", k=CHOSEN, **FORM, **own)
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [tokens, columns])
              for name, columns in (("x", WIDTH), ("scores", EXPERTS), ("y", WIDTH))]
    graph = helper.make_graph([node], "layer", floats[:2], floats[2:], initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


def cases() -> Iterator[Dict[str, Any]]:
    """One case per operator and number of tokens."""
    for quantized in (False, True):
        for tokens in TOKENS:
            name = f"{'QMoE' if quantized else 'MoE'}, {tokens} tokens"
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                path = pathlib.Path(folder) / "layer.onnx"
                onnx.save(layer(tokens, quantized), path)
                yield bench_inference.compare(Model(name, path, {}), folder)[0]
