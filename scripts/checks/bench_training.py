# SPDX-License-Identifier: Apache-2.0
"""Whole training steps of gpt2-124m and resnet50 with AdamW: forward, backward, clipping and update.

One core, gpt2-124m in float32 and bf16, against the time that the project set itself and against PyTorch (Debian's
python3-torch with OpenBLAS and oneDNN, or that of --python) at the same precision; resnet50 in float32 against PyTorch;
gpt2-124m on four ranks against one rank on the same two cores.
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
IMAGES = "resnet50"
#: precision -> seconds of a step on one core that the project set itself
LIMIT_S = {"f32": 1.8, "bf16": 0.6}
LEARNING_RATE, WEIGHT_DECAY, CLIP_NORM = 3e-4, 0.01, 1.0
TORCH_SCRIPT = pathlib.Path(__file__).with_name("train_with_torch.py")


def make_batch(batch: int, seq: int) -> Dict[str, np.ndarray]:
    """Random tokens, and those that follow them."""
    tokens = np.random.default_rng(0).integers(0, VOCAB, (batch, seq + 1))
    return {"input_ids": np.ascontiguousarray(tokens[:, :-1]), "labels": np.ascontiguousarray(tokens[:, 1:])}


def make_images(batch: int) -> Dict[str, np.ndarray]:
    """Random images and classes."""
    draw = np.random.default_rng(0)
    return {"input": draw.standard_normal((batch, 3, 224, 224)).astype(np.float32), "labels": draw.integers(0, 1000, batch)}


def prepare_step(artifact: str, threads: int, inputs: Dict[str, np.ndarray]) -> Callable[[], Any]:
    """A session whose every call is one step on the same batch."""
    session = autopar.Session(artifact, threads=threads)
    return lambda: session.run(inputs)


def alternate(sides: List[Side]) -> List[List[float]]:
    """Milliseconds of each side's calls, taken in turn."""
    try:
        return [list(times) for times in zip(*[[side.time_ms() for side in sides] for _ in range(RUNS)])]
    finally:
        for side in sides:
            side.close()


def torch_ms(python: str, path: pathlib.Path, core: int, batch: Dict[str, np.ndarray], **network: Any) -> List[float]:
    """Milliseconds of PyTorch's steps on one thread and core, after a first one; `network`: settings of train_with_torch.py."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    weights = {name: value for name, value in weights.items() if value.dtype == np.float32 and value.ndim > 0}
    settings = {"optimizer": "adamw", "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY, "clip_norm": CLIP_NORM, "threads": 1, **network}
    batches = {f"batch/{name}": np.stack([values] * RUNS) for name, values in batch.items()}
    run = path.with_suffix(".npz")
    np.savez(run, settings=json.dumps(settings), **weights, **batches)
    done = subprocess.run(["taskset", "--cpu-list", str(core), python, TORCH_SCRIPT, run], capture_output=True, text=True, check=False)
    run.unlink()
    if done.returncode != 0:
        raise RuntimeError(f"train_with_torch.py: {done.stderr.strip()[-300:]}")
    return [seconds * 1e3 for seconds in json.loads(done.stdout)["seconds"][1:]]


def cases(python: str = "/usr/bin/python3") -> Iterator[Dict[str, Any]]:
    """Seconds of a step; raw times included. python: the Python that has PyTorch."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        model, images = pathlib.Path(folder, "model.onnx"), pathlib.Path(folder, "images.onnx")
        models.save(MODEL, model)
        models.save(IMAGES, images)

        def compiled(name: str, ranks: int, threads: int, extents: Dict[str, int], precision: str = "f32", network: pathlib.Path = model,
                     output: str = "logits") -> str:
            path = pathlib.Path(folder, name)
            train = autopar.Train(f"softmax_cross_entropy({output}, labels)",
                                  autopar.AdamW(lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY), clip_norm=CLIP_NORM,
                                  precision=precision)
            autopar.compile(network, path, bind=extents, ranks=ranks, threads=threads, train=train)
            return str(path)

        small, large = make_batch(4, 64), make_batch(8, 128)
        for precision, limit in LIMIT_S.items():
            one = Side(prepare_step, (compiled("core.bin", 1, 1, {"batch": 4, "seq": 64}, precision), 1, small), cores[:1])
            (raw,) = alternate([one])
            raw_torch = torch_ms(python, model, cores[0], small, model="gpt2", layers=12, heads=12, autocast=precision)
            seconds, seconds_torch = measuring.median(raw) / 1e3, measuring.median(raw_torch) / 1e3
            name = f"{MODEL} step 4x64, one core, {precision}"
            yield measuring.case(name, seconds, "s", limit, raw=[round(ms, 1) for ms in raw])
            yield measuring.case(f"{name}, against PyTorch", seconds, "s", seconds_torch, raw=[round(ms, 1) for ms in raw_torch])
        batch = make_images(4)
        (raw,) = alternate([Side(prepare_step, (compiled("images.bin", 1, 1, {"batch": 4}, "f32", images, "output"), 1, batch), cores[:1])])
        raw_torch = torch_ms(python, images, cores[0], batch, model="resnet", blocks=[3, 4, 6, 3])
        yield measuring.case(f"{IMAGES} step 4x3x224x224, one core, f32, against PyTorch", measuring.median(raw) / 1e3, "s",
                             measuring.median(raw_torch) / 1e3, raw=[round(ms, 1) for ms in raw])
        pair, extents = cores[:2], {"batch": 8, "seq": 128}
        many, single = alternate([Side(prepare_step, (compiled("four.bin", 4, 1, extents), 1, large), pair),
                                  Side(prepare_step, (compiled("one.bin", 1, len(pair), extents), len(pair), large), pair)])
        yield measuring.case(f"{MODEL} step 8x128, 4 ranks, {len(pair)} cores", measuring.median(many) / 1e3, "s",
                             measuring.median(single) / 1e3,
                             raw={"4 ranks": [round(ms, 1) for ms in many], "1 rank": [round(ms, 1) for ms in single]})
