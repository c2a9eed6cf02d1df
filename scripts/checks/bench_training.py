# SPDX-License-Identifier: Apache-2.0
"""Whole training steps of gpt2-124m with AdamW: forward, backward, clipping and update.

One core, in float32 and bf16, against the time that the project set itself and against PyTorch (Debian's python3-torch with
OpenBLAS) at the same precision; four ranks against one rank on the same two cores.
"""

import json
import os
import pathlib
import subprocess
import tempfile
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import onnx
from onnx import numpy_helper

import autopar
from autopar import models

from . import measuring
from .measuring import Side

MODEL, VOCAB, RUNS = "gpt2-124m", 50257, 10
#: precision -> seconds of a step on one core that the project set itself
LIMIT_S = {"f32": 1.8, "bf16": 0.6}
LEARNING_RATE, WEIGHT_DECAY, CLIP_NORM = 3e-4, 0.01, 1.0
TORCH_SCRIPT = pathlib.Path(__file__).with_name("train_with_torch.py")


def make_batch(batch: int, seq: int) -> Dict[str, np.ndarray]:
    """Random tokens, and those that follow them."""
    tokens = np.random.default_rng(0).integers(0, VOCAB, (batch, seq + 1))
    return {"input_ids": np.ascontiguousarray(tokens[:, :-1]), "labels": np.ascontiguousarray(tokens[:, 1:])}


def prepare_step(artifact: str, threads: int, batch: int, seq: int) -> Callable[[], Any]:
    """A session whose every call is one step on the same batch."""
    inputs = make_batch(batch, seq)
    session = autopar.Session(artifact, threads=threads)
    return lambda: session.run(inputs)


def alternate(sides: List[Side]) -> List[List[float]]:
    """Milliseconds of each side's calls, taken in turn."""
    try:
        return [list(times) for times in zip(*[[side.time_ms() for side in sides] for _ in range(RUNS)])]
    finally:
        for side in sides:
            side.close()


def torch_ms(model: pathlib.Path, core: int, precision: str) -> List[float]:
    """Milliseconds of PyTorch's steps of 4x64 on one thread and core, after a first one."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(model).graph.initializer}
    weights = {name: value for name, value in weights.items() if value.dtype == np.float32 and value.ndim > 0}
    settings = {"model": "gpt2", "layers": 12, "heads": 12, "optimizer": "adamw", "lr": LEARNING_RATE,
                "weight_decay": WEIGHT_DECAY, "clip_norm": CLIP_NORM, "threads": 1, "autocast": precision}
    batches = {f"batch/{name}": np.stack([ids] * RUNS) for name, ids in make_batch(4, 64).items()}
    run = model.with_suffix(".npz")
    np.savez(run, settings=json.dumps(settings), **weights, **batches)
    done = subprocess.run(["taskset", "--cpu-list", str(core), TORCH_SCRIPT, run], capture_output=True, text=True, check=False)
    run.unlink()
    if done.returncode != 0:
        raise RuntimeError(f"train_with_torch.py: {done.stderr.strip()[-300:]}")
    return [seconds * 1e3 for seconds in json.loads(done.stdout)["seconds"][1:]]


def cases() -> Iterator[Dict[str, Any]]:
    """Seconds of a step; raw times included."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        model = pathlib.Path(folder, "model.onnx")
        models.save(MODEL, model)

        def compiled(name: str, ranks: int, threads: int, batch: int, seq: int, precision: str = "f32") -> str:
            path = pathlib.Path(folder, name)
            train = autopar.Train("softmax_cross_entropy(logits, labels)",
                                  autopar.AdamW(lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY), clip_norm=CLIP_NORM,
                                  precision=precision)
            autopar.compile(model, path, bind={"batch": batch, "seq": seq}, ranks=ranks, threads=threads, train=train)
            return str(path)

        for precision, limit in LIMIT_S.items():
            one = Side(prepare_step, (compiled("core.bin", 1, 1, 4, 64, precision), 1, 4, 64), cores[:1])
            (raw,) = alternate([one])
            raw_torch = torch_ms(model, cores[0], precision)
            seconds, seconds_torch = measuring.median(raw) / 1e3, measuring.median(raw_torch) / 1e3
            name = f"{MODEL} step 4x64, one core, {precision}"
            yield measuring.case(name, seconds, "s", limit, raw=[round(ms, 1) for ms in raw])
            yield measuring.case(f"{name}, against PyTorch", seconds, "s", seconds_torch, raw=[round(ms, 1) for ms in raw_torch])
        pair = cores[:2]
        many, single = alternate([Side(prepare_step, (compiled("four.bin", 4, 1, 8, 128), 1, 8, 128), pair),
                                  Side(prepare_step, (compiled("one.bin", 1, len(pair), 8, 128), len(pair), 8, 128), pair)])
        yield measuring.case(f"{MODEL} step 8x128, 4 ranks, {len(pair)} cores", measuring.median(many) / 1e3, "s",
                             measuring.median(single) / 1e3,
                             raw={"4 ranks": [round(ms, 1) for ms in many], "1 rank": [round(ms, 1) for ms in single]})
