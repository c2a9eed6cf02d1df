# SPDX-License-Identifier: Apache-2.0
"""Trained weights back in the model's ONNX file: onnxruntime computes with it what AutoPar does with the weights."""

import pathlib
from typing import Callable, Dict, List, NamedTuple, Optional

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar import models

from exported_models import adapted, copied_layers, export, stored_once, stored_twice
from safetensors_files import write_safetensors

GPT2 = {"layers": 2, "hidden": 16, "heads": 2, "vocab": 20}


class Case(NamedTuple):
    """A model, and what it is fed."""

    write: Callable[[pathlib.Path, pathlib.Path], object]  #: into a file; the folder may hold what it needs
    output: str
    bind: Dict[str, int]
    feed: Dict[str, np.ndarray]
    train_only: Optional[List[str]] = None
    adapters: str = ""


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def tokens(vocab: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, vocab, shape)


def joined(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Norms at their start and layers that are copies, each stored once."""
    onnx.save(copied_layers(hidden=16, heads=2, vocab=20), folder / "whole.onnx")
    assert stored_once(folder / "whole.onnx", path) > 12


def beside(path: pathlib.Path, folder: pathlib.Path) -> None:
    """The values in another file."""
    (folder / "external").mkdir(exist_ok=True)
    onnx.save(models.build("gpt2-124m", **GPT2), path, save_as_external_data=True, location=path.name + ".weights", size_threshold=0)


def constants(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Weights in nodes, and in a branch that is always taken."""
    def linear(x: str, y: str) -> List[onnx.NodeProto]:
        weight = helper.make_node("Constant", [], [f"{y}_w"], value=numpy_helper.from_array(random(40, 40)))
        return [weight, helper.make_node("MatMul", [x, f"{y}_w"], [y])]

    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 40])

    branches = {f"{word}_branch": helper.make_graph(linear("h", f"y_{word}"), word, [], [value(f"y_{word}")]) for word in ("then", "else")}
    nodes = [*linear("x", "h"), helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))),
             helper.make_node("If", ["yes"], ["output"], **branches)]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("output")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def by_torch(name: str, *mode: str) -> Callable[[pathlib.Path, pathlib.Path], object]:
    return lambda path, folder: (export(folder / "torch", *mode) / f"torch-{name}.onnx").rename(path)


WORDS, IMAGE = {"input_ids": tokens(20, 4, 8)}, {"input": random(4, 3, 32, 32)}
CASES = {
    "gpt2": Case(lambda path, folder: models.save("gpt2-124m", path, **GPT2), "logits", {"batch": 4, "seq": 8}, WORDS),
    "external-data": Case(beside, "logits", {"batch": 4, "seq": 8}, WORDS),
    "resnet": Case(lambda path, folder: models.save("resnet50", path, blocks="1,1", channels=8, image=32, classes=5), "output", {"batch": 4}, IMAGE),
    "tied-stored-twice": Case(lambda path, folder: stored_twice(path), "logits", {"batch": 4, "seq": 8}, WORDS),
    "equal-stored-once": Case(joined, "logits", {"batch": 4, "seq": 8}, WORDS),
    "transposed": Case(lambda path, folder: onnx.save(adapted(True), path), "output", {"batch": 4}, {"x": random(4, 8)}),
    "lora-alone": Case(lambda path, folder: onnx.save(adapted(True), path), "output", {"batch": 4}, {"x": random(4, 8)}, ["*lora_*"]),
    "adapters": Case(lambda path, folder: models.save("gpt2-124m", path, **GPT2), "logits", {"batch": 4, "seq": 8}, WORDS, adapters="lora(rank=2)"),
    "adapters-external-data": Case(beside, "logits", {"batch": 4, "seq": 8}, WORDS, adapters="lora(rank=2)"),
    "constant-nodes": Case(constants, "output", {"batch": 4}, {"x": random(4, 40)}),
    "torch-attention": Case(by_torch("attention"), "output", {"batch": 4}, {"input": tokens(100, 4, 12)}),
    "torch-decoder": Case(by_torch("decoder"), "output", {"batch": 4}, {"input": tokens(100, 4, 12)}),
}


def answer(model: pathlib.Path, case: Case) -> np.ndarray:
    """onnxruntime's."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run([case.output], case.feed)[0]


@pytest.mark.filterwarnings("ignore:initializer")  # of what is not trained
@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_computes_with_what_was_trained(tmp_path: pathlib.Path, name: str) -> None:
    case = CASES[name]
    model, weights, trained = tmp_path / "model.onnx", tmp_path / "weights.safetensors", tmp_path / "new" / "trained.onnx"
    trained.parent.mkdir()
    case.write(model, tmp_path)
    before = answer(model, case)
    train = autopar.Train(f"mse({case.output}, target)", autopar.SGD(lr=0.5), train_only=case.train_only or [], adapters=case.adapters or None)
    step = autopar.compile(model, tmp_path / "train.bin", bind=case.bind, ranks=2, train=train)
    with autopar.Session(step) as session:
        for _ in range(3):
            session.run({**case.feed, "target": random(*before.shape)})
        session.export(weights)
    autopar.update_onnx(model, weights, trained, adapters=case.adapters)
    onnx.checker.check_model(str(trained), full_check=True)
    serve = autopar.compile(model, tmp_path / "serve.bin", bind=case.bind, options=["--adapters", case.adapters] if case.adapters else [])
    with autopar.Session(serve, initializer=str(weights)) as session:
        expected = session.run(case.feed)[case.output]
    after = answer(trained, case)
    assert np.abs(expected - before).max() > 1e-3
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-5)


def test_the_new_file_trains_on(tmp_path: pathlib.Path) -> None:
    """Compiled from it, a step goes on where the first training ended."""
    joined(tmp_path / "model.onnx", tmp_path)
    batch = {"input_ids": tokens(20, 4, 8), "labels": tokens(20, 4, 8)}
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1))
    with autopar.Session(autopar.compile(tmp_path / "model.onnx", tmp_path / "a.bin", bind={"batch": 4, "seq": 8}, train=train)) as session:
        session.run(batch)
        session.export(tmp_path / "weights.safetensors")
        expected = [float(session.run(batch)["loss"]) for _ in range(2)]
    autopar.update_onnx(tmp_path / "model.onnx", tmp_path / "weights.safetensors", tmp_path / "trained.onnx")
    with autopar.Session(autopar.compile(tmp_path / "trained.onnx", tmp_path / "b.bin", bind={"batch": 4, "seq": 8}, train=train)) as session:
        np.testing.assert_allclose([float(session.run(batch)["loss"]) for _ in range(2)], expected, rtol=1e-5)


@pytest.mark.parametrize("tensors, code, says", [
    ({"no.such": np.zeros(3, np.float32)}, 65, "the model has no weight 'no.such'"),
    ({"transformer.ln_f.bias": np.zeros(3, np.float32)}, 65, "transformer.ln_f.bias is FLOAT [16] in the model, its new value f32 [3]"),
], ids=["unknown", "shape"])
def test_what_does_not_fit_is_refused_and_nothing_written(tmp_path: pathlib.Path, tensors: Dict[str, np.ndarray], code: int, says: str) -> None:
    beside(tmp_path / "model.onnx", tmp_path)
    write_safetensors(tmp_path / "w.safetensors", tensors)
    with pytest.raises(autopar.Error, match=says.replace("[", r"\[")) as caught:
        autopar.update_onnx(tmp_path / "model.onnx", tmp_path / "w.safetensors", tmp_path / "trained.onnx")
    assert caught.value.code == code
    assert not list(tmp_path.glob("trained*"))


def test_values_that_do_not_exist_cannot_be_written(tmp_path: pathlib.Path) -> None:
    beside(tmp_path / "model.onnx", tmp_path)
    (tmp_path / "model.onnx.weights").unlink()
    write_safetensors(tmp_path / "w.safetensors", {"transformer.ln_f.bias": np.zeros(16, np.float32)})
    with pytest.raises(autopar.Error, match="model.onnx.weights', which does not exist"):
        autopar.update_onnx(tmp_path / "model.onnx", tmp_path / "w.safetensors", tmp_path / "trained.onnx")
    assert not list(tmp_path.glob("trained*"))


@pytest.mark.parametrize("output, code", [("no/such/folder/x.onnx", 73), (".", 73), ("/dev/full", 73)])
def test_where_the_model_cannot_be_written_its_data_is_not_left(tmp_path: pathlib.Path, output: str, code: int) -> None:
    beside(tmp_path / "model.onnx", tmp_path)
    write_safetensors(tmp_path / "w.safetensors", {"transformer.ln_f.bias": np.zeros(16, np.float32)})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(autopar.Error) as caught:
        autopar.update_onnx(tmp_path / "model.onnx", tmp_path / "w.safetensors", tmp_path / output)
    assert caught.value.code == code
    assert sorted(tmp_path.rglob("*")) == before and not pathlib.Path("/dev/full.data").exists()


def test_a_model_is_updated_in_place(tmp_path: pathlib.Path) -> None:
    """Twice: its data moves to the new file's, which is then read and replaced."""
    beside(tmp_path / "model.onnx", tmp_path)
    for value in (1.0, 2.0):
        write_safetensors(tmp_path / "w.safetensors", {"transformer.ln_f.bias": np.full(16, value, np.float32)})
        autopar.update_onnx(tmp_path / "model.onnx", tmp_path / "w.safetensors", tmp_path / "model.onnx")
        (bias,) = [tensor for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer if tensor.name == "transformer.ln_f.bias"]
        np.testing.assert_array_equal(numpy_helper.to_array(bias), np.full(16, value, np.float32))


def test_types_are_those_of_the_model(tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "model.onnx", **GPT2)
    write_safetensors(tmp_path / "w.safetensors", {"transformer.ln_f.bias": np.zeros(16, np.float32)}, bf16=True)
    with pytest.raises(autopar.Error, match=r"is FLOAT \[16\] in the model, its new value bf16"):
        autopar.update_onnx(tmp_path / "model.onnx", tmp_path / "w.safetensors", tmp_path / "trained.onnx")
