# SPDX-License-Identifier: Apache-2.0
"""What products do for training on a GPU: the gradients are those of the CPU, by products and by kernels."""

import json
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest

import autopar
from autopar.tools import find_tool

ROWS, WIDE, NARROW, CLASSES = 64, 136, 32, 24
#: How often each epilogue is there: two layers with an activation, three with a bias.
BY_PRODUCTS = {"gelu_tanh_aux": 1, "gelu_tanh_grad": 1, "relu_aux": 1, "relu_grad": 1, "sums_of_b": 3}


@pytest.fixture(autouse=True)
def emulated_gpu(monkeypatch):
    folder = pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(folder))
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_RACECHECK", "1")


def save_layers(path):
    """Three layers with biases, a gelu and a relu between them."""
    random = np.random.default_rng(3)
    sizes = [NARROW, WIDE, NARROW, CLASSES]
    weights, nodes, value = [], [], "x"
    for number, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        weights += [onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 4, f"{name}{number}")
                    for name, shape in (("w", (rows, columns)), ("b", (columns,)))]
        nodes += [onnx.helper.make_node("MatMul", [value, f"w{number}"], [f"m{number}"]),
                  onnx.helper.make_node("Add", [f"m{number}", f"b{number}"], ["logits" if number == 2 else f"a{number}"])]
        value = f"h{number}"
        if number == 0:
            nodes.append(onnx.helper.make_node("Gelu", ["a0"], [value], approximate="tanh"))
        elif number == 1:
            nodes.append(onnx.helper.make_node("Relu", ["a1"], [value]))
    info = lambda name, *shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(nodes, "layers", [info("x", ROWS, NARROW)], [info("logits", ROWS, CLASSES)], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)


def step(model, artifact, *options):
    """The loss and all parameters behind one step of SGD with a rate of 1, and the program."""
    autopar.compile(model, artifact, train=autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=1.0)), options=["--quiet", *options])
    random = np.random.default_rng(4)
    inputs = {"x": random.standard_normal((ROWS, NARROW)).astype(np.float32), "labels": random.integers(0, CLASSES, ROWS)}
    for name, values in inputs.items():
        np.save(artifact.parent / f"{name}.npy", values)
    exported = artifact.with_suffix(".safetensors")
    subprocess.run([find_tool("autopar-run"), artifact, "--input", f"x={artifact.parent / 'x.npy'}", "--input", f"labels={artifact.parent / 'labels.npy'}",
                    "--steps", "1", "--quiet", "--export", exported], check=True)
    program = subprocess.run([find_tool("autopar-translate"), "--dump", artifact, "--with-text"], check=True, capture_output=True, text=True).stdout
    return read_tensors(exported), program


def read_tensors(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    return {name: np.frombuffer(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]], np.float32).reshape(entry["shape"])
            for name, entry in json.loads(data[8:begin]).items() if name != "__metadata__"}


def epilogues(program):
    found = re.findall(r"epilogue = (\w+)", program)
    return {name: found.count(name) for name in BY_PRODUCTS if name in found}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_gradients_are_those_of_the_cpu(tmp_path, precision):
    """Those of f32, but for what half precision rounds on the CPU too."""
    save_layers(tmp_path / "m.onnx")
    start = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(tmp_path / "m.onnx").graph.initializer}
    exact, _ = step(tmp_path / "m.onnx", tmp_path / "exact.bin", "--target", "cpu")
    on_cpu, _ = step(tmp_path / "m.onnx", tmp_path / "cpu.bin", "--target", "cpu", "--precision", precision)
    by_products, program = step(tmp_path / "m.onnx", tmp_path / "products.bin", "--target", "cuda", "--precision", precision)
    by_kernels, kernels = step(tmp_path / "m.onnx", tmp_path / "kernels.bin", "--target", "cuda", "--precision", precision,
                               "--activation-gradients", "kernels", "--bias-gradients", "kernels")
    assert epilogues(program) == BY_PRODUCTS and not epilogues(kernels)
    assert set(start) == set(exact) and len(start) == 6
    for name, values in exact.items():
        gradient = np.linalg.norm(start[name] - values)
        errors = [np.linalg.norm(other[name] - values) / gradient for other in (on_cpu, by_products, by_kernels)]
        assert max(errors[1:]) < 1.1 * errors[0] < 0.1, (name, errors)


def test_micro_batches_add_to_both_results(tmp_path):
    """Weights' gradients are added to by the product, biases' behind it."""
    save_layers(tmp_path / "m.onnx")
    whole, _ = step(tmp_path / "m.onnx", tmp_path / "whole.bin", "--target", "cuda", "--precision", "bf16")
    parts, program = step(tmp_path / "m.onnx", tmp_path / "parts.bin", "--target", "cuda", "--precision", "bf16", "--micro-batches", "2")
    assert epilogues(program)["sums_of_b"] == 2 * 3
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, atol=2e-3, err_msg=name)
