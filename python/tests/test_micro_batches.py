# SPDX-License-Identifier: Apache-2.0
"""Micro-batches: the batch in parts, one after the other, is the same training step."""

import pathlib
import re
import subprocess
from typing import Dict, List

import numpy as np
import pytest
import emulated_cuda
import small_gpt2
from small_gpt2 import BATCH, LOSS, SEQ, VOCAB

import autopar
from autopar.tools import find_tool

STEPS = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("model"), layers=2)


def losses(model: pathlib.Path, folder: pathlib.Path, micro_batches: int, ranks: int = 1, *options: str) -> List[float]:
    artifact = folder / f"{micro_batches}-{ranks}.bin"
    return small_gpt2.losses(small_gpt2.compile_step(model, artifact, ranks, micro_batches, *options), STEPS)


@pytest.mark.parametrize("micro_batches", [2, 8])
def test_micro_batches_train_like_the_whole_batch(model, tmp_path, micro_batches):
    np.testing.assert_allclose(losses(model, tmp_path, micro_batches), losses(model, tmp_path, 1), rtol=1e-5)


@pytest.mark.parametrize("ranks, options", [(2, ()), (4, ("--mesh", "data=4")), (4, ("--engine", "random", "--seed", "3"))])
def test_ranks_with_micro_batches_train_like_one_rank(model, tmp_path, ranks, options):
    batch = 2 if "data=4" in options else 4
    np.testing.assert_allclose(losses(model, tmp_path, batch, ranks, *options), losses(model, tmp_path, 1), rtol=1e-5)


def test_gradients_cross_the_mesh_once_per_step(model, tmp_path):
    """Partial gradients accumulate on their rank: data parallelism completes one per use of a parameter, not one per micro-batch."""
    artifact = tmp_path / "data.bin"
    train = autopar.Train(LOSS, autopar.AdamW(lr=1e-2), micro_batches=4)
    autopar.compile(
        model, artifact, bind={"batch": BATCH, "seq": SEQ}, ranks=2, train=train, options=["--quiet", "--mesh", "data=2"]
    )
    dump = subprocess.run(
        [str(find_tool("autopar-translate")), "--dump", str(artifact)], check=True, capture_output=True, text=True
    )
    reductions = [
        line for line in dump.stdout.splitlines() if "vjp" in line and ("all_reduce" in line or "reduce_scatter" in line)
    ]
    uses = 3 + 2 * 12 + 2  # tables (one of them is the head, too), layers, the last norm
    assert 0 < len(reductions) <= uses


def test_memory_for_activations_shrinks(model, tmp_path):
    """A quarter of the batch at a time needs less memory than all of it."""

    def peak(micro_batches: int) -> float:
        artifact = tmp_path / "memory.bin"
        train = autopar.Train(LOSS, autopar.SGD(lr=0.1), micro_batches=micro_batches)
        autopar.compile(model, artifact, bind={"batch": 32, "seq": 32}, train=train, options=["--quiet"])
        words = [str(find_tool("autopar-run")), "--dry-run", str(artifact)]
        report = subprocess.run(words, check=True, capture_output=True, text=True)
        rank = re.search(r"^ +0 +0 +([0-9.]+) ", report.stdout, re.MULTILINE)
        assert rank, report.stdout
        return float(rank.group(1))

    assert peak(4) < 0.6 * peak(1)


@pytest.mark.parametrize("options", [[], ["--stages", "2"], ["--stages", "2", "--pipeline-schedule", "zero-bubble"]])
def test_rounds_hold_what_all_micro_batches_hold(model, tmp_path, options):
    """Every mesh's arena is about that of the step that is written out. Buffers here have kilobytes."""
    groups = tmp_path / "groups.mlir"
    train = autopar.Train(LOSS, autopar.AdamW(lr=1e-2), micro_batches=48)
    words = ["--quiet", *options, "--stop-after", "form-groups"]
    autopar.compile(model, groups, bind={"batch": 48, "seq": SEQ}, ranks=2, train=train, options=words)

    def lowered(rounds: str) -> str:
        words = [str(find_tool("autopar-opt")), str(groups), f"--autopar-lower-pipeline=rounds={rounds}"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def arenas(program: str) -> List[int]:
        return [int(found) for found in re.findall(r"exec.program @\S+ arena \[(\d+),", program)]

    once, every = lowered("auto"), lowered("never")
    assert len(arenas(every)) == (2 if options else 1)
    assert len(once) < len(every) / 2
    np.testing.assert_allclose(arenas(once), arenas(every), rtol=0.04)


def test_uneven_micro_batches_are_refused(model, tmp_path):
    with pytest.raises(autopar.Error, match='"input_ids" holds 8 samples, which do not split evenly into 3'):
        losses(model, tmp_path, 3)


def test_results_of_all_micro_batches_come_back_whole(model, tmp_path):
    """Inference in parts gives the logits of the whole batch in the caller's shape."""
    tokens = np.arange(BATCH * SEQ, dtype=np.int64).reshape(BATCH, SEQ) % 101
    outputs = []
    for count in (1, 4):
        artifact = tmp_path / f"logits{count}.bin"
        autopar.compile(
            model, artifact, bind={"batch": BATCH, "seq": SEQ}, options=["--quiet", "--micro-batches", str(count)]
        )
        with autopar.Session(artifact) as session:
            outputs.append(session.run({"input_ids": tokens})["logits"])
    assert outputs[0].shape == outputs[1].shape == (BATCH, SEQ, 101)
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5, atol=1e-6)


STATE = """
func.func @main(%cache: tensor<4x8xf32> {autopar.donated, autopar.name = "cache"}, %x: tensor<4x8xf32> {autopar.name = "x"})
    -> (tensor<4x8xf32> {autopar.name = "cache"}, tensor<4x8xf32> {autopar.name = "y"}) {
  %0 = autopar.binary add %cache, %x {autopar.id = "a"} : tensor<4x8xf32>
  %1 = autopar.unary exp %0 {autopar.id = "e"} : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_state_of_every_sample_lasts_from_step_to_step(tmp_path, ranks):
    (tmp_path / "m.mlir").write_text(STATE)
    x = np.linspace(0, 0.3, 32, dtype=np.float32).reshape(4, 8)
    np.save(tmp_path / "x.npy", x)
    subprocess.run([find_tool("autopar-compile"), tmp_path / "m.mlir", "--micro-batches", "2", "--ranks", str(ranks), "--quiet", "-o", tmp_path / "c.bin"], check=True)
    subprocess.run([find_tool("autopar-run"), tmp_path / "c.bin", "--input", f"x={tmp_path / 'x.npy'}", "--steps", "3", "--output-dir", tmp_path / "out"], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), np.exp(3 * x), rtol=1e-6)


@pytest.mark.parametrize(
    "ranks, options",
    [
        (1, ()),
        (1, ("--offload", "activations")),
        (2, ("--stages", "2")),
        (2, ("--stages", "2", "--recompute", "full")),
        (2, ("--stages", "2", "--pipeline-schedule", "eager-1f1b")),
        (2, ("--stages", "2", "--pipeline-schedule", "zero-bubble")),
        (2, ("--stages", "2", "--pipeline-schedule", "overlapped-1f1b")),
        (4, ("--stages", "2", "--mesh", "data=1,tensor=2")),
    ],
)
def test_rounds_are_the_step_that_is_written_out(deep, tmp_path, ranks, options):
    """Bit for bit, in an artifact of fewer instructions."""
    found = {}
    for rounds in ("never", "always"):
        artifact = tmp_path / f"{rounds}.bin"
        train = autopar.Train(LOSS, autopar.AdamW(lr=1e-2), clip_norm=1.0, micro_batches=16)
        words = ["--quiet", "--rounds", rounds, *options]
        autopar.compile(deep, artifact, bind={"batch": 16, "seq": SEQ}, ranks=ranks, train=train, options=words)
        found[rounds] = trained(artifact)
    assert found["always"] == found["never"]
    assert (tmp_path / "always.bin").stat().st_size < (tmp_path / "never.bin").stat().st_size


@pytest.mark.parametrize("stages", [(), ("--stages", "2", "--virtual-stages", "2", "--pipeline-schedule", "interleaved")])
def test_rounds_of_stages_in_turn_and_of_gpus_compute_what_is_written_out(deep, tmp_path, stages):
    random = np.random.default_rng(5)
    inputs = {"input_ids": random.integers(0, VOCAB, (24, SEQ)), "labels": random.integers(0, VOCAB, (24, SEQ))}
    results = {}
    for target, rounds in (("cpu", "never"), ("cuda", "always")):
        artifact = tmp_path / f"{target}.bin"
        train = autopar.Train(LOSS, autopar.SGD(lr=0.1), micro_batches=24)
        words = ["--quiet", "--rounds", rounds, "--target", target, *stages]
        autopar.compile(deep, artifact, bind={"batch": 24, "seq": SEQ}, ranks=2 if stages else 1, train=train, options=words)
        results[target] = emulated_cuda.run(artifact, inputs, tmp_path / target, "--steps", "3")
    emulated_cuda.assert_alike(results, 1e-4)


def test_an_evaluation_runs_in_rounds(deep, tmp_path):
    losses = {}
    for rounds in ("never", "always"):
        artifact = tmp_path / f"{rounds}.bin"
        train = autopar.Train(LOSS, autopar.AdamW(lr=1e-2), micro_batches=16)
        autopar.compile(deep, artifact, bind={"batch": 16, "seq": SEQ}, train=train, options=["--quiet", "--rounds", rounds])
        with autopar.Session(artifact) as session:
            losses[rounds] = session.evaluate(batch(np.random.default_rng(3)))["loss"]
    assert losses["always"] == losses["never"]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return small_gpt2.save(tmp_path_factory.mktemp("deep"), layers=4)


def batch(random: np.random.Generator) -> Dict[str, np.ndarray]:
    tokens = random.integers(0, VOCAB, (16, SEQ + 1), dtype=np.int64)
    return {"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}


def trained(artifact: pathlib.Path) -> List[float]:
    random = np.random.default_rng(3)
    with autopar.Session(artifact) as session:
        return [float(session.run(batch(random))["loss"]) for _ in range(3)]
