# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of many steps: what they compute against onnxruntime, what they learn against PyTorch."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
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
