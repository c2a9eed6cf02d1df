# SPDX-License-Identifier: Apache-2.0
"""A weighted sum of losses has the value and the gradients of its terms, under any plan."""

import pathlib
from typing import Dict, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
import emulated_cuda

ROWS, WIDTH, CLASSES = 8, 16, 6
ANSWER, END, AUX, TEACHER = ("softmax_cross_entropy(start, a, ignore_index=-1)", "softmax_cross_entropy(end, b, label_smoothing=0.1)", "aux",
                             "mse(start, teacher)")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Two heads on one layer, and what the layer is fined for."""
    random = np.random.default_rng(0)
    weights = {"w1": (WIDTH, WIDTH), "w2": (WIDTH, WIDTH), "start_head": (WIDTH, CLASSES), "end_head": (WIDTH, CLASSES)}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"], "fc1"), helper.make_node("Tanh", ["h1"], ["t1"], "tanh"),
             helper.make_node("MatMul", ["t1", "w2"], ["h2"], "fc2"), helper.make_node("Tanh", ["h2"], ["t2"], "tanh2"),
             helper.make_node("MatMul", ["t2", "start_head"], ["start"], "s"), helper.make_node("MatMul", ["t2", "end_head"], ["end"], "e"),
             helper.make_node("Mul", ["t2", "t2"], ["square"], "sq"), helper.make_node("ReduceMean", ["square"], ["aux"], "aux_mean", keepdims=0)]
    graph = helper.make_graph(
        nodes, "heads", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("start", [ROWS, CLASSES]), ("end", [ROWS, CLASSES]), ("aux", []))],
        [numpy_helper.from_array(random.standard_normal(shape, np.float32) * 0.3, name) for name, shape in weights.items()])
    path = tmp_path_factory.mktemp("heads") / "heads.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def batch() -> Dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    a = random.integers(0, CLASSES, ROWS)
    a[2] = -1
    return {"x": random.standard_normal((ROWS, WIDTH), np.float32), "a": a, "b": random.integers(0, CLASSES, ROWS),
            "teacher": random.standard_normal((ROWS, CLASSES), np.float32)}


def step(model: pathlib.Path, folder: pathlib.Path, loss: str, options: List[str], precision: str = "f32") -> Dict[str, np.ndarray]:
    """What a step at rate 1 takes away from each parameter, and its loss."""
    compiled = autopar.compile(model, folder / "step.bin", train=autopar.Train(loss, "sgd(lr=1)", precision=precision), options=options)
    with autopar.Session(compiled) as session:
        given = {port.name: batch()[port.name] for port in session.inputs}
        before = {port.name: session.state(port.name) for port in session.states}
        told = {"loss": session.run(given)["loss"]}
        return {**told, **{name: value - session.state(name) for name, value in before.items()}}


@pytest.mark.parametrize("options", [[], ["--ranks", "2", "--mesh", "data=2"], ["--ranks", "2", "--mesh", "tensor=2"],
                                     ["--ranks", "2", "--stages", "2"], ["--target", "cuda"]],
                         ids=["one", "data", "tensor", "stages", "cuda"])
@pytest.mark.parametrize("terms", [{ANSWER: 0.5, END: 0.5}, {ANSWER: 1, AUX: 0.01}, {AUX: 2}, {ANSWER: 1, TEACHER: 0.25, END: 2}, {TEACHER: 3, AUX: -0.5}],
                         ids=["heads", "fine", "scaled", "distilled", "numbers"])
def test_a_sum_has_the_gradients_of_its_terms(model: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, terms: Dict[str, float],
                                              options: List[str]) -> None:
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    given = step(model, tmp_path, " + ".join(f"{factor} * {term}" for term, factor in terms.items()), options)
    expected: Dict[str, np.ndarray] = {}
    for term, factor in terms.items():
        for name, value in step(model, tmp_path, term, []).items():
            expected[name] = expected.get(name, 0) + factor * value
    assert set(given) <= set(expected) and len(given) >= 3
    for name, value in given.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_sum_is_as_good_in_narrow_types(model: pathlib.Path, tmp_path: pathlib.Path, precision: str) -> None:
    """Also where the loss is scaled."""
    loss = f"{ANSWER} + 0.1*{AUX} + 0.5*{TEACHER}"
    exact, given = step(model, tmp_path, loss, []), step(model, tmp_path, loss, [], precision)
    for name, value in exact.items():
        np.testing.assert_allclose(given[name], value, rtol=0.05, atol=0.02 * np.abs(value).max(), err_msg=name)
