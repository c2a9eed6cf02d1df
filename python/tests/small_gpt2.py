# SPDX-License-Identifier: Apache-2.0
"""A gpt2 small enough for a second, and the losses of a few steps on fixed batches."""

import pathlib
from typing import List, Optional

import numpy as np

import autopar
from autopar import models

LOSS = "softmax_cross_entropy(logits, labels, ignore_index=-100)"
VOCAB, BATCH, SEQ = 101, 8, 16


def save(folder: pathlib.Path, layers: int, hidden: int = 32) -> pathlib.Path:
    path = folder / "gpt2.onnx"
    models.save("gpt2-124m", path, layers=layers, hidden=hidden, heads=4, vocab=VOCAB, positions=32)
    return path


def compile_step(model: pathlib.Path, artifact: pathlib.Path, ranks: Optional[int], micro_batches: int, *options: str) -> pathlib.Path:
    """A training step with AdamW and clipping; `ranks` is None where the options name a cluster. Returns the artifact."""
    train = autopar.Train(LOSS, autopar.AdamW(lr=1e-2), clip_norm=1.0, micro_batches=micro_batches)
    autopar.compile(model, artifact, bind={"batch": BATCH, "seq": SEQ}, ranks=ranks, train=train, options=["--quiet", *options])
    return artifact


def losses(artifact: pathlib.Path, steps: int) -> List[float]:
    """On batches of which some labels do not count: a different number in every sample."""
    random = np.random.default_rng(3)
    result = []
    with autopar.Session(artifact) as session:
        for _ in range(steps):
            tokens = random.integers(0, VOCAB, (BATCH, SEQ + 1), dtype=np.int64)
            labels = tokens[:, 1:].copy()
            labels[random.random(labels.shape) < 0.3] = -100
            result.append(float(session.run({"input_ids": tokens[:, :-1].copy(), "labels": labels})["loss"]))
    return result
