# SPDX-License-Identifier: Apache-2.0
"""Three training steps of a whole model: on any number of ranks the losses of one rank."""

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
    """Of the squared error between the first output and a drawn target. autopar.Error where a command gives up."""
    output = onnx.load(model.path, load_external_data=False).graph.output[0].name
    train = autopar.Train(loss=f"mse({output}, target)", optimizer=OPTIMIZER)
    with tempfile.TemporaryDirectory(prefix="check-models-") as folder:
        artifact, metrics = pathlib.Path(folder, "train.bin"), pathlib.Path(folder, "metrics.jsonl")
        autopar.compile(model.path, artifact, bind=model.bind, fix_inputs=model.fixed, ranks=ranks, train=train)
        autopar.compiler.run_tool([str(word) for word in (autopar.find_tool("autopar-run"), artifact, "--data", "synthetic", "--steps", STEPS,
                                                          "--metrics", metrics, "--quiet")])
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]


def difference(actual: List[float], expected: List[float]) -> str:
    """What differs from the losses of one rank; empty if nothing does."""
    same = len(actual) == STEPS and np.all(np.isfinite(actual)) and np.allclose(actual, expected, rtol=RTOL)
    return "" if same else f"losses {actual}, of one rank {expected}"
