# SPDX-License-Identifier: Apache-2.0
"""Attention as one operation computes and learns what two products and a softmax do, under plans that split it."""

import functools
import json
import pathlib
import re
import subprocess
from typing import Dict, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import autopar
from autopar import models
from autopar.tools import find_tool

#: Options of small models, extents, and how many attentions there are.
MODELS: Dict[str, Tuple[dict, dict, int]] = {
    "gpt2-124m": (dict(layers=2, hidden=64, heads=4, vocab=211, positions=48), dict(batch=4, seq=48), 2),
    "llama3-8b": (dict(layers=2, hidden=64, heads=8, kv_heads=2, vocab=211, inner=96), dict(batch=4, seq=40), 2),
    "bert-base": (dict(layers=2, hidden=64, heads=4, vocab=211, positions=48, inner=96), dict(batch=4, seq=48), 2),
    "vit-b": (dict(layers=2, hidden=64, heads=4, inner=96, image=32, patch=8, classes=10), dict(batch=4), 2),
    "gpt-oss-20b": (dict(layers=2, hidden=64, heads=8, kv_heads=2, head_size=16, window=9, vocab=211, inner=48, experts=8, top_k=2), dict(batch=4, seq=40), 2),
    "t5-770m": (dict(layers=1, hidden=64, heads=4, head_size=16, vocab=211, inner=96), dict(batch=4, seq=24, decoder_seq=24), 3),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("models")
    paths: Dict[str, pathlib.Path] = {}

    def save(name: str) -> pathlib.Path:
        if name not in paths:
            paths[name] = folder / f"{name}.onnx"
            models.save(name, paths[name], **MODELS[name][0])
        return paths[name]

    return save


def inputs_of(session: autopar.Session) -> Dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    arrays: Dict[str, np.ndarray] = {}
    for spec in session.inputs:
        if spec.name == "attention_mask":
            arrays[spec.name] = (np.arange(spec.shape[1]) < np.arange(5, 5 + spec.shape[0])[:, None] * 3).astype(spec.dtype)
        elif np.issubdtype(spec.dtype, np.integer):
            arrays[spec.name] = random.integers(0, 2 if spec.name == "token_type_ids" else 10, spec.shape).astype(spec.dtype)
        else:
            arrays[spec.name] = random.standard_normal(spec.shape).astype(spec.dtype)
    return arrays


def instructions(artifact: autopar.Compiled) -> int:
    text = subprocess.run([find_tool("autopar-translate"), "--dump", artifact], check=True, capture_output=True, text=True).stdout
    return sum(line.split(": ", 1)[-1].startswith("attention ") for line in text.splitlines())


@pytest.mark.parametrize("name", MODELS)
def test_it_is_one_instruction_and_computes_the_same(saved, tmp_path, name):
    results = {}
    for mode, count in (("auto", MODELS[name][2]), ("products", 0)):
        artifact = autopar.compile(saved(name), tmp_path / f"{mode}.bin", bind=MODELS[name][1], options=["--attention", mode])
        assert instructions(artifact) == count
        with autopar.Session(artifact) as session:
            results[mode] = session.run(inputs_of(session))
    for output, expected in results["products"].items():
        np.testing.assert_allclose(results["auto"][output], expected, rtol=1e-4, atol=1e-5)


def losses(artifact: autopar.Compiled, steps: int) -> list:
    with autopar.Session(artifact) as session:
        arrays = inputs_of(session)
        return [float(session.run(arrays)["loss"]) for _ in range(steps)]


TRAIN = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=1e-3))


@pytest.fixture(scope="module")
def learned_by_products(saved, tmp_path_factory):
    """What one rank learns in five steps where attention is two products and a softmax."""

    @functools.lru_cache(maxsize=None)
    def learned(name: str) -> list:
        path = tmp_path_factory.mktemp("products") / "products.bin"
        return losses(autopar.compile(saved(name), path, bind=MODELS[name][1], train=TRAIN, options=["--attention", "products"]), 5)

    return learned


PLANS = {
    "one rank": ([], 1),
    "micro-batches": (["--micro-batches", "2"], 1),
    "computed again": (["--recompute", "full"], 1),
    "data": (["--mesh", "data=4"], 4),
    "tensor": (["--plan", "tensor.json"], 2),
    "stages": (["--stages", "2", "--mesh", "x=1", "--micro-batches", "2"], 2),
}


@pytest.mark.parametrize("name, plan", [(name, plan) for name in ("llama3-8b", "gpt-oss-20b") for plan in PLANS] + [("gpt2-124m", "one rank"), ("gpt2-124m", "tensor")])
def test_any_plan_learns_what_products_learn(saved, learned_by_products, tmp_path, name, plan):
    options, ranks = PLANS[plan]
    (tmp_path / "tensor.json").write_text(json.dumps({"kind": "degrees", "version": 1, "data": 1, "tensor": 2}))
    options = [str(tmp_path / word) if word == "tensor.json" else word for word in options]
    fused = autopar.compile(saved(name), tmp_path / "fused.bin", bind=MODELS[name][1], ranks=ranks, train=TRAIN, options=options)
    assert instructions(fused) >= 2
    np.testing.assert_allclose(losses(fused, 5), learned_by_products(name), rtol=2e-5)


@pytest.mark.parametrize("target, precision, options, ranks", [
    ("cpu", "f32", [], 4),                           # the search finds it where heads are too few
    ("cpu", "f32", ["--plan", "context.json"], 4),
    ("cpu", "bf16", ["--plan", "context.json", "--recompute", "full"], 4),
    ("cuda", "bf16", ["--plan", "context.json"], 4),
])
def test_ranks_that_share_the_rows_of_a_triangle_learn_what_one_learns(tmp_path, monkeypatch, target, precision, options, ranks):
    """Context parallelism; on an emulated GPU, where a rank sees the keys up to its own rows and nothing of others."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_RACECHECK", "1")
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "4")
    models.save("llama3-8b", tmp_path / "m.onnx", layers=1, hidden=64, heads=2, kv_heads=1, vocab=67, inner=96)
    (tmp_path / "context.json").write_text(json.dumps({"kind": "degrees", "context": 4, "zero": 1}))
    options = [str(tmp_path / word) if word == "context.json" else word for word in options]
    compiled = {count: autopar.compile(tmp_path / "m.onnx", tmp_path / f"{count}.bin", bind=dict(batch=1, seq=256), ranks=count, train=TRAIN,
                                       options=["--target", target, "--precision", precision, *(options if count > 1 else [])]) for count in (1, ranks)}
    text = subprocess.run([find_tool("autopar-translate"), "--dump", compiled[ranks]], check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r"attention \(.* shard \d+ of [248]\b", text)) >= 2
    np.testing.assert_allclose(losses(compiled[ranks], 5), losses(compiled[1], 5), rtol=2e-5 if precision == "f32" else 1e-2)


@pytest.mark.parametrize("target, precision, options", [
    ("cpu", "f32", []),
    ("cpu", "bf16", ["--recompute", "full"]),
    ("cuda", "bf16", []),
])
def test_an_early_and_a_late_part_a_rank_learn_what_one_learns(tmp_path, monkeypatch, target, precision, options):
    """Where computing is dear and messages are not, no rank waits for the one that has a triangle's last rows."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "4")
    models.save("llama3-8b", tmp_path / "m.onnx", layers=1, hidden=64, heads=2, kv_heads=1, vocab=67, inner=96)
    (tmp_path / "slow.json").write_text(json.dumps({
        "kind": "autopar.cluster", "version": 1, "nodes": [{"count": 1, "devices_per_node": 4, "device_type": "slow"}],
        "device_types": [{"name": "slow", "peak_flops_per_s": {"f32": 1e6, "bf16": 1e6}, "memory_bytes_per_s": 1e12, "memory_bytes": 8 << 30, "cuda_chip": 90}],
        "levels": [{"latency_us": 1, "bytes_per_s": 1e12}]}))
    (tmp_path / "context.json").write_text(json.dumps({"kind": "degrees", "context": 4, "zero": 1}))
    found = {}
    for count in (1, 4):
        shared = ["--plan", str(tmp_path / "context.json"), *options] if count > 1 else []
        found[count] = autopar.compile(tmp_path / "m.onnx", tmp_path / f"{count}.bin", bind=dict(batch=2, seq=256), train=TRAIN,
                                       **({"cluster": str(tmp_path / "slow.json")} if count > 1 else {"ranks": 1}),
                                       options=["--target", target, "--precision", precision, *shared])
    text = subprocess.run([find_tool("autopar-translate"), "--dump", found[4]], check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r"attention \(.* shard \d+ of 8\b", text)) >= 4 and " permute " in text
    np.testing.assert_allclose(losses(found[4], 5), losses(found[1], 5), rtol=2e-5 if precision == "f32" else 1e-2)


@pytest.mark.parametrize("name", ["gpt2-124m", "llama3-8b"])
def test_bf16_learns_nearly_what_f32_learns(saved, tmp_path, name):
    narrow = autopar.compile(saved(name), tmp_path / "bf16.bin", bind=MODELS[name][1], train=TRAIN, options=["--precision", "bf16"])
    wide = autopar.compile(saved(name), tmp_path / "f32.bin", bind=MODELS[name][1], train=TRAIN)
    assert instructions(narrow) >= 4
    np.testing.assert_allclose(losses(narrow, 5), losses(wide, 5), rtol=1e-2)


def test_programs_for_gpus_can_be_simulated(saved, tmp_path):
    artifact = autopar.compile(saved("gpt2-124m"), tmp_path / "m.bin", options=["--precision", "bf16"], bind=MODELS["gpt2-124m"][1], cluster="presets:h100x1")
    assert instructions(artifact) == 2
    subprocess.run([find_tool("autopar-run"), artifact, "--simulate", "presets:h100x1"], check=True, capture_output=True)


def test_an_unknown_way_is_refused(saved, tmp_path):
    with pytest.raises(autopar.Error, match="--attention: expected auto, fused or products, got \"flash\""):
        autopar.compile(saved("gpt2-124m"), tmp_path / "x.bin", bind=MODELS["gpt2-124m"][1], options=["--attention", "flash"])


SEEN = np.random.default_rng(5).random((2, 1, 6, 9)) > 0.4
SEEN[0, 0, 2] = False
OPERATORS = {
    "plain": ({}, None, 1),
    "causal": ({"is_causal": 1}, None, 1),
    "conditions": ({}, SEEN, 1),
    "conditions and causal": ({"is_causal": 1}, SEEN, 1),
    "numbers": ({"scale": 0.3}, np.random.default_rng(6).standard_normal((6, 9)).astype(np.float32), 1),
    "infinities": ({}, np.where(SEEN, 0, -np.inf).astype(np.float32), 1),
    "capped scores": ({"softcap": 5.0}, None, 0),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_operator_of_onnx_is_one_call(tmp_path, name):
    """Rows that may see nothing are zero; where nothing says how many columns came before, row i sees columns up to i."""
    attributes, mask, count = OPERATORS[name]
    random = np.random.default_rng(7)
    arrays = {key: random.standard_normal((2, heads, length, 8)).astype(np.float32) for key, heads, length in (("q", 4, 6), ("k", 2, 9), ("v", 2, 9))}
    if mask is not None:
        arrays["mask"] = mask
    inputs = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for key, array in arrays.items()]
    graph = helper.make_graph([helper.make_node("Attention", list(arrays), ["y"], **attributes)], "g", inputs,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    artifact = autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin")
    assert instructions(artifact) == count
    with autopar.Session(artifact) as session:
        np.testing.assert_allclose(session.run(arrays)["y"], ReferenceEvaluator(model).run(None, arrays)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("kind", ["conditions", "numbers", "conditions and causal"])
def test_rows_that_see_nothing_are_zero_behind_a_call_of_a_gpu_too(tmp_path, monkeypatch, kind, precision):
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    random = np.random.default_rng(7)
    arrays = {key: random.standard_normal((2, heads, length, 8)).astype(np.float32) for key, heads, length in (("q", 4, 20), ("k", 2, 24), ("v", 2, 24))}
    seen = random.random((2, 1, 20, 24)) > 0.4
    seen[0, 0, 2] = seen[1, 0, 7:9] = False
    arrays["mask"] = seen if kind != "numbers" else np.where(seen, random.standard_normal(seen.shape), -np.inf).astype(np.float32)
    inputs = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for key, array in arrays.items()]
    causal = {"is_causal": 1} if kind.endswith("causal") else {}
    graph = helper.make_graph([helper.make_node("Attention", list(arrays), ["y"], **causal)], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    artifact = autopar.compile(model, tmp_path / "m.bin", options=["--target", "cuda", "--precision", precision, "--quiet"])
    assert instructions(artifact) == 1
    with autopar.Session(artifact) as session:
        result = session.run(arrays)["y"]
    np.testing.assert_allclose(result, ReferenceEvaluator(model).run(None, arrays)[0], rtol=2e-2, atol=2e-2)
    assert not result[0, :, 2].any() and not result[1, :, 7:9].any() and result[0, :, 3].all()


def torchs_attention(rows: int) -> onnx.ModelProto:
    """y = attention of x with itself under a mask of columns and a triangle, as torch's exporters write it: a root of the scale on either side
    of the product, one bias for both masks, and zeros in rows that see nothing."""
    node, tensor, random = helper.make_node, onnx.numpy_helper.from_array, np.random.default_rng(8)
    nodes, weights = [], [tensor(np.array([0, 0, 2, 8]), "heads"), tensor(np.array([0, 0, 16]), "joined"), tensor(np.array([1, 2]), "columns"),
                          tensor(np.array(8 ** -0.25, np.float32), "root"), tensor(np.array(0, np.float32), "zero"),
                          tensor(np.array(-np.inf, np.float32), "hidden"), tensor(np.tri(rows, dtype=bool)[None, None], "triangle")]
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        weights.append(tensor(random.standard_normal((16, 16)).astype(np.float32) / 4, "w" + part))
        nodes += [node("MatMul", ["x", "w" + part], [part + ".flat"]), node("Reshape", [part + ".flat", "heads"], [part + ".heads"]),
                  node("Transpose", [part + ".heads"], [part], perm=order)]
    nodes += [node("Mul", ["q", "root"], ["q.scaled"]), node("Mul", ["k", "root"], ["k.scaled"]), node("MatMul", ["q.scaled", "k.scaled"], ["scores"]),
              node("Unsqueeze", ["mask", "columns"], ["mask.columns"]), node("And", ["triangle", "mask.columns"], ["seen"]),
              node("Where", ["seen", "zero", "hidden"], ["bias"]), node("Add", ["scores", "bias"], ["masked"]), node("Softmax", ["masked"], ["p"], axis=-1),
              node("IsNaN", ["p"], ["none"]), node("Where", ["none", "zero", "p"], ["w"]), node("MatMul", ["w", "v"], ["o"]),
              node("Transpose", ["o"], ["o.rows"], perm=[0, 2, 1, 3]), node("Reshape", ["o.rows", "joined"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, rows, 16]), helper.make_tensor_value_info("mask", TensorProto.BOOL, [2, rows])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, rows, 16])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


#: Prompts that are filled up in front: rows 0 to 4 of the first sample see nothing.
FILLED_UP = np.arange(20) >= np.array([[5], [0]])


@pytest.mark.parametrize("target, precision, tolerance", [("cpu", "f32", 1e-5), ("cuda", "bf16", 2e-2), ("cuda", "fp16", 2e-2)])
def test_what_torch_writes_is_one_call(tmp_path, monkeypatch, target, precision, tolerance):
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    model, arrays = torchs_attention(20), {"x": np.random.default_rng(7).standard_normal((2, 20, 16)).astype(np.float32), "mask": FILLED_UP}
    artifact = autopar.compile(model, tmp_path / "m.bin", options=["--target", target, "--precision", precision, "--quiet"])
    text = subprocess.run([find_tool("autopar-translate"), "--dump", artifact], check=True, capture_output=True, text=True).stdout
    assert instructions(artifact) == 1 and re.search(r"attention \(.*, causal", text)
    with np.errstate(invalid="ignore"):
        expected = ReferenceEvaluator(model).run(None, arrays)[0]
    with autopar.Session(artifact) as session:
        result = session.run(arrays)["y"]
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    assert not result[0, :5].any() and result[0, 5:].all()


@pytest.mark.parametrize("mask, options, tolerance", [
    (FILLED_UP | True, ["--attention", "products"], 1e-5),
    (FILLED_UP, ["--target", "cuda", "--precision", "bf16"], 2e-3),
])
def test_what_torch_writes_learns_the_same_by_a_call(tmp_path, monkeypatch, mask, options, tolerance):
    """As products do, and on an emulated GPU with rows that see nothing."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    random, losses = np.random.default_rng(7), []
    batch = {"x": random.standard_normal((2, 20, 16)).astype(np.float32), "mask": mask, "target": random.standard_normal((2, 20, 16)).astype(np.float32)}
    for way in ([], options):
        autopar.compile(torchs_attention(20), tmp_path / "m.bin", train=autopar.Train("mse(y, target)", autopar.SGD(lr=4.0)), options=["--quiet", *way])
        with autopar.Session(tmp_path / "m.bin") as session:
            losses.append([float(session.run(batch)["loss"]) for _ in range(4)])
    assert losses[0][3] < 0.98 * losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=tolerance)


@pytest.mark.parametrize("target, precision, tolerance", [("cpu", "f32", 1e-5), ("cuda", "bf16", 2e-2)])
def test_a_window_of_onnx_is_one_of_the_call(tmp_path, monkeypatch, target, precision, tolerance):
    """On an emulated GPU too, where a triangle says that no row is hidden whole."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    random = np.random.default_rng(7)
    arrays = {key: random.standard_normal((2, heads, 16, 8)).astype(np.float32) for key, heads in (("q", 4), ("k", 2), ("v", 2))}
    inputs = [helper.make_tensor_value_info(key, TensorProto.FLOAT, array.shape) for key, array in arrays.items()]
    graph = helper.make_graph([helper.make_node("Attention", list(arrays), ["y"], is_causal=1, left_window_size=3)], "g", inputs,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4, 16, 8])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    artifact = autopar.compile(model, tmp_path / "m.bin", options=["--target", target, "--precision", precision, "--quiet"])
    text = subprocess.run([find_tool("autopar-translate"), "--dump", artifact], check=True, capture_output=True, text=True).stdout
    assert re.search(r"attention \(.*, causal, window = 4}", text), text
    with autopar.Session(artifact) as session:
        np.testing.assert_allclose(session.run(arrays)["y"], ReferenceEvaluator(model).run(None, arrays)[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, options, count", [
    ("gpt2-124m", ["--precision", "bf16"], 2),
    ("llama3-8b", ["--precision", "fp16"], 2),
    ("vit-b", ["--precision", "bf16"], 2),
    ("gpt-oss-20b", ["--precision", "bf16"], 2),                                     # one of a window; sinks are none of its business
    ("gpt2-124m", [], 0),                                                            # cuDNN has none of f32
    ("bert-base", ["--precision", "bf16"], 2),                                       # with a mask that is read
    ("gpt2-124m", ["--precision", "bf16", "--attention", "products"], 0),
])
def test_on_gpus_it_is_one_instruction_where_cudnn_has_it(saved, tmp_path, name, options, count):
    artifact = autopar.compile(saved(name), tmp_path / "m.bin", bind=MODELS[name][1], options=["--target", "cuda", "--quiet", *options])
    assert instructions(artifact) == count


@pytest.mark.parametrize("name", ["gpt2-124m", "llama3-8b"])
def test_a_plan_for_gpus_is_that_of_the_program(saved, tmp_path, name):
    """What is planned without compiling is replayed."""
    options = ["--cluster", "presets:h100x2", "--precision", "bf16", "--quiet"]
    command = [find_tool("autopar-compile"), saved(name), "--bind", ",".join(f"{key}={value}" for key, value in MODELS[name][1].items()), *options]
    subprocess.run([*command, "--plan-only", "-o", tmp_path / "p.json"], check=True)
    subprocess.run([*command, "--plan", tmp_path / "p.json", "-o", tmp_path / "m.bin"], check=True)
    assert instructions(tmp_path / "m.bin") > 0


@pytest.mark.parametrize("form, sinks", [({"local_window_size": 5}, True), ({"local_window_size": 5, "smooth_softmax": 1}, False), ({}, True)])
@pytest.mark.parametrize("target, precision, tolerance", [("cpu", "f32", 1e-5), ("cuda", "bf16", 2e-2)])
def test_onnxruntimes_attention_to_a_window_with_sinks_is_one_instruction(tmp_path, monkeypatch, form, sinks, target, precision, tolerance):
    """Against onnxruntime; on an emulated GPU too."""
    ort = pytest.importorskip("onnxruntime")
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"))
    random, batch, seq, heads, groups, size = np.random.default_rng(0), 2, 24, 4, 2, 16
    arrays = {name: random.standard_normal((batch, seq, count * size), np.float32) for name, count in (("q", heads), ("k", groups), ("v", groups))}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in arrays.items()]
    constants = [helper.make_tensor("last", TensorProto.INT32, [batch], [seq - 1] * batch), helper.make_tensor("total", TensorProto.INT32, [], [seq]),
                 helper.make_tensor("sinks", TensorProto.FLOAT, [heads], random.standard_normal(heads))]
    names = ["q", "k", "v", "", "", "last", "total", *[""] * 4, "sinks" if sinks else ""]
    node = helper.make_node("GroupQueryAttention", names, ["y", "present_k", "present_v"], name="a", domain="com.microsoft", num_heads=heads, kv_num_heads=groups, **form)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, seq, heads * size])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    artifact = autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", options=["--target", target, "--precision", precision, "--quiet"])
    assert instructions(artifact) == 1
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(["y"], arrays)
    with autopar.Session(artifact) as session:
        np.testing.assert_allclose(session.run(arrays)["y"], expected, rtol=tolerance, atol=tolerance)


def test_rotary_tables_of_one_sample_serve_all(tmp_path: pathlib.Path) -> None:
    """As torch exports them: [1, seq, channels / 2]."""

    def rotated(samples: int) -> np.ndarray:
        shapes = {"x": [3, 2, 5, 8], "cos": [samples, 5, 4], "sin": [samples, 5, 4]}
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        node = helper.make_node("RotaryEmbedding", list(shapes), ["y"], name="rotary")
        graph = helper.make_graph([node], "m", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["x"])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
        random = np.random.default_rng(0)
        values = {"x": random.standard_normal(shapes["x"], np.float32)}
        for name in ("cos", "sin"):
            values[name] = np.broadcast_to(random.standard_normal([1, 5, 4], np.float32), shapes[name])
        with autopar.Session(autopar.compile(model, tmp_path / f"{samples}.bin", ranks=1)) as session:
            return session.run(values)["y"]

    np.testing.assert_array_equal(rotated(1), rotated(3))
