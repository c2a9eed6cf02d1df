# SPDX-License-Identifier: Apache-2.0
"""What onnx's reference evaluator gives for a model of any floats in f64."""

from typing import Dict

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from .comparison import is_float

_FLOATS = (TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT)
#: Attributes that name an element type.
_TYPES = ("to", "dtype", "softmax_precision", "stash_type")


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every float is an f64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    tensors = list(wide.graph.initializer)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                tensors.append(attribute.t)
            elif attribute.name in _TYPES and attribute.i in _FLOATS:
                attribute.i = TensorProto.DOUBLE
    for tensor in tensors:
        if tensor.data_type in _FLOATS:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in [*wide.graph.input, *wide.graph.output, *wide.graph.value_info]:
        if value.type.tensor_type.elem_type in _FLOATS:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def exact_outputs(model: onnx.ModelProto, inputs: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """All outputs, computed in f64; none where the evaluator cannot."""
    wide = {name: array.astype(np.float64) if is_float(array.dtype) else array for name, array in inputs.items()}
    names = [output.name for output in model.graph.output]
    try:
        with np.errstate(all="ignore"):
            return dict(zip(names, ReferenceEvaluator(widened(model)).run(names, wide)))
    except Exception:  # whatever its operators raise
        return {}
