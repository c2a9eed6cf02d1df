# SPDX-License-Identifier: Apache-2.0
"""Learning rates: every step has the rate of its schedule's formula, and every group of parameters its own."""

import dataclasses
import json
import math
import pathlib
import subprocess
from typing import Callable, Dict, List

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx

import autopar
import emulated_cuda
from autopar import models

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


@pytest.mark.parametrize("plan", [[], ["--ranks", "2", "--mesh", "data=2"], ["--ranks", "2", "--mesh", "tensor=2"], ["--ranks", "2", "--stages", "2", "--micro-batches", "2"],
                                  ["--target", "cuda"]],
                         ids=["one", "data", "tensor", "stages", "cuda"])
@pytest.mark.parametrize("optimizer", [autopar.SGD(lr=0.01), autopar.AdamW(lr=1e-3, weight_decay=0.1)], ids=["sgd", "adamw"])
def test_groups_of_parameters_have_rates_of_their_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, plan: List[str], optimizer: autopar.training.Optimizer) -> None:
    """A step of a scaled rate is the optimizer's step at that rate; the first pattern that fits counts. As on one rank under any plan."""
    monkeypatch.setenv("AUTOPAR_CUDA_LIBRARIES", str(emulated_cuda.LIBRARIES))
    models.save("gpt2-124m", tmp_path / "gpt2.onnx", layers=2, hidden=32, heads=2, vocab=40)
    tokens = np.random.default_rng(1).integers(0, 40, (4, 9))

    def steps(name: str, options: List[str], rate: float, scale: Dict[str, float]) -> Dict[str, np.ndarray]:
        train = autopar.Train("softmax_cross_entropy(logits, labels)", dataclasses.replace(optimizer, lr=rate), lr_scale=scale)
        compiled = autopar.compile(tmp_path / "gpt2.onnx", tmp_path / f"{name}.bin", bind={"batch": 4, "seq": 8}, train=train, options=options)
        with autopar.Session(compiled) as session:
            session.run({"input_ids": tokens[:, :-1], "labels": tokens[:, 1:]})
            return {port.name: session.state(port.name) for port in session.states}

    fast, slow = steps("fast", [], 5 * optimizer.lr, {}), steps("slow", [], 0.5 * optimizer.lr, {})
    mixed = steps("mixed", plan, optimizer.lr, {"*.mlp.*": 5, "*": 0.5})
    assert sum(".mlp." in name for name in mixed) >= 8
    # AdamW's first step has the size of the rate, 5e-4 and 5e-3, also where a gradient is little more than rounding.
    atol = 1e-4 if isinstance(optimizer, autopar.AdamW) else 1e-5
    for name, value in mixed.items():
        np.testing.assert_allclose(value, (fast if ".mlp." in name else slow)[name], rtol=1e-4, atol=atol, err_msg=name)
