# SPDX-License-Identifier: Apache-2.0
"""A matrix by one column, as at the end of a network that gives one number, against NumPy: with a weight, in a batch, in training."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

ROWS, TERMS, BATCH = 48, 64, 4
LR, STEPS = 0.05, 3


def saved(folder: pathlib.Path, node: onnx.NodeProto, shapes: dict, result: list, weights: dict) -> pathlib.Path:
    """A model of one product `y`."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("shapes", [{"x": [ROWS, TERMS], "v": [TERMS, 1]}, {"x": [BATCH, ROWS, TERMS], "v": [BATCH, TERMS, 1]},
                                    {"x": [BATCH, ROWS, TERMS], "v": [TERMS]}], ids=["column", "batch", "vector"])
def test_a_matrix_by_one_column_is_what_numpy_computes(tmp_path: pathlib.Path, shapes: dict, ranks: int) -> None:
    values = {name: drawn(*shape) for name, shape in shapes.items()}
    expected = np.matmul(values["x"], values["v"])
    path = saved(tmp_path, helper.make_node("MatMul", ["x", "v"], ["y"]), shapes, list(expected.shape), {})
    with autopar.Session(autopar.compile(path, tmp_path / "c.bin", ranks=ranks)) as session:
        np.testing.assert_allclose(session.run(values)["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_column_of_weights_is_trained_as_numpy_does(tmp_path: pathlib.Path, ranks: int) -> None:
    x, target, w, b = drawn(ROWS, TERMS), drawn(ROWS, 1), 0.1 * drawn(TERMS, 1), np.float32([0.5])
    path = saved(tmp_path, helper.make_node("Gemm", ["x", "w", "b"], ["y"]), {"x": [ROWS, TERMS]}, [ROWS, 1], {"w": w, "b": b})
    train = autopar.Train(loss="mse(y, target)", optimizer=f"sgd(lr={LR})")
    with autopar.Session(autopar.compile(path, tmp_path / "t.bin", ranks=ranks, train=train)) as session:
        for _ in range(STEPS):
            error = x @ w + b - target
            assert session.run({"x": x, "target": target})["loss"] == pytest.approx(float(np.mean(error**2)), rel=1e-4)
            w, b = w - LR * 2 / ROWS * x.T @ error, b - LR * 2 / ROWS * error.sum(0)
