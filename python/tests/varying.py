# SPDX-License-Identifier: Apache-2.0
"""Models whose extents vary, against onnxruntime."""

import pathlib
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import autopar

VOCAB = 61


def values(model: pathlib.Path, extents: Dict[str, int], seed: int = 0) -> Dict[str, np.ndarray]:
    """Of the inputs of a model where its dimensions have these extents."""
    random = np.random.default_rng(seed)
    given = {}
    for port in onnx.load(model, load_external_data=False).graph.input:
        shape = [extents[dim.dim_param] if dim.dim_param else dim.dim_value for dim in port.type.tensor_type.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        if kind == np.float32:
            given[port.name] = random.standard_normal(shape).astype(kind)
        else:
            given[port.name] = random.integers(0, 2 if "mask" in port.name or "type" in port.name else VOCAB, shape).astype(kind)
        if "mask" in port.name:
            given[port.name][..., :1] = 1
    return given


def assert_as_onnxruntime(model: pathlib.Path, session: autopar.Session, extents: Sequence[Dict[str, int]], tolerance: float = 1e-4) -> None:
    reference = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [output.name for output in reference.get_outputs()]
    for seed, each in enumerate(extents):
        inputs = values(model, each, seed)
        outputs = session.run(inputs)
        for name, expected in zip(names, reference.run(None, inputs)):
            assert outputs[name].shape == expected.shape
            np.testing.assert_allclose(outputs[name], expected, rtol=tolerance, atol=tolerance)


def graph(tmp_path: pathlib.Path, nodes: List[onnx.NodeProto], inputs: Dict[str, Sequence[Any]], outputs: List[str],
          constants: Optional[Dict[str, np.ndarray]] = None) -> pathlib.Path:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.FLOAT, None)) for name in outputs]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    model = helper.make_model(helper.make_graph(nodes, "g", ports, results, initializers), opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    path = tmp_path / "graph.onnx"
    onnx.save(model, path)
    return path


def node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, output.split(), **attributes)
