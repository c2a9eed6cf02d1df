# SPDX-License-Identifier: Apache-2.0
"""A compiled training step keeps parameters and state from step to step and gives the losses that PyTorch gives."""

import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import autopar
import pytorch
from conftest import BATCH, SEQ, VOCAB, Example

LOSS = "loss=softmax_cross_entropy(logits, labels)"
STEPS = 10
TOLERANCE = 1e-4


def batches(steps: int) -> Dict[str, np.ndarray]:
    """The same batch in every step, so that the loss has to fall."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (1, BATCH, SEQ + 1)).repeat(steps, axis=0)
    return {"ids": np.ascontiguousarray(tokens[:, :, :-1]), "labels": np.ascontiguousarray(tokens[:, :, 1:])}


def train(artifact: autopar.Compiled, steps: int) -> List[float]:
    """The losses of a compiled step."""
    data = batches(steps)
    with autopar.Session(artifact) as session:
        return [float(session.run({"input_ids": ids, "labels": labels})["loss"])
                for ids, labels in zip(data["ids"], data["labels"])]


def torch_losses(gpt2: Example, folder: pathlib.Path, **settings: object) -> List[float]:
    """The losses of PyTorch from the model file's weights."""
    data = batches(STEPS)
    return pytorch.losses(gpt2.path, folder, {"input_ids": data["ids"], "labels": data["labels"]}, model="gpt2", layers=2,
                          heads=4, **settings)


OPTIMIZERS = (autopar.SGD(momentum=0.9, nesterov=True), autopar.Adam(), autopar.AdamW(lr=3e-4), autopar.Adagrad(), autopar.Lion(), autopar.Muon())


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda optimizer: type(optimizer).__name__)
def test_every_optimizer_is_a_value_in_python(gpt2: Example, tmp_path: pathlib.Path, optimizer: object) -> None:
    step = autopar.Train("softmax_cross_entropy(logits, labels)", optimizer, schedule="constant(warmup=2)", clip_norm=1.0,
                         freeze="*.wpe.*")
    losses = train(autopar.compile(gpt2.path, tmp_path / "train.bin", bind=gpt2.bind, train=step), 6)
    assert losses[-1] < losses[0]


def test_numbers_of_numpy_are_numbers() -> None:
    def words(number: type) -> List[str]:
        return autopar.Train("loss", autopar.SGD(lr=number(0.5), momentum=number(0)), clip_norm=number(2), lr_scale={"*": number(0.25)}).words()

    for number in (np.float64, np.float32):
        assert words(number) == words(float)
    assert str(autopar.SGD(lr=np.int64(1))) == str(autopar.SGD(lr=1))


CASES = [
    ("adamw", "adamw(lr=1e-3, weight_decay=0.1)", 1e-3, 0.1, 0.0),
    ("adam", "adam(lr=1e-3, weight_decay=0.01)", 1e-3, 0.01, 1.0),
    ("sgd", "sgd(lr=0.1)", 0.1, 0.0, 1.0),
    ("momentum", "momentum(lr=0.05, weight_decay=0.1)", 0.05, 0.1, 1.0),
    ("nesterov", "sgd(lr=0.05, momentum=0.9, nesterov=true)", 0.05, 0.0, 0.0),
    ("adagrad", "adagrad(lr=0.01)", 0.01, 0.0, 0.0),
    ("lion", "lion(lr=1e-4, weight_decay=0.1)", 1e-4, 0.1, 0.0),
    ("muon", "muon(lr=1e-3, weight_decay=0.1)", 1e-3, 0.1, 1.0),
]


@pytest.mark.parametrize("name, optimizer, rate, decay, clip", CASES, ids=[case[0] for case in CASES])
def test_losses_equal_pytorch(gpt2: Example, tmp_path: pathlib.Path, name: str, optimizer: str, rate: float, decay: float,
                              clip: float) -> None:
    options = ["--train", LOSS, "--optimizer", optimizer] + (["--clip-norm", str(clip)] if clip else [])
    artifact = autopar.compile(gpt2.path, tmp_path / "step.bin", bind=gpt2.bind, options=options)
    expected = torch_losses(gpt2, tmp_path, optimizer=name, lr=rate, weight_decay=decay, clip_norm=clip)
    np.testing.assert_allclose(train(artifact, STEPS), expected, rtol=TOLERANCE)
    assert expected[-1] < expected[0]


@pytest.mark.parametrize("optimizer", ["adamw(lr=1e-3, beta2=0.95", "muon(lr=1e-3"])
def test_state_of_16_bits_trains_as_well_in_less_memory(gpt2: Example, tmp_path: pathlib.Path, optimizer: str) -> None:
    wide, narrow = (autopar.compile(gpt2.path, tmp_path / f"{bits}.bin", bind=gpt2.bind, train=autopar.Train(LOSS.split("=")[1], f"{optimizer}, state_bits={bits})"))
                    for bits in (32, 16))
    losses = train(narrow, STEPS)
    np.testing.assert_allclose(losses, train(wide, STEPS), rtol=2e-3)
    with autopar.Session(wide) as of_32, autopar.Session(narrow) as of_16:
        def state_bytes(session: autopar.Session) -> int:
            return sum(session.state(port.name).nbytes for port in session.states if port.name.rpartition("/")[2] in ("mean", "square", "momentum"))
        assert 2 * state_bytes(of_16) == state_bytes(of_32)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("optimizer", ["adamw(lr=1e-3, weight_decay=0.1)", "muon(lr=1e-3)"])
def test_ranks_train_like_one(gpt2: Example, tmp_path: pathlib.Path, optimizer: str, ranks: int) -> None:
    options = ["--train", LOSS, "--optimizer", optimizer, "--clip-norm", "1"]
    alone = autopar.compile(gpt2.path, tmp_path / "alone.bin", bind=gpt2.bind, options=options)
    together = autopar.compile(gpt2.path, tmp_path / "together.bin", bind=gpt2.bind, ranks=ranks, options=options)
    np.testing.assert_allclose(train(together, STEPS), train(alone, STEPS), rtol=1e-5)


def test_frozen_parameters_stay(gpt2: Example, tmp_path: pathlib.Path) -> None:
    options = ["--train", LOSS, "--optimizer", "sgd(lr=0.1)", "--explain"]
    done = subprocess.run(["autopar-compile", gpt2.path, "-o", tmp_path / "step.bin", "--bind", "batch=4,seq=16",
                           "--train-only", "transformer.ln_f.*", *options], capture_output=True, text=True, check=False,
                          executable=autopar.tools.find_tool("autopar-compile"))
    assert done.returncode == 0, done.stderr
    assert "trains 2 parameters, 128 numbers" in done.stderr
    assert "trained without weight decay: transformer.ln_f.weight, transformer.ln_f.bias" in done.stderr
    assert "not among those to be trained: transformer.wte.weight" in done.stderr
    losses = train(autopar.Compiled(tmp_path / "step.bin"), STEPS)
    assert losses[-1] < losses[0]


def test_steps_in_front_of_one_that_fails_count(gpt2: Example, tmp_path: pathlib.Path) -> None:
    step = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=1e5))
    artifact = autopar.compile(gpt2.path, tmp_path / "step.bin", bind=gpt2.bind, train=step)
    data = batches(1)
    with autopar.Session(artifact) as session:
        with pytest.raises(autopar.Error, match="^step [1-9]") as raised:
            session.run({"input_ids": data["ids"][0], "labels": data["labels"][0]}, steps=50)
        session.save_checkpoint(tmp_path / "kept")
    done = int(str(raised.value).split()[1].rstrip(":"))
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [f"step-{done:08}"]


def test_the_slope_of_gelu_is_a_number_for_large_numbers(tmp_path: pathlib.Path) -> None:
    weights = np.array([1e15, -1e15, 1e18, 0], np.float32)
    nodes = [helper.make_node("Gelu", ["w"], ["g"], approximate="tanh"), helper.make_node("Mul", ["g", "x"], ["p"]), helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])], [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    artifact = autopar.compile(model, tmp_path / "step.bin", train=autopar.Train("y", autopar.SGD(lr=1.0)))
    with autopar.Session(artifact) as session:
        session.run({"x": np.array([1e14, 1e14, 1e17, 1], np.float32)})
        np.testing.assert_allclose(session.state("w"), weights - [1e14, 0, 1e17, 0.5], rtol=1e-5)


def test_rows_that_are_ignored_may_hold_anything(tmp_path: pathlib.Path) -> None:
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 3])],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 3])], [numpy_helper.from_array(np.zeros((4, 3), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    labels = np.array([0, 1, -100, -100])
    for loss in ("softmax_cross_entropy(y, labels, ignore_index=-100)", "softmax_cross_entropy(y, labels, ignore_index=-100, label_smoothing=0.1)"):
        results = []
        artifact = autopar.compile(model, tmp_path / "step.bin", train=autopar.Train(loss, autopar.SGD(lr=0.1)))
        for other in (0, np.inf, np.nan):
            with autopar.Session(artifact) as session:
                x = np.arange(12, dtype=np.float32).reshape(4, 3)
                x[2:] = other
                results.append((session.run({"x": x, "labels": labels})["loss"], session.state("w")))
        for value, weights in results:
            assert value == results[0][0] and np.isfinite(value)
            np.testing.assert_array_equal(weights, results[0][1])


def test_session_starts_where_it_stopped(gpt2: Example, tmp_path: pathlib.Path) -> None:
    options = ["--train", LOSS, "--optimizer", "adamw(lr=1e-3)"]
    artifact = autopar.compile(gpt2.path, tmp_path / "step.bin", bind=gpt2.bind, options=options)
    data = batches(1)
    with autopar.Session(artifact) as session:
        at_once = session.run({"input_ids": data["ids"][0], "labels": data["labels"][0]}, steps=STEPS)
    assert float(at_once["loss"]) == train(artifact, STEPS)[-1]
