# SPDX-License-Identifier: Apache-2.0
"""Weights in blocks of few bits, as onnxruntime's MatMulNBitsQuantizer makes them (the package that it needs beside
onnxruntime is not among ours)."""

import numpy as np
import onnx
from onnx import helper, numpy_helper


def quantize(model: onnx.ModelProto, bits: int, symmetric: bool, block: int = 32, accuracy_level: int = 1) -> onnx.ModelProto:
    """The model with a MatMulNBits for each MatMul by an initializer, in place.

    accuracy_level: what onnxruntime may make of the other side: 1 keeps it f32, 4 rounds it to 8 bits.
    """
    from onnxruntime.capi import _pybind_state

    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    read = [name for node in model.graph.node for name in node.input]
    for node in [node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in tensors]:
        name = node.input[1]
        matrix = numpy_helper.to_array(tensors[name])
        k, n = matrix.shape
        blocks = -(-k // block)
        packed, scale = np.zeros((n, blocks, block * bits // 8), np.uint8), np.zeros(n * blocks, np.float32)
        zero = np.zeros(n * -(-blocks * bits // 8), np.uint8)
        getattr(_pybind_state, f"quantize_matmul_{bits}bits")(packed, matrix, scale, zero, block, n, k, symmetric)
        given = {"B": packed, "scales": scale.reshape(n, blocks), **({} if symmetric else {"zeros": zero.reshape(n, -1)})}
        model.graph.initializer.extend(numpy_helper.from_array(array, f"{name}.{part}") for part, array in given.items())
        node.CopyFrom(helper.make_node("MatMulNBits", [node.input[0], *(f"{name}.{part}" for part in given)], node.output, node.name,
                                       domain="com.microsoft", K=k, N=n, bits=bits, block_size=block, accuracy_level=accuracy_level))
        if read.count(name) == 1:
            model.graph.initializer.remove(tensors[name])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model
