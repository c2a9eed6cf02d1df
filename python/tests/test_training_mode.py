# SPDX-License-Identifier: Apache-2.0
"""Batch normalization and dropout while a model is trained: statistics of the batch, running ones as state, new masks."""

import json
import pathlib
import subprocess
from typing import Callable, Dict, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
import emulated_cuda

ROWS, CHANNELS, PLACES, STEPS, MOMENTUM = 8, 3, 4, 3, 0.9
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((STEPS, ROWS, CHANNELS, PLACES)).astype(np.float32) * 2 + 1
WEIGHTS = {"bn.weight": RANDOM.uniform(0.5, 1.5, CHANNELS), "bn.bias": RANDOM.uniform(-1, 1, CHANNELS),
           "bn.running_mean": RANDOM.uniform(-1, 1, CHANNELS), "bn.running_var": RANDOM.uniform(0.5, 1.5, CHANNELS)}


def save(path: pathlib.Path, *nodes: onnx.NodeProto, opset: int = 15) -> pathlib.Path:
    """A model from x to y."""
    shape = ["batch", CHANNELS, PLACES]
    graph = helper.make_graph(list(nodes), "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(value.astype(np.float32), name) for name, value in WEIGHTS.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
    return path


BATCH_NORM = helper.make_node("BatchNormalization", ["x", *WEIGHTS], ["y"], "bn", momentum=MOMENTUM)
TRAINED_NORM = helper.make_node("BatchNormalization", ["x", *WEIGHTS], ["y", "next_mean", "next_var"], "bn", momentum=MOMENTUM, training_mode=1)
# As TrainingMode.TRAINING is exported below operator set 14.
TRAINED_NORM_13 = helper.make_node("BatchNormalization", ["x", *WEIGHTS], ["y", "next_mean", "next_var", "mean", "var"], "bn", momentum=MOMENTUM)
DROPOUT = helper.make_node("Dropout", ["x"], ["dropped"], "drop")
SCALE = helper.make_node("Mul", ["dropped", "bn.channels"], ["y"], "scale")


def compile_step(model: pathlib.Path, ranks: int = 1, seed: int = 0, inference_mode: bool = False) -> autopar.Compiled:
    """A step that measures the mean square of y, under a random plan on more ranks."""
    train = autopar.Train("mse(y, target)", autopar.SGD(lr=0.0), inference_mode=inference_mode)
    options = ["--engine", "random", "--seed", str(seed)] if ranks > 1 else []
    return autopar.compile(model, model.with_name(f"train{ranks}.{seed}.bin"), bind={"batch": ROWS}, ranks=ranks, train=train,
                           options=options)


def losses(compiled: autopar.Compiled, x: np.ndarray) -> List[float]:
    """The losses of the steps."""
    with autopar.Session(compiled) as session:
        return [float(session.run({"x": one, "target": np.zeros_like(one)})["loss"]) for one in x]


def exported(compiled: autopar.Compiled, folder: pathlib.Path) -> Dict[str, np.ndarray]:
    """The parameters after steps on one and the same batch, in any order of its rows."""
    np.savez(folder / "data.npz", x=X[0], target=np.zeros_like(X[0]))
    subprocess.run([autopar.find_tool("autopar-run"), compiled.path, "--data", folder / "data.npz", "--fields",
                    "x=x, target=target", "--steps", str(STEPS), "--export", folder / "out.safetensors"],
                   check=True, timeout=60)
    data = (folder / "out.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], np.float32)
            for name, entry in header.items() if name != "__metadata__"}


def normalized_loss(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """The mean square behind a normalization by given statistics."""
    columns = [value[:, None] for value in (mean, variance, WEIGHTS["bn.weight"], WEIGHTS["bn.bias"])]
    return float(np.mean(((x - columns[0]) / np.sqrt(columns[1] + 1e-5) * columns[2] + columns[3])**2))


@pytest.mark.parametrize("ranks, seed", [(1, 0), (2, 1), (4, 2), (4, 3)])
def test_batch_normalization_uses_the_batch_and_updates_the_running_statistics(tmp_path: pathlib.Path, ranks: int,
                                                                               seed: int) -> None:
    compiled = compile_step(save(tmp_path / "net.onnx", BATCH_NORM), ranks, seed)
    x = X.astype(np.float64)
    expected = [normalized_loss(one, one.mean((0, 2)), one.var((0, 2))) for one in x]
    np.testing.assert_allclose(losses(compiled, X), expected, rtol=1e-5)
    mean, variance = WEIGHTS["bn.running_mean"], WEIGHTS["bn.running_var"]
    for _ in range(STEPS):
        mean = MOMENTUM * mean + (1 - MOMENTUM) * x[0].mean((0, 2))
        variance = MOMENTUM * variance + (1 - MOMENTUM) * x[0].var((0, 2))
    parameters = exported(compiled, tmp_path)
    np.testing.assert_allclose(parameters["bn.running_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(parameters["bn.running_var"], variance, rtol=1e-5)


def save_normalized_convolutions(path: pathlib.Path) -> pathlib.Path:
    """Twice a convolution, its normalization and an activation."""
    random, weights, nodes, value = np.random.default_rng(0), {}, [], "x"
    for layer, channels in ((0, 3), (1, 32)):
        weights[f"conv{layer}.weight"] = random.standard_normal((32, channels, 3, 3)) * 0.2
        names = [f"bn{layer}.{name}" for name in ("weight", "bias", "running_mean", "running_var")]
        weights.update((name, random.uniform(0.5, 1.5, 32)) for name in names)
        nodes += [helper.make_node("Conv", [value, f"conv{layer}.weight"], [f"c{layer}"], f"conv{layer}", pads=[1] * 4),
                  helper.make_node("BatchNormalization", [f"c{layer}", *names], [f"n{layer}"], f"bn{layer}"),
                  helper.make_node("Relu", [f"n{layer}"], [value := f"y{layer}"], f"relu{layer}")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, 3, 16, 16])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [ROWS, 32, 16, 16])],
                              [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    return path


@pytest.mark.parametrize("options", [["--ranks", "2", "--mesh", "data=2"], ["--ranks", "4"], ["--ranks", "2", "--precision", "bf16"], ["--target", "cuda"]],
                         ids=["two", "four", "bf16", "cuda"])
def test_running_statistics_are_evaluated_and_outlast_steps_that_do_not_count(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                                                                              options: List[str]) -> None:
    """As on one rank. Kernels whose other results go on hold the next statistics back until it is known that the step counts."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    model, train = save_normalized_convolutions(tmp_path / "net.onnx"), autopar.Train("mse(y1, target)", autopar.SGD(lr=0.01))
    compiled = [autopar.compile(model, tmp_path / f"{name}.bin", train=train, options=words) for name, words in (("one", []), ("many", options))]
    tolerance = 0.02 if "bf16" in options else 1e-4
    with autopar.Session(compiled[0], on_nan="skip") as one, autopar.Session(compiled[1], on_nan="skip") as many:
        names = [port.name for port in many.states if ".running_" in port.name]
        assert len(names) == 4
        for step in range(3):
            random = np.random.default_rng(step)
            batch = {"x": random.standard_normal((ROWS, 3, 16, 16)).astype(np.float32), "target": random.standard_normal((ROWS, 32, 16, 16)).astype(np.float32)}
            assert many.evaluate(batch)["loss"] == pytest.approx(one.evaluate(batch)["loss"], rel=tolerance)
            before = {name: many.state(name) for name in names}
            many.run({**batch, "x": np.where(batch["x"] > 2, np.nan, batch["x"]).astype(np.float32)})
            for name, value in before.items():
                np.testing.assert_array_equal(many.state(name), value, err_msg=name)
            one.run(batch)
            many.run(batch)
            for name in names:
                np.testing.assert_allclose(many.state(name), one.state(name), rtol=tolerance, atol=tolerance, err_msg=name)
                assert (many.state(name) != before[name]).all()


def test_inference_mode_uses_the_running_statistics(tmp_path: pathlib.Path) -> None:
    compiled = compile_step(save(tmp_path / "net.onnx", BATCH_NORM), inference_mode=True)
    expected = [normalized_loss(one, WEIGHTS["bn.running_mean"], WEIGHTS["bn.running_var"]) for one in X.astype(np.float64)]
    np.testing.assert_allclose(losses(compiled, X), expected, rtol=1e-5)


def dropout_model(path: pathlib.Path) -> pathlib.Path:
    """Dropout and a trained scale."""
    unsqueeze = helper.make_node("Unsqueeze", ["bn.weight", "axes"], ["bn.channels"], "column")
    axes = helper.make_node("Constant", [], ["axes"], "axes", value_ints=[1])
    return save(path, axes, unsqueeze, DROPOUT, SCALE)


def test_dropout_draws_anew_in_every_step_and_the_same_on_any_number_of_ranks(tmp_path: pathlib.Path) -> None:
    model = dropout_model(tmp_path / "net.onnx")
    same = np.repeat(X[:1], 6, axis=0)
    alone = losses(compile_step(model), same)
    assert len(set(alone)) == 6
    whole = float(np.mean((X[0] * WEIGHTS["bn.weight"][:, None])**2))
    assert abs(np.mean(alone) / (2 * whole) - 1) < 0.25  # half of the elements, each twice as large
    for ranks, seed in ((2, 1), (4, 2), (4, 3)):
        np.testing.assert_allclose(losses(compile_step(model, ranks, seed), same), alone, rtol=1e-5)


def test_inference_mode_keeps_dropout_out(tmp_path: pathlib.Path) -> None:
    compiled = compile_step(dropout_model(tmp_path / "net.onnx"), inference_mode=True)
    expected = [float(np.mean((one * WEIGHTS["bn.weight"][:, None])**2)) for one in X.astype(np.float64)]
    np.testing.assert_allclose(losses(compiled, X), expected, rtol=1e-5)


def test_what_exporters_did_for_inference_is_told(tmp_path: pathlib.Path) -> None:
    gone = helper.make_node("Identity", ["x"], ["y"], "block.0/Dropout")
    for model, says in ((save(tmp_path / "gone.onnx", gone), "1 dropout was exported as Identity: the model is trained without"),
                        (save(tmp_path / "net.onnx", BATCH_NORM), "1 BatchNormalization node exported for inference: read in training "
                                                                  "mode (--inference-mode keeps inference)")):
        done = subprocess.run([autopar.find_tool("autopar-compile"), model, "-o", tmp_path / "out", "--bind", f"batch={ROWS}", "--train",
                               "loss=mse(y, target)", "--optimizer", "sgd(lr=0)", "--explain", "--stop-after", "import"],
                              capture_output=True, text=True, timeout=60, check=True)
        assert says in done.stderr, done.stderr


def import_words(model: pathlib.Path, *options: str) -> str:
    """What autopar-compile tells while it reads the model."""
    return subprocess.run([autopar.find_tool("autopar-compile"), model, "-o", model.with_suffix(".mlir"), "--bind", f"batch={ROWS}", "--explain",
                           "--stop-after", "import", *options], capture_output=True, text=True, timeout=60, check=True).stderr


def test_operator_set_13_exports_batch_normalization_for_training_with_five_outputs(tmp_path: pathlib.Path) -> None:
    model = save(tmp_path / "net.onnx", TRAINED_NORM_13, opset=13)
    expected = [normalized_loss(one, one.mean((0, 2)), one.var((0, 2))) for one in X.astype(np.float64)]
    np.testing.assert_allclose(losses(compile_step(model), X), expected, rtol=1e-5)
    assert "exported for" not in import_words(model, "--train", "loss=mse(y, target)", "--optimizer", "sgd(lr=0)")


def norm_of_scaled(path: pathlib.Path, *outputs: str) -> pathlib.Path:
    """A batch normalization of operator set 13 behind a trained scale."""
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    nodes = [helper.make_node("Constant", [], ["axes"], "axes", value=axes),
             helper.make_node("Unsqueeze", ["bn.weight", "axes"], ["bn.channels"], "column"),
             helper.make_node("Mul", ["x", "bn.channels"], ["scaled"], "scale"),
             helper.make_node("BatchNormalization", ["scaled", *WEIGHTS], ["y", *outputs], "bn")]
    return save(path, *nodes, opset=13)


@pytest.mark.parametrize("name, statistic", [("mean", np.mean), ("var", np.var)])
def test_the_statistics_of_a_batch_are_outputs_too(tmp_path: pathlib.Path, name: str, statistic: Callable) -> None:
    model = onnx.load(norm_of_scaled(tmp_path / "net.onnx", "next_mean", "next_var", "mean", "var"))
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [CHANNELS]))
    onnx.save(model, tmp_path / "net.onnx")
    train = autopar.Train(f"mse({name}, target)", autopar.SGD(lr=0.0))
    compiled = autopar.compile(tmp_path / "net.onnx", tmp_path / "train.bin", bind={"batch": ROWS}, train=train)
    with autopar.Session(compiled) as session:
        loss = session.run({"x": X[0], "target": np.zeros(CHANNELS, np.float32)})["loss"]
    scaled = X[0].astype(np.float64) * WEIGHTS["bn.weight"][:, None]
    np.testing.assert_allclose(loss, np.mean(statistic(scaled, (0, 2))**2), rtol=1e-5)


@pytest.mark.parametrize("node, opset", [(TRAINED_NORM, 15), (TRAINED_NORM_13, 13)])
def test_inference_mode_goes_before_the_mode_of_the_export(tmp_path: pathlib.Path, node: onnx.NodeProto, opset: int) -> None:
    model = save(tmp_path / "net.onnx", node, opset=opset)
    expected = [normalized_loss(one, WEIGHTS["bn.running_mean"], WEIGHTS["bn.running_var"]) for one in X.astype(np.float64)]
    np.testing.assert_allclose(losses(compile_step(model, inference_mode=True), X), expected, rtol=1e-5)


def test_inference_mode_takes_the_dropout_of_an_export_for_training_out(tmp_path: pathlib.Path) -> None:
    constants = [helper.make_node("Constant", [], ["ratio"], "ratio", value_float=0.5),
                 helper.make_node("Constant", [], ["training"], "training",
                                  value=numpy_helper.from_array(np.array(True), "training"))]
    model = save(tmp_path / "net.onnx", *constants, helper.make_node("Dropout", ["x", "ratio", "training"], ["y"], "drop"))
    says = "1 Dropout node exported for training"
    assert f"{says}: compiled in training mode (--inference-mode reads them in inference mode)" in import_words(model)
    assert f"{says}: read in inference mode" in import_words(model, "--inference-mode")
    compiled = autopar.compile(model, tmp_path / "serve.bin", bind={"batch": ROWS}, options=["--inference-mode"])
    with autopar.Session(compiled) as session:
        np.testing.assert_array_equal(session.run({"x": X[0]})["y"], X[0])


def test_micro_batches_name_what_lets_batch_normalization_through(tmp_path: pathlib.Path) -> None:
    model = norm_of_scaled(tmp_path / "net.onnx")
    options = ["--micro-batches", "2"]
    train = autopar.Train("mse(y, target)", autopar.SGD(lr=0.0))
    with pytest.raises(autopar.Error, match="--inference-mode"):
        autopar.compile(model, tmp_path / "train.bin", bind={"batch": ROWS}, train=train, options=options)
    autopar.compile(model, tmp_path / "train.bin", bind={"batch": ROWS}, train=train, options=[*options, "--inference-mode"])
