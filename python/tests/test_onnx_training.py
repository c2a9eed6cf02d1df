# SPDX-License-Identifier: Apache-2.0
"""ONNX's own training vocabulary: Gradient anywhere in a graph, and training_info as a step with state."""

import pathlib
from typing import Dict, List, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

TRAINING = "ai.onnx.preview.training"
OPSETS = [helper.make_opsetid("", 15), helper.make_opsetid(TRAINING, 1)]
ROWS, INPUTS, OUTPUTS, STEPS, RATE = 8, 3, 2, 5, 0.1
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((ROWS, INPUTS)).astype(np.float32)
TARGET = RANDOM.standard_normal((ROWS, OUTPUTS)).astype(np.float32)
W = RANDOM.standard_normal((INPUTS, OUTPUTS)).astype(np.float32)


def floats(name: str, *shape: object) -> onnx.ValueInfoProto:
    """An input or output of floats."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def gradient(xs: Sequence[str], y: str, inputs: Sequence[str], outputs: Sequence[str],
             zs: Sequence[str] = ()) -> onnx.NodeProto:
    """A Gradient node."""
    more = {"zs": list(zs)} if zs else {}
    return helper.make_node("Gradient", [*inputs], [*outputs], "grad", domain=TRAINING, xs=list(xs), y=y, **more)


def run(nodes: Sequence[onnx.NodeProto], inputs: Dict[str, np.ndarray], outputs: Sequence[str], folder: pathlib.Path,
        initializers: Sequence[onnx.TensorProto] = ()) -> Dict[str, np.ndarray]:
    """The outputs of a graph of vectors."""
    graph = helper.make_graph(nodes, "g", [floats(name, *value.shape) for name, value in inputs.items()],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
                              initializers)
    compiled = autopar.compile(helper.make_model(graph, opset_imports=OPSETS), folder / "g.bin")
    with autopar.Session(compiled) as session:
        return session.run(inputs)


A, B, C = (RANDOM.uniform(0.5, 1.5, 4).astype(np.float32) for _ in range(3))
SQUARE = [helper.make_node("Mul", ["a", "a"], ["s"], "square"), helper.make_node("Mul", ["s", "b"], ["y"], "times")]


def test_gradient_sums_over_y(tmp_path: pathlib.Path) -> None:
    out = run([*SQUARE, gradient(["a", "b"], "y", ["a", "b"], ["da", "db"])], {"a": A, "b": B}, ["da", "db"], tmp_path)
    np.testing.assert_allclose(out["da"], 2 * A * B, rtol=1e-6)
    np.testing.assert_allclose(out["db"], A * A, rtol=1e-6)


def test_gradient_is_taken_at_the_inputs_of_the_node(tmp_path: pathlib.Path) -> None:
    nodes = [*SQUARE, gradient(["a"], "y", ["c", "a"], ["dc"], zs=["b"])]
    out = run(nodes, {"a": A, "b": B, "c": C}, ["y", "dc"], tmp_path)
    np.testing.assert_allclose(out["y"], A * A * B, rtol=1e-6)
    np.testing.assert_allclose(out["dc"], 2 * C * A, rtol=1e-6)


def test_tensors_on_the_way_are_independent_of_what_lies_before_them(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("Exp", ["a"], ["e"], "exp"), helper.make_node("Mul", ["a", "e"], ["y"], "times"),
             gradient(["a", "e"], "y", ["a", "e"], ["da", "de"])]
    out = run(nodes, {"a": A}, ["da", "de"], tmp_path)
    np.testing.assert_allclose(out["da"], np.exp(A), rtol=1e-6)
    np.testing.assert_allclose(out["de"], A, rtol=1e-6)


def test_gradient_of_a_gradient(tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("Mul", ["a", "a"], ["s"], "square"), helper.make_node("Mul", ["s", "a"], ["y"], "cube"),
             gradient(["a"], "y", ["a"], ["da"]), gradient(["a"], "da", ["a"], ["daa"])]
    nodes[3].name = "grad2"
    out = run(nodes, {"a": A}, ["da", "daa"], tmp_path)
    np.testing.assert_allclose(out["da"], 3 * A * A, rtol=1e-6)
    np.testing.assert_allclose(out["daa"], 6 * A, rtol=1e-6)


def test_gradient_by_what_y_does_not_depend_on_is_zero(tmp_path: pathlib.Path) -> None:
    out = run([*SQUARE, gradient(["a", "c"], "y", ["a", "c"], ["da", "dc"])], {"a": A, "b": B, "c": C}, ["dc"], tmp_path)
    np.testing.assert_array_equal(out["dc"], np.zeros_like(C))


def test_gradient_by_an_initializer(tmp_path: pathlib.Path) -> None:
    scalar = numpy_helper.from_array(np.float32(3), "k")
    nodes = [helper.make_node("Mul", ["k", "k"], ["kk"], "square"), helper.make_node("Mul", ["kk", "a"], ["y"], "times"),
             gradient(["k"], "y", ["k"], ["dk"])]
    np.testing.assert_allclose(run(nodes, {"a": A}, ["dk"], tmp_path, [scalar])["dk"], 6 * A.sum(), rtol=1e-6)


@pytest.mark.parametrize("node, message", [
    (gradient(["a"], "y", ["a", "b"], ["da"]), "needs one input for each of the 1 tensors named in attributes xs and zs"),
    (gradient(["a"], "z", ["a"], ["da"]), "tensor 'z' is neither an input, an initializer nor the output of an earlier node"),
    (gradient(["a", "a"], "y", ["a", "a"], ["da", "db"]), "'a' is the same tensor as another one in xs and zs"),
    (gradient(["a"], "y", ["k"], ["da"]), "must be of the type of 'a'"),
    (gradient(["n"], "y", ["n"], ["da"]), "cannot be differentiated"),
    (gradient(["a"], "whole", ["a"], ["da"]), "y must hold floats"),
    (gradient(["one"], "y", ["one"], ["da"]), "'one' is a constant: store it as raw_data"),
], ids=["count", "unknown", "twice", "type", "step", "integers", "constant"])
def test_gradients_that_make_no_sense_are_refused(tmp_path: pathlib.Path, node: onnx.NodeProto, message: str) -> None:
    nodes = [helper.make_node("Abs", ["a"], ["n"], "abs"), helper.make_node("Floor", ["n"], ["f"], "floor"),
             helper.make_node("Cast", ["f"], ["whole"], "cast", to=TensorProto.INT64),
             helper.make_node("Constant", [], ["one"], "one", value_float=1.0),
             helper.make_node("Mul", ["f", "b"], ["y"], "times"), node]
    with pytest.raises(autopar.Error, match=message):
        run(nodes, {"a": A, "b": B, "k": np.float32(1).reshape(1)}, list(node.output), tmp_path)


# --- training_info ----------------------------------------------------------------------------------------------------


def tensor(name: str, value: np.ndarray) -> onnx.TensorProto:
    """An initializer stored as raw data."""
    return numpy_helper.from_array(np.asarray(value), name)


def typed(name: str, value: np.ndarray) -> onnx.TensorProto:
    """An initializer stored in the field of its type."""
    value = np.asarray(value)
    return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.ravel().tolist())


OPTIMIZERS = {
    "Momentum": (1, {"alpha": 0.9, "beta": 1.0, "norm_coefficient": 0.01, "mode": "standard"}),
    "Adagrad": (1, {"epsilon": 1e-3, "norm_coefficient": 0.01}),
    "Adam": (2, {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-3, "norm_coefficient": 0.01}),
}


def training_model(optimizer: str, store=tensor, initialized: bool = False) -> onnx.ModelProto:
    """Linear regression: y = x W, mean square error, one of ONNX's optimizers, a count of steps."""
    states, attributes = OPTIMIZERS[optimizer]
    kept = [f"W.state{i}" for i in range(states)]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "W"], ["y"], "fc")], "forward", [floats("x", "batch", INPUTS)],
                              [floats("y", "batch", OUTPUTS)], [store("W", np.zeros_like(W) if initialized else W)])
    algorithm = helper.make_graph(
        [helper.make_node("Sub", ["y", "target"], ["error"], "error"),
         helper.make_node("Mul", ["error", "error"], ["square"], "square"),
         helper.make_node("ReduceMean", ["square"], ["loss"], "mean", keepdims=0),
         gradient(["W"], "loss", ["W", "x", "target"], ["dW"], zs=["x", "target"]),
         helper.make_node(optimizer, ["R", "T", "W", "dW", *kept], ["W.next", *(f"{name}.next" for name in kept)], "update",
                          domain=TRAINING, **attributes),
         helper.make_node("Add", ["T", "one"], ["T.next"], "count")],
        "step", [floats("target", "batch", OUTPUTS)], [floats("loss"), floats("W.next", INPUTS, OUTPUTS)],
        [store("R", np.float32(RATE)), store("T", np.int64(0)), store("one", np.int64(1)),
         *(store(name, np.zeros_like(W)) for name in kept)])
    updates = [(name, f"{name}.next") for name in ("W", "T", *kept)]
    first, initial = [], None
    if initialized:
        initial = helper.make_graph([helper.make_node("Mul", ["half", "two"], ["W.first"], "draw")], "init", [],
                                    [floats("W.first", INPUTS, OUTPUTS)], [store("half", W / 2), store("two", np.float32(2))])
        first = [("W", "W.first")]
    model = helper.make_model(graph, opset_imports=OPSETS)
    model.training_info.append(helper.make_training_info(algorithm, updates, initial, first))
    return model


def expected_losses(optimizer: str) -> List[float]:
    """The same in NumPy, as the ONNX operators are defined."""
    w, first, second, losses = W.astype(np.float64), np.zeros(W.shape), np.zeros(W.shape), []
    for step in range(STEPS):
        error = X @ w - TARGET
        losses.append(float(np.mean(error**2)))
        g = X.T @ error * 2 / error.size + 0.01 * w
        if optimizer == "Momentum":
            first = 0.9 * first + g
            w = w - RATE * first
        elif optimizer == "Adagrad":
            first = first + g * g
            w = w - RATE * g / (np.sqrt(first) + 1e-3)
        else:
            first, second = 0.9 * first + 0.1 * g, 0.99 * second + 0.01 * g * g
            rate = RATE * np.sqrt(1 - 0.99**step) / (1 - 0.9**step) if step > 0 else RATE
            w = w - rate * first / (np.sqrt(second) + 1e-3)
    return losses


def losses(model: onnx.ModelProto, folder: pathlib.Path, **options: object) -> List[float]:
    """The losses of the compiled model's own steps."""
    compiled = autopar.compile(model, folder / "step.bin", bind={"batch": ROWS}, **options)  # type: ignore[arg-type]
    with autopar.Session(compiled) as session:
        assert {port.name for port in session.outputs} == {"y", "loss"}
        return [float(session.run({"x": X, "target": TARGET})["loss"]) for _ in range(STEPS)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_model_that_brings_its_training_step_trains(tmp_path: pathlib.Path, optimizer: str) -> None:
    np.testing.assert_allclose(losses(training_model(optimizer), tmp_path), expected_losses(optimizer), rtol=1e-5)


@pytest.mark.parametrize("ranks, seed", [(2, 1), (4, 2)])
def test_its_ranks_train_like_one(tmp_path: pathlib.Path, ranks: int, seed: int) -> None:
    options = ["--engine", "random", "--seed", str(seed)]
    np.testing.assert_allclose(losses(training_model("Adam"), tmp_path, ranks=ranks, options=options), expected_losses("Adam"),
                               rtol=1e-5)


@pytest.mark.parametrize("store, initialized", [(typed, False), (tensor, True), (typed, True)],
                         ids=["typed-fields", "initialization", "both"])
def test_first_values_come_from_any_field_and_from_the_initialization(tmp_path: pathlib.Path, store, initialized: bool) -> None:
    np.testing.assert_allclose(losses(training_model("Adam", store, initialized), tmp_path), expected_losses("Adam"), rtol=1e-5)


def test_inference_mode_leaves_the_step_out(tmp_path: pathlib.Path) -> None:
    compiled = autopar.compile(training_model("Adam"), tmp_path / "forward.bin", bind={"batch": ROWS}, options=["--inference-mode"])
    with autopar.Session(compiled) as session:
        np.testing.assert_allclose(session.run({"x": X})["y"], X @ W, rtol=1e-5)


def test_train_replaces_the_step(tmp_path: pathlib.Path) -> None:
    step = autopar.Train("mse(y, target)", autopar.SGD(lr=RATE))
    compiled = autopar.compile(training_model("Adam"), tmp_path / "sgd.bin", bind={"batch": ROWS}, train=step)
    with autopar.Session(compiled) as session:
        first, second = (float(session.run({"x": X, "target": TARGET})["loss"]) for _ in range(2))
    w = W - RATE * X.T @ (X @ W - TARGET) * 2 / TARGET.size
    np.testing.assert_allclose([first, second], [np.mean((X @ W - TARGET)**2), np.mean((X @ w - TARGET)**2)], rtol=1e-5)


@pytest.mark.parametrize("change, message", [
    (lambda info: info.update_binding[1].__setattr__("key", "Q"), "'Q' is neither an input, an initializer nor"),
    (lambda info: info.update_binding[1].__setattr__("key", "x"), "updates 'x', which is no initializer"),
    (lambda info: info.update_binding[0].__setattr__("value", "T.next"), "updates 'W' with 'T.next', which is of another type"),
    (lambda info: info.update_binding[1].__setattr__("key", "W"), "updates 'W' twice"),
    (lambda info: info.initialization_binding.add(key="one", value="W.first"), "initializes 'one', but never updates it"),
], ids=["unknown", "input", "type", "twice", "never"])
def test_bindings_that_make_no_sense_are_refused(tmp_path: pathlib.Path, change, message: str) -> None:
    model = training_model("Adam", initialized=True)
    change(model.training_info[0])
    with pytest.raises(autopar.Error, match=message):
        losses(model, tmp_path)
