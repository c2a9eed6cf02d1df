# SPDX-License-Identifier: Apache-2.0
"""Whole models on an emulated GPU compute what they compute on the CPU."""

import json
import pathlib
import subprocess

import numpy as np
import onnx
import pytest

import autopar
import small_gpt2
from autopar import models
from autopar.tools import find_tool

TEXT = dict(layers=1, hidden=32, heads=2, vocab=61)
WORDS = {"input_ids": lambda random: random.integers(0, TEXT["vocab"], (2, 8)).astype(np.int64)}

#: model, its sizes, its batch, its inputs
CASES = {
    "gpt2": ("gpt2-124m", TEXT, "batch=2,seq=8", WORDS),
    "mixtral": ("mixtral-8x7b", TEXT, "batch=2,seq=8", WORDS),
    "mixtral-dropless": ("mixtral-8x7b", dict(TEXT, experts=3, dispatch="dropless"), "batch=2,seq=8", WORDS),
    "qwen3-moe": ("qwen3-30b-a3b", dict(TEXT, kv_heads=1, head_size=8, experts=8, top_k=2, inner=16), "batch=2,seq=8", WORDS),
    "deepseek": ("deepseek-v3", dict(TEXT, layers=2, dense_layers=1, query_rank=24, key_value_rank=16, plain_size=8, rotary_size=8, value_size=8, inner=48,
                                     expert_inner=16, experts=8, groups=4, top_groups=2, top_k=2), "batch=2,seq=8", WORDS),
    "gpt-oss": ("gpt-oss-120b", dict(TEXT, layers=2, kv_heads=1, head_size=8, window=3, experts=8, top_k=2, inner=16), "batch=2,seq=8", WORDS),
    "resnet": ("resnet50", dict(blocks="1,1,1,1", channels=4, image=32, classes=5), "batch=2",
               {"input": lambda random: random.standard_normal((2, 3, 32, 32)).astype(np.float32)}),
}


@pytest.fixture(autouse=True)
def emulated_gpu(monkeypatch):
    folder = pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"
    assert (folder / "libcuda.so.1").exists(), f"no emulated driver in {folder}: build the target EmulatedCuda"
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(folder))
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_RACECHECK", "1")


@pytest.mark.parametrize("case", CASES)
def test_a_model_computes_what_it_computes_on_the_cpu(tmp_path, case):
    name, sizes, bind, makers = CASES[case]
    models.save(name, tmp_path / "m.onnx", **sizes)
    random = np.random.default_rng(1)
    inputs, results = None, []
    for target in ("cpu", "cuda"):
        artifact = tmp_path / f"{target}.bin"
        subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", bind, "--target", target, "--quiet", "-o", artifact], check=True)
        with autopar.Session(artifact) as session:
            if inputs is None:
                inputs = {key: maker(random) for key, maker in makers.items()}
            results.append(session.run(inputs))
    for key, expected in results[0].items():
        np.testing.assert_allclose(results[1][key], expected, rtol=2e-4, atol=2e-4, err_msg=key)


def run_on_both(tmp_path, model, inputs, *options):
    """The results on the CPU and on the emulated GPU, whose operations after form-groups are left in ir/."""
    onnx.save(model, tmp_path / "m.onnx")
    results = []
    for target in ("cpu", "cuda"):
        artifact = tmp_path / f"{target}.bin"
        subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--target", target, "--quiet", "-o", artifact, "--emit-mlir", tmp_path / "ir", *options],
                       check=True)
        with autopar.Session(artifact) as session:
            results.append(session.run(inputs))
    return *results, next((tmp_path / "ir").glob("*form-groups.mlir")).read_text()


@pytest.mark.parametrize("shape, axes, parts", [
    ([2, 1024, 40], [0, 1], "tensor<8x40xf32>"),   # across memory, parts smaller than a dimension
    ([32, 1024, 3], [0, 1, 2], "tensor<6xf32>"),   # everything
    ([16, 3, 4096], [0, 2], "tensor<4x3xf32>"),    # kept between reduced dimensions
])
def test_long_reductions_are_divided(tmp_path, shape, axes, parts):
    dims = onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [len(axes)], axes)
    value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    kept = [extent for dim, extent in enumerate(shape) if dim not in axes]
    nodes = [onnx.helper.make_node(op, ["x", "axes"], [op], keepdims=0) for op in ("ReduceSumSquare", "ReduceMax", "ReduceMean")]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", shape)], [value(node.output[0], kept) for node in nodes], [dims])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    cpu, cuda, groups = run_on_both(tmp_path, onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), {"x": x})
    for name, expected in {"ReduceSumSquare": np.square(x).sum(tuple(axes)), "ReduceMax": x.max(tuple(axes)), "ReduceMean": x.mean(tuple(axes))}.items():
        for result in (cpu, cuda):
            np.testing.assert_allclose(result[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)
    assert parts in groups


def test_products_with_odd_rows_are_padded(tmp_path):
    """A result of 515 columns, and their sum: each of the three matrices has its odd dimension padded."""
    value = lambda name, *shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Softmax", ["h"], ["p"]),
             onnx.helper.make_node("MatMul", ["p", "v"], ["y"])]
    shapes = {"x": (512, 512), "w": (512, 515), "v": (515, 512)}
    graph = onnx.helper.make_graph(nodes, "g", [value(name, *shape) for name, shape in shapes.items()], [value("p", 512, 515), value("y", 512, 512)])
    random = np.random.default_rng(1)
    inputs = {name: random.standard_normal(shape).astype(np.float32) / 8 for name, shape in shapes.items()}
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    cpu, cuda, groups = run_on_both(tmp_path, model, inputs, "--precision", "bf16")
    assert "(tensor<512x512xbf16>, tensor<512x520xbf16>) -> tensor<512x520xbf16>" in groups
    assert "(tensor<512x520xbf16>, tensor<520x512xbf16>) -> tensor<512x512xbf16>" in groups
    h = inputs["x"] @ inputs["w"]
    p = np.exp(h - h.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    for name, expected in {"p": p, "y": p @ inputs["v"]}.items():
        for result in (cpu, cuda):
            np.testing.assert_allclose(result[name], expected, atol=1e-2 * np.abs(expected).max(), err_msg=name)


def test_the_loss_of_an_odd_vocabulary_is_computed_in_padding(tmp_path):
    """515 classes: logits and their gradient are 520 wide, and only the weights are padded by a kernel. The second loss is of what the gradient made."""
    random = np.random.default_rng(1)
    x, labels = random.standard_normal((512, 512)).astype(np.float32), random.integers(0, 515, 512)
    w = random.standard_normal((512, 515)).astype(np.float32) / 16
    value = lambda name, *shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["logits"])], "g", [value("x", 512, 512)], [value("logits", 512, 515)],
                                   [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    expected, rate = [], 8.0
    for _ in range(2):
        h = x @ w
        p = np.exp(h - h.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        expected.append(-np.log(p[np.arange(512), labels]).mean())
        p[np.arange(512), labels] -= 1
        w = w - rate * x.T @ p / 512
    for target in ("cpu", "cuda"):
        autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", train=autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=rate)),
                        options=["--quiet", "--precision", "bf16", "--target", target, "--emit-mlir", str(tmp_path / target)])
        with autopar.Session(tmp_path / "m.bin") as session:
            losses = [float(session.run({"x": x, "labels": labels})["loss"]) for _ in range(2)]
        np.testing.assert_allclose(losses, expected, rtol=1e-2)
    groups = next((tmp_path / "cuda").glob("*form-groups.mlir")).read_text()
    assert groups.count("autopar.pad ") == 1 and "-> tensor<512x520xbf16>" in groups


@pytest.mark.parametrize("options, tolerance", [([], 1e-4), (["--precision", "bf16"], 2e-2), (["--precision", "fp16"], 5e-3)])
def test_training_steps_do_what_they_do_on_the_cpu(tmp_path, options, tolerance):
    """Three steps of AdamW with clipping; the gradient of the tied embedding is a scatter."""
    model = small_gpt2.save(tmp_path, 1)
    losses = [small_gpt2.losses(small_gpt2.compile_step(model, tmp_path / f"{target}.bin", 1, 1, "--target", target, *options), 3)
              for target in ("cpu", "cuda")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=tolerance)
    assert losses[0][2] != losses[0][0]


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_captured_steps_give_the_same_bits_as_steps_one_by_one(tmp_path, precision):
    """Four steps, of which the last three are graphs; parameters, moments and loss. In bf16 attention is cuDNN's."""
    model = small_gpt2.save(tmp_path, 1)
    artifact = small_gpt2.compile_step(model, tmp_path / "cuda.bin", 1, 2, "--target", "cuda", "--precision", precision)
    results = []
    for options in ([], ["--no-capture"]):
        folder = tmp_path / str(len(results))
        folder.mkdir()
        done = subprocess.run([find_tool("autopar-run"), artifact, "--input", "input_ids=random", "--input", "labels=random", "--steps", "4", "--benchmark",
                               "--export", folder / "m.safetensors", "--metrics", folder / "metrics", "--checkpoint-dir", folder / "checkpoints", *options],
                              check=True, capture_output=True, text=True)
        assert json.loads(done.stdout.splitlines()[-1])["captured"] == (not options)
        lines = [json.loads(line) for line in (folder / "metrics").read_text().splitlines()]
        (states,) = sorted((folder / "checkpoints").glob("step-*/*.safetensors"))
        results.append(([line["loss"] for line in lines], (folder / "m.safetensors").read_bytes(), states.read_bytes()))
    assert results[0] == results[1]
    assert len(set(results[0][0])) == 4


def masked_attention(random, clears_rows: bool = False) -> onnx.ModelProto:
    """y = attention of x with a mask that is added to the scores: two heads of eight, and 128 positions of two samples.
    By ONNX's operator rows that see nothing are zero."""
    value = lambda name, *shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    number = lambda name, array: onnx.numpy_helper.from_array(np.asarray(array), name)
    nodes, weights = [], [number("heads", np.array([2, 128, 2, 8])), number("joined", np.array([2, 128, 16])), number("scale", np.float32(8 ** -0.5))]
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 1, 3] if clears_rows else [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        weights.append(number("w" + part, random.standard_normal((16, 16)).astype(np.float32) / 4))
        nodes += [onnx.helper.make_node("MatMul", ["x", "w" + part], [part + ".flat"]), onnx.helper.make_node("Reshape", [part + ".flat", "heads"], [part + ".heads"]),
                  onnx.helper.make_node("Transpose", [part + ".heads"], [part], perm=order)]
    products = [onnx.helper.make_node("MatMul", ["q", "k"], ["raw"]), onnx.helper.make_node("Mul", ["raw", "scale"], ["scores"]),
                onnx.helper.make_node("Add", ["scores", "mask"], ["masked"]), onnx.helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
                onnx.helper.make_node("MatMul", ["p", "v"], ["o"])]
    nodes += [onnx.helper.make_node("Attention", ["q", "k", "v", "mask"], ["o"])] if clears_rows else products
    nodes += [onnx.helper.make_node("Transpose", ["o"], ["o.rows"], perm=[0, 2, 1, 3]), onnx.helper.make_node("Reshape", ["o.rows", "joined"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 2, 128, 16), value("mask", 2, 1, 1, 128)], [value("y", 2, 128, 16)], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)


@pytest.mark.parametrize("hidden, clears_rows", [(np.finfo(np.float32).min, False), (-1e9, False), (-1e6, False), (-np.inf, True)])
def test_rows_that_a_mask_hides_whole_have_no_gradient(tmp_path, hidden, clears_rows):
    random = np.random.default_rng(1)
    onnx.save(masked_attention(random, clears_rows), tmp_path / "m.onnx")
    mask = np.zeros((2, 1, 1, 128), np.float32)
    mask[0, ..., 100:] = mask[1] = hidden
    inputs = {"x": random.standard_normal((2, 128, 16)).astype(np.float32), "mask": mask, "target": random.standard_normal((2, 128, 16)).astype(np.float32)}
    losses = {}
    for target in ("cpu", "cuda"):
        autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", train=autopar.Train("mse(y, target)", autopar.SGD(lr=20.0)),
                        options=["--quiet", "--precision", "bf16", "--target", target, "--emit-mlir", str(tmp_path / target)])
        with autopar.Session(tmp_path / "m.bin") as session:
            losses[target] = [float(session.run(inputs)["loss"]) for _ in range(4)]
    assert "autopar.attention_grad" in next((tmp_path / "cuda").glob("*form-groups.mlir")).read_text()
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-3)
    assert losses["cpu"][3] < 0.98 * losses["cpu"][0]
