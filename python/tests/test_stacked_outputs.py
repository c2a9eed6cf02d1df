# SPDX-License-Identifier: Apache-2.0
"""Inference over a file of samples: autopar-run writes the outputs of all of them, in their order."""

import os
import pathlib
import resource
import signal
import subprocess
from typing import Any, Dict

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autopar

BATCH, SAMPLES = 4, 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """rows = x @ w, and one number per batch."""
    folder = tmp_path_factory.mktemp("model")
    random = np.random.default_rng(5)
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["rows"]), helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0)], "model", [rows],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 4]), helper.make_tensor_value_info("most", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(random.standard_normal((6, 4), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "model.onnx")
    np.savez(folder / "data.npz", x=random.standard_normal((SAMPLES, 6), np.float32))
    for ranks in (1, 2):
        autopar.compile(folder / "model.onnx", folder / f"{ranks}.bin", bind={"batch": BATCH}, ranks=ranks, options=["--quiet"])
    return folder


def expected(folder: pathlib.Path, samples: int) -> Dict[str, np.ndarray]:
    weights = numpy_helper.to_array(onnx.load(folder / "model.onnx").graph.initializer[0])
    x = np.resize(np.load(folder / "data.npz")["x"], (-(-samples // BATCH) * BATCH, 6))  # what begins again fills the last batch
    return {"rows": (x @ weights)[:samples], "most": x.reshape(-1, BATCH * 6).max(axis=1)}


def command(folder: pathlib.Path, ranks: int, out: pathlib.Path, *options: Any) -> list:
    return [str(word) for word in (autopar.find_tool("autopar-run"), folder / f"{ranks}.bin", "--output-dir", out, "--quiet", *options)]


def check(folder: pathlib.Path, out: pathlib.Path, samples: int) -> None:
    for name, array in expected(folder, samples).items():
        found = np.load(out / f"{name}.npy")
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("length, samples", [(["--epochs", "1"], SAMPLES), (["--epochs", "0.01"], 1), (["--epochs", "2"], 2 * SAMPLES), (["--steps", "2"], 2 * BATCH), ([], BATCH)])
def test_every_sample_has_its_row(folder, tmp_path, ranks, length, samples):
    subprocess.run(command(folder, ranks, tmp_path / "out", "--data", folder / "data.npz", *length), check=True)
    check(folder, tmp_path / "out", samples)


def test_so_it_has_with_a_process_per_rank(folder, tmp_path):
    (tmp_path / "meet").mkdir()
    words = command(folder, 2, tmp_path / "out", "--data", folder / "data.npz", "--epochs", 1, "--world-size", 2, "--rendezvous", f"file://{tmp_path}/meet")
    processes = [subprocess.Popen([*words, "--rank", str(rank)]) for rank in range(2)]
    try:
        assert [process.wait(60) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    check(folder, tmp_path / "out", SAMPLES)


def test_a_file_that_is_too_short_is_refused(folder, tmp_path):
    np.savez(tmp_path / "short.npz", x=np.load(folder / "data.npz")["x"][:3])
    done = subprocess.run(command(folder, 1, tmp_path / "out", "--data", tmp_path / "short.npz"), capture_output=True, text=True, check=False)
    assert done.returncode == 65 and "too short: 3 samples, one batch takes 4" in done.stderr


def test_nothing_is_left_where_a_run_fails(folder, tmp_path):
    """The files have no room for all steps."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # noqa: E731
    words = command(folder, 1, tmp_path / "out", "--data", folder / "data.npz", "--steps", 5000)
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert done.returncode == 74 and "rows.npy" in done.stderr, done.stderr
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_where_a_run_is_stopped(folder, tmp_path, number):
    words = [word for word in command(folder, 1, tmp_path / "out", "--data", folder / "data.npz", "--steps", 100_000_000) if word != "--quiet"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "AUTOPAR_PROGRESS_SECONDS": "0"})
    assert "step 1/" in process.stderr.readline()
    process.send_signal(number)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number and "no outputs are written" in error
    assert not list((tmp_path / "out").iterdir())


def test_outputs_of_one_file_are_refused(folder, tmp_path):
    model = onnx.load(folder / "model.onnx")
    for old, new in (("rows", "a/b"), ("most", "a_b")):
        next(output for output in model.graph.output if output.name == old).name = new
        for node in model.graph.node:
            node.output[:] = [new if name == old else name for name in node.output]
    onnx.save(model, tmp_path / "model.onnx")
    autopar.compile(tmp_path / "model.onnx", tmp_path / "1.bin", bind={"batch": BATCH}, options=["--quiet"])
    for source in (["--data", folder / "data.npz"], ["--input", "x=zeros"]):
        done = subprocess.run(command(tmp_path, 1, tmp_path / "out", *source), capture_output=True, text=True, check=False)
        assert done.returncode == 65 and "the outputs 'a/b' and 'a_b' would have one file" in done.stderr, done.stderr


def test_a_seed_orders_nothing_here(folder, tmp_path):
    done = subprocess.run(command(folder, 1, tmp_path / "out", "--data", folder / "data.npz", "--seed", 1), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--seed is of the order of samples" in done.stderr


def test_without_data_outputs_are_those_of_the_last_step(folder, tmp_path):
    x = np.load(folder / "data.npz")["x"][:BATCH]
    np.save(tmp_path / "x.npy", x)
    subprocess.run(command(folder, 1, tmp_path / "out", "--input", f"x={tmp_path / 'x.npy'}", "--steps", 3), check=True)
    assert np.load(tmp_path / "out" / "rows.npy").shape == (BATCH, 4) and np.load(tmp_path / "out" / "most.npy") == x.max()
