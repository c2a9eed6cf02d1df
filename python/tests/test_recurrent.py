# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of many steps: what they compute against onnxruntime, what they learn against NumPy."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

BATCH, INPUT, HIDDEN = 4, 16, 32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: More than one kernel joins.
MANY_STEPS = 300
LR, TRAINED = 0.5, 4


def weights(kind: str, directions: int = 1) -> dict:
    draw = np.random.default_rng(5)
    rows = GATES[kind] * HIDDEN
    return {"W": 0.2 * draw.standard_normal((directions, rows, INPUT)).astype(np.float32),
            "R": 0.2 * draw.standard_normal((directions, rows, HIDDEN)).astype(np.float32),
            "B": 0.2 * draw.standard_normal((directions, 2 * rows)).astype(np.float32)}


def saved(folder: pathlib.Path, kind: str, steps: int, values: dict) -> pathlib.Path:
    """A model of one recurrent operator with the result `y` of all steps."""
    directions = values["W"].shape[0]
    node = helper.make_node(kind, ["x", "W", "R", "B"], ["y"], hidden_size=HIDDEN, direction="bidirectional" if directions == 2 else "forward")
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


def learned(x: np.ndarray, target: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> tuple:
    """The mean squared error of h' = tanh(w x + r h + b), and the weights after a step of gradient descent."""
    hidden = [np.zeros((BATCH, HIDDEN))]
    for step in x:
        hidden.append(np.tanh(step @ w.T + hidden[-1] @ r.T + b))
    error = np.stack(hidden[1:]) - target
    dw, dr, db, later = np.zeros_like(w), np.zeros_like(r), np.zeros_like(b), np.zeros((BATCH, HIDDEN))
    for t in reversed(range(len(x))):
        given = (2 / error.size * error[t] + later) * (1 - hidden[t + 1] ** 2)
        dw, dr, db, later = dw + given.T @ x[t], dr + given.T @ hidden[t], db + given.sum(0), given @ r
    return float(np.mean(error**2)), w - LR * dw, r - LR * dr, b - LR * db


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("steps", [20, MANY_STEPS])
def test_a_recurrence_learns_as_numpy_does(tmp_path: pathlib.Path, steps: int, ranks: int) -> None:
    values = weights("RNN")
    path = saved(tmp_path, "RNN", steps, values)
    draw = np.random.default_rng(7)
    x, target = draw.standard_normal((steps, BATCH, INPUT)), np.tanh(draw.standard_normal((steps, BATCH, HIDDEN)))
    w, r, b = values["W"][0], values["R"][0], values["B"][0, :HIDDEN] + values["B"][0, HIDDEN:]
    batch = {"x": x.astype(np.float32), "target": target[:, None].astype(np.float32)}
    train = autopar.Train(loss="mse(y, target)", optimizer=f"sgd(lr={LR})")
    with autopar.Session(autopar.compile(path, tmp_path / "t.bin", ranks=ranks, train=train)) as session:
        for _ in range(TRAINED):
            # A bias of the input and one of the state are learned: their sum moves twice as far.
            loss, w, r, moved = learned(x, target, w, r, b)
            b = b + 2 * (moved - b)
            assert session.run(batch)["loss"] == pytest.approx(loss, rel=1e-4)
