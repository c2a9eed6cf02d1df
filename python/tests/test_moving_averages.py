# SPDX-License-Identifier: Apache-2.0
"""Optimizers keep moving averages of the parameters, under any plan; they are exported under the parameters' names."""

import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import pytest

import autopar
import emulated_cuda
from autopar import models, training
from safetensors_files import read_safetensors

VOCAB, BATCH, SEQ, KEPT = 24, 4, 8, 0.7


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("gpt2") / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=2, hidden=32, heads=2, vocab=VOCAB)
    return path


def compiled(gpt2: pathlib.Path, folder: pathlib.Path, optimizer: training.Optimizer, options: List[str]) -> pathlib.Path:
    train = autopar.Train("softmax_cross_entropy(logits, labels)", optimizer)
    return autopar.compile(gpt2, folder / "train.bin", bind={"batch": BATCH, "seq": SEQ}, train=train, options=options).path


def batch(step: int) -> Dict[str, np.ndarray]:
    tokens = np.random.default_rng(step).integers(0, VOCAB, (BATCH, SEQ + 1))
    return {"input_ids": tokens[:, :-1], "labels": tokens[:, 1:]}


@pytest.mark.parametrize("options", [[], ["--ranks", "2", "--mesh", "data=2"], ["--ranks", "2", "--mesh", "tensor=2"],
                                     ["--ranks", "2", "--stages", "2", "--micro-batches", "2"], ["--offload", "state"], ["--target", "cuda"]],
                         ids=["one", "data", "tensor", "stages", "offload", "cuda"])
def test_averages_follow_the_parameters(gpt2: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: List[str]) -> None:
    """From the first step's own on. Neither parameters nor moments differ from those of the optimizer without averages."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    expected: Dict[str, np.ndarray] = {}
    (tmp_path / "plain").mkdir()
    with autopar.Session(compiled(gpt2, tmp_path, autopar.AdamW(lr=1e-2, ema=KEPT), options)) as session, \
            autopar.Session(compiled(gpt2, tmp_path / "plain", autopar.AdamW(lr=1e-2), options)) as plain:
        names = [port.name for port in plain.states if not port.name.endswith(("/mean", "/square"))]
        assert {f"{name}/ema" for name in names} == {port.name for port in session.states} - {port.name for port in plain.states}
        for step in range(4):
            assert session.run(batch(step))["loss"] == pytest.approx(plain.run(batch(step))["loss"], rel=1e-5)
            for name in names:
                now = session.state(name)
                expected[name] = now if step == 0 else expected[name] + (1 - KEPT) * (now - expected[name])
                np.testing.assert_allclose(session.state(f"{name}/ema"), expected[name], rtol=1e-5, atol=1e-7, err_msg=name)
        session.export(tmp_path / "averages.safetensors", averages=True)
        with pytest.raises(autopar.Error, match="keeps no averages of its parameters: compile it with an optimizer that does"):
            plain.export(tmp_path / "none.safetensors", averages=True)
    written = read_safetensors(tmp_path / "averages.safetensors")
    assert set(written) == set(names) and not (tmp_path / "none.safetensors").exists()
    for name, value in written.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_skipped_step_moves_no_average(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Gradients overflow until the scale is small enough: the average begins with the first step that counts."""
    train = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1, ema=KEPT), precision="fp16", loss_scale="dynamic(initial=1073741824)")
    artifact = autopar.compile(gpt2, tmp_path / "train.bin", bind={"batch": BATCH, "seq": SEQ}, train=train)
    with autopar.Session(artifact) as session:
        averages = [port.name for port in session.states if port.name.endswith("/ema")]
        for step in range(40):
            if session.run(batch(step))["skipped_steps"] == step:
                break
            assert not any(session.state(name).any() for name in averages)
        assert 0 < step < 39 and averages
        for name in averages:
            np.testing.assert_array_equal(session.state(name), session.state(name[:-len("/ema")]))


def test_averages_of_a_checkpoint_are_exported_and_evaluated(gpt2: pathlib.Path, tmp_path: pathlib.Path) -> None:
    artifact = compiled(gpt2, tmp_path, autopar.AdamW(lr=1e-2, ema=KEPT), ["--ranks", "2"])
    np.random.default_rng(1).integers(0, VOCAB, 400).astype(np.uint16).tofile(tmp_path / "tokens.bin")
    data = ["--fields", "input_ids=tokens[:-1], labels=tokens[1:]"]

    def run(*words: object) -> str:
        return subprocess.run([autopar.find_tool("autopar-run"), artifact, *map(str, words)], capture_output=True, text=True, timeout=120, check=True).stderr

    run("--data", tmp_path / "tokens.bin", *data, "--steps", "3", "--checkpoint-dir", tmp_path / "ckpt")
    run("--checkpoint-dir", tmp_path / "ckpt", "--steps", "0", "--export", tmp_path / "last.safetensors", "--export-ema", tmp_path / "averages.safetensors")
    last, averages = read_safetensors(tmp_path / "last.safetensors"), read_safetensors(tmp_path / "averages.safetensors")
    assert set(last) == set(averages) and all((averages[name] != last[name]).any() for name in last)
    assert "eval_loss" in run("--init", tmp_path / "averages.safetensors", "--steps", "0", "--eval-data", tmp_path / "tokens.bin", *data)
    plain = tmp_path / "plain"
    plain.mkdir()
    refused = subprocess.run([autopar.find_tool("autopar-run"), compiled(gpt2, plain, autopar.SGD(), []), "--data", "synthetic", "--export-ema", plain / "x"],
                             capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 65 and "keeps no averages" in refused.stderr and "step 1" not in refused.stderr
