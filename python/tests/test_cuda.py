# SPDX-License-Identifier: Apache-2.0
"""Several ranks on emulated GPUs compute what they compute on the CPU, through autopar-run; one rank: test_cuda_models.py."""

import os
import pathlib
import socket
import subprocess

import numpy as np
import pytest

import autopar
from autopar import models
from autopar.tools import find_tool
from emulated_cuda import LIBRARIES, assert_alike, on_both

SMALL = {"hidden": 32, "heads": 4, "vocab": 101, "positions": 32}
LOSS = "softmax_cross_entropy(logits, labels)"


def tokens(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 101, shape, dtype=np.int64)


def step(**options) -> autopar.Train:
    return autopar.Train(LOSS, autopar.AdamW(lr=1e-2), clip_norm=1.0, **options)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("gpt2") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, **SMALL)
    return path


def test_processes_of_their_own_give_the_bits_of_one_process(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    inputs = {"input_ids": tokens(2, 16)}
    results = on_both(gpt2, tmp_path, inputs, bind={"batch": 2, "seq": 16}, ranks=4)
    assert_alike(results, 1e-5)
    together = results["cuda"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "apart").mkdir()
    command = [find_tool("autopar-run"), tmp_path / "cuda.bin", "--input", f"input_ids={tmp_path}/cuda/in-input_ids.npy",
               "--output-dir", tmp_path / "apart", "--cuda-libraries", LIBRARIES, "--quiet"]
    common = dict(os.environ, WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), AUTOPAR_EMULATED_CUDA_DEVICES="2")
    ranks = [subprocess.Popen(command, env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in range(4)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0] * 4
    np.testing.assert_array_equal(np.load(tmp_path / "apart" / "logits.npy"), together["logits"])


def test_bert_with_its_exact_gelu_gives_the_same_states(tmp_path: pathlib.Path) -> None:
    models.save("bert-base", tmp_path / "bert.onnx", layers=2, inner=64, **SMALL)
    mask = np.ones((2, 16), np.int64)
    mask[1, 9:] = 0
    inputs = {"input_ids": tokens(2, 16), "attention_mask": mask, "token_type_ids": np.zeros((2, 16), np.int64)}
    assert_alike(on_both(tmp_path / "bert.onnx", tmp_path, inputs, bind={"batch": 2, "seq": 16}, ranks=4), 1e-5)


@pytest.mark.parametrize(
    "options",
    [["--micro-batches", "2"], ["--stages", "2", "--micro-batches", "4"]],
    ids=["micro-batches", "a pipeline"],
)
def test_training_steps_end_with_the_same_loss(gpt2: pathlib.Path, tmp_path: pathlib.Path, options: list) -> None:
    inputs = {"input_ids": tokens(8, 16), "labels": tokens(8, 16, seed=1)}
    results = on_both(gpt2, tmp_path, inputs, steps=5, bind={"batch": 8, "seq": 16}, ranks=4, train=step(), options=options)
    assert_alike(results, 1e-4)
