# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as the reference: inputs for any model, and what it computes from them."""

import pathlib
from typing import Dict, Mapping, Optional

import numpy as np
import onnx
import onnxruntime

#: Token ids stay below the smallest vocabulary among the checked models.
SMALLEST_VOCABULARY = 100


def make_inputs(path: pathlib.Path, bind: Mapping[str, int], seed: int = 0, fixed: Mapping[str, float] = {}) -> Dict[str, np.ndarray]:
    """Random values for every open input: floats normal, masks mostly one, token types 0 or 1, other integers small; those
    that are fixed have the value that they always have."""
    random = np.random.default_rng(seed)
    graph = onnx.load(path, load_external_data=False).graph
    filled = {tensor.name for tensor in graph.initializer}
    inputs = {}
    for value in graph.input:
        if value.name in filled:
            continue
        dims = value.type.tensor_type.shape.dim
        shape = [dim.dim_value if dim.dim_value > 0 else bind[dim.dim_param or f"{value.name}.{position}"]
                 for position, dim in enumerate(dims)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.name in fixed:
            inputs[value.name] = np.full(shape, fixed[value.name], dtype)
        elif np.issubdtype(dtype, np.floating):
            inputs[value.name] = random.standard_normal(shape).astype(dtype)
        elif "mask" in value.name:
            inputs[value.name] = (np.arange(shape[-1]) < shape[-1] - np.arange(shape[0])[:, None] % 3).astype(dtype)
        else:
            limit = 2 if "type" in value.name else SMALLEST_VOCABULARY
            inputs[value.name] = random.integers(0, limit, shape).astype(dtype)
    return inputs


def session(path: pathlib.Path, threads: Optional[int] = None) -> onnxruntime.InferenceSession:
    """An onnxruntime session on the CPU, with all optimizations, silent."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path: pathlib.Path, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The outputs by name."""
    reference = session(path)
    return dict(zip([output.name for output in reference.get_outputs()], reference.run(None, dict(inputs))))
