# SPDX-License-Identifier: Apache-2.0
"""Learning-rate schedules: the rate of every step is that of the formula."""

import json
import math
import pathlib
import subprocess
from typing import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx

import autopar

BASE = 0.01


def warm(steps: int, then: Callable[[int], float]) -> Callable[[int], float]:
    """Rises to the base rate, then goes on."""
    return lambda count: BASE * count / steps if count <= steps else then(count)


SCHEDULES = {
    "constant(warmup=4)": warm(4, lambda count: BASE),
    "linear(steps=10, min=1e-3)": lambda count: 1e-3 + (BASE - 1e-3) * max(0, 1 - count / 10),
    "cosine(warmup=3, steps=11, min=1e-3)":
        warm(3, lambda count: 1e-3 + (BASE - 1e-3) * 0.5 * (1 + math.cos(math.pi * min(1, (count - 3) / 8)))),
    "inverse_sqrt(warmup=4)": warm(4, lambda count: BASE * math.sqrt(4 / count)),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_step_has_the_rate_of_the_formula(tmp_path: pathlib.Path, schedule: str) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")]
    graph = helper.make_graph(nodes, "line", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])],
                              [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "line.onnx")
    subprocess.run([autopar.find_tool("autopar-compile"), tmp_path / "line.onnx", "-o", tmp_path / "train.bin", "--train",
                    "loss=mse(y, target)", "--optimizer", f"sgd(lr={BASE})", "--lr-schedule", schedule, "--quiet"], check=True,
                   timeout=120)
    subprocess.run([autopar.find_tool("autopar-run"), tmp_path / "train.bin", "--data", "synthetic", "--steps", "15",
                    "--metrics", tmp_path / "metrics.jsonl", "--quiet"], check=True, timeout=120)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([line["learning_rate"] for line in lines], [SCHEDULES[schedule](step + 1) for step in range(15)],
                               rtol=1e-12)
