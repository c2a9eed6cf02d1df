# SPDX-License-Identifier: Apache-2.0
"""Training in bf16 and fp16 gives what f32 gives, as far as the narrow type carries."""

import json
import os
import pathlib
import subprocess
from typing import Dict, List

import numpy as np
import pytest

import autopar
from autopar import models
from conftest import BATCH, SEQ, VOCAB, Example

LOSS = "softmax_cross_entropy(logits, labels)"
#: A rounding to bf16 is off by 2^-9 at most; losses are means over many.
TOLERANCE = {"bf16": 2e-3, "fp16": 3e-4}


def train(artifact: autopar.Compiled, steps: int) -> List[Dict[str, float]]:
    """The metrics of steps on one batch."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (BATCH, SEQ + 1))
    feeds = {"input_ids": np.ascontiguousarray(tokens[:, :-1]), "labels": np.ascontiguousarray(tokens[:, 1:])}
    with autopar.Session(artifact) as session:
        return [{name: float(value) for name, value in session.run(feeds).items()} for _ in range(steps)]


def metrics(gpt2: Example, folder: pathlib.Path, steps: int, ranks: int = 1, **precision: str) -> List[Dict[str, float]]:
    step = autopar.Train(LOSS, autopar.AdamW(lr=1e-3), clip_norm=1.0, **precision)
    return train(autopar.compile(gpt2.path, folder / "step.bin", bind=gpt2.bind, ranks=ranks, train=step), steps)


@pytest.mark.parametrize("precision, gradient", [("bf16", "f32"), ("bf16", "bf16"), ("fp16", "f32")])
def test_losses_and_gradients_follow_f32(gpt2: Example, tmp_path: pathlib.Path, precision: str, gradient: str) -> None:
    expected = metrics(gpt2, tmp_path, 50)
    got = metrics(gpt2, tmp_path, 50, precision=precision, gradient_dtype=gradient)
    assert got[-1]["loss"] < 0.5 * got[0]["loss"]
    for step, (ours, theirs) in enumerate(zip(got, expected)):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=TOLERANCE[precision] * (1 + step)), step
    assert got[0]["gradient_norm"] == pytest.approx(expected[0]["gradient_norm"], rel=10 * TOLERANCE[precision])
    assert [step["loss"] for step in got] != [step["loss"] for step in expected]


@pytest.mark.parametrize("ranks, precision", [(2, "bf16"), (4, "bf16"), (2, "fp16")])
def test_ranks_train_like_one(gpt2: Example, tmp_path: pathlib.Path, ranks: int, precision: str) -> None:
    alone = metrics(gpt2, tmp_path, 10, precision=precision)
    together = metrics(gpt2, tmp_path, 10, ranks=ranks, precision=precision)
    np.testing.assert_allclose([step["loss"] for step in together], [step["loss"] for step in alone], rtol=TOLERANCE[precision])


@pytest.mark.parametrize("precision, scale", [("bf16", "none"), ("fp16", "static(scale=128)")])
def test_convolutions_follow_f32(tmp_path: pathlib.Path, precision: str, scale: str) -> None:
    models.save("vit-b", tmp_path / "vit.onnx", layers=1, hidden=32, heads=2, image=32, patch=8, classes=10)
    draw = np.random.default_rng(1)
    feeds = {"pixel_values": draw.standard_normal((8, 3, 32, 32), np.float32), "labels": draw.integers(0, 10, 8)}

    def losses(**narrow: str) -> List[float]:
        step = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.SGD(lr=0.1), **narrow)
        with autopar.Session(autopar.compile(tmp_path / "vit.onnx", tmp_path / "step.bin", bind={"batch": 8}, train=step)) as session:
            return [float(session.run(feeds)["loss"]) for _ in range(4)]

    expected = losses()
    assert expected[-1] < expected[0]
    np.testing.assert_allclose(losses(precision=precision, loss_scale=scale), expected, rtol=10 * TOLERANCE[precision])


def test_the_scale_falls_until_nothing_overflows_and_grows_again(gpt2: Example, tmp_path: pathlib.Path) -> None:
    steps = metrics(gpt2, tmp_path, 40, precision="fp16", loss_scale="dynamic(initial=1099511627776, interval=3)")
    skipped = [0.0] + [step["skipped_steps"] for step in steps]
    good = 0
    for number, (step, after) in enumerate(zip(steps, steps[1:])):
        is_skipped = skipped[number + 1] > skipped[number]
        good = 0 if is_skipped else good + 1
        assert after["loss_scale"] == step["loss_scale"] * (0.5 if is_skipped else 2 if good == 3 else 1)
        assert (after["loss"] == step["loss"]) == is_skipped
        assert (step["gradient_norm"] == 0) == is_skipped
        good %= 3
    assert 10 < skipped[-1] < 30
    assert steps[-1]["loss"] < steps[0]["loss"]


def test_a_skipped_step_changes_nothing_but_the_scale(gpt2: Example, tmp_path: pathlib.Path) -> None:
    subprocess.run([autopar.find_tool("autopar-compile"), gpt2.path, "--bind", f"batch={BATCH},seq={SEQ}", "-o", tmp_path / "step.bin",
                    "--train", f"loss={LOSS}", "--optimizer", "adamw(lr=1e-3)", "--precision", "fp16", "--ranks", "2",
                    "--loss-scale", "dynamic(initial=1048576, interval=3)", "--quiet"], check=True, timeout=300)
    np.random.default_rng(2).integers(0, VOCAB, 4000).astype(np.uint16).tofile(tmp_path / "tokens.bin")
    subprocess.run([autopar.find_tool("autopar-run"), tmp_path / "step.bin", "--data", tmp_path / "tokens.bin", "--fields",
                    "input_ids=tokens[:-1], labels=tokens[1:]", "--steps", "24", "--checkpoint-dir", tmp_path, "--checkpoint-every", "1",
                    "--metrics", tmp_path / "metrics.jsonl", "--quiet"], check=True, timeout=120)
    steps = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    folders = {int(folder.name[5:]): folder for folder in tmp_path.glob("step-*")}
    checked = {True: 0, False: 0}
    for step, after in zip(steps, steps[1:]):
        number = after["step"]
        if number not in folders or number + 1 not in folders:
            continue
        before, behind = tensors(folders[number]), tensors(folders[number + 1])
        changed = {name.split("[")[0] for name, values in before.items() if behind[name] != values}
        is_skipped = after["skipped_steps"] > step["skipped_steps"]
        checked[is_skipped] += 1
        if is_skipped:
            assert changed and all(name.startswith("loss_scale/") for name in changed)
        else:
            assert "transformer.wte.weight" in changed and "transformer.wte.weight/mean" in changed
    assert checked[True] and checked[False]


def tensors(checkpoint: pathlib.Path) -> Dict[str, bytes]:
    """Every tensor of a checkpoint; shards one after the other."""
    found: Dict[str, bytes] = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        data = file.read_bytes()
        length = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = found.get(name, b"") + data[8 + length + begin:8 + length + end]
    return found


AVX512 = "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()


@pytest.mark.parametrize("cpu, runs", [("x86-64-v3", True), ("native", not AVX512)])
def test_bf16_without_avx512_is_computed_in_f32_or_refused_at_load(gpt2: Example, tmp_path: pathlib.Path, cpu: str, runs: bool) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "model.bin", bind=gpt2.bind, options=["--precision", "bf16", "--target-cpu", cpu])
    np.save(tmp_path / "ids.npy", gpt2.inputs["input_ids"])
    done = subprocess.run([autopar.find_tool("autopar-run"), artifact.path, "--input", f"input_ids={tmp_path}/ids.npy", "--output-dir", tmp_path,
                           "--quiet"], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"})
    assert (done.returncode == 0) == runs
    assert ("bf16 needs AVX-512" in done.stderr) != runs
    if runs:
        logits, expected = np.load(tmp_path / "logits.npy"), gpt2.expected["logits"]
        assert 0 < np.abs(logits - expected).max() < 0.02 * np.abs(expected).max()


def test_inference_in_bf16(gpt2: Example, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "model.bin", bind=gpt2.bind, options=["--precision", "bf16"])
    with autopar.Session(artifact) as session:
        logits = session.run(gpt2.inputs)["logits"]
    expected = gpt2.expected["logits"]
    assert logits.dtype == np.float32
    assert 0 < np.abs(logits - expected).max() < 0.02 * np.abs(expected).max()
