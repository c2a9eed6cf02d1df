# SPDX-License-Identifier: Apache-2.0
"""Recurrent operators of ONNX: all steps of a sequence against onnxruntime, as scripts/bench inference measures, and training steps with plain
gradient descent on one core against PyTorch, as scripts/bench training does."""

import os
import pathlib
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import autopar

from . import bench_inference, bench_training, measuring
from .measuring import Side
from .model import Model

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Network(NamedTuple):
    """One operator; a class is predicted of each step's state."""

    kind: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    directions: int = 1

    @property
    def name(self) -> str:
        ways = ", both ways" if self.directions == 2 else ""
        return f"{self.kind} {self.steps}x{self.batch}x{self.inputs}, {self.hidden} states{ways}"

    def model(self) -> onnx.ModelProto:
        """x [steps, batch, inputs] to y [steps, batch, directions x hidden], with weights drawn from a seed."""
        draw, rows = np.random.default_rng(0), GATES[self.kind] * self.hidden
        shapes = {"W": (rows, self.inputs), "R": (rows, self.hidden), "B": (2 * rows,)}
        weights = [numpy_helper.from_array((0.05 * draw.standard_normal((self.directions, *shape))).astype(np.float32), name)
                   for name, shape in shapes.items()]
        form = {"linear_before_reset": 1} if self.kind == "GRU" else {}
        nodes = [helper.make_node(self.kind, ["x", *shapes], ["states"], hidden_size=self.hidden,
                                  direction="bidirectional" if self.directions == 2 else "forward", **form),
                 helper.make_node("Transpose", ["states"], ["turned"], perm=[0, 2, 1, 3]),
                 helper.make_node("Reshape", ["turned", "shape"], ["y"])]
        result = [self.steps, self.batch, self.directions * self.hidden]
        graph = helper.make_graph(nodes, "recurrent",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.steps, self.batch, self.inputs])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
                                  [*weights, numpy_helper.from_array(np.array(result, np.int64), "shape")])
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

    def draw_batch(self) -> Dict[str, np.ndarray]:
        draw = np.random.default_rng(0)
        return {"x": draw.standard_normal((self.steps, self.batch, self.inputs)).astype(np.float32),
                "labels": draw.integers(0, self.hidden, (self.steps, self.batch))}


NETWORKS: List[Network] = [Network("LSTM", 100, 1, 128, 128), Network("LSTM", 500, 8, 256, 256), Network("LSTM", 128, 8, 256, 1024),
                           Network("LSTM", 64, 32, 256, 512), Network("GRU", 300, 16, 256, 512, 2), Network("RNN", 200, 4, 128, 256)]


def cases(python: str = "/usr/bin/python3") -> Iterator[Dict[str, Any]]:
    """Two cases per network. python: the Python that has PyTorch."""
    core = min(os.sched_getaffinity(0))
    for network in NETWORKS:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            path = pathlib.Path(folder, "model.onnx")
            onnx.save(network.model(), path)
            yield bench_inference.compare(Model(network.name, path, {}), folder)[0]
            artifact, batch = str(path.with_suffix(".train.bin")), network.draw_batch()
            autopar.compile(path, artifact, ranks=1, threads=1,
                            train=autopar.Train("softmax_cross_entropy(y, labels)", f"sgd(lr={bench_training.LEARNING_RATE})"))
            (raw,) = bench_training.alternate([Side(bench_training.prepare_step, (artifact, 1, batch), [core])])
            raw_torch = bench_training.torch_ms(python, path, core, batch, model="recurrent", kind=network.kind, hidden=network.hidden,
                                                optimizer="sgd", weight_decay=0.0, clip_norm=0)
            yield measuring.case(f"{network.name}, a training step", measuring.median(raw), "ms", measuring.median(raw_torch),
                                 raw={"autopar": [round(ms, 2) for ms in raw], "PyTorch": [round(ms, 2) for ms in raw_torch]})
