# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of many steps: what they compute against onnxruntime, what they learn against PyTorch."""

import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar.tools import find_tool

import emulated_cuda
import pytorch

BATCH, INPUT, HIDDEN = 4, 16, 32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: More than one kernel joins.
MANY_STEPS = 300
LR, TRAINED = 0.01, 4


def weights(kind: str, directions: int = 1) -> dict:
    draw = np.random.default_rng(5)
    rows = GATES[kind] * HIDDEN
    return {"W": 0.2 * draw.standard_normal((directions, rows, INPUT)).astype(np.float32),
            "R": 0.2 * draw.standard_normal((directions, rows, HIDDEN)).astype(np.float32),
            "B": 0.2 * draw.standard_normal((directions, 2 * rows)).astype(np.float32)}


def saved(folder: pathlib.Path, kind: str, steps: int, values: dict) -> pathlib.Path:
    """A model of one recurrent operator with the result `y` of all steps."""
    directions = values["W"].shape[0]
    form = {"linear_before_reset": 1} if kind == "GRU" else {}  # as PyTorch has it
    node = helper.make_node(kind, ["x", "W", "R", "B"], ["y"], hidden_size=HIDDEN, direction="bidirectional" if directions == 2 else "forward",
                            **form)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, BATCH, INPUT])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [steps, directions, BATCH, HIDDEN])],
                              [numpy_helper.from_array(value, name) for name, value in values.items()])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", GATES)
def test_many_steps_are_what_onnxruntime_computes(tmp_path: pathlib.Path, kind: str, ranks: int) -> None:
    path = saved(tmp_path, kind, MANY_STEPS, weights(kind, directions=2))
    x = np.random.default_rng(6).standard_normal((MANY_STEPS, BATCH, INPUT)).astype(np.float32)
    expected = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    with autopar.Session(autopar.compile(path, tmp_path / "c.bin", ranks=ranks)) as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps,ranks", [(20, 2), (MANY_STEPS, 1)])
@pytest.mark.parametrize("kind", GATES)
def test_a_recurrence_learns_as_in_pytorch(tmp_path: pathlib.Path, kind: str, steps: int, ranks: int) -> None:
    path = saved(tmp_path, kind, steps, weights(kind))
    draw = np.random.default_rng(7)
    batches = {"x": draw.standard_normal((TRAINED, steps, BATCH, INPUT)).astype(np.float32),
               "labels": draw.integers(0, HIDDEN, (TRAINED, steps, BATCH))}
    expected = pytorch.losses(path, tmp_path, batches, model="recurrent", kind=kind, hidden=HIDDEN, optimizer="adam", lr=LR, weight_decay=0.0,
                              clip_norm=0)
    train = autopar.Train(loss="softmax_cross_entropy(y, labels)", optimizer=f"adam(lr={LR})")
    with autopar.Session(autopar.compile(path, tmp_path / "t.bin", ranks=ranks, train=train)) as session:
        for step in range(TRAINED):
            batch = {"x": batches["x"][step], "labels": batches["labels"][step][:, None]}
            assert session.run(batch)["loss"] == pytest.approx(expected[step], rel=1e-4)


def test_more_steps_than_a_gpu_kernel_takes_pointers_learn_as_on_cpus(tmp_path: pathlib.Path) -> None:
    steps = 560  # of 8 bytes each: 4,352 is what every GPU takes
    path = saved(tmp_path, "RNN", steps, weights("RNN"))
    draw = np.random.default_rng(8)
    inputs = {"x": draw.standard_normal((steps, BATCH, INPUT)).astype(np.float32), "labels": draw.integers(0, HIDDEN, (steps, 1, BATCH))}
    train = autopar.Train(loss="softmax_cross_entropy(y, labels)", optimizer=f"sgd(lr={LR})")
    emulated_cuda.assert_alike(emulated_cuda.on_both(path, tmp_path, inputs, steps=2, train=train), 1e-4)


def scanned(folder: pathlib.Path, steps: int, batch: int, w: np.ndarray, r: np.ndarray) -> pathlib.Path:
    """The same as an RNN without biases, its step written as products by matrices, as Keras' exports have it."""
    (hidden, inputs), value = w.shape, helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x_t", "W"], ["from_x"], name="from_x"), helper.make_node("MatMul", ["h", "R"], ["from_h"], name="from_h"),
         helper.make_node("Add", ["from_x", "from_h"], ["sum"]), helper.make_node("Tanh", ["sum"], ["next"]), helper.make_node("Identity", ["next"], ["y_t"])],
        "step", [value("h", TensorProto.FLOAT, [batch, hidden]), value("x_t", TensorProto.FLOAT, [batch, inputs])],
        [value("next", TensorProto.FLOAT, [batch, hidden]), value("y_t", TensorProto.FLOAT, [batch, hidden])])
    nodes = [helper.make_node("Scan", ["h0", "x"], ["last", "ys"], body=body, num_scan_inputs=1), helper.make_node("Unsqueeze", ["ys", "axes"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [steps, batch, inputs])],
                              [value("y", TensorProto.FLOAT, [steps, 1, batch, hidden])],
                              [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in
                               {"W": w.T, "R": r.T, "axes": np.array([1])}.items()])
    graph.node.insert(0, helper.make_node("Constant", [], ["h0"], value=numpy_helper.from_array(np.zeros((batch, hidden), np.float32))))
    path = folder / "scan.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_written_as_products_computes_and_learns_as_the_operator(tmp_path: pathlib.Path, ranks: int) -> None:
    """What steps read of the sequence is multiplied at once, and the matrix of the state is laid out once for all steps."""
    steps, batch, inputs, hidden = 12, 2, 48, 64
    draw = np.random.default_rng(9)
    w, r = (0.2 * draw.standard_normal((hidden, extent)).astype(np.float32) for extent in (inputs, hidden))
    node = helper.make_node("RNN", ["x", "W", "R"], ["y"], hidden_size=hidden)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, inputs])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [steps, 1, batch, hidden])],
                              [numpy_helper.from_array(w[None], "W"), numpy_helper.from_array(r[None], "R")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "rnn.onnx")
    scan = scanned(tmp_path, steps, batch, w, r)
    x = draw.standard_normal((steps, batch, inputs)).astype(np.float32)
    expected = onnxruntime.InferenceSession(str(scan)).run(None, {"x": x})[0]
    random = ["--engine", "random", "--seed", "3"] if ranks > 1 else []
    compiled = autopar.compile(scan, tmp_path / "s.bin", ranks=ranks, options=random)
    with autopar.Session(compiled) as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)
    if ranks == 1:
        dump = subprocess.run([find_tool("autopar-translate"), "--dump", compiled], check=True, capture_output=True, text=True).stdout
        assert [len(re.findall(call, dump)) for call in (r"\d: matmul ", r'\d: launch .* id "[^"]*/along\.rows')] == [1, 1]
    train = autopar.Train(loss="softmax_cross_entropy(y, labels)", optimizer=f"adam(lr={LR})")
    batches = [{"x": x, "labels": draw.integers(0, hidden, (steps, 1, batch))} for _ in range(TRAINED)]
    losses = []
    for path in (tmp_path / "rnn.onnx", scan):
        with autopar.Session(autopar.compile(path, tmp_path / "t.bin", ranks=ranks, train=train)) as session:
            losses.append([float(session.run(batch)["loss"]) for batch in batches])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
