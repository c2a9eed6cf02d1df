# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters beside the matrices of a model: as the same graph written by hand, under any plan, of 4-bit weights, and served."""

import json
import pathlib
import subprocess
import sys
from typing import Dict, List, Optional

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import autopar
from autopar import models

from safetensors_files import read_safetensors, write_safetensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from checks import block_weights  # noqa: E402

RANK, ALPHA, WIDTH, BATCH, STEPS = 3, 6.0, 64, 8, 6
ADAPTERS = f"lora(rank={RANK}, alpha={ALPHA})"
LOSS, OPTIMIZER = "mse(y, target)", autopar.AdamW(lr=1e-2)
LAYERS = ("up", "down", "out")


def weights(seed: int = 0) -> Dict[str, np.ndarray]:
    """Of a network of three layers, and of adapters for the first two."""
    random = np.random.default_rng(seed)
    arrays = {f"{name}.weight": random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 6 for name in LAYERS}
    arrays["up.bias"] = random.standard_normal(WIDTH).astype(np.float32)
    for name in LAYERS[:2]:
        arrays[f"{name}.lora_A.weight"] = random.standard_normal((RANK, WIDTH)).astype(np.float32) / 6
        arrays[f"{name}.lora_B.weight"] = random.standard_normal((WIDTH, RANK)).astype(np.float32) / 6
    return arrays


def network(path: pathlib.Path, arrays: Dict[str, np.ndarray], is_adapted: bool = False) -> pathlib.Path:
    """x up, tanh, down, tanh, out; the first weight as it is, the others transposed. `is_adapted`: the adapters are nodes."""
    nodes: List[onnx.NodeProto] = []
    value = "x"
    for name in LAYERS:
        transposed = int(name != "up")
        product = [value, f"{name}.weight"] + (["up.bias"] if name == "up" else [])
        nodes.append(helper.make_node("Gemm", product, [f"{name}.y"], transB=transposed))
        made = f"{name}.y"
        if is_adapted and name != "out":
            nodes += [helper.make_node("Gemm", [value, f"{name}.lora_A.weight"], [f"{name}.low"], transB=1),
                      helper.make_node("Gemm", [f"{name}.low", f"{name}.lora_B.weight"], [f"{name}.high"], transB=1, alpha=ALPHA / RANK),
                      helper.make_node("Add", [made, f"{name}.high"], [f"{name}.sum"])]
            made = f"{name}.sum"
        value = "y" if name == "out" else f"{name}.z"
        nodes.append(helper.make_node("Identity" if name == "out" else "Tanh", [made], [value]))
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items() if is_adapted or "lora" not in name]
    tensor = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [BATCH, WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "adapted", tensor[:1], tensor[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def data(random: np.random.Generator) -> Dict[str, np.ndarray]:
    return {name: random.standard_normal((BATCH, WIDTH)).astype(np.float32) for name in ("x", "target")}


def losses(artifact: autopar.Compiled, init: Optional[pathlib.Path] = None, export: Optional[pathlib.Path] = None) -> List[float]:
    """Of a few steps on one batch."""
    batch = data(np.random.default_rng(5))
    with autopar.Session(artifact, initializer=str(init or "")) as session:
        found = [float(session.run(batch)["loss"]) for _ in range(STEPS)]
        if export:
            session.export(export)
    return found


def train(**settings: object) -> autopar.Train:
    return autopar.Train(LOSS, OPTIMIZER, **settings)


#: A file of adapters says nothing of the model's own weights, and nobody is told so.
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The network, the same with adapters as nodes, and a file of these adapters."""
    path, arrays = tmp_path_factory.mktemp("adapters"), weights()
    network(path / "plain.onnx", arrays)
    network(path / "adapted.onnx", arrays, is_adapted=True)
    write_safetensors(path / "start.safetensors", {name: array for name, array in arrays.items() if "lora" in name})
    return path


@pytest.fixture(scope="module")
def by_hand(folder: pathlib.Path) -> List[float]:
    """Losses of the graph that holds its adapters."""
    return losses(autopar.compile(folder / "adapted.onnx", folder / "hand.bin", train=train(train_only="*lora_*")))


def test_adapters_train_as_a_graph_that_holds_them(folder: pathlib.Path, by_hand: List[float]) -> None:
    compiled = autopar.compile(folder / "plain.onnx", folder / "plain.bin", train=train(adapters=ADAPTERS))
    np.testing.assert_allclose(losses(compiled, folder / "start.safetensors"), by_hand, rtol=1e-5)
    assert by_hand[-1] < by_hand[0]


@pytest.mark.parametrize("seed", range(6))
def test_random_plans_train_as_one_rank_does(folder: pathlib.Path, by_hand: List[float], seed: int) -> None:
    options = ["--engine", "random", "--seed", str(seed), *(["--stages", "2", "--micro-batches", "2"] if seed % 2 else [])]
    compiled = autopar.compile(folder / "plain.onnx", folder / f"{seed}.bin", ranks=4, train=train(adapters=ADAPTERS), options=options)
    np.testing.assert_allclose(losses(compiled, folder / "start.safetensors"), by_hand, rtol=1e-5)


def test_new_adapters_change_nothing_at_first(folder: pathlib.Path) -> None:
    """B is zero and A is drawn, the same on any number of ranks, without --init."""
    first = []
    for ranks in (1, 2):
        compiled = autopar.compile(folder / "plain.onnx", folder / f"new{ranks}.bin", ranks=ranks, train=train(adapters=ADAPTERS))
        first.append(losses(compiled, export=folder / f"new{ranks}.safetensors"))
    x = data(np.random.default_rng(5))
    y = onnxruntime.InferenceSession(str(folder / "plain.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x["x"]})[0]
    np.testing.assert_allclose(first[0][0], np.mean((y - x["target"]) ** 2), rtol=1e-5)
    np.testing.assert_allclose(first[0], first[1], rtol=1e-5)
    assert first[0][-1] < first[0][0]
    one, two = (read_safetensors(folder / f"new{ranks}.safetensors") for ranks in (1, 2))
    assert sorted(one) == sorted(name for name in weights() if "lora" in name)
    for name, array in one.items():
        assert array.shape == weights()[name].shape
        np.testing.assert_allclose(array, two[name], atol=1e-5)
        assert np.abs(array).max() > 0


def test_adapters_that_a_file_does_not_bring_are_named(folder: pathlib.Path) -> None:
    compiled = autopar.compile(folder / "plain.onnx", folder / "partly.bin", train=train(adapters=ADAPTERS))
    arrays = weights()
    write_safetensors(folder / "partly.safetensors", {name: array for name, array in arrays.items() if name.startswith("up.lora")})
    with pytest.warns(UserWarning, match=r"2 parameters not in .*partly.safetensors are drawn: down.lora_A.weight, down.lora_B.weight$"):
        autopar.Session(compiled, initializer=str(folder / "partly.safetensors")).close()


def test_adapters_are_served_from_what_training_exported(folder: pathlib.Path) -> None:
    """As the model is whose weights have the adapters added."""
    arrays = weights()
    compiled = autopar.compile(folder / "plain.onnx", folder / "serve.bin", ranks=2, options=["--adapters", ADAPTERS])
    x = data(np.random.default_rng(1))["x"]
    with autopar.Session(compiled, initializer=str(folder / "start.safetensors")) as session:
        served = session.run({"x": x})["y"]
    for name in LAYERS[:2]:
        change = ALPHA / RANK * arrays[f"{name}.lora_B.weight"] @ arrays[f"{name}.lora_A.weight"]
        arrays[f"{name}.weight"] += change.T if name == "up" else change
    network(folder / "merged.onnx", arrays)
    merged = onnxruntime.InferenceSession(str(folder / "merged.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_allclose(served, merged, rtol=1e-4, atol=1e-5)


def test_adapters_are_added_to_the_weights_of_the_model_file(folder: pathlib.Path) -> None:
    """onnxruntime computes with the new file what AutoPar does beside the old one."""
    x = data(np.random.default_rng(1))["x"]
    autopar.update_onnx(folder / "plain.onnx", folder / "start.safetensors", folder / "added.onnx", adapters=ADAPTERS)
    added = onnxruntime.InferenceSession(str(folder / "added.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    compiled = autopar.compile(folder / "plain.onnx", folder / "beside.bin", options=["--adapters", ADAPTERS])
    with autopar.Session(compiled, initializer=str(folder / "start.safetensors")) as session:
        beside = session.run({"x": x})["y"]
    np.testing.assert_allclose(added, beside, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("adapters, says", [
    ("", "the model has no weight 'down.lora_A.weight' that could be written; adapters are added to its matrices by --adapters"),
    ("lora(rank=4)", r"the adapter of 'down': expected down.lora_A.weight of f32, \[4, in\], and down.lora_B.weight, \[out, 4\]"),
], ids=["none", "rank"])
def test_adapters_that_are_not_said_are_not_added(folder: pathlib.Path, adapters: str, says: str) -> None:
    with pytest.raises(autopar.Error, match=says):
        autopar.update_onnx(folder / "plain.onnx", folder / "start.safetensors", folder / "refused.onnx", adapters=adapters)
    assert not (folder / "refused.onnx").exists()


def test_what_else_reads_a_matrix_would_read_its_adapter_too(tmp_path: pathlib.Path) -> None:
    """Such as the table of a tied embedding."""
    models.save("gpt2-124m", tmp_path / "gpt2.onnx", layers=1, hidden=16, heads=2, vocab=20)
    write_safetensors(tmp_path / "lora.safetensors", {"transformer.wte.lora_A.weight": np.ones((2, 16), np.float32),
                                                      "transformer.wte.lora_B.weight": np.ones((20, 2), np.float32)})
    with pytest.raises(autopar.Error, match="'transformer.wte.weight' cannot be added to it: it is read by Gather, too"):
        autopar.update_onnx(tmp_path / "gpt2.onnx", tmp_path / "lora.safetensors", tmp_path / "new.onnx", adapters="lora(rank=2)")


def test_what_a_branch_reads_gets_no_adapter(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """It may do something else with the matrix."""
    model = onnx.load(folder / "plain.onnx")
    value = helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [WIDTH, WIDTH])
    branch = helper.make_graph([helper.make_node("Identity", ["up.weight"], ["w"])], "branch", [], [value])
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    model.graph.node.append(helper.make_node("If", ["yes"], ["unused"], then_branch=branch, else_branch=branch))
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(autopar.Error, match="'up.weight' cannot be added to it: it is read by an output or a branch, too"):
        autopar.update_onnx(tmp_path / "model.onnx", folder / "start.safetensors", tmp_path / "new.onnx", adapters=ADAPTERS)


def test_serving_needs_adapters(folder: pathlib.Path) -> None:
    """A model without its adapters would be another one."""
    compiled = autopar.compile(folder / "plain.onnx", folder / "empty.bin", options=["--adapters", ADAPTERS])
    with pytest.raises(autopar.Error, match="parameter up.lora_A.weight has no weights"):
        autopar.Session(compiled)


def test_weights_of_four_bits_are_trained_beside(tmp_path: pathlib.Path) -> None:
    """As beside the floats that they stand for."""
    random = np.random.default_rng(3)
    packed = random.integers(0, 256, (WIDTH, 1, WIDTH // 2), dtype=np.uint8)
    scales = random.uniform(0.01, 0.05, (WIDTH,)).astype(np.float32)
    arrays = weights()
    for name in ("few", "floats"):
        model = onnx.load(network(tmp_path / f"{name}.onnx", arrays))
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        if name == "few":
            model.graph.node[2].CopyFrom(helper.make_node(
                "MatMulNBits", ["up.z", "down.weight_Q4", "down.scales"], ["down.y"], domain="com.microsoft", K=WIDTH, N=WIDTH, bits=4,
                block_size=WIDTH))
            model.graph.initializer.extend([numpy_helper.from_array(packed, "down.weight_Q4"), numpy_helper.from_array(scales, "down.scales")])
        else:
            numbers = np.stack([packed & 15, packed >> 4], -1).reshape(WIDTH, WIDTH).astype(np.float32) - 8
            where = next(place for place, tensor in enumerate(model.graph.initializer) if tensor.name == "down.weight")
            model.graph.initializer[where].CopyFrom(numpy_helper.from_array(numbers * scales[:, None], "down.weight"))
        onnx.save(model, tmp_path / f"{name}.onnx")
    found = [losses(autopar.compile(tmp_path / f"{name}.onnx", tmp_path / f"{name}.bin", ranks=2,
                                    train=train(adapters=ADAPTERS, adapt=["up.weight", "down.weight*"])))
             for name in ("few", "floats")]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0][-1] < found[0][0]


def test_a_gpt2_is_adapted_but_for_its_head(tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "gpt2.onnx", layers=2, hidden=32, heads=4, vocab=50)
    done = subprocess.run([autopar.find_tool("autopar-compile"), tmp_path / "gpt2.onnx", "--bind", "batch=4,seq=8", "--ranks", "2",
                           "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw", "--adapters", "lora(rank=4)",
                           "--explain", "--stop-after", "train", "-o", tmp_path / "step.mlir"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Of each layer: 32x96, 32x32, 32x128, 128x32.
    assert f"8 matrices adapted by rank 4, {2 * 4 * (128 + 64 + 160 + 160)} numbers" in done.stderr
    assert "not an adapter" in done.stderr


def test_what_is_dequantized_is_made_again_where_memory_is_short(tmp_path: pathlib.Path) -> None:
    """Matrices wait for the backward pass only where there is room: by what the program needs, of which the search knows less."""
    path = tmp_path / "model.onnx"
    models.save("llama3-1b", path, layers=3, vocab=128, hidden=1024, heads=8, kv_heads=8, inner=4096)
    onnx.save(block_weights.quantize(onnx.load(path), bits=4, symmetric=True), path)
    settings = autopar.Train("softmax_cross_entropy(logits, labels)", OPTIMIZER, adapters="lora(rank=4)")
    batch = {name: np.random.default_rng(2).integers(0, 128, (1, 16)) for name in ("input_ids", "labels")}
    planned, found = [], []
    for limit in ("1G", "160M"):
        artifact = tmp_path / f"{limit}.bin"
        autopar.compile(path, artifact, bind={"batch": 1, "seq": 16}, train=settings, options=["--memory-limit", limit])
        told = subprocess.run([autopar.find_tool("autopar-run"), artifact, "--benchmark", "--data", "synthetic(vocab=128)", "--quiet"],
                              capture_output=True, text=True, check=True).stdout
        planned.append(json.loads(told.splitlines()[-1])["planned_bytes"])
        with autopar.Session(artifact) as session:
            found.append([float(session.run(batch)["loss"]) for _ in range(3)])
    assert planned[0] > 160 << 20 >= planned[1]
    assert found[0] == found[1]


def test_names_to_adapt_need_adapters(folder: pathlib.Path) -> None:
    with pytest.raises(autopar.Error, match="--adapt names what --adapters"):
        autopar.compile(folder / "plain.onnx", folder / "no.bin", options=["--adapt", "up.weight"])
