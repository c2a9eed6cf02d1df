# SPDX-License-Identifier: Apache-2.0
"""Damaged files and expressions are refused with a message or taken for what they say by then; nothing crashes, hangs, takes
all memory or leaves half an output. The same damage every time; unittests/Runtime/DamagedProgramsTest.cpp does this to artifacts."""

import json
import pathlib
import random
import resource
import subprocess
from typing import List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import damage
from autopar.tools import find_tool

#: Of docs/ExitCodes.md, without 70: that is our fault.
CODES = {0, 2, 65, 66, 69, 73, 74, 75, 77, 78}
MEMORY_BYTES = 4 << 30


def check(tool: str, *words: object, output: pathlib.Path, codes: frozenset = frozenset()) -> int:
    """Runs a tool whose input is small; its exit code."""
    output.unlink(missing_ok=True)
    done = subprocess.run([str(find_tool(tool)), *map(str, words)], capture_output=True, text=True, errors="replace", timeout=60, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)))
    what = f"{done.args}: {done.returncode} {done.stderr[-2000:]}"
    assert done.returncode in CODES | codes, what
    if done.returncode not in codes:
        assert (done.returncode == 0) == output.exists(), what
        assert done.returncode == 0 or len(done.stderr.strip()) > 20, what
    return done.returncode


def model_of(nodes: List[onnx.NodeProto], shape: List[object], **weights: np.ndarray) -> onnx.ModelProto:
    value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, "g", [value("x", shape)], [value("y", None)], [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


MODELS = {
    "products": model_of([helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["r"]),
                          helper.make_node("MatMul", ["r", "v"], ["y"])], [4, 8], w=ones(16, 8), b=ones(16), v=ones(16, 4)),
    "convolutions": model_of([helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2], group=1),
                              helper.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["n"], epsilon=1e-5),
                              helper.make_node("MaxPool", ["n"], ["y"], kernel_shape=[2, 2])], [2, 3, 8, 8], w=ones(4, 3, 3, 3), s=ones(4)),
    "movement": model_of([helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), helper.make_node("Reshape", ["t", "extents"], ["r"]),
                          helper.make_node("Slice", ["r", "starts", "ends", "axes", "steps"], ["s"]),
                          helper.make_node("Gather", ["s", "rows"], ["g"], axis=1), helper.make_node("Concat", ["g", "g"], ["c"], axis=-1),
                          helper.make_node("Softmax", ["c"], ["y"], axis=1)], [2, 3, 4], extents=np.array([3, 8]), starts=np.array([-1]),
                         ends=np.array([-100]), axes=np.array([0]), steps=np.array([-2]), rows=np.array([1, -1, 0]))}

CLUSTER = {"kind": "autopar.cluster", "version": 1, "levels": [{"latency_us": 1, "bytes_per_s": 1e10}],
           "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1e11}, "memory_bytes_per_s": 1e10, "memory_bytes": 1 << 33}],
           "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "cpu"}]}
DEGREES = {"kind": "degrees", "version": 1, "data": 2, "tensor": 2}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: pathlib.Path) -> None:
    file, out = tmp_path / "model.onnx", tmp_path / "out.bin"
    codes = []
    for seed in range(24):
        file.write_bytes(damage.damaged_model(MODELS[name], random.Random(seed)))
        codes.append(check("autopar-compile", file, "--ranks", 1 + seed % 2, "-o", out, "--quiet", output=out))
        if codes[-1] == 0:
            dry = subprocess.run([find_tool("autopar-run"), "--dry-run", out], capture_output=True, text=True, timeout=60, check=False)
            assert dry.returncode == 0, (seed, dry)
    assert 0 in codes and 65 in codes


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("damaged") / "model.onnx"
    onnx.save(MODELS["products"], file)
    return file


TRAIN = ["--train", "loss=mse(y, t)", "--optimizer", "adam(lr=0.1)"]


def test_plans(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file, out = tmp_path / "plan.json", tmp_path / "out.json"
    words = [model, "--ranks", 4, "--stages", 2, "--micro-batches", 2, *TRAIN, "--plan-only", "--quiet", "-o", out]
    assert check("autopar-compile", *words, output=out) == 0
    plan = json.loads(out.read_text())
    codes = []
    for seed in range(24):
        file.write_text(damage.damaged_json(plan, random.Random(seed)))
        codes.append(check("autopar-compile", *words, "--plan", file, output=out))
        check("autopar-compile", "--compare", file, file, output=out, codes=frozenset({0, 1}))
    assert 0 in codes and 65 in codes


@pytest.mark.parametrize("option, value", [("--plan", DEGREES), ("--cluster", CLUSTER)])
def test_other_json(model: pathlib.Path, option: str, value: dict, tmp_path: pathlib.Path) -> None:
    file, out = tmp_path / "value.json", tmp_path / "out.json"
    for seed in range(16):
        file.write_text(damage.damaged_json(value, random.Random(seed)))
        check("autopar-compile", model, *(["--ranks", 4] if option == "--plan" else []), option, file, "--plan-only", "--quiet", "-o", out, output=out)


EXPRESSIONS = {"--train": "loss=mse(y, t)", "--optimizer": "adamw(lr=3e-4, weight_decay=0.1)", "--lr-schedule": "cosine(warmup=100, steps=2000, min=3e-5)",
               "--loss-scale": "dynamic(initial=65536, interval=2000)", "--constrain": "stages=2, mesh=data=2xtensor=1, w: [-, tensor], micro-batches=2",
               "--mesh": "data=2,tensor=2", "--memory-limit": "16G", "--freeze": "w,v*"}


@pytest.mark.parametrize("option", EXPRESSIONS)
def test_expressions(model: pathlib.Path, option: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out.json"
    for seed in range(5):
        words = {"--train": TRAIN[1], "--optimizer": TRAIN[3], option: damage.damaged_text(EXPRESSIONS[option], random.Random(seed))}
        check("autopar-compile", model, "--ranks", 4, *(f"{key}={value}" for key, value in words.items()), "--plan-only", "--quiet", "-o", out, output=out)
