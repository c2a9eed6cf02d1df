# SPDX-License-Identifier: Apache-2.0
"""Import and sharding of a model of 175 billion parameters for 64 devices: time and memory of the compiler."""

import pathlib
import tempfile
from typing import Any, Dict, Iterator

import autopar
from autopar import models

from . import measuring

MODEL, BIND, CLUSTER = "gpt3-175b", "batch=64,seq=2048", "presets:h100x8x8"
LIMIT_S, LIMIT_BYTES, TRAINING_LIMIT_S = 10.0, 4 << 30, 20.0


def training(folder: pathlib.Path) -> Dict[str, Any]:
    """Seconds for the whole training step of a model of 48 layers on eight devices."""
    model = folder / "training.onnx"
    models.save("gpt2-1.5b", model, weights=False)
    run = measuring.run_measured([autopar.find_tool("autopar-compile"), model, "--bind", "batch=8,seq=512", "--cluster", "presets:h100x8",
                                  "--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=3e-4)",
                                  "--plan-only", "-o", folder / "training.json"])
    return measuring.case("import + auto-shard training of gpt2-1.5b, 8 devices", round(run.seconds, 3), "s", TRAINING_LIMIT_S)


def cases() -> Iterator[Dict[str, Any]]:
    """Seconds and peak memory; the references are the limits that the project set itself."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        model, plan = pathlib.Path(folder, "model.onnx"), pathlib.Path(folder, "plan.json")
        models.save(MODEL, model, weights=False)
        command = [autopar.find_tool("autopar-compile"), model, "--bind", BIND, "--cluster", CLUSTER,
                   "--plan-only", "-o", plan]
        runs = [measuring.run_measured(command) for _ in range(3)]
        seconds = [round(run.seconds, 3) for run in runs]
        yield measuring.case(f"import + auto-shard {MODEL}, 64 devices", measuring.median(seconds), "s", LIMIT_S, raw=seconds)
        yield training(pathlib.Path(folder))
        yield measuring.case("peak memory of the compiler", max(run.peak_bytes for run in runs) / 2**30, "GiB",
                             LIMIT_BYTES / 2**30)
