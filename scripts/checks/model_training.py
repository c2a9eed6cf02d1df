# SPDX-License-Identifier: Apache-2.0
"""Three training steps of a whole model: on any number of ranks the losses of one rank, or those that its source recorded; and its
file with the weights of a step."""

import json
import pathlib
import tempfile
import warnings
from typing import List

import numpy as np
import onnx

import autopar

from . import comparison, reference
from .model import Model

STEPS = 3
#: Small: targets are drawn, and some networks give numbers in the thousands.
OPTIMIZER = "sgd(lr=1e-6)"
#: Of losses: sums are in another order.
RTOL = 1e-3
#: Of what two models of the same operations compute with the same weights.
RTOL_OF_ONE_PROGRAM = 1e-6


def training_of(model: Model) -> autopar.Train:
    """The squared error between the first output and a target."""
    output = onnx.load(model.path, load_external_data=False).graph.output[0].name
    return autopar.Train(loss=f"mse({output}, target)", optimizer=f"sgd(lr={model.record.lr})" if model.record else OPTIMIZER)


def losses(model: Model, ranks: int) -> List[float]:
    """Of the squared error between the first output and a target, drawn or recorded. autopar.Error where a command gives up."""
    train = training_of(model)
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


def difference_when_written(model: Model, ranks: int, adapters: str) -> str:
    """Between the model's file with the weights of a step, or of three steps of `adapters`, and the old one started from them."""
    train = training_of(model)
    if adapters:  # which start as nothing
        train = autopar.Train(train.loss, autopar.AdamW(lr=0.05), adapters=adapters)
    inputs = model.record.inputs if model.record else reference.make_inputs(model.path, model.bind, fixed=model.fixed)
    with tempfile.TemporaryDirectory(prefix="check-models-") as folder:
        step, weights, written = (pathlib.Path(folder, name) for name in ("train.bin", "weights.safetensors", "written.onnx"))
        autopar.compile(model.path, step, bind=model.bind, fix_inputs=model.fixed, ranks=ranks, train=train)
        with autopar.Session(step) as session:
            (target,) = [port for port in session.inputs if port.name == "target"]
            drawn = np.random.default_rng(1).standard_normal(target.shape).astype(np.float32)
            session.run({**model.asked_for(inputs), "target": model.record.target if model.record else drawn}, steps=3 if adapters else 1)
            session.export(weights)
        autopar.update_onnx(model.path, weights, written, adapters=adapters)
        outputs = []
        beside = ["--adapters", adapters] if adapters else []
        for path, start, options in ((model.path, str(weights), beside), (written, "", [])):
            compiled = autopar.compile(path, pathlib.Path(folder, "serve.bin"), bind=model.bind, fix_inputs=model.fixed, ranks=ranks, options=options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is not trained
                with autopar.Session(compiled, initializer=start) as session:
                    outputs.append(session.run(model.asked_for(inputs)))
    return comparison.differences(outputs[1], outputs[0], RTOL if adapters else RTOL_OF_ONE_PROGRAM) or ""
