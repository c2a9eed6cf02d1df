# SPDX-License-Identifier: Apache-2.0
"""Whole models on an emulated GPU compute what they compute on the CPU."""

import json
import pathlib
import subprocess

import numpy as np
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
    "resnet": ("resnet50", dict(blocks="1,1,1,1", channels=4, image=32, classes=5), "batch=2",
               {"input": lambda random: random.standard_normal((2, 3, 32, 32)).astype(np.float32)}),
}


@pytest.fixture(autouse=True)
def emulated_gpu(monkeypatch):
    folder = pathlib.Path(find_tool("autopar-run")).resolve().parents[1] / "unittests" / "EmulatedCuda"
    assert (folder / "libcuda.so.1").exists(), f"no emulated driver in {folder}: build the target EmulatedCuda"
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(folder))


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


@pytest.mark.parametrize("options, tolerance", [([], 1e-4), (["--precision", "bf16"], 2e-2)])
def test_training_steps_do_what_they_do_on_the_cpu(tmp_path, options, tolerance):
    """Three steps of AdamW with clipping; the gradient of the tied embedding is a scatter."""
    model = small_gpt2.save(tmp_path, 1)
    losses = [small_gpt2.losses(small_gpt2.compile_step(model, tmp_path / f"{target}.bin", 1, 1, "--target", target, *options), 3)
              for target in ("cpu", "cuda")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=tolerance)
    assert losses[0][2] != losses[0][0]


def test_captured_steps_give_the_same_bits_as_steps_one_by_one(tmp_path):
    """Four steps, of which the last three are graphs; parameters, moments and loss."""
    model = small_gpt2.save(tmp_path, 1)
    artifact = small_gpt2.compile_step(model, tmp_path / "cuda.bin", 1, 2, "--target", "cuda")
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
