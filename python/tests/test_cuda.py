# SPDX-License-Identifier: Apache-2.0
"""Several ranks on emulated GPUs compute what they compute on the CPU, through autopar-run; one rank: test_cuda_models.py."""

import os
import pathlib
import socket
import subprocess
import time

import numpy as np
import pytest

import autopar
from autopar import models
from autopar.tools import find_tool
from emulated_cuda import LIBRARIES, assert_alike, on_both, run

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


def environments(ranks: int, **more: str) -> list:
    """Of processes that are the ranks of one job."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **more)
    return [dict(common, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(ranks)]


def run_apart(artifact: pathlib.Path, inputs: dict, folder: pathlib.Path, ranks: int, *options: str, **more: str) -> "tuple[dict, str]":
    """What ranks as processes write, and what the first says."""
    folder.mkdir()
    for name, values in inputs.items():
        np.save(folder / f"in-{name}.npy", values)
    given = [word for name in inputs for word in ("--input", f"{name}={folder}/in-{name}.npy")]
    command = [find_tool("autopar-run"), artifact, *given, "--output-dir", folder, "--cuda-libraries", LIBRARIES, *options]
    processes = [subprocess.Popen(command, env=own, stderr=subprocess.PIPE, text=True) for own in environments(ranks, **more)]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, said
    return {path.stem: np.load(path) for path in folder.glob("*.npy") if not path.stem.startswith("in-")}, said[0]


def test_processes_of_their_own_give_the_bits_of_one_process(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    inputs = {"input_ids": tokens(2, 16)}
    results = on_both(gpt2, tmp_path, inputs, bind={"batch": 2, "seq": 16}, ranks=4)
    assert_alike(results, 1e-5)
    apart, _ = run_apart(tmp_path / "cuda.bin", inputs, tmp_path / "apart", 4, AUTOPAR_EMULATED_CUDA_DEVICES="2")
    np.testing.assert_array_equal(apart["logits"], results["cuda"]["logits"])


@pytest.mark.parametrize("precision, tolerance", [("f32", 1e-5), ("bf16", 3e-2)])
def test_bert_with_its_exact_gelu_gives_the_same_states(tmp_path: pathlib.Path, precision: str, tolerance: float) -> None:
    """In bf16 attention is cuDNN's, with the mask as its bias; one sample sees nothing."""
    models.save("bert-base", tmp_path / "bert.onnx", layers=2, inner=64, **SMALL)
    mask = np.ones((4, 16), np.int64)
    mask[1, 9:] = 0
    mask[2] = 0
    inputs = {"input_ids": tokens(4, 16), "attention_mask": mask, "token_type_ids": np.zeros((4, 16), np.int64)}
    results = on_both(tmp_path / "bert.onnx", tmp_path, inputs, bind={"batch": 4, "seq": 16}, ranks=4, options=["--precision", precision])
    assert_alike(results, tolerance)


@pytest.mark.parametrize(
    "options",
    [["--micro-batches", "2"], ["--stages", "2", "--micro-batches", "4"]],
    ids=["micro-batches", "a pipeline"],
)
def test_training_steps_end_with_the_same_loss(gpt2: pathlib.Path, tmp_path: pathlib.Path, options: list, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {"input_ids": tokens(8, 16), "labels": tokens(8, 16, seed=1)}
    results = on_both(gpt2, tmp_path, inputs, steps=5, bind={"batch": 8, "seq": 16}, ranks=4, train=step(), options=options)
    assert_alike(results, 1e-4)
    # On a GPU each, by NCCL: in one process, and as graphs where each has its own.
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "4")
    by_nccl = ["--steps", "5", "--communication", "nccl"]
    results["cuda"] = run(tmp_path / "cuda.bin", inputs, tmp_path / "nccl", *by_nccl)
    assert_alike(results, 1e-4)
    results["cuda"], said = run_apart(tmp_path / "cuda.bin", inputs, tmp_path / "apart", 4, *by_nccl)
    assert_alike(results, 1e-4)
    assert "not captured" not in said and "emulated CUDA" not in said


@pytest.mark.parametrize("communication", ["staged", "nccl"])
def test_rows_that_run_together_end_with_the_loss_of_one_rank(tmp_path: pathlib.Path, communication: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages of two experts' ranks: kernels of one micro-batch run while another's tokens are on their way."""
    models.save("qwen3-30b-a3b", tmp_path / "m.onnx", layers=2, kv_heads=2, head_size=8, experts=4, top_k=2, inner=16, **SMALL)
    inputs, bind = {"input_ids": tokens(16, 16), "labels": tokens(16, 16, seed=1)}, {"batch": 16, "seq": 16}
    autopar.compile(tmp_path / "m.onnx", tmp_path / "cpu.bin", bind=bind, train=step(micro_batches=4), options=["--quiet"])
    (tmp_path / "degrees.json").write_text(
        '{"kind": "degrees", "version": 1, "data": 2, "experts": 2, "pipeline": 2, "micro_batch": 2, "schedule": "overlapped-1f1b"}')
    autopar.compile(tmp_path / "m.onnx", tmp_path / "cuda.bin", bind=bind, cluster="presets:h100x4", train=step(),
                    options=["--quiet", "--plan", str(tmp_path / "degrees.json")])
    monkeypatch.setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "4" if communication == "nccl" else "1")
    more = {"cpu": [], "cuda": ["--communication", communication]}
    assert_alike({target: run(tmp_path / f"{target}.bin", inputs, tmp_path / target, "--steps", "3", *more[target]) for target in more}, 1e-4)


def test_a_killed_rank_ends_those_that_wait_for_it_by_nccl(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    artifact = tmp_path / "train.bin"
    autopar.compile(gpt2, artifact, bind={"batch": 4, "seq": 8}, ranks=2, train=step(),
                    options=["--quiet", "--target", "cuda", "--stages", "2", "--micro-batches", "2"])
    metrics = tmp_path / "metrics"
    command = [find_tool("autopar-run"), artifact, "--input", "input_ids=random", "--input", "labels=random", "--steps", "100000", "--metrics", metrics,
               "--cuda-libraries", LIBRARIES]
    ranks = [subprocess.Popen(command, env=own, stderr=subprocess.PIPE, text=True)
             for own in environments(2, AUTOPAR_EMULATED_CUDA_DEVICES="2", AUTOPAR_EMULATED_NCCL_FOLDER=str(tmp_path))]
    try:
        end = time.monotonic() + 60
        while (not metrics.exists() or metrics.read_text().count("\n") < 4) and time.monotonic() < end:
            time.sleep(0.05)
        ranks[1].kill()
        killed = time.monotonic()
        said = ranks[0].communicate(timeout=30)[1]
    finally:
        for rank in ranks:
            rank.kill()
    assert time.monotonic() - killed < 10
    assert ranks[0].returncode == 75, said
    assert "GPUs communicate by NCCL" in said and "captured" not in said
    last = said.strip().splitlines()[-1]
    assert "rank 0 on GPU 0 (emulated GPU), in one of step[" in last and "rank 1" in last, said
