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

ROWS, WIDE, NARROW, CLASSES = 64, 144, 32, 24
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
    sizes = [NARROW, WIDE, WIDE, CLASSES]
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
    return {name: found.count(name) for name in (*BY_PRODUCTS, "sums_of_a") if name in found}


def errors(model, *runs):
    """Per parameter the distance of each run's gradient from that of f32 on the CPU, relative to it."""
    start = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(model).graph.initializer}
    exact, _ = step(model, model.with_name("exact.bin"), "--target", "cpu")
    assert set(start) == set(exact) and len(start) == 6
    return {name: [np.linalg.norm(run[name] - values) / np.linalg.norm(start[name] - values) for run in runs] for name, values in exact.items()}


KERNELS = ("--activation-gradients", "kernels", "--bias-gradients", "kernels")


@pytest.mark.parametrize("precision, most", [("bf16", 0.15), ("fp16", 0.05)])
def test_gradients_are_those_of_the_cpu(tmp_path, precision, most):
    """But for what half precision rounds on the CPU too."""
    model = tmp_path / "m.onnx"
    save_layers(model)
    on_cpu, _ = step(model, tmp_path / "cpu.bin", "--target", "cpu", "--precision", precision)
    by_products, program = step(model, tmp_path / "products.bin", "--target", "cuda", "--precision", precision)
    by_kernels, kernels = step(model, tmp_path / "kernels.bin", "--target", "cuda", "--precision", precision, *KERNELS)
    assert epilogues(program) == BY_PRODUCTS and not epilogues(kernels)
    for name, (cpu, *gpu) in errors(model, on_cpu, by_products, by_kernels).items():
        assert max(gpu) < 1.2 * cpu + 0.005 < most, (name, cpu, gpu)


@pytest.mark.parametrize("options, sums", [
    (["--micro-batches", "2"], 6),
    (["--ranks", "2"], 2),
    (["--ranks", "2", "--stages", "2", "--micro-batches", "2"], 3),
], ids=["micro-batches", "ranks", "stages"])
def test_plans_train_alike(tmp_path, monkeypatch, options, sums):
    """Weights' gradients are added to by the product, biases' behind it; a rank has a part of the rows or columns, a stage whole products."""
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "2")
    model = tmp_path / "m.onnx"
    save_layers(model)
    by_products, program = step(model, tmp_path / "products.bin", "--target", "cuda", "--precision", "bf16", *options)
    by_kernels, _ = step(model, tmp_path / "kernels.bin", "--target", "cuda", "--precision", "bf16", *options, *KERNELS)
    assert sum(count for name, count in epilogues(program).items() if name.startswith("sums")) >= sums
    for name, (products, kernels) in errors(model, by_products, by_kernels).items():
        assert products < 1.2 * kernels + 0.005 < 0.15, (name, products, kernels)
