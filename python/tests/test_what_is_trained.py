# SPDX-License-Identifier: Apache-2.0
"""What is trained of real exports: as many numbers as the source framework trains; a warning where the export lost something."""

import json
import pathlib
import re
import subprocess
from typing import Dict, List

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import autopar
from autopar import models

from exported_models import adapted, copied_layers, export, stored_once, stored_twice
from safetensors_files import read_safetensors, write_safetensors

NETWORKS = ("mlp", "cnn", "upsampler", "attention", "decoder", "recurrent", "unet")
FOLDED = "and nothing in the model normalizes: if the source has batch normalization, the export folded it"


def said(model: pathlib.Path, folder: pathlib.Path, output: str = "output", **bind: int) -> str:
    """What the compiler says of a training step up to its graph."""
    words = [f"{name}={extent}" for name, extent in bind.items()]
    done = subprocess.run([autopar.find_tool("autopar-compile"), model, "--train", f"loss=mse({output}, target)", "--optimizer", "sgd",
                           "--explain", "--stop-after", "train", "-o", folder / "step.mlir", "--bind", ",".join(words)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def numbers(text: str) -> int:
    """How many numbers are trained."""
    return int(re.search(r"trains \d+ parameters?, (\d+) numbers", text)[1])  # type: ignore[index]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    """For training and for inference."""
    folder = tmp_path_factory.mktemp("exports")
    return {"training": export(folder / "training", "training"), "inference": export(folder / "inference")}


@pytest.mark.parametrize("name", NETWORKS)
def test_as_many_numbers_are_trained_as_torch_trains(exports: Dict[str, pathlib.Path], tmp_path: pathlib.Path, name: str) -> None:
    text = said(exports["training"] / f"torch-{name}.onnx", tmp_path, batch=4)
    assert numbers(text) == json.loads((exports["training"] / "parameters.json").read_text())[name]
    assert FOLDED not in text


@pytest.mark.parametrize("name", ["attention", "mlp"])
def test_what_the_older_exporter_stored_once_is_trained_apart(exports: Dict[str, pathlib.Path], tmp_path: pathlib.Path, name: str) -> None:
    """Norms of a model that was never trained are equal; for inference the exporter joins them."""
    text = said(exports["inference"] / f"torch-{name}.onnx", tmp_path, batch=4)
    assert numbers(text) == json.loads((exports["training"] / "parameters.json").read_text())[name]
    assert ("tensors were stored as others of the same values" in text) == (name == "attention")


def test_folded_batch_normalization_is_suspected(exports: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    assert FOLDED in said(exports["inference"] / "torch-cnn.onnx", tmp_path, batch=4)
    assert FOLDED not in said(exports["inference"] / "torch-mlp.onnx", tmp_path, batch=4)


def test_dropout_that_became_an_identity_is_named(tmp_path: pathlib.Path) -> None:
    model = models.build("gpt2-124m", layers=1, hidden=16, heads=2, vocab=20)
    first = model.graph.node[0]
    first.output[0], output = "kept", first.output[0]
    model.graph.node.insert(1, helper.make_node("Identity", ["kept"], [output], "/transformer/drop/Dropout"))
    onnx.save(model, tmp_path / "gpt2.onnx")
    assert "1 dropout was exported as Identity" in said(tmp_path / "gpt2.onnx", tmp_path, "logits", batch=2, seq=4)


@pytest.mark.parametrize("name, options, output, bind", [
    ("gpt2-124m", {"layers": 2, "hidden": 32, "heads": 2, "vocab": 50}, "logits", {"batch": 2, "seq": 8}),
    ("llama3-8b", {"layers": 1, "hidden": 32, "heads": 4, "kv_heads": 2, "vocab": 50}, "logits", {"batch": 2, "seq": 8}),
    ("resnet50", {"blocks": "1,1", "channels": 8, "image": 32, "classes": 5}, "output", {"batch": 2}),
    ("bert-switch", {"layers": 2, "hidden": 32, "heads": 2, "vocab": 50}, "pooler_output", {"batch": 2, "seq": 8}),
], ids=["gpt2", "llama3", "resnet", "bert-switch"])
def test_the_zoo_is_trained_whole(tmp_path: pathlib.Path, name: str, options: Dict[str, object], output: str,
                                  bind: Dict[str, int]) -> None:
    models.save(name, tmp_path / "m.onnx", **options)
    graph = models.describe(name, **options)
    expected = sum(parameter.elements for parameter in graph.parameters.values() if parameter.trained)
    assert numbers(said(tmp_path / "m.onnx", tmp_path, output, **bind)) == expected


@pytest.mark.parametrize("ranks", [1, 2])
def test_weights_that_an_export_untied_train_as_one(tmp_path: pathlib.Path, ranks: int) -> None:
    models.save("gpt2-124m", tmp_path / "tied.onnx", layers=1, hidden=16, heads=2, vocab=20)
    stored_twice(tmp_path / "twice.onnx")
    tokens = np.random.default_rng(1).integers(0, 20, (4, 9))
    batch = {"input_ids": tokens[:, :-1], "labels": tokens[:, 1:]}

    def losses(name: str) -> List[float]:
        train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-2))
        compiled = autopar.compile(tmp_path / f"{name}.onnx", tmp_path / f"{name}.bin", bind={"batch": 4, "seq": 8}, ranks=ranks, train=train)
        with autopar.Session(compiled) as session:
            return [float(session.run(batch)["loss"]) for _ in range(5)]

    np.testing.assert_allclose(losses("twice"), losses("tied"), rtol=1e-5)


def test_what_the_newer_exporter_stored_once_is_trained_apart(tmp_path: pathlib.Path) -> None:
    """Norms at their start and two layers that are copies; what is really tied, the output matrix, stays so."""
    onnx.save(copied_layers(hidden=16, heads=2, vocab=20), tmp_path / "whole.onnx")
    gone = stored_once(tmp_path / "whole.onnx", tmp_path / "once.onnx")
    assert gone > 12
    assert f"{gone} tensors were stored as others of the same values" in said(tmp_path / "once.onnx", tmp_path, "logits", batch=4, seq=8)
    tokens = np.random.default_rng(1).integers(0, 20, (4, 9))
    trained = []
    for name in ("whole", "once"):
        train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1))
        compiled = autopar.compile(tmp_path / f"{name}.onnx", tmp_path / f"{name}.bin", bind={"batch": 4, "seq": 8}, ranks=2, train=train)
        with autopar.Session(compiled) as session:
            for _ in range(3):
                session.run({"input_ids": tokens[:, :-1], "labels": tokens[:, 1:]})
            trained.append({port.name: session.state(port.name) for port in session.states})
    assert trained[0].keys() == trained[1].keys()
    for name, expected in trained[0].items():
        np.testing.assert_allclose(trained[1][name], expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.filterwarnings("ignore:initializer")  # of the matrices that the file leaves as they are
@pytest.mark.parametrize("ranks", [1, 2])
def test_lora_matrices_alone_are_trained(tmp_path: pathlib.Path, ranks: int) -> None:
    """By their names in the source, whatever the exporter called them; nothing else has state, moves or is exported. They serve."""
    random = np.random.default_rng(4)
    batch = {"x": random.standard_normal((4, 8)).astype(np.float32), "target": random.standard_normal((4, 8)).astype(np.float32)}
    losses, exported = [], []
    for isExported in (False, True):
        onnx.save(adapted(isExported), tmp_path / "model.onnx")
        train = autopar.Train("mse(output, target)", autopar.AdamW(lr=0.05), train_only=["*lora_*"])
        compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "train.bin", bind={"batch": 4}, ranks=ranks, train=train)
        with autopar.Session(compiled) as session:
            assert sum(int(np.prod(port.shape)) for port in session.states if len(port.shape) == 2) == 3 * 6 * 16  # with AdamW's two moments
            losses.append([float(session.run(batch)["loss"]) for _ in range(8)])
            session.export(tmp_path / "lora.safetensors")
            expected = session.evaluate(batch)["loss"]
        served = autopar.compile(tmp_path / "model.onnx", tmp_path / "serve.bin", bind={"batch": 4}, ranks=ranks)
        with autopar.Session(served, initializer=str(tmp_path / "lora.safetensors")) as session:
            answer = session.run({"x": batch["x"]})["output"]
        np.testing.assert_allclose(np.mean((answer - batch["target"]) ** 2), expected, rtol=1e-5)
        exported.append(read_safetensors(tmp_path / "lora.safetensors"))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][-1] < losses[0][0] / 2
    assert len(exported[0]) == len(exported[1]) == 6 and all("lora" in name for name in exported[0])
    # What a linear of the source reads has the source's name and shape; of the rest the export does not say what it computed.
    assert sum(name.startswith("val_") for name in exported[1]) == 2
    for name, value in exported[1].items():
        if not name.startswith("val_"):
            np.testing.assert_allclose(value, exported[0][name].T, rtol=1e-4, atol=1e-6, err_msg=name)
    text = said(tmp_path / "model.onnx", tmp_path, batch=4)
    assert "val_* (of layers.*.q.lora_A.weight) (2)" in text and "the export does not say whether it was computed from a parameter" in text


@pytest.mark.parametrize("ranks", [1, 2])
def test_weights_of_the_source_go_in_and_come_out_by_its_names(tmp_path: pathlib.Path, ranks: int) -> None:
    """Square matrices too, which no shape tells from their transposes. A file by the model file's names goes in as well."""
    onnx.save(adapted(True), tmp_path / "model.onnx")
    train = autopar.Train("mse(output, target)", autopar.SGD(lr=0.1))
    compiled = autopar.compile(tmp_path / "model.onnx", tmp_path / "train.bin", bind={"batch": 4}, ranks=ranks, train=train)
    random = np.random.default_rng(5)
    names = [f"layers.{layer}.q.{name}" for layer in (0, 1) for name in ("weight", "lora_A.weight", "lora_B.weight")] + ["head.weight"]
    source = {name: random.standard_normal((2, 8) if "_A" in name else (8, 2) if "_B" in name else (8, 8)).astype(np.float32) for name in names}
    write_safetensors(tmp_path / "source.safetensors", source)
    batch = {"x": random.standard_normal((4, 8)).astype(np.float32), "target": np.zeros((4, 8), np.float32)}
    with pytest.warns(UserWarning, match=r"2 parameters not in .* start from the model's weights: val_\d+, val_\d+$"):
        session = autopar.Session(compiled, initializer=str(tmp_path / "source.safetensors"))
    with session:
        session.export(tmp_path / "out.safetensors")
        loss = session.evaluate(batch)["loss"]
        inside = {port.name: session.state(port.name) for port in session.states}
    out = read_safetensors(tmp_path / "out.safetensors")
    assert out.keys() == source.keys()
    for name, value in source.items():
        np.testing.assert_array_equal(out[name], value)
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in adapted(False).graph.initializer}
    x = batch["x"]
    for layer in ("layers.0", "layers.1"):
        x = x @ source[f"{layer}.q.weight"].T + x @ source[f"{layer}.q.lora_A.weight"].T @ source[f"{layer}.q.lora_B.weight"].T
    expected = x @ source["head.weight"].T + x @ tensors["lora_A"] @ tensors["lora_B"]
    assert loss == pytest.approx(float(np.mean(expected ** 2)), rel=1e-4)
    write_safetensors(tmp_path / "inside.safetensors", {name: value for name, value in inside.items() if name.startswith("val_")})
    with pytest.warns(UserWarning, match="3 parameters not in"):
        session = autopar.Session(compiled, initializer=str(tmp_path / "inside.safetensors"))
    with session:  # but for the matrix that was stored once for two: it has the source's name alone
        session.export(tmp_path / "again.safetensors")
    again = read_safetensors(tmp_path / "again.safetensors")
    assert sum(not np.array_equal(again[name], value) for name, value in out.items()) == 1
    source["head.weight"] = source["head.weight"][:4]
    write_safetensors(tmp_path / "source.safetensors", source)
    with pytest.raises(autopar.Error, match=r"parameter head.weight: expected f32 \[8,8\], the file has f32 \[4,8\]"):
        autopar.Session(compiled, initializer=str(tmp_path / "source.safetensors"))


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_padding_row_of_an_embedding_is_not_trained_by_it(tmp_path: pathlib.Path, ranks: int) -> None:
    """torch's exporter says of each lookup which row is padding_idx; another lookup of the table may train it."""
    table = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    lookups = [helper.make_node("Gather", ["table", "ids"], ["padded"], "padded"), helper.make_node("Gather", ["table", "ids"], ["plain"], "plain")]
    for node, arguments in zip(lookups, ("%p_table, %ids, 2", "%p_table, %ids")):
        node.metadata_props.append(onnx.StringStringEntryProto(
            key="pkg.torch.onnx.fx_node", value=f"call_function[target=torch.ops.aten.embedding.default](args = ({arguments}), kwargs = {{}})"))
    ids = np.array([[2, 0, 2, 5], [1, 2, 2, 0]])
    for looked_up, is_fixed in (("padded", True), ("plain", False)):
        graph = helper.make_graph([lookups[looked_up == "plain"], helper.make_node("Identity", [looked_up], ["y"])], "g",
                                  [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", 4])],
                                  [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 4, 4])], [numpy_helper.from_array(table, "table")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "g.onnx")
        train = autopar.Train("mse(y, target)", autopar.SGD(lr=0.5))
        compiled = autopar.compile(tmp_path / "g.onnx", tmp_path / "g.bin", bind={"batch": 2}, ranks=ranks, train=train)
        with autopar.Session(compiled) as session:
            session.run({"ids": ids, "target": np.zeros((2, 4, 4), np.float32)})
            moved = np.any(session.state("table") != table, axis=1)
        assert moved.tolist() == [True, True, not is_fixed, False, False, True]
