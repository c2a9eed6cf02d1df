# SPDX-License-Identifier: Apache-2.0
"""Three training steps of a whole model: on any number of ranks the losses of one rank, or those that its source recorded."""

import json
import pathlib
import tempfile
from typing import List

import numpy as np
import onnx

import autopar

from .model import Model

STEPS = 3
#: Small: targets are drawn, and some networks give numbers in the thousands.
OPTIMIZER = "sgd(lr=1e-6)"
#: Of losses: sums are in another order.
RTOL = 1e-3


def losses(model: Model, ranks: int) -> List[float]:
    """Of the squared error between the first output and a target, drawn or recorded. autopar.Error where a command gives up."""
    output = onnx.load(model.path, load_external_data=False).graph.output[0].name
    train = autopar.Train(loss=f"mse({output}, target)", optimizer=f"sgd(lr={model.record.lr})" if model.record else OPTIMIZER)
    with tempfile.TemporaryDirectory(prefix="check-models-") as folder:
        artifact, metrics = pathlib.Path(folder, "train.bin"), pathlib.Path(folder, "metrics.jsonl")
        compiled = autopar.compile(model.path, artifact, bind=model.bind, fix_inputs=model.fixed, ranks=ranks, train=train)
        if model.record:
            batch = {**model.record.inputs, "target": model.record.target}
            with autopar.Session(compiled) as session:
                return [float(session.run(batch)["loss"]) for _ in model.record.losses]
        autopar.compiler.run_tool([str(word) for word in (autopar.find_tool("autopar-run"), artifact, "--data", "synthetic", "--steps", STEPS,
                                                          "--metrics", metrics, "--quiet")])
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]


def difference(actual: List[float], expected: List[float]) -> str:
    """What differs from the losses of one rank; empty if nothing does."""
    same = len(actual) == STEPS and np.all(np.isfinite(actual)) and np.allclose(actual, expected, rtol=RTOL)
    return "" if same else f"losses {actual}, of one rank {expected}"
