# SPDX-License-Identifier: Apache-2.0
"""What a search counts operation by operation is about what the kernels of the plan take (docs/CostModel.md)."""

import json
import pathlib
import subprocess
from typing import Dict, List

import pytest

from autopar import models
from autopar.tools import find_tool

TRAINS = ["--train", "loss=softmax_cross_entropy(logits, labels)", "--optimizer", "adamw(lr=1e-3)", "--precision", "bf16"]


@pytest.mark.parametrize("model, sizes, options, most", [
    ("gpt2-124m", "batch=16,seq=1024", TRAINS, 1.3),  # 1.20; 1.6 if each operation of a chain paid for its result
    ("llama3-1b", "batch=4,seq=4096", TRAINS, 1.1),  # 1.04; 1.22
    ("gpt2-124m", "batch=8,seq=1024", ["--precision", "bf16"], 1.1),
    ("bert-base", "batch=8,seq=512", [], 1.1),
])
def test_searches_count_about_what_kernels_take(tmp_path: pathlib.Path, model: str, sizes: str, options: List[str], most: float) -> None:
    models.save(model, tmp_path / "m.onnx", weights=False, layers=2)
    subprocess.run([find_tool("autopar-compile"), tmp_path / "m.onnx", "--bind", sizes, "--cluster", "presets:h200x1", "--stop-after",
                    "plan-memory", "--emit-plan", tmp_path / "p.json", "--quiet", *options], check=True, timeout=300)
    believed: Dict[str, float] = json.loads((tmp_path / "p.json").read_text())["believed"]
    assert 0.85 < believed["step_us"] / believed["kernels_us"] < most
