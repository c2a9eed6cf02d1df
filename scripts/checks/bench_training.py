# SPDX-License-Identifier: Apache-2.0
"""Whole training steps of gpt2-124m in float32 with AdamW: forward, backward, clipping and update.

One core against the time that the project set itself; four ranks against one rank on the same two cores.
"""

import os
import pathlib
import tempfile
from typing import Any, Callable, Dict, Iterator, List

import numpy as np

import autopar
from autopar import models

from . import measuring
from .measuring import Side

MODEL, VOCAB, RUNS = "gpt2-124m", 50257, 10
ONE_CORE_LIMIT_S = 1.8
TRAIN = autopar.Train("softmax_cross_entropy(logits, labels)", autopar.AdamW(lr=3e-4), clip_norm=1.0)


def prepare_step(artifact: str, threads: int, batch: int, seq: int) -> Callable[[], Any]:
    """A session whose every call is one step on the same batch."""
    tokens = np.random.default_rng(0).integers(0, VOCAB, (batch, seq + 1))
    inputs = {"input_ids": np.ascontiguousarray(tokens[:, :-1]), "labels": np.ascontiguousarray(tokens[:, 1:])}
    session = autopar.Session(artifact, threads=threads)
    return lambda: session.run(inputs)


def alternate(sides: List[Side]) -> List[List[float]]:
    """Milliseconds of each side's calls, taken in turn."""
    try:
        return [list(times) for times in zip(*[[side.time_ms() for side in sides] for _ in range(RUNS)])]
    finally:
        for side in sides:
            side.close()


def cases() -> Iterator[Dict[str, Any]]:
    """Seconds of a step; raw times included."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        model = pathlib.Path(folder, "model.onnx")
        models.save(MODEL, model)

        def compiled(name: str, ranks: int, threads: int, batch: int, seq: int) -> str:
            path = pathlib.Path(folder, name)
            autopar.compile(model, path, bind={"batch": batch, "seq": seq}, ranks=ranks, threads=threads, train=TRAIN)
            return str(path)

        one = Side(prepare_step, (compiled("core.bin", 1, 1, 4, 64), 1, 4, 64), cores[:1])
        (raw,) = alternate([one])
        yield measuring.case(f"{MODEL} step 4x64, one core", measuring.median(raw) / 1e3, "s", ONE_CORE_LIMIT_S,
                             raw=[round(ms, 1) for ms in raw])
        pair = cores[:2]
        many, single = alternate([Side(prepare_step, (compiled("four.bin", 4, 1, 8, 128), 1, 8, 128), pair),
                                  Side(prepare_step, (compiled("one.bin", 1, len(pair), 8, 128), len(pair), 8, 128), pair)])
        yield measuring.case(f"{MODEL} step 8x128, 4 ranks, {len(pair)} cores", measuring.median(many) / 1e3, "s",
                             measuring.median(single) / 1e3,
                             raw={"4 ranks": [round(ms, 1) for ms in many], "1 rank": [round(ms, 1) for ms in single]})
