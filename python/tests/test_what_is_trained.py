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

from safetensors_files import read_safetensors, write_safetensors

EXPORTER = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "checks" / "export_with_torch.py"
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


def export(folder: pathlib.Path, *mode: str) -> pathlib.Path:
    """torch's exports."""
    folder.mkdir()
    done = subprocess.run(["/usr/bin/python3", EXPORTER, folder, *mode], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


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


def stored_twice(path: pathlib.Path) -> None:
    """A gpt2 as torch's exporter writes it: the transpose of the tied output matrix computed ahead, under a name made up."""
    model = models.build("gpt2-124m", layers=1, hidden=16, heads=2, vocab=20)
    (transpose,) = [node for node in model.graph.node if node.name == "/lm_head/Transpose"]
    (embedding,) = [tensor for tensor in model.graph.initializer if tensor.name == transpose.input[0]]
    model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(embedding).T.copy(), "onnx::MatMul_120"))
    (head,) = [node for node in model.graph.node if node.name == "/lm_head/MatMul"]
    head.input[1] = "onnx::MatMul_120"
    model.graph.node.remove(transpose)
    model.producer_name = "pytorch"
    onnx.save(model, path)


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


def stored_once(whole: pathlib.Path, path: pathlib.Path) -> int:
    """The model as torch's newer exporter writes it: equal initializers joined, and by each node what its source read. How many are gone."""
    model = onnx.load(whole)
    first: Dict[str, str] = {}
    joined = {tensor.name: first.setdefault(f"{list(tensor.dims)} {tensor.raw_data!r}", tensor.name) for tensor in model.graph.initializer}
    for node in model.graph.node:
        modules = {name.rsplit(".", 1)[0] for name in node.input if name in joined and "." in name}
        read = [name for name in joined if name.rsplit(".", 1)[0] in modules]
        if read:
            places = ", ".join("%p_" + name.replace(".", "_") for name in read)
            node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%op : [num_users=1] = call_function[target=op](args = (%x, {places}), kwargs = {{}})")
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", *modules, "op"]))
        for i, name in enumerate(node.input):
            node.input[i] = joined.get(name, name)
    for tensor in [tensor for tensor in model.graph.initializer if joined[tensor.name] != tensor.name]:
        model.graph.initializer.remove(tensor)
    model.producer_name = "pytorch"
    onnx.save(model, path)
    return sum(kept != name for name, kept in joined.items())


def test_what_the_newer_exporter_stored_once_is_trained_apart(tmp_path: pathlib.Path) -> None:
    """Norms at their start and two layers that are copies; what is really tied, the output matrix, stays so."""
    model = models.build("gpt2-124m", layers=2, hidden=16, heads=2, vocab=20)
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, tensor in values.items():
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        if ".ln_" in name or name.endswith(".bias"):
            tensor.raw_data = np.full(list(tensor.dims), float(name.endswith("weight")), np.float32).tobytes()
        elif ".h.1." in name:
            tensor.raw_data = values[name.replace(".h.1.", ".h.0.")].raw_data
    onnx.save(model, tmp_path / "whole.onnx")
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


def adapted(exported: bool) -> onnx.ModelProto:
    """Two layers with LoRA, and a matrix of the whole model that takes it too. Exported: as torch's newer exporter writes it, with transposes
    computed ahead under names that it made up, equal matrices (each B starts as zeros) stored once, and the tensors that they were."""
    random = np.random.default_rng(3)
    nodes: List[onnx.NodeProto] = []
    tensors: Dict[str, np.ndarray] = {}
    sources: Dict[str, List[str]] = {}

    def product(x: str, name: str, value: np.ndarray, source: str = "") -> str:
        """x @ value: `name` is transposed in torch, where nodes read `source`: it, or what the source itself transposed."""
        stored = name
        if exported:
            stored = next((known for known, other in tensors.items() if other.shape == value.shape and np.array_equal(other, value)), f"val_{len(nodes)}")
            sources.setdefault(stored, [name] if not source else [name, source])
        tensors[stored] = value
        node = helper.make_node("MatMul", [x, stored], [f"y{len(nodes)}"], f"n{len(nodes)}")
        if exported:
            place = source or "p_" + name.replace(".", "_").lower()
            node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%{x}, %{place}), kwargs = {{}})")
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(["", name.rpartition(".")[0], "linear"]))
        nodes.append(node)
        return node.output[0]

    def matrix(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / 3).astype(np.float32)

    def added(x: str, y: str) -> str:
        nodes.append(helper.make_node("Add", [x, y], [f"y{len(nodes)}"], f"n{len(nodes)}"))
        return nodes[-1].output[0]

    x = "x"
    for layer in ("layers.0", "layers.1"):
        down = product(x, f"{layer}.q.lora_A.weight", matrix(8, 2))
        x = added(product(x, f"{layer}.q.weight", matrix(8, 8)), product(down, f"{layer}.q.lora_B.weight", np.zeros((2, 8), np.float32)))
    down = product(x, "lora_A", matrix(8, 2), "permute")
    x = added(product(x, "head.weight", matrix(8, 8)), product(down, "lora_B", matrix(2, 8), "permute_1"))
    nodes[-1].output[0] = "output"
    shape = ["batch", 8]
    graph = helper.make_graph(nodes, "adapted", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(value, name) for name, value in tensors.items()])
    for name, source in sources.items():
        value = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, tensors[name].shape)
        value.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=str(source))
        graph.value_info.append(value)
    return helper.make_model(graph, producer_name="pytorch" if exported else "", opset_imports=[helper.make_opsetid("", 18)])


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
            expected = session.evaluate(batch)
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
        loss = session.evaluate(batch)
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
