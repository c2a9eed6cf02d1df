# SPDX-License-Identifier: Apache-2.0
"""Training in bf16 and fp16 gives what f32 gives, as far as the narrow type carries."""

import pathlib
from typing import Dict, List

import numpy as np
import pytest

import autopar
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


@pytest.mark.parametrize("precision, gradient", [("bf16", "f32"), ("bf16", "bf16")])
def test_losses_and_gradients_follow_f32(gpt2: Example, tmp_path: pathlib.Path, precision: str, gradient: str) -> None:
    expected = metrics(gpt2, tmp_path, 50)
    got = metrics(gpt2, tmp_path, 50, precision=precision, gradient_dtype=gradient)
    assert got[-1]["loss"] < 0.5 * got[0]["loss"]
    for step, (ours, theirs) in enumerate(zip(got, expected)):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=TOLERANCE[precision] * (1 + step)), step
    assert got[0]["gradient_norm"] == pytest.approx(expected[0]["gradient_norm"], rel=10 * TOLERANCE[precision])
    assert [step["loss"] for step in got] != [step["loss"] for step in expected]


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_train_like_one(gpt2: Example, tmp_path: pathlib.Path, ranks: int) -> None:
    alone = metrics(gpt2, tmp_path, 10, precision="bf16")
    together = metrics(gpt2, tmp_path, 10, ranks=ranks, precision="bf16")
    np.testing.assert_allclose([step["loss"] for step in together], [step["loss"] for step in alone], rtol=TOLERANCE["bf16"])


def test_inference_in_bf16(gpt2: Example, tmp_path: pathlib.Path) -> None:
    artifact = autopar.compile(gpt2.path, tmp_path / "model.bin", bind=gpt2.bind, options=["--precision", "bf16"])
    with autopar.Session(artifact) as session:
        logits = session.run(gpt2.inputs)["logits"]
    expected = gpt2.expected["logits"]
    assert logits.dtype == np.float32
    assert 0 < np.abs(logits - expected).max() < 0.02 * np.abs(expected).max()
