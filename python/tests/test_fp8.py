# SPDX-License-Identifier: Apache-2.0
"""--precision fp8: products with weights of 8 bits, against ml_dtypes, and training steps against bf16 and against one rank."""

import json
import pathlib
import subprocess
from typing import Dict, List, Tuple

import emulated_cuda
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar
from autopar import models
from autopar.tools import find_tool

FP8 = ["--precision", "fp8"]
LOSS = "softmax_cross_entropy(logits, labels)"
BATCH, SEQ, VOCAB = 4, 32, 128


def bf16(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def in_rows(values: np.ndarray) -> np.ndarray:
    """Each row rounded to 8 bits where the power of two that brings its largest number closest to 448 has multiplied it."""
    largest = np.maximum(np.abs(values).max(-1, keepdims=True), 2.0**-100)
    scale = 2.0 ** np.floor(np.log2(448.0 / largest.astype(np.float64)))
    return ((values * scale).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) / scale).astype(np.float32)


def layers(folder: pathlib.Path) -> Tuple[pathlib.Path, Dict[str, np.ndarray], np.ndarray]:
    """relu(x V) W in a file, a value for x of rows of very different sizes, one of them zeros, and what comes out."""
    draw = np.random.default_rng(0)
    v, w = (draw.standard_normal(shape).astype(np.float32) for shape in ((64, 48), (48, 32)))
    x = (draw.standard_normal((24, 64)) * 2.0 ** draw.integers(-30, 30, (24, 1))).astype(np.float32)
    x[5] = 0
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [24, 32])],
                              [numpy_helper.from_array(v, "v"), numpy_helper.from_array(w, "w")])
    path = folder / "layers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    hidden = bf16(in_rows(bf16(x)) @ in_rows(bf16(v).T).T)
    return path, {"x": x}, np.maximum(hidden, 0) @ bf16(w)


def assert_rows_alike(got: np.ndarray, expected: np.ndarray) -> None:
    """As near as roundings of results and of parts of sums to bf16 allow, row by row; without 8 bits they are 2^-5 apart."""
    largest = np.abs(expected).max(-1, keepdims=True)
    assert (np.abs(got - expected) <= 2.0**-7 * largest).all()


@pytest.mark.parametrize("plan", [[], ["v: [-, x]"], ["v: [x, -]"]], ids=["one rank", "columns", "terms"])
def test_rows_are_scaled_and_rounded(tmp_path: pathlib.Path, plan: List[str]) -> None:
    path, fed, expected = layers(tmp_path)
    demand = ["--constrain", ", ".join(["mesh=x=2", *plan])] if plan else []
    autopar.compile(path, tmp_path / "m.bin", ranks=2 if plan else 1, options=[*FP8, *demand])
    with autopar.Session(tmp_path / "m.bin") as session:
        assert_rows_alike(session.run(fed)["y"], expected)


def test_a_gpu_multiplies_8_bits(tmp_path: pathlib.Path) -> None:
    path, fed, expected = layers(tmp_path)
    for outputs in emulated_cuda.on_both(path, tmp_path, fed, options=FP8).values():
        assert_rows_alike(outputs["y"], expected)
    program = subprocess.run([find_tool("autopar-translate"), "--dump", tmp_path / "cuda.bin"], capture_output=True, text=True, check=True).stdout
    assert program.count("f8E4M3FN") > 0 and "cast.v" not in program


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("fp8") / "llama.onnx"
    models.save("llama3-8b", path, layers=2, hidden=64, heads=4, kv_heads=2, vocab=VOCAB, inner=96)
    return path


def losses(model: pathlib.Path, artifact: pathlib.Path, precision: str, ranks: int = 1, micro_batches: int = 1, options: Tuple[str, ...] = ()) -> np.ndarray:
    """Of steps on one batch."""
    step = autopar.Train(LOSS, autopar.AdamW(lr=3e-3), clip_norm=1.0, precision=precision, micro_batches=micro_batches)
    autopar.compile(model, artifact, bind={"batch": BATCH, "seq": SEQ}, ranks=ranks, train=step, options=["--quiet", *options])
    tokens = np.random.default_rng(1).integers(0, VOCAB, (BATCH, SEQ + 1))
    feeds = {"input_ids": np.ascontiguousarray(tokens[:, :-1]), "labels": np.ascontiguousarray(tokens[:, 1:])}
    with autopar.Session(artifact) as session:
        return np.array([float(session.run(feeds)["loss"]) for _ in range(20)])


def test_losses_follow_bf16(llama: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wide, narrow = losses(llama, tmp_path / "wide.bin", "bf16"), losses(llama, tmp_path / "narrow.bin", "fp8")
    assert narrow[-1] < 0.6 * narrow[0] and not np.array_equal(wide, narrow)
    np.testing.assert_allclose(narrow, wide, rtol=0.01, atol=0.1)


@pytest.mark.parametrize("ranks, micro_batches, options", [
    (2, 1, ("--constrain", "mesh=data=2, batch-axis=data, zero=3")),
    (2, 1, ("--constrain", "mesh=tensor=2, weight-axis=tensor")),
    (2, 2, ("--stages", "2")),
    (1, 2, ()),
    (1, 1, ("--recompute", "full")),
], ids=["data", "tensor", "stages", "micro-batches", "recomputation"])
def test_plans_train_alike(llama: pathlib.Path, tmp_path: pathlib.Path, ranks: int, micro_batches: int, options: Tuple[str, ...]) -> None:
    """Until the batch is learned by heart: then the little that is left depends on how a CPU rounds bf16."""
    alone, other = losses(llama, tmp_path / "one.bin", "fp8"), losses(llama, tmp_path / "other.bin", "fp8", ranks, micro_batches, options)
    np.testing.assert_allclose(other[:16], alone[:16], rtol=0.02)
    assert max(alone[-1], other[-1]) < 0.2 * alone[0]


def test_weights_are_rounded_before_they_are_gathered(llama: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """By the largest number of all ranks, so that each sample's bits are those of one rank."""
    alone = losses(llama, tmp_path / "one.bin", "fp8")
    split = losses(llama, tmp_path / "m.bin", "fp8", ranks=2, options=("--constrain", "mesh=data=2, batch-axis=data, zero=3"))
    assert split[0] == pytest.approx(alone[0], rel=1e-6)
    program = subprocess.run([find_tool("autopar-translate"), "--dump", tmp_path / "m.bin"], capture_output=True, text=True, check=True).stdout
    gathers = [line for line in program.splitlines() if "all_gather" in line and "proj" in line]  # but of k and v, which are small
    assert sum("f8E4M3FN" in line for line in gathers) == 2 * 5 * 2 and not any("xbf16" in line for line in gathers)
    assert any("all_reduce" in line and " max " in line for line in program.splitlines())


def test_a_gpu_trains_like_the_cpu(llama: pathlib.Path, tmp_path: pathlib.Path) -> None:
    tokens = np.random.default_rng(1).integers(0, VOCAB, (BATCH, SEQ + 1))
    feeds = {"input_ids": np.ascontiguousarray(tokens[:, :-1]), "labels": np.ascontiguousarray(tokens[:, 1:])}
    step = autopar.Train(LOSS, autopar.AdamW(lr=3e-3), precision="fp8")
    results = emulated_cuda.on_both(llama, tmp_path, feeds, steps=3, bind={"batch": BATCH, "seq": SEQ}, train=step)
    emulated_cuda.assert_alike({target: {"loss": outputs["loss"]} for target, outputs in results.items()}, 0.005)


def test_a_step_on_h100_is_a_tenth_shorter(tmp_path: pathlib.Path) -> None:
    models.save("llama3-8b", tmp_path / "m.onnx", weights=False, layers=2)
    times = {}
    for precision in ("bf16", "fp8"):
        step = autopar.Train(LOSS, autopar.AdamW(lr=3e-4), precision=precision)
        autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", bind={"batch": 4, "seq": 4096}, train=step, options=["--quiet", "--cluster", "presets:h100x1"])
        told = subprocess.run([find_tool("autopar-run"), tmp_path / "m.bin", "--simulate", "presets:h100x1", "--json"], capture_output=True, text=True, check=True)
        times[precision] = json.loads(told.stdout)["step_ms"][0]
    assert times["fp8"] < 0.9 * times["bf16"]


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_plan_counts_weights_as_they_are_loaded(tmp_path: pathlib.Path, precision: str, devices: int) -> None:
    """The model's floats of 32 bits do not stay; one weight at a time is read as it is in the file."""
    models.save("llama3-8b", tmp_path / "m.onnx", weights=False, **(sizes := dict(layers=24, vocab=4096)))
    peaks = []
    for words in (["--plan-only"], ["--stop-after", "plan-memory"]):
        subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", "batch=1,seq=128", "--cluster", f"presets:h100x{devices}", "--quiet",
                        "--precision", precision, "--emit-plan", tmp_path / "plan.json", *words], check=True, stdout=subprocess.DEVNULL)
        peaks.append(json.loads((tmp_path / "plan.json").read_text())["believed"]["peak_bytes"][0])
    assert peaks[0] == pytest.approx(peaks[1], rel=0.1)
    assert peaks[1] < 4 * models.parameter_count("llama3-8b", **sizes) / devices * 0.6


def test_what_is_computed_again_is_not_kept(tmp_path: pathlib.Path) -> None:
    """A scaled product is several operations, of which none waits for the backward pass if it is."""
    models.save("llama3-8b", tmp_path / "m.onnx", weights=False, layers=4, vocab=4096)
    peaks = {}
    for precision in ("bf16", "fp8"):
        step = autopar.Train(LOSS, autopar.AdamW(lr=3e-4), precision=precision)
        autopar.compile(tmp_path / "m.onnx", bind={"batch": 4, "seq": 8192}, train=step, output=tmp_path / "m.bin",
                        options=["--quiet", "--cluster", "presets:h100x1", "--recompute", "full", "--emit-plan", str(tmp_path / "plan.json")])
        peaks[precision] = json.loads((tmp_path / "plan.json").read_text())["believed"]["peak_bytes"][0]
    assert peaks["fp8"] < 1.05 * peaks["bf16"]
