# SPDX-License-Identifier: Apache-2.0
"""Outputs that are parameters of the model, as they are or seen otherwise, and what is computed of empty ones."""

import pathlib
from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

W = np.arange(1, 13, dtype=np.float32).reshape(4, 3)


def run(tmp_path: pathlib.Path, nodes: List[onnx.NodeProto], outputs: List[str], ranks: int, weight: np.ndarray = W, **options: Any) -> List[np.ndarray]:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), *nodes]
    results = [helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.FLOAT, None)) for name in ["y", *outputs]]
    constants = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([2, 6]), "shape"), numpy_helper.from_array(np.array([1]), "one")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])], results, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", ranks=ranks, **options)
    with autopar.Session(tmp_path / "m.bin") as session:
        found = session.run({"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(found["y"], [-1, -1])
    return [found[name] for name in outputs]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("options", [[], ["--precision", "bf16"]], ids=["f32", "bf16"])
def test_a_parameter_is_given_out(tmp_path: pathlib.Path, ranks: int, options: List[str]) -> None:
    nodes = [helper.make_node("Identity", ["w"], ["same"]), helper.make_node("Reshape", ["w", "shape"], ["reshaped"]),
             helper.make_node("Split", ["w"], ["first", "second"], num_outputs=2), helper.make_node("Transpose", ["w"], ["turned"])]
    names = ["same", "reshaped", "first", "second", "turned", "w"]
    for found, expected in zip(run(tmp_path, nodes, names, ranks, options=options), [W, W.reshape(2, 6), W[:2], W[2:], W.T, W]):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_empty_parameter_is_reduced_to_identities(tmp_path: pathlib.Path, ranks: int) -> None:
    nodes = [helper.make_node("ReduceSum", ["w", "one"], ["sum"], keepdims=0), helper.make_node("ReduceProd", ["w", "one"], ["product"], keepdims=0)]
    found = run(tmp_path, nodes, ["sum", "product"], ranks, np.zeros((2, 0), np.float32))
    np.testing.assert_array_equal(found, [[0, 0], [1, 1]])


@pytest.mark.parametrize("operator", ["Not", "And", "Or", "Xor"])
def test_logical_operators_take_booleans_alone(tmp_path: pathlib.Path, operator: str) -> None:
    numbers = helper.make_node("Cast", ["x"], ["numbers"], to=TensorProto.INT32)
    logical = helper.make_node(operator, ["numbers"] if operator == "Not" else ["numbers", "numbers"], ["z"])
    with pytest.raises(autopar.Error, match=f"holds? booleans; Bitwise{operator} takes integers"):
        run(tmp_path, [numbers, logical], ["z"], 1)
